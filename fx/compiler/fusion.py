"""Fusion: which nodes of a graph share a loop kernel.

Nodes are visited from the outputs back. A node joins the kernel of one that needs it, if its result
is needed there in the order in which that kernel's loops run, if no other kernel stands between the
two, and if nothing expensive is computed twice. ``Fusion.units`` are the kernels in order.

For ``softmax(x, 1) @ w`` with x (n, k): the product needs the quotients in memory, so they get a
group of their own with loops i (n) and j (k). ``exp`` is used there at (i, j) and joins. ``sum`` is
used at (i,), while its operand lies at (i, j): j becomes a loop of the rows, and ``sum`` joins. So
does ``max``, whose operand runs along the same rows. One kernel is left, which passes over each row
three times.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from fx import limits
from fx.compiler.group import Group, Opaque
from fx.compiler.kinds import cheap, from_reductions, is_alias, kind_of
from fx.compiler.maps import (
    ZERO,
    Map,
    NoMap,
    broadcast,
    covers,
    linear,
    scale,
    through,
)
from fx.compiler.order import END, Order
from fx.compiler.plan import HEAVY, weight
from fx.compiler.target import Target
from fx.graph.ir import Graph, Node, Value
from fx.graph.passes.effects import is_effectful


class Fusion:
    """The kernels of a graph.

    Args:
        graph: what is computed.
        target: what it is computed by.
        opaque: the steps of a node that no loop computes.

    Attributes:
        units: groups and opaque kernels, in the order in which they run.
        aliases: values that are another one under another shape.
    """

    def __init__(self, graph: Graph, target: Target, opaque: Callable[[Node], list[Any]]) -> None:
        self.graph, self.target = graph, target
        self.opaque = opaque
        self.aliases: dict[Value, Value] = {}
        self.uses: dict[Value, dict[Any, list[Map]]] = {}  # by group, as part of its loops
        self.needs: dict[Value, set[Any]] = {}  # who needs it in memory
        self.order = Order()
        self.reduced = from_reductions(graph)
        self.guarded: set[tuple[Value, Group]] = set()  # needed at some places of the loops only
        for v in graph.outputs:
            self.need(v, END)
        for node in reversed(graph.nodes):
            self.visit(node)
        self.units = list(reversed(self.order.units))

    # who needs what -----------------------------------------------------------------------------

    def need(self, v: Value, unit: Any) -> None:
        """``unit`` reads the array of ``v``."""
        if v.node is not None:
            self.needs.setdefault(v, set()).add(unit)

    def use(self, v: Value, group: Group, index: Map, guarded: bool = False) -> None:
        """``group`` needs the elements of ``v`` at ``index``, some of them only if ``guarded``."""
        if v.node is None:
            return
        if guarded:
            self.guarded.add((v, group))
        maps = self.uses.setdefault(v, {}).setdefault(group, [])
        index = group.space.resolve_map(index)
        if index not in maps:
            maps.append(index)

    # one node -----------------------------------------------------------------------------------

    def visit(self, node: Node) -> None:
        """Place a node whose users have all been placed."""
        wanted = any(v in self.uses or v in self.needs for v in node.outs)
        if not wanted and not is_effectful(node):
            return
        kind = kind_of(node, self.target)
        if kind == "view":
            self._view(node)
        elif kind == "pointwise":
            self._pointwise(node)
        elif kind == "reduction":
            self._reduction(node)
        else:
            self._opaque(node)

    def _opaque(self, node: Node) -> None:
        steps = self.opaque(node)
        unit = Opaque(node, steps)
        self.order.append(unit)
        for v in node.outs:
            for user in (*self.uses.get(v, ()), *self.needs.get(v, ())):
                self.order.edge(unit, user)
        written = {v for step in steps for v in step.writes}
        for step in steps:
            for v in step.reads:
                if v not in written:
                    self.need(v, unit)

    def _view(self, node: Node) -> None:
        v, source = node.outs[0], node.inputs[0]
        needs = self.needs.get(v, set())
        for group, maps in self.uses.get(v, {}).items():
            for index in maps:
                try:
                    inner = through(group.space, node, group.space.resolve_map(index))
                except NoMap:
                    needs = needs | {group}
                    break
                group.inside.add(v)
                self.use(source, group, inner, (v, group) in self.guarded)
            if group in needs:
                group.inside.discard(v)
        if not needs:
            return
        if is_alias(node):
            self.aliases[v] = source
            for unit in needs:
                self.need(source, unit)
            return
        self.needs[v] = needs
        own = self._own(v, needs)
        self.use(source, own, through(own.space, node, own.outputs[v]))

    def _own(self, v: Value, users: Any) -> Group:
        """A group that computes ``v``, with one loop an axis."""
        group = Group()
        index = tuple([group.space.axis(n) for n in v.spec.shape])
        group.outer = [d for f in index for d, _ in f[1]]
        group.outputs[v] = index
        group.inside.add(v)
        self.order.append(group)
        for user in users:
            self.order.edge(group, user)
        return group

    def _pointwise(self, node: Node) -> None:
        v = node.outs[0]
        uses, needs = self.uses.get(v, {}), self.needs.get(v, set())
        if not needs and (len(uses) == 1 or cheap(node)) and self._inline(node, uses):
            return
        host = self._host(v, uses, needs)
        if host is None:
            host = self._own(v, (*uses, *needs))
        else:
            index = uses[host][0]
            host.outputs[v] = host.space.resolve_map(index)
            host.inside.add(v)
            for user in (*uses, *needs):
                self.order.edge(host, user)
        self._operands(node, host, host.outputs[v])

    def _inline(self, node: Node, uses: dict[Group, list[Map]]) -> bool:
        """Compute a node wherever it is needed; False where that would repeat too much."""
        v = node.outs[0]
        heavy = weight(node.primitive.name) >= HEAVY or node.primitive.name == "concatenate"
        for group, maps in uses.items():
            if len(group.inside) >= limits.FUSE_NODES:
                return False
            if heavy and (
                len(maps) > 1 or (v, group) in self.guarded or self._repeats(group, maps[0], v)
            ):
                return False
            if len(maps) > limits.FUSE_USES:
                return False
        for group, maps in uses.items():
            group.inside.add(v)
            for index in maps:
                self._operands(node, group, index)
        return True

    def _repeats(self, group: Group, index: Map, v: Value) -> bool:
        """Whether the innermost loop would compute an element of ``v`` many times."""
        space = group.space
        loops = space.loops_of(index)
        inner = group.live(group.rows or group.outer)
        if not inner or not loops:
            return False
        every = {*group.live(group.outer), *group.live(group.rows or ())}
        missing = prod([space.sizes[d] for d in every - loops])
        return missing > 1 and inner[-1] in loops

    def _operands(self, node: Node, group: Group, index: Map) -> None:
        name, params = node.primitive.name, node.params
        guarded = (node.outs[0], group) in self.guarded
        if name == "pad":
            x, fill = node.inputs
            inner = [scale(f, 1, -low) if n > 1 else ZERO
                     for f, low, n in zip(index, params["low"], x.spec.shape)]  # fmt: skip
            self.use(x, group, tuple(inner), True)
            self.use(fill, group, (), guarded)
        elif name == "concatenate":
            axis, at = params["axis"], 0
            for u in node.inputs:
                n = u.spec.shape[axis]
                part = scale(index[axis], 1, -at) if n > 1 else ZERO
                self.use(u, group, (*index[:axis], part, *index[axis + 1 :]), True)
                at += n
        else:
            for u in node.inputs:
                self.use(u, group, broadcast(index, u.spec.shape), guarded)

    def _closed(self, v: Value, group: Group, needs: set[Any]) -> bool:
        """Whether a group cannot compute ``v`` for others: full, or in need of it from before."""
        if len(group.inside) >= limits.FUSE_NODES or group in needs:
            return True
        return (v, group) in self.guarded

    def _host(self, v: Value, uses: dict[Group, list[Map]], needs: set[Any]) -> Group | None:
        """A group that may compute and store ``v`` for all of its users."""
        for group in sorted(uses, key=lambda g: -g.place):  # the first to run could serve them all
            maps = uses[group]
            if len(maps) > 1 or self._closed(v, group, needs):
                continue
            space = group.space
            index = space.resolve_map(maps[0])
            loops = group.live([*group.outer, *(group.rows or ())])
            rows = None
            if not covers(space, index, v.spec.shape, loops):
                # v has fewer axes than the loops: one element for each iteration of the outer ones
                outer = group.live(group.outer)
                if group.rows is None and v in self.reduced:  # its reduction may run here
                    mine = space.loops_of(index)
                    rows = [d for d in outer if d not in mine]
                    outer = [d for d in outer if d in mine]
                    if prod([space.sizes[d] for d in rows]) > limits.LONG_ROW:
                        continue
                elif not group.rows:
                    continue
                if not covers(space, index, v.spec.shape, outer):
                    continue
            if self.order.before([*uses, *needs], group):
                if rows:
                    group.outer, group.rows = outer, rows
                return group
        return None

    # reductions ---------------------------------------------------------------------------------

    def _reduction(self, node: Node) -> None:
        v = node.outs[0]
        uses, needs = self.uses.get(v, {}), self.needs.get(v, set())
        operand = node.inputs[0]
        for group in sorted(uses, key=lambda g: -g.place):
            if len(uses[group]) > 1 or self._closed(v, group, needs):
                continue
            index = group.space.resolve_map(uses[group][0])
            stored = bool(needs) or len(uses) > 1
            if stored and not covers(
                group.space, index, v.spec.shape, group.live(self._kept(group, index))
            ):
                continue
            where = self._fold(node, group, index)
            if where is None:
                continue
            if not self.order.before([*uses, *needs], group):
                continue
            self._folded(node, group, where)
            if stored:
                group.outputs[v] = group.space.resolve_map(index)
                for user in (*uses, *needs):
                    self.order.edge(group, user)
            return
        own = self._own(v, (*uses, *needs))
        shape, axes = operand.spec.shape, node.params["axes"]
        where = self._new_rows(own, own.outputs[v], shape, axes, node.params["keepdims"])
        self._folded(node, own, where)

    def _kept(self, group: Group, index: Map) -> list[int]:
        if group.rows is not None:
            return group.outer
        return sorted(group.space.loops_of(index))

    def _folded(self, node: Node, group: Group, where: tuple[Map, list[int], list[int]]) -> None:
        index, outer, rows = where
        v = node.outs[0]
        group.outer, group.rows = outer, rows
        group.inside.add(v)
        group.folds[v] = index
        self.use(node.inputs[0], group, index)

    def _new_rows(
        self, group: Group, index: Map, shape: Any, axes: Any, keepdims: bool
    ) -> tuple[Map, list[int], list[int]]:
        """Loops of their own for the axes that are reduced."""
        rest = iter(index)
        out = []
        rows = []
        for i, n in enumerate(shape):
            if i in axes:
                if keepdims:
                    next(rest)
                form = group.space.axis(n)
                rows += [d for d, _ in form[1]]
                out.append(form)
            else:
                out.append(next(rest))
        return tuple(out), group.outer, rows

    def _fold(
        self, node: Node, group: Group, index: Map
    ) -> tuple[Map, list[int], list[int]] | None:
        """How a reduction whose result lies at ``index`` runs in the loops of a group.

        It gives the map of the operand, the outer loops and the rows. With loops (i, j) and a
        result at (i,) the rows are j, if j runs over as many elements as are reduced; a result at
        (i, j) gets new loops for its rows, as the group has none.
        """
        space, params = group.space, node.params
        operand = node.inputs[0]
        shape, axes = operand.spec.shape, params["axes"]
        mine = space.loops_of(index)
        outer, rows = group.live(group.outer), group.live(group.rows or ())
        total = operand.spec.size
        length = prod([shape[a] for a in axes])
        if any(f[0] or any(c < 0 for _, c in f[1]) for f in index):  # sliced or flipped
            return None
        if length == 1:
            return None
        if not rows:
            if group.rows is not None:
                return None
            rest = [d for d in outer if d not in mine]
            if not rest:
                if not covers(space, index, node.outs[0].spec.shape, outer):
                    return None
                return self._new_rows(group, index, shape, axes, params["keepdims"])
            outer = [d for d in outer if d in mine]
        else:
            rest = rows
            if set(outer) != mine:
                return None
        if not covers(space, index, node.outs[0].spec.shape, outer):
            return None
        if prod([space.sizes[d] for d in rest]) != length:
            return None
        if length > limits.LONG_ROW and total > limits.FUSE_SMALL:
            return None
        where = self._known_rows(node, group, index, rest)
        if where is None:
            return None
        return where, outer, rest

    def _known_rows(self, node: Node, group: Group, index: Map, rest: list[int]) -> Map | None:
        """Where the operand of a reduction lies, if its axes run along the loops ``rest``."""
        space = group.space
        operand = node.inputs[0]
        shape, axes, keepdims = operand.spec.shape, node.params["axes"], node.params["keepdims"]
        kept = list(index)
        if keepdims:
            kept = [f for i, f in enumerate(index) if i not in axes]
        for known in self.uses.get(operand, {}).get(group, ()):
            known = space.resolve_map(known)
            if [f for i, f in enumerate(known) if i not in axes] == kept:
                reduced = [known[a] for a in axes]
                if covers(space, tuple(reduced), [shape[a] for a in axes], rest):
                    return known
        # the loops in the order in which the largest output runs through them
        best = max(group.outputs, key=lambda v: v.spec.size)
        form = space.resolve(linear(space.resolve_map(group.outputs[best]), best.spec.shape))
        strides = {d: abs(c) for d, c in form[1]}
        ordered = sorted(rest, key=lambda d: -strides.get(d, 0))
        sizes = [space.sizes[d] for d in ordered]
        flat = tuple([(0, ((d, 1),)) for d in ordered])
        try:
            reduced = list(space.reshape(flat, sizes, [shape[a] for a in axes]))
        except NoMap:
            return None
        rest[:] = group.live(rest)
        forms = iter(kept)
        return tuple([reduced.pop(0) if i in axes else next(forms) for i in range(len(shape))])
