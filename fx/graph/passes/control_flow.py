"""Control flow: loops and branches without what they compute in vain, or every time the same.

Results that nobody uses go, with the carries and operands that only they needed; constants go into
bodies, where they fold; what does not change from run to run is computed once, before the loop; a
branch whose predicate is known takes the place of its ``cond``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fx.graph.ir import Graph, Node, Rewriter, Value, input_value
from fx.graph.passes.effects import is_effectful, may_fail
from fx.graph.passes.rewriting import copy_node
from fx.primitive import registry

# cannot fail and takes about as long however often a loop runs: may run though a loop never does
_HOISTED = ("elementwise", "view", "strided", "creation")
_HOISTED_TOO = ("matmul", "sum", "max", "min")
_READ_THROUGH = ("view", "strided", "creation")  # inside a loop they cost nothing


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
    return _reached(body, outputs, {})[0]


def _reached(
    body: Graph, outputs: Iterable[Value], carried: dict[Value, Value]
) -> tuple[set[Value], set[Value]]:
    """The values that outputs and effects are computed from, and the carries among them.

    ``carried`` maps the inputs that are carries to what the run before hands on for them.
    """
    inputs = set(body.inputs)
    stack = list(outputs)
    for node in body.nodes:
        if is_effectful(node):
            stack += node.inputs
    needed: set[Value] = set()
    met: set[Value] = set()
    while stack:
        value = stack.pop()
        if value in needed:
            continue
        needed.add(value)
        if value in carried:
            met.add(value)
            stack.append(carried[value])
        if value not in inputs and value.node is not None:
            stack += value.node.inputs
    return needed, met


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
    body: Graph,
    wanted: Sequence[bool],
    carries: int,
    asked: Iterable[Value],
    still: set[int],
) -> tuple[list[bool], set[Value]]:
    """Which results of a loop's body matter, and all values that they are computed from.

    A carry matters if its last value is wanted, if a condition asks for it, or if a result that
    matters reads it; not one that stays the same.
    """
    moving = [i for i in range(carries) if i not in still]
    asked = set(asked)
    ends = [v for v, w in zip(body.outputs, wanted) if w]
    ends += [body.outputs[i] for i in moving if body.inputs[i] in asked]
    carried = {body.inputs[i]: body.outputs[i] for i in moving}
    needed, met = _reached(body, ends, carried)
    live = list(wanted)
    for i in moving:
        live[i] = live[i] or body.inputs[i] in met or body.inputs[i] in asked
    return live, needed


def _hoisted(
    rewriter: Rewriter, body: Graph, given: dict[Value, Value], needed: set[Value]
) -> dict[Value, Value]:
    """What a body computes the same way every time, mapped to the same computed outside.

    ``given`` maps the inputs that stay the same to what is passed for them.
    """
    same = set(given)
    able: list[Node] = []
    for node in body.nodes:
        name = node.primitive.name
        may = node.primitive.kind in _HOISTED or name in _HOISTED_TOO
        if not may or may_fail(node) or needed.isdisjoint(node.outs) or is_effectful(node):
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
            node.primitive.kind in _READ_THROUGH and not inside.isdisjoint(node.outs)
        ):
            chosen.append(node)
        elif not needed.isdisjoint(node.outs) or is_effectful(node):
            inside.update(node.inputs)
    # of these, the ones that lead to something that nodes inside read and that costs something
    asked = {v for node in chosen for v in node.outs if v in inside}
    made: dict[Value, Value] = dict(given)
    useful = set(asked)
    order: list[Node] = []
    for node in reversed(able):  # a view that stays is made outside as well, for those that go
        if not useful.isdisjoint(node.outs):
            useful.update(node.inputs)
            order.append(node)
    for node in reversed(order):
        new = copy_node(node, tuple([made.get(v, v) for v in node.inputs]))
        rewriter.nodes.append(new)
        made.update(zip(node.outs, new.outs))
    return {v: made[v] for node in able for v in node.outs if v in asked}


# loops ------------------------------------------------------------------------------------------


def _fits(body: Graph, given: Sequence[Value], rows: range = range(0)) -> bool:
    """Whether a body was staged for what it is given: it may be run on other specs as well."""
    specs = [v.spec for v in given]
    for i in rows:
        specs[i] = specs[i].with_(shape=specs[i].shape[1:])
    return [v.spec for v in body.inputs] == specs


class _Loop:
    """A loop that is being made smaller: what its body and its arguments are.

    Args:
        body: its first inputs are carries.
        given: the arguments for all inputs of the body.
        carries: how many of these are carries.
        mapped: how many after them differ from run to run.
        wanted: which results of the loop somebody uses.
        asked: carries that a condition asks for.
    """

    def __init__(
        self,
        body: Graph,
        given: Sequence[Value],
        carries: int,
        mapped: int,
        wanted: Sequence[bool],
        asked: Iterable[Value] = (),
    ) -> None:
        self.body = body
        self.given = given
        end = carries + mapped
        # a carry that every run hands on as it is stays the same
        self.still = {i for i in range(carries) if body.outputs[i] is body.inputs[i]}
        moving = [w and i not in self.still for i, w in enumerate(wanted)]
        self.live, self.needed = _live_carries(body, moving, carries, asked, self.still)
        places = [*sorted(self.still), *range(end, len(given))]
        self.same = {body.inputs[i]: given[i] for i in places}
        self.known, self.fixed = _fixed(self.same)
        self.held = [i for i in range(carries) if self.live[i]]
        self.mapped = range(carries, end)
        self.hoisted: dict[Value, Value] = {}

    def hoist(self, rewriter: Rewriter) -> None:
        """Compute before the loop what it computes the same way every time."""
        self.hoisted = _hoisted(rewriter, self.body, self.same, self.needed)
        if self.hoisted:
            self.needed = _needed_after(self.body, self.live, self.hoisted)

    def smaller(self) -> tuple[Graph, list[Value], int]:
        """The new body, its arguments, and how many of them are mapped."""
        body = self.body
        rows = [i for i in self.mapped if body.inputs[i] in self.needed]
        rest = [v for v in self.fixed if v in self.needed or v in self.known.values()]
        stand_ins = {v: input_value(v.spec) for v in self.hoisted}
        inputs = [*[body.inputs[i] for i in (*self.held, *rows)], *rest, *stand_ins.values()]
        outputs = [v for v, alive in zip(body.outputs, self.live) if alive]
        new = _cut(body, self.needed, inputs, outputs, {**self.known, **stand_ins})
        args = [self.given[i] for i in (*self.held, *rows)]
        args += [*[self.fixed[v] for v in rest], *self.hoisted.values()]
        return new, args, len(rows)

    def results(self, new: Node) -> list[Value | None]:
        """What stands for the results of the loop."""
        outs = iter(new.outs)
        found = [next(outs) if alive else None for alive in self.live]
        for i in self.still:
            found[i] = self.given[i]
        return found


def _scan(rewriter: Rewriter, node: Node, wanted: tuple[bool, ...]) -> list[Value | None] | None:
    params = node.params
    given = [rewriter.get(v) for v in node.inputs]
    carries, mapped = params["carries"], params["mapped"]
    if not _fits(params["body"], given, range(carries, carries + mapped)):
        return None
    loop = _Loop(params["body"], given, carries, mapped, wanted)
    if params["length"]:
        loop.hoist(rewriter)
    body, args, mapped = loop.smaller()
    if all(loop.live) and len(args) == len(given) and not loop.hoisted:
        return None
    changed = {"body": body, "carries": len(loop.held), "mapped": mapped}
    return loop.results(_added(rewriter, node, args, {**params, **changed}))


def _while(rewriter: Rewriter, node: Node, wanted: tuple[bool, ...]) -> list[Value | None] | None:
    params = node.params
    condition, carries = params["condition"], params["carries"]
    end = carries + params["read"]
    given = [rewriter.get(v) for v in node.inputs]
    body = params["body"]
    passed = [*given[:carries], *given[end:]]
    if not _fits(body, passed) or not _fits(condition, given[:end]):
        return None
    asking = _needed(condition, condition.outputs)
    asked = [body.inputs[i] for i in range(carries) if condition.inputs[i] in asking]
    loop = _Loop(body, passed, carries, 0, wanted, asked)
    loop.hoist(rewriter)
    body, args, _ = loop.smaller()
    places = [*sorted(loop.still), *range(carries, end)]
    known, reads = _fixed({condition.inputs[i]: given[i] for i in places})
    read = [v for v in reads if v in asking or v in known.values()]
    inputs = [*[condition.inputs[i] for i in loop.held], *read]
    if all(loop.live) and len(args) + len(read) == len(given) and not loop.hoisted:
        return None
    test = _cut(condition, asking, inputs, condition.outputs, known)
    held = len(loop.held)
    args[held:held] = [reads[v] for v in read]
    changed = {"body": body, "condition": test, "carries": held, "read": len(read)}
    return loop.results(_added(rewriter, node, args, {**params, **changed}))


def _added(rewriter: Rewriter, node: Node, args: Sequence[Value], params: dict[str, Any]) -> Node:
    new = Node(node.primitive, args, params, None, node.line)
    rewriter.nodes.append(new)
    return new


def _fixed(same: dict[Value, Value]) -> tuple[dict[Value, Value], dict[Value, Value]]:
    """Of inputs that stay the same those of known value, and the others, each argument once."""
    known: dict[Value, Value] = {}
    fixed: dict[Value, Value] = {}
    first: dict[Value, Value] = {}
    for v, arg in same.items():
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


# branches ---------------------------------------------------------------------------------------


def _cond(rewriter: Rewriter, node: Node, wanted: tuple[bool, ...]) -> list[Value | None] | None:
    branches = node.params["branches"]
    index, *given = [rewriter.get(v) for v in node.inputs]
    if not all(_fits(b, given) for b in branches):
        return None
    if index.constant is not None and index.spec.device == "cpu":
        place = min(max(int(index.array), 0), len(branches) - 1)
        return _inlined(rewriter, branches[place], given)
    needed = [_needed(b, [v for v, alive in zip(b.outputs, wanted) if alive]) for b in branches]
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
    new = _added(rewriter, node, args, {**node.params, "branches": tuple(smaller)})
    outs = iter(new.outs)
    return [next(outs) if alive else None for alive in wanted]


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
