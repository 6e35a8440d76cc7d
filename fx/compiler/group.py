"""Group: the nodes of a graph that one loop kernel computes, and the nest that says how.

Beside it ``Opaque``, what stands in the order of kernels for a node that no loop computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx.compiler.extents import Sizes
from fx.compiler.maps import (
    VIEWS,
    Form,
    Map,
    Space,
    broadcast,
    linear,
    scale,
    through,
)
from fx.compiler.nest import Nest, canonical
from fx.compiler.pairs import PARTS, Pair, computed, constant, stored
from fx.compiler.quotients import by_row, quotient
from fx.dtypes import COMPLEX, bfloat16, bool_, float16, float32, float64, int64, real_of
from fx.graph.ir import Node, Value

_SHORT = (bfloat16, float16, float32)  # floats whose sums have more digits than they


class Group:
    """Nodes that share loops.

    Attributes:
        space: the loops.
        outer: the independent loops.
        rows: the loops over which it reduces; None while it reduces nothing.
        inside: the values that it computes, each where it is needed.
        outputs: those that it stores, with their maps.
        folds: where the operand of a reduction lies, by the reduction's value.
        place: its position in the reverse order of execution.
    """

    __slots__ = ("after", "before", "folds", "inside", "outer", "outputs", "place", "rows", "space")

    def __init__(self) -> None:
        self.space = Space()
        self.outer: list[int] = []
        self.rows: list[int] | None = None
        self.inside: set[Value] = set()
        self.outputs: dict[Value, Map] = {}
        self.folds: dict[Value, Map] = {}
        self.after: set[Any] = set()  # units that read what this one writes
        self.before: set[Any] = set()
        self.place = 0

    def live(self, loops: Sequence[int]) -> list[int]:
        """Loops in terms of those that exist now, without those of one iteration."""
        space = self.space
        found: list[int] = []
        todo = list(reversed(loops))
        while todo:
            d = todo.pop()
            if d in space.splits:
                outer, inner = space.splits[d]
                todo += [inner, outer]
            elif space.sizes[d] > 1:
                found.append(d)
        return found

    def nest(self, sizes: Sizes | None = None) -> tuple[Nest, list[Value], list[Value]]:
        """The nest, the values that it reads and those that it writes.

        Args:
            sizes: those that are known when it runs, whatever numbers stand for them here.
        """
        while True:
            known = len(self.space.splits)
            self.space.given = sizes
            try:
                built = _Builder(self, sizes).build()
            finally:
                self.space.given = None
            if len(self.space.splits) == known:
                return built


class Opaque:
    """A kernel of another table, or a primitive that runs in Python."""

    __slots__ = ("after", "before", "node", "place", "steps")

    def __init__(self, node: Node, steps: list[Any]) -> None:
        self.node = node
        self.steps = steps
        self.after: set[Any] = set()
        self.before: set[Any] = set()
        self.place = 0

    @property
    def reads(self) -> list[Value]:
        """What the steps need from before."""
        written = set(self.writes)
        return [v for step in self.steps for v in step.reads if v not in written]

    @property
    def writes(self) -> list[Value]:
        """What the steps write."""
        return [v for step in self.steps for v in step.writes]


class _Builder:
    """From maps of values to expressions of a nest."""

    def __init__(self, group: Group, given: Sizes | None) -> None:
        self.group, self.given = group, given
        self.space = group.space
        self.nest = Nest()
        self.reads: dict[Value, int] = {}
        self.memo: dict[Any, Any] = {}

    def build(self) -> tuple[Nest, list[Value], list[Value]]:
        group, nest, space = self.group, self.nest, self.space
        writes = list(group.outputs)
        nest.writes = [(v.spec.dtype, v.spec.size) for v in writes]
        self.has_rows = bool(group.live(group.rows or ()))
        for k, (v, index) in enumerate(group.outputs.items()):
            e = stored(nest, self.value(v, space.resolve_map(index), None), v.spec.dtype)
            nest.outputs.append((k, linear(space.resolve_map(index), v.spec.shape), e))
        nest.sizes = list(space.sizes)
        nest.outer = group.live(group.outer)
        nest.rows = group.live(group.rows or ())
        canonical(nest, space.resolve)
        return nest, list(self.reads), writes

    def value(self, v: Value, index: Map, guard: int | None) -> Any:
        """The expression of a value, of complex numbers a Pair."""
        key = v, index, guard
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = self._value(v, index, guard)
        return found

    def _value(self, v: Value, index: Map, guard: int | None) -> Any:
        nest, group, node, dtype = self.nest, self.group, v.node, v.spec.dtype
        if v.constant is not None and not v.spec.shape:
            if dtype in COMPLEX:
                return constant(nest, v.array, dtype)
            return nest.expr("const", "", (), v.array.tobytes(), dtype)
        if v not in group.inside or node is None:
            return self._load(v, index, guard)
        name = node.primitive.name
        if v in group.folds:
            operand = self.value(node.inputs[0], self.space.resolve_map(group.folds[v]), guard)
            return self._reduced(name, operand, dtype)
        if name in VIEWS:
            return self.value(node.inputs[0], through(self.space, node, index), guard)
        if name == "full":
            make = constant if dtype in COMPLEX else Nest.constant
            return make(nest, node.params["value"], dtype)
        if name == "iota":
            return self._iota(node, index, dtype)
        if name == "pad":
            return self._pad(node, index, guard)
        if name == "concatenate":
            return self._concatenate(node, index, guard)
        args = [self.value(u, broadcast(index, u.spec.shape), guard) for u in node.inputs]
        if dtype in COMPLEX or any(type(a) is Pair for a in args):
            return computed(nest, name, args, dtype, node.params)
        if name == "divide" and by_row(node):
            return quotient(nest, *args, dtype)
        return nest.op(name, args, dtype, tuple(node.params.items()))

    def _load(self, v: Value, index: Map, guard: int | None) -> Any:
        read = self.reads.get(v)
        if read is None:
            read = self.reads[v] = len(self.reads)
            self.nest.reads.append((v.spec.dtype, v.spec.size))
        form = self.space.resolve(linear(index, v.spec.shape))
        guards = () if guard is None else (guard,)
        dtype, load = v.spec.dtype, self.nest.expr
        if dtype in COMPLEX:
            parts = [load("load", part, guards, (read, form), real_of(dtype)) for part in PARTS]
            return Pair(*parts)
        return load("load", "", guards, (read, form), dtype)

    def _reduced(self, name: str, operand: Any, dtype: Any) -> Any:
        nest = self.nest
        if type(operand) is Pair:
            if name == "sum":
                return Pair(*[self._reduced(name, part, real_of(dtype)) for part in operand])
            operand = computed(nest, "astype", [operand], bool_, {})
        source = nest.exprs[operand].dtype
        if name in ("any", "all") and source != bool_:
            zero = nest.constant(0, source)
            operand = nest.op("not_equal", (operand, zero), bool_)
        if not self.has_rows:
            return operand
        if name in ("sum", "prod") and dtype in _SHORT:
            # both have a result of float64; products of two float32 near 1 are already biased
            taken = self._cast(operand, dtype, float32 if name == "sum" else float64)
            wide = nest.expr("reduce", name, (taken,), (), float64)
            return self._cast(wide, float64, dtype)
        return nest.expr("reduce", name, (operand,), (), dtype)

    def _iota(self, node: Node, index: Map, dtype: Any) -> Any:
        nest, params = self.nest, node.params
        form = index[params["axis"]]
        start, step = params["start"], params["step"]
        if dtype in COMPLEX:
            return computed(nest, "astype", [self._iota(node, index, real_of(dtype))], dtype, {})
        if dtype.kind in "iu":
            number = nest.expr("index", "", (), scale(form, int(step), int(start)), int64)
            return self._cast(number, int64, dtype)
        number = self._cast(nest.expr("index", "", (), form, int64), int64, float64)
        scaled = nest.op("multiply", (number, nest.constant(step, float64)), float64)
        moved = nest.op("add", (scaled, nest.constant(start, float64)), float64)
        return self._cast(moved, float64, dtype)

    def _cast(self, e: int, source: Any, dtype: Any) -> int:
        if source == dtype:
            return e
        return self.nest.op("astype", (e,), dtype, (("dtype", dtype),))

    def _within(self, form: Form, low: int, high: int, guard: int | None) -> int | None:
        """The guard, and low <= form < high; the guard itself where that always holds."""
        sizes = self.space.sizes
        form = self.space.resolve(form)
        least = form[0] + sum([min(0, c * (sizes[d] - 1)) for d, c in form[1]])
        most = form[0] + sum([max(0, c * (sizes[d] - 1)) for d, c in form[1]])
        if least >= low and most < high and self._whatever_the_sizes(form, low, high):
            return guard
        test = self.nest.expr("inside", "", (), (form, low, high), bool_)
        return test if guard is None else self.nest.op("logical_and", (guard, test), bool_)

    def _whatever_the_sizes(self, form: Form, low: int, high: int) -> bool:
        """Whether what holds for the numbers that stand for sizes holds for all sizes."""
        given = self.given
        if given is None:
            return True
        least: list[Any] = [form[0]]
        most: list[Any] = [form[0], 1]
        for d, c in form[1]:
            (most if c > 0 else least).extend(((c, self.space.sizes[d]), -c))
        return given.surely([low], least) and given.surely(most, [high])

    def _either(self, test: int, x: Any, y: Any, dtype: Any) -> Any:
        """x where a test holds, y elsewhere."""
        if type(x) is Pair:
            return computed(self.nest, "where", [test, x, y], dtype, {})
        return self.nest.op("where", (test, x, y), dtype)

    def _pad(self, node: Node, index: Map, guard: int | None) -> Any:
        x, fill = node.inputs
        params = node.params
        inner: list[Form] = []
        test = None
        for form, n, low in zip(index, x.spec.shape, params["low"]):
            moved = scale(form, 1, -low)
            test = self._within(moved, 0, n, test)
            inner.append(moved if n > 1 else (0, ()))
        other = self.value(fill, (), None)
        if test is None:
            return self.value(x, tuple(inner), guard)
        both = test if guard is None else self.nest.op("logical_and", (guard, test), bool_)
        own = self.value(x, tuple(inner), both)
        return self._either(test, own, other, node.out.spec.dtype)

    def _concatenate(self, node: Node, index: Map, guard: int | None) -> Any:
        axis, dtype = node.params["axis"], node.out.spec.dtype
        form = index[axis]
        parts = [v for v in node.inputs if v.spec.shape[axis]]
        ends, at = [], 0
        for v in parts:
            ends.append((at, at + v.spec.shape[axis]))
            at = ends[-1][1]
        found: Any = None
        for v, (low, high) in reversed(list(zip(parts, ends))):
            n = v.spec.shape[axis]
            test = self._within(form, low, high, None)
            mine = list(index)
            mine[axis] = scale(form, 1, -low) if n > 1 else (0, ())
            both = guard
            if test is not None and guard is not None:
                both = self.nest.op("logical_and", (guard, test), bool_)
            elif test is not None:
                both = test
            own = self.value(v, tuple(mine), both)
            if found is None:
                found = own
            else:
                first = self._within(form, 0, high, None)
                found = own if first is None else self._either(first, own, found, dtype)
        assert found is not None
        return found
