"""Effects take the token of the one before, so that no compiler can change their order."""

import fx
from fx.graph.passes.effects import effects_of
from fx.graph.passes.ordering import ordered


def staged(function, *args):
    return ordered(fx.make_graph(function)(*args))


def shown(x):
    fx.debug.print("{}", x)
    return x


def chain(graph, token=None):
    """Every effect's token is that of the one before; the last one."""
    count = 0
    for node in graph.nodes:
        if not effects_of(node):
            continue
        name = node.primitive.name
        at = node.params.get("carries", 0)  # of a loop: the last carry
        if name == "cond":
            given, left = node.inputs[1], node.outs[0]
        elif name in ("scan", "while"):
            given, left = node.inputs[at - 1], node.outs[at - 1]
        else:
            given, left = node.inputs[-1], node.outs[-1]
        assert given is token or (token is None and given.constant is not None), name
        token, count = left, count + 1
    return token, count


def test_each_effect_waits_for_the_one_before():
    graph = staged(lambda x: shown(fx.exp(shown(x))) + shown(x * 2), fx.ones(3))
    assert chain(graph)[1] == 3


def test_tokens_go_through_loops_and_branches():
    def f(x):
        shown(x)
        carry, _ = fx.scan(lambda c, row: (shown(c) + shown(row), row), x[0], x)
        carry = fx.while_loop(lambda v: shown(v) < 9, lambda v: shown(v) + 2, carry)
        out = fx.cond(carry > 3, lambda v: shown(v) * 2, lambda v: v, carry)
        return shown(out)

    graph = staged(f, fx.ones(3))
    assert chain(graph)[1] == 5
    bodies = {n.primitive.name: n.params for n in graph.nodes if effects_of(n)}
    scan, loop, cond = bodies["scan"], bodies["while"], bodies["cond"]
    for body, at, count in ((scan["body"], scan["carries"] - 1, 2), (loop["body"], 1, 1)):
        last, found = chain(body, body.inputs[at])
        assert found == count and body.outputs[at] is last
    condition = loop["condition"]
    assert chain(condition, condition.inputs[1])[1] == 1 and len(condition.outputs) == 1
    calm, loud = cond["branches"]
    assert calm.outputs[0] is calm.inputs[0]
    assert loud.outputs[0] is chain(loud, loud.inputs[0])[0]


def test_what_has_no_effect_stays_as_it_is():
    graph = fx.make_graph(lambda x: fx.exp(x) * 2)(fx.ones(3))
    assert ordered(graph).nodes == graph.nodes
