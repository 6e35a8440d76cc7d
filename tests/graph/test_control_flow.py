"""Loops and branches after the pass that makes them smaller, and after all passes."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fx
import fx.transforms
from fx.graph import Graph, Node, optimize, validate
from fx.graph.passes import control, dce
from fx.primitive import registry
from tests.graph.test_passes import Effect
from tests.graph.tools import Build, argument, assert_same_bits, names, run, value

f32 = np.float32


def both(graph):
    """The graph after the pass alone, and after everything."""
    return [validate(dce(control(graph))), validate(optimize(graph))]


def node_of(graph, name):
    return next(node for node in graph.nodes if node.primitive.name == name)


def data(*shapes):
    rng = np.random.default_rng(0)
    return [rng.normal(size=s).astype(f32) for s in shapes]


def scan_graph(step, carries, rows, out):
    """A staged scan; ``out`` picks what is returned."""

    def f(carry, xs):
        return out(fx.scan(step, carry, xs))

    specs = [fx.ones(s) for s in carries]
    return fx.make_graph(f)(tuple(specs), tuple([fx.ones(s) for s in rows]))


def test_rows_that_nobody_uses_are_not_stored():
    step = lambda carry, xs: ((carry[0] + xs[0],), fx.exp(carry[0]))
    graph = scan_graph(step, [(3,)], [(5, 3)], lambda found: found[0])
    for new in both(graph):
        scan = node_of(new, "scan")
        assert len(scan.outs) == 1
        assert "exp" not in names(scan.params["body"])
        arrays = data((3,), (5, 3))
        assert_same_bits(run(new, *arrays), run(graph, *arrays))


def test_carries_that_only_they_themselves_need_go():
    def step(carry, xs):
        a, b, c = carry
        return (a + xs[0], fx.sin(b) + c, c * 2), ()

    graph = scan_graph(step, [(3,)] * 3, [(5, 3)], lambda found: found[0][0])
    for new in both(graph):
        assert node_of(new, "scan").params["carries"] == 1
        assert len(new.nodes) == 1
        arrays = data((3,), (3,), (3,), (5, 3))
        assert_same_bits(run(new, *arrays), run(graph, *arrays))
    chained = scan_graph(step, [(3,)] * 3, [(5, 3)], lambda found: found[0][1])
    assert node_of(dce(control(chained)), "scan").params["carries"] == 2  # b reads c


def test_rows_that_nobody_reads_are_not_handed_in():
    step = lambda carry, xs: ((carry[0] + xs[1],), ())
    graph = scan_graph(step, [(3,)], [(5, 2), (5, 3)], lambda found: found[0][0])
    for new in both(graph):
        assert node_of(new, "scan").params["mapped"] == 1
        arrays = data((3,), (5, 2), (5, 3))
        assert_same_bits(run(new, *arrays), run(graph, *arrays))


def loop(body, carries, rows, inputs):
    """A scan of five runs with all results wanted."""
    params = {
        "body": body, "carries": carries, "mapped": rows, "length": 5, "reverse": False,
        "checkpoint": False,
    }  # fmt: skip
    node = Node(registry["scan"], inputs, params)
    return validate(Graph(inputs, [node], node.outs))


def test_what_stays_the_same_is_computed_once():
    carry, row, scale, w = [argument(s) for s in ((7, 3), (3,), (3,), (3, 3))]
    b = Build(carry, row, scale, w)
    doubled = b.multiply(b.transpose(w, axes=(1, 0)), value(f32(2)))
    step = b.add(b.matmul(carry, doubled), b.multiply(row, b.exp(scale)))
    graph = loop(b.graph(step), 1, 1, [argument(s) for s in ((7, 3), (5, 3), (3,), (3, 3))])
    for new in both(graph):
        assert sorted(names(new)) == ["exp", "multiply", "scan", "transpose"]
        inside = names(node_of(new, "scan").params["body"])
        assert sorted(inside) == ["add", "matmul", "multiply"]
        arrays = data((7, 3), (5, 3), (3,), (3, 3))
        assert_same_bits(run(new, *arrays), run(graph, *arrays))


def test_views_stay_inside():
    carry, row, w, bias = [argument(s) for s in ((7, 3), (3,), (3, 3), (3,))]
    b = Build(carry, row, w, bias)
    wide = b.broadcast_to(b.sin(bias), shape=(7, 3))
    step = b.maximum(b.matmul(carry, b.transpose(w, axes=(1, 0))), wide)
    graph = loop(b.graph(step), 1, 1, [argument(s) for s in ((7, 3), (5, 3), (3, 3), (3,))])
    new = validate(dce(control(graph)))
    assert names(new) == ["sin", "scan"]
    inside = names(node_of(new, "scan").params["body"])
    assert sorted(inside) == ["broadcast_to", "matmul", "maximum", "transpose"]
    arrays = data((7, 3), (5, 3), (3, 3), (3,))
    assert_same_bits(run(new, *arrays), run(graph, *arrays))


def test_a_carry_that_is_handed_on_as_it_is_becomes_an_operand():
    step = lambda carry, xs: ((carry[0] * carry[1] + xs[0], carry[1]), fx.tanh(carry[1]))
    graph = scan_graph(step, [(3,), (3,)], [(5, 3)], lambda found: (found[0], found[1]))
    for new in both(graph):
        scan = node_of(new, "scan")
        assert scan.params["carries"] == 1
        assert new.outputs[1] is new.inputs[1]
        arrays = data((3,), (3,), (5, 3))
        assert_same_bits(run(new, *arrays), run(graph, *arrays))


def test_constants_fold_into_bodies():
    def f(x):
        half = fx.exp(fx.tensor(0.5))
        return fx.scan(lambda carry, row: (carry + row * (half * 2), ()), fx.zeros(3), x)[0]

    graph = fx.make_graph(f)(fx.ones((5, 3)))
    new = validate(optimize(graph))
    scan = node_of(new, "scan")
    assert names(scan.params["body"]) == ["multiply", "add"]
    assert len(scan.inputs) == 2
    assert_same_bits(run(new, *data((5, 3))), run(graph, *data((5, 3))))


def test_while_keeps_what_its_condition_reads():
    def f(x, limit, unused):
        def body(carry):
            i, total, extra, same = carry
            return i + 1, total * same + fx.sin(limit), fx.cos(extra), same

        start = (fx.zeros((), dtype=fx.int64), x, unused, x)
        return fx.while_loop(lambda c: c[0] < limit.sum(), body, start)[1]

    graph = fx.make_graph(f)(fx.ones(3), fx.ones(3), fx.ones(3))
    for new in both(graph):
        loop = node_of(new, "while")
        assert loop.params["carries"] == 2
        assert "cos" not in names(loop.params["body"])
        assert "sin" in names(new) and "sin" not in names(loop.params["body"])
        for limit in (0.5, 1.2, -3.0):
            arrays = [*data((3,)), np.full(3, limit, f32), *data((3,))]
            assert_same_bits(run(new, *arrays), run(graph, *arrays))


def test_while_keeps_a_carry_that_only_its_condition_reads():
    def f(x):
        start = (fx.tensor(True), x)
        return fx.while_loop(lambda c: c[0], lambda c: (c[1].sum() < 20, c[1] * 2), start)[1]

    graph = fx.make_graph(f)(fx.ones(3))
    for new in both(graph):
        assert node_of(new, "while").params["carries"] == 2
        assert_same_bits(run(new, np.ones(3, f32)), run(graph, np.ones(3, f32)))


def test_a_body_that_was_staged_for_other_specs_is_left():
    carry, row, rest = argument((3,)), argument((3,)), argument((3,))
    b = Build(carry, row, rest)
    body = b.graph(b.add(carry, b.multiply(row, b.exp(rest))), b.sin(row))
    params = {
        "body": body, "carries": 1, "mapped": 1, "length": 5, "reverse": False, "checkpoint": False,
    }  # fmt: skip
    for dtype, left in (("float32", False), ("float64", True)):
        args = [argument(s, dtype) for s in ((3,), (5, 3), (3,))]
        node = Node(registry["scan"], args, params)
        graph = Graph(args, [node], [node.outs[0]])
        assert (control(graph) is graph) is left


def test_nothing_is_computed_for_a_loop_that_never_runs():
    carry, rest = argument((3,)), argument((3,))
    b = Build(carry, rest)
    body = b.graph(b.add(carry, b.exp(rest)))
    params = {"body": body, "carries": 1, "mapped": 0, "reverse": False, "checkpoint": False}
    for length, outside in ((0, []), (1, ["exp"])):
        args = [argument((3,)), argument((3,))]
        node = Node(registry["scan"], args, {**params, "length": length})
        new = control(Graph(args, [node], node.outs))
        assert names(new) == [*outside, "scan"]


def test_branches_lose_what_nobody_uses():
    def f(p, x, y, z):
        pair = fx.cond(p, lambda: (x + y, fx.exp(z)), lambda: (x - 1, z))
        return pair[0]

    graph = fx.make_graph(f)(fx.tensor(True), fx.ones(3), fx.ones(3), fx.ones(3))
    for new in both(graph):
        cond = node_of(new, "cond")
        assert len(cond.inputs) == 3 and len(cond.outs) == 1
        for p in (True, False):
            arrays = [np.asarray(p), *data((3,), (3,), (3,))]
            assert_same_bits(run(new, *arrays), run(graph, *arrays))


@pytest.mark.parametrize(
    ("index", "kept"), [(True, "cos"), (False, "sin"), (7, "cos"), (-2, "sin")]
)
def test_a_known_predicate_picks_its_branch(index, kept):
    x = argument((3,))
    y = argument((3,))
    b, c = Build(x), Build(y)
    branches = (b.graph(b.sin(x)), c.graph(c.cos(y)))
    z = argument((3,))
    node = Node(registry["cond"], [value(np.asarray(index)), z], {"branches": branches})
    graph = Graph([z], [node], node.outs)
    for new in both(graph):
        assert names(new) == [kept]
        assert_same_bits(run(new, *data((3,))), run(graph, *data((3,))))


def test_effects_in_bodies_stay():
    carry, row = argument((3,)), argument((3,))
    b = Build(carry, row)
    shown = b.exp(row)
    b.nodes.append(Node(Effect(), [shown], {}))
    body = b.graph(carry, b.sin(carry))
    x = argument((5, 3))
    start = argument((3,))
    params = {
        "body": body, "carries": 1, "mapped": 1, "length": 5, "reverse": False, "checkpoint": False,
    }  # fmt: skip
    node = Node(registry["scan"], [start, x], params)
    for new in both(Graph([start, x], [node], [node.outs[0]])):
        assert sorted(names(node_of(new, "scan").params["body"])) == ["exp", "shout"]


def random_body(choose, carries, rows, rest):
    """A body of random elementwise nodes, some of whose carries stay the same."""
    inputs = [argument((3,)) for _ in range(carries + rows + rest)]
    b = Build(*inputs)
    pool = list(inputs)
    for _ in range(choose.randint(0, 10)):
        name = choose.choice(["sin", "tanh", "negative", "add", "multiply", "where"])
        if name in ("add", "multiply"):
            pool.append(getattr(b, name)(choose.choice(pool), choose.choice(pool)))
        elif name == "where":
            mask = b.isfinite(choose.choice(pool))
            pool.append(b.where(mask, choose.choice(pool), choose.choice(pool)))
        else:
            pool.append(getattr(b, name)(choose.choice(pool)))
    outs = [inputs[i] if choose.random() < 0.3 else choose.choice(pool) for i in range(carries)]
    outs += [choose.choice(pool) for _ in range(choose.randint(0, 3))]
    return b.graph(*outs)


@settings(max_examples=80)
@given(seed=st.integers(0, 2**32 - 1))
def test_random_loops_give_the_same_bits(seed):
    choose = random.Random(seed)
    carries, rows, rest = choose.randint(1, 3), choose.randint(0, 2), choose.randint(0, 3)
    body = random_body(choose, carries, rows, rest)
    length = choose.choice([0, 1, 4])
    args = [argument((3,)) for _ in range(carries)]
    args += [argument((length, 3)) for _ in range(rows)]
    outside = [argument((3,)), value(np.asarray([0.5, 0.1, 2.0], f32)), value(np.ones(3, f32))]
    args += [choose.choice(outside) for _ in range(rest)]
    params = {
        "body": body, "carries": carries, "mapped": rows, "length": length,
        "reverse": choose.random() < 0.5, "checkpoint": False,
    }  # fmt: skip
    node = Node(registry["scan"], args, params)
    inputs = [v for v in dict.fromkeys(args) if v.constant is None]
    wanted = [v for v in node.outs if choose.random() < 0.6] or [node.outs[0]]
    graph = validate(Graph(inputs, [node], wanted))
    arrays = data(*[v.spec.shape for v in inputs])
    want = run(graph, *arrays)
    for new in both(graph):
        assert_same_bits(run(new, *arrays), want)
    once = optimize(graph)
    assert optimize(once) is once


def test_gradients_of_smaller_loops_are_the_same():
    def loss(w, x):
        step = lambda carry, row: (fx.tanh(carry * w + row * fx.exp(w)), carry * 3)
        return fx.scan(step, fx.zeros(3), x)[0].sum()

    w, x = fx.tensor(data((3,))[0]), fx.tensor(data((5, 3))[0])
    graph = optimize(fx.make_graph(loss)(w, x), keep_derivatives=True)
    got = fx.grad(lambda w: graph.run(w, x)[0])(w)
    want = fx.grad(loss)(w, x)
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-5)
