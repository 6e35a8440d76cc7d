"""The pass manager: order, fixpoints, users' passes, and who is blamed when one fails."""

import signal

import numpy as np
import pytest

from fx.errors import RegistrationError
from fx.graph import (
    Graph,
    GraphError,
    Node,
    Rewriter,
    constant_value,
    manager,
    optimize,
    pipeline,
    register_pass,
    unregister_pass,
    validate,
)
from fx.graph.passes import dce
from fx.graph.passes.rewriting import run_primitive
from fx.ops.convert import from_array
from fx.primitive import registry
from tests.graph.test_passes import Call, Effect
from tests.graph.tools import Build, argument, assert_same_bits, names, run, value


@pytest.fixture
def registered():
    """Registers passes, and takes them away afterwards."""
    added = []

    def register(name, function, **where):
        register_pass(name, function, **where)
        added.append(name)

    yield register
    for name in added:
        unregister_pass(name)


def small():
    x = argument((3,))
    b = Build(x)
    return b.graph(b.sin(b.multiply(x, value(np.float32(1)))))


def test_passes_stand_where_they_were_put(registered):
    registered("last", lambda graph: graph)
    registered("first", lambda graph: graph, before="inline")
    registered("middle", lambda graph: graph, after="fold")
    order = pipeline()
    assert order[0] == "first" and order[-1] == "last"
    assert order[order.index("fold") + 1] == "middle"


def test_what_registration_refuses():
    with pytest.raises(RegistrationError, match="a pass named 'cse' exists already"):
        register_pass("cse", dce)
    with pytest.raises(RegistrationError, match="there is no pass 'nowhere'; the passes are"):
        register_pass("mine", dce, before="nowhere")
    with pytest.raises(RegistrationError, match="give before or after, not both"):
        register_pass("mine", dce, before="cse", after="fold")
    with pytest.raises(RegistrationError, match="there is no pass 'mine'"):
        unregister_pass("mine")
    with pytest.raises(RegistrationError, match="there is no pass 'mine'"):
        optimize(small(), passes=["mine"])


def test_a_pass_runs_until_it_changes_nothing(registered):
    seen = []

    def watch(graph):
        seen.append(graph)
        return graph

    registered("watch", watch)
    result = optimize(small())
    assert names(result) == ["sin"]
    assert seen[-1] is result
    assert len(seen) <= 2


def test_once_is_once(registered):
    seen = []
    registered("count", lambda graph: seen.append(graph) or graph, once=True)
    optimize(small())
    assert len(seen) == 1


def test_a_pass_that_always_changes_something_is_stopped(registered):
    def restless(graph):
        rewriter = Rewriter(graph)
        for node in graph.nodes:
            rewriter.keep(node)
        return rewriter.done()

    registered("restless", restless)
    assert names(optimize(small())) == ["sin"]


def test_passes_may_be_chosen_by_name_or_given():
    graph = small()
    assert optimize(graph, passes=[]) is graph
    assert names(optimize(graph, passes=["cse"])) == ["multiply", "sin"]
    assert names(optimize(graph, passes=["simplify"])) == ["sin"]
    assert optimize(graph, passes=["cse", dce]) is graph


def test_derivatives_are_kept_where_asked():
    x = argument((3,))
    b = Build(x)
    graph = b.graph(b.multiply(x, b.stop_gradient(x)))
    assert names(optimize(graph)) == ["multiply"]
    assert names(optimize(graph, keep_derivatives=True)) == ["stop_gradient", "multiply"]


def test_nested_graphs_are_optimised_and_shared():
    body = small()
    caller = Effect("caller")
    x = argument((3,))
    params = {"bodies": (body, body), "other": body, "number": 1}
    graph = Graph([x], [Node(caller, [x], params)], [x])
    new = optimize(graph).nodes[0].params
    assert names(new["other"]) == ["sin"]
    assert new["bodies"][0] is new["bodies"][1] is new["other"]
    assert new["number"] == 1
    assert names(body) == ["multiply", "sin"]


def test_a_part_of_a_graph_does_not_see_the_rest():
    x, y = argument((2, 3)), argument((2, 3))
    b = Build(x)
    turned = b.transpose(x, axes=(1, 0))
    part = Graph([turned, y], [Node(registry["transpose"], [turned], {"axes": (1, 0)})], [])
    part = Graph(part.inputs, part.nodes, [part.nodes[0].out, turned])
    with pytest.raises(GraphError, match=r"input 0 is .* not an input value"):
        validate(part)
    new = validate(optimize(part))
    assert names(new) == ["transpose"]
    assert new.inputs[1] is y
    data = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    assert_same_bits(run(new, data, data.T), [data.T, data])


def test_calls_are_inlined_before_the_rest():
    x = argument((3,))
    call = Node(Call(), [x], {"graph": small()})
    graph = Graph([x], [call], call.outs)
    assert names(optimize(graph)) == ["sin"]


def test_a_failing_pass_is_named(registered):
    def broken(graph):
        raise ZeroDivisionError("oh")

    registered("broken", broken)
    with pytest.raises(GraphError, match="pass 'broken' on graph: ZeroDivisionError: oh"):
        optimize(small())


def test_a_pass_that_returns_something_else_is_named(registered):
    registered("forgot", lambda graph: None)
    with pytest.raises(GraphError, match="pass 'forgot' returned NoneType, expected a Graph"):
        optimize(small())


def test_a_pass_that_changes_the_signature_is_named(registered):
    registered("drops", lambda graph: Graph(graph.inputs, graph.nodes, ()))
    with pytest.raises(GraphError, match="pass 'drops' changed what graph is"):
        optimize(small())


def test_a_pass_that_breaks_the_graph_is_named(registered, monkeypatch):
    def shuffles(graph):
        return Graph(graph.inputs, graph.nodes[:0], graph.outputs)

    registered("shuffles", shuffles)
    monkeypatch.setattr(manager, "always_validate", False)
    monkeypatch.setenv("FX_DEBUG", "1")
    assert len(optimize(small()).nodes) == 0
    monkeypatch.setenv("FX_DEBUG", "2")
    with pytest.raises(GraphError, match="pass 'shuffles' made a graph that is not valid: graph: "):
        optimize(small())


# validation -------------------------------------------------------------------------------------


def test_what_validation_refuses():
    x, y = argument((3,)), argument((3,))
    one = Node(registry["sin"], [x], {})
    two = Node(registry["cos"], [one.out], {})
    assert validate(Graph([x], [one, two], [two.out])).nodes == (one, two)
    cases = [
        (Graph([x], [two, one], [two.out]), r"node 0 \(cos\) takes as argument 0 .*before it is"),
        (Graph([x], [two], [two.out]), "whose node is not in this graph"),
        (Graph([y], [one], [one.out]), "which is no input of this graph"),
        (Graph([x, x], [], []), "input 1 is the same value as an earlier one"),
        (Graph([one.out], [], []), "input 0 is .* not an input value"),
        (Graph([x], [one, one], []), r"node 1 \(sin\) stands there twice"),
        (Graph([x], [], [one.out]), "output 0 is"),
        (Graph([constant_value(from_array(np.ones(2), "cpu"))], [], []), "not an input value"),
        (
            Graph([x], [Node(registry["sin"], [x], {}, [argument((4,)).spec])], []),
            r"its results are \(float32\[4\],\), its spec rule says \(float32\[3\],\)",
        ),
        (
            Graph([x], [Node(registry["sum"], [x], {"axes": (7,), "keepdims": 0}, [x.spec])], []),
            "its spec rule refuses its arguments: sum: axis 7",
        ),
    ]
    for graph, message in cases:
        with pytest.raises(GraphError, match=message):
            validate(graph)


def test_validation_looks_into_nested_graphs():
    x = argument((3,))
    wrong = Graph([x], [], [argument((3,))])
    with pytest.raises(GraphError, match="output 0 is"):
        validate(Graph([x], [Node(Effect(), [x], {"body": wrong})], [x]))


class Rung(ValueError):
    pass


def test_what_a_signal_handler_raises_in_a_pass_is_no_error_of_the_pass(registered):
    def rung(number, frame):
        raise Rung("it is for who called")

    def slow(graph):
        signal.raise_signal(signal.SIGUSR1)
        return graph

    registered("slow", slow)
    before = signal.signal(signal.SIGUSR1, rung)
    try:
        with pytest.raises(Rung):
            optimize(small())
        with pytest.raises(Rung):
            run_primitive(_Rings, [np.ones(2)], {})
    finally:
        signal.signal(signal.SIGUSR1, before)


class _Rings:
    multiple = False

    @staticmethod
    def cpu(x):
        signal.raise_signal(signal.SIGUSR1)
        return x
