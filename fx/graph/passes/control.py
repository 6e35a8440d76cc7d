"""Control flow: loops and branches without what they compute in vain, or every time the same.

Results that nobody uses go, with the carries and operands that only they needed; constants go into
bodies, where they fold; what does not change from run to run is computed once, before the loop; a
branch whose predicate is known takes the place of its ``cond``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fx.graph.ir import Graph, Node, Rewriter, Value, input_value
from fx.graph.passes.kinds import BROADCASTING, CREATION, UNARY, VIEWS, is_effectful
from fx.graph.passes.rewriting import copy_node
from fx.primitive import registry

# cannot fail and takes about as long however often a loop runs: may run though a loop never does
_HOISTED = UNARY | BROADCASTING | VIEWS | CREATION | frozenset(("matmul", "sum", "max", "min"))
_READ_THROUGH = VIEWS | CREATION  # inside a loop they cost nothing


def control(graph: Graph) -> Graph:
    """The graph with smaller loops and branches.

    Example:
        >>> import fx
        >>> from fx.graph.passes import control, dce
        >>> def f(x, scale):
        ...     step = lambda carry, row: (carry + row * fx.exp(scale), carry * 2)
        ...     return fx.scan(step, fx.zeros(3), x)[0]
        >>> graph = dce(control(fx.make_graph(f)(fx.ones((5, 3)), fx.ones(3))))
        >>> [node.primitive.name for node in graph.nodes]
        ['full', 'exp', 'scan']
        >>> len(graph.nodes[-1].outs)
        1
    """
    if not any(node.primitive.name in _REWRITES for node in graph.nodes):
        return graph
    used = set(graph.uses())
    rewriter = Rewriter(graph)
    changed = False
    for node in graph.nodes:
        rewrite = _REWRITES.get(node.primitive.name)
        before = len(rewriter.nodes)
        if rewrite is not None and registry.get(node.primitive.name) is node.primitive:
            wanted = tuple([v in used for v in node.outs])
            outs = rewrite(rewriter, node, wanted)
            if outs is not None:
                changed = True
                rewriter.env.update({a: b for a, b in zip(node.outs, outs) if b is not None})
                continue
            del rewriter.nodes[before:]
        rewriter.keep(node)
    return rewriter.done() if changed else graph


# bodies -----------------------------------------------------------------------------------------


def _needed(body: Graph, outputs: Iterable[Value]) -> set[Value]:
    """The values that some outputs of a body, and its effects, are computed from."""
    needed = set(outputs)
    for node in reversed(body.nodes):
        if not needed.isdisjoint(node.outs) or is_effectful(node):
            needed.update(node.inputs)
    return needed


def _cut(
    body: Graph,
    needed: set[Value],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    known: dict[Value, Value],
) -> Graph:
    """The part of a body that is needed, with constants in place of known inputs."""
    rewriter = Rewriter(body)
    rewriter.env.update(known)
    for node in body.nodes:
        if not needed.isdisjoint(node.outs) or is_effectful(node):
            rewriter.keep(node)
    return Graph(inputs, rewriter.nodes, [rewriter.get(v) for v in outputs], body.name)


def _live_carries(
    body: Graph, wanted: Sequence[bool], carries: int, asked: Iterable[Value] = ()
) -> tuple[list[bool], set[Value]]:
    """Which results of a loop's body matter, and all values that they are computed from.

    A carry matters if its last value is wanted, if a condition asks for it, or if a result that
    matters reads it.
    """
    live = list(wanted)
    asked = set(asked)
    while True:
        needed = _needed(body, [v for v, alive in zip(body.outputs, live) if alive])
        before = sum(live)
        for i in range(carries):
            live[i] = live[i] or body.inputs[i] in needed or body.inputs[i] in asked
        if sum(live) == before:
            return live, needed


def _hoisted(
    rewriter: Rewriter, body: Graph, fixed: dict[Value, Value], needed: set[Value]
) -> dict[Value, Value]:
    """What a body computes the same way every time, computed outside: values of the body to new ones.

    ``fixed`` maps the inputs that stay the same to what is passed for them.
    """
    same = set(fixed)
    able: list[Node] = []
    for node in body.nodes:
        name = node.primitive.name
        if needed.isdisjoint(node.outs) or name not in _HOISTED or is_effectful(node):
            continue
        if registry.get(name) is node.primitive and all(
            v.constant is not None or v in same for v in node.inputs
        ):
            same.update(node.outs)
            able.append(node)
    moved = set(able)
    inside: set[Value] = set(body.outputs)  # what nodes that stay read
    chosen: list[Node] = []
    for node in reversed(body.nodes):
        # a view that a node inside reads is left to that node
        if node in moved and not (
            node.primitive.name in _READ_THROUGH and not inside.isdisjoint(node.outs)
        ):
            chosen.append(node)
        elif not needed.isdisjoint(node.outs) or is_effectful(node):
            inside.update(node.inputs)
    # of these, the ones that lead to something that nodes inside read and that costs something
    asked = {v for node in chosen for v in node.outs if v in inside}
    made: dict[Value, Value] = dict(fixed)
    useful = set(asked)
    order: list[Node] = []
    for node in chosen:
        if not useful.isdisjoint(node.outs):
            useful.update(node.inputs)
            order.append(node)
    for node in reversed(order):
        new = copy_node(node, tuple([made.get(v, v) for v in node.inputs]))
        rewriter.nodes.append(new)
        made.update(zip(node.outs, new.outs))
    return {v: made[v] for v in body_order(body, asked)}


def body_order(body: Graph, values: set[Value]) -> list[Value]:
    """Some results of nodes of a body, in the order in which they are computed."""
    return [v for node in body.nodes for v in node.outs if v in values]


# loops ------------------------------------------------------------------------------------------


def _scan(rewriter: Rewriter, node: Node, wanted: tuple[bool, ...]) -> list[Value | None] | None:
    params = node.params
    body, carries, mapped = params["body"], params["carries"], params["mapped"]
    end = carries + mapped
    given = [rewriter.get(v) for v in node.inputs]
    live, needed = _live_carries(body, wanted, carries)
    known, fixed = _fixed(body.inputs[end:], given[end:])
    hoisted = _hoisted(rewriter, body, fixed, needed) if params["length"] else {}
    if hoisted:
        needed = _needed_after(body, live, hoisted)
    held = [i for i in range(carries) if live[i]]
    rows = [i for i in range(carries, end) if body.inputs[i] in needed]
    rest = [v for v in fixed if v in needed]
    if all(live) and not hoisted and carries + len(rows) + len(rest) == len(given):
        return None
    stand_ins = {v: input_value(v.spec) for v in hoisted}
    inputs = [*[body.inputs[i] for i in (*held, *rows)], *rest, *stand_ins.values()]
    outputs = [v for v, alive in zip(body.outputs, live) if alive]
    smaller = _cut(body, needed, inputs, outputs, {**known, **stand_ins})
    args = [*[given[i] for i in (*held, *rows)], *[fixed[v] for v in rest], *hoisted.values()]
    changed = {"body": smaller, "carries": len(held), "mapped": len(rows)}
    return _made(rewriter, node, args, {**params, **changed}, live)


def _fixed(
    inputs: Sequence[Value], given: Sequence[Value]
) -> tuple[dict[Value, Value], dict[Value, Value]]:
    """The inputs that stay the same: those of known value, and the others, each argument once."""
    known: dict[Value, Value] = {}
    fixed: dict[Value, Value] = {}
    first: dict[Value, Value] = {}
    for v, arg in zip(inputs, given):
        if arg.constant is not None and arg.spec.size == 1:
            known[v] = arg
        elif arg in first:
            known[v] = first[arg]
        else:
            first[arg] = v
            fixed[v] = arg
    return known, fixed


def _needed_after(body: Graph, live: Sequence[bool], hoisted: dict[Value, Value]) -> set[Value]:
    """What the results that matter are computed from, if some values come from outside."""
    needed = {v for v, alive in zip(body.outputs, live) if alive}
    for node in reversed(body.nodes):
        if any(v in needed and v not in hoisted for v in node.outs) or is_effectful(node):
            needed.update(node.inputs)
    return needed - hoisted.keys()


def _made(
    rewriter: Rewriter,
    node: Node,
    args: Sequence[Value],
    params: dict[str, Any],
    live: Sequence[bool],
) -> list[Value | None]:
    new = Node(node.primitive, args, params, None, node.line)
    rewriter.nodes.append(new)
    outs = iter(new.outs)
    return [next(outs) if alive else None for alive in live]


def _while(rewriter: Rewriter, node: Node, wanted: tuple[bool, ...]) -> list[Value | None] | None:
    params = node.params
    body, condition = params["body"], params["condition"]
    carries, end = params["carries"], params["carries"] + params["read"]
    given = [rewriter.get(v) for v in node.inputs]
    asking = _needed(condition, condition.outputs)
    asked = [body.inputs[i] for i in range(carries) if condition.inputs[i] in asking]
    live, needed = _live_carries(body, wanted, carries, asked)
    known, fixed = _fixed(body.inputs[carries:], given[end:])
    told, reads = _fixed(condition.inputs[carries:], given[carries:end])
    hoisted = _hoisted(rewriter, body, fixed, needed)
    if hoisted:
        needed = _needed_after(body, live, hoisted)
    held = [i for i in range(carries) if live[i]]
    rest = [v for v in fixed if v in needed]
    read = [v for v in reads if v in asking]
    if all(live) and not hoisted and carries + len(read) + len(rest) == len(given):
        return None
    stand_ins = {v: input_value(v.spec) for v in hoisted}
    smaller = _cut(
        body,
        needed,
        [*[body.inputs[i] for i in held], *rest, *stand_ins.values()],
        [body.outputs[i] for i in held],
        {**known, **stand_ins},
    )
    inputs = [*[condition.inputs[i] for i in held], *read]
    test = _cut(condition, asking, inputs, condition.outputs, told)
    args = [given[i] for i in held]
    args += [*[reads[v] for v in read], *[fixed[v] for v in rest], *hoisted.values()]
    changed = {"body": smaller, "condition": test, "carries": len(held), "read": len(read)}
    return _made(rewriter, node, args, {**params, **changed}, live)


# branches ---------------------------------------------------------------------------------------


def _cond(rewriter: Rewriter, node: Node, wanted: tuple[bool, ...]) -> list[Value | None] | None:
    branches = node.params["branches"]
    index, *given = [rewriter.get(v) for v in node.inputs]
    if index.constant is not None and index.spec.device == "cpu":
        place = min(max(int(index.constant._a), 0), len(branches) - 1)
        return _inlined(rewriter, branches[place], given)
    needed = [
        _needed(b, [v for v, alive in zip(b.outputs, wanted) if alive]) for b in branches
    ]
    # one list of operands serves all branches: what one of them needs stays for all
    first: dict[Value, int] = {}
    same = [first.setdefault(arg, i) for i, arg in enumerate(given)]
    kept = []
    for i, arg in enumerate(given):
        asks = any(
            b.inputs[k] in n
            for b, n in zip(branches, needed)
            for k in range(len(given))
            if same[k] == i
        )
        if asks and same[i] == i and not (arg.constant is not None and arg.spec.size == 1):
            kept.append(i)
    if all(wanted) and len(kept) == len(given):
        return None
    smaller = []
    for b, n in zip(branches, needed):
        known = {
            b.inputs[i]: arg if arg.constant is not None and arg.spec.size == 1 else b.inputs[k]
            for i, (arg, k) in enumerate(zip(given, same))
            if i not in kept
        }
        outputs = [v for v, alive in zip(b.outputs, wanted) if alive]
        smaller.append(_cut(b, n, [b.inputs[i] for i in kept], outputs, known))
    args = [index, *[given[i] for i in kept]]
    return _made(rewriter, node, args, {**node.params, "branches": tuple(smaller)}, wanted)


def _inlined(rewriter: Rewriter, branch: Graph, given: Sequence[Value]) -> list[Value | None]:
    env = dict(zip(branch.inputs, given))
    for inner in branch.nodes:
        new = copy_node(inner, tuple([env.get(v, v) for v in inner.inputs]))
        rewriter.nodes.append(new)
        env.update(zip(inner.outs, new.outs))
    return [env.get(v, v) for v in branch.outputs]


_REWRITES: dict[str, Callable[[Rewriter, Node, tuple[bool, ...]], list[Value | None] | None]] = {
    "scan": _scan,
    "while": _while,
    "cond": _cond,
}
