"""Epilogues of products: a nest that reads a product is computed while the product is stored."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from fx import limits
from fx.compiler.group import Opaque
from fx.compiler.maps import VIEWS, Form, strides_of
from fx.compiler.merge import Kernel
from fx.compiler.plan import weight
from fx.compiler.target import Target
from fx.dtypes import COMPLEX
from fx.graph.ir import Value

_LIGHT = 3  # weight of what is emitted once for each register of a tile


class Epilogue:
    """A nest that a step of a product computes while it stores the product.

    Args:
        kernel: its nest has one element for each element of the product, in the same order.
        node: the product.
        kept: whether the product itself is stored as well.
        forms: for each load of another array its form over the axes of the product.
    """

    def __init__(
        self,
        kernel: Kernel,
        node: Any,
        kept: bool,
        forms: dict[int, Form],
        root: Callable[[Value], Value],
    ) -> None:
        nest = kernel.nest
        self.nest, self.forms, self.kept = nest, forms, kept
        self.product = product = node.outs[0]
        self.of_product = {r for r, v in enumerate(kernel.reads) if root(v) is product}
        self.places: dict[int, int] = {}
        reads: list[Value] = []
        for r, v in enumerate(kernel.reads):
            if r not in self.of_product:
                self.places[r] = len(reads)
                reads.append(v)
        self.reads = tuple(reads)
        self.order = [e for w, _, e in sorted(nest.outputs)]
        self.writes = (*kernel.writes, *([product] if kept else []))
        total = sum([weight(e.name) for e in nest.exprs if e.kind == "op"])
        self.light = total <= _LIGHT
        self.cost = 0.02 + 0.03 * total
        self.key = (nest.key(), tuple(sorted(self.of_product)), kept)
        factors = _sources(node, root)  # which are read after results are stored
        self.inplace = tuple([p for p in self._inplace() if root(reads[p[1]]) not in factors])

    def _inplace(self) -> tuple[tuple[int, int], ...]:
        found: dict[int, set[Form]] = {}
        for e in self.nest.exprs:
            if e.kind == "load":
                found.setdefault(e.data[0], set()).add(e.data[1])
        pairs = []
        for w, form, _ in self.nest.outputs:
            dtype, n = self.nest.writes[w]
            for r, place in self.places.items():
                other, m = self.nest.reads[r]
                if n == m and other.itemsize == dtype.itemsize and found.get(r) == {form}:
                    pairs.append((w, place))
        return tuple(pairs)


def _sources(node: Any, root: Callable[[Value], Value]) -> set[Value]:
    """The arrays that the factors of a product are, or are views of."""
    found = set()
    for v in node.inputs:
        found.add(root(v))
        while v.node is not None and v.node.primitive.name in VIEWS:
            v = v.node.inputs[0]
            found.add(root(v))
    return found


def epilogue_of(
    kernel: Kernel,
    node: Any,
    kept: bool,
    root: Callable[[Value], Value],
    make: Callable[..., Epilogue],
) -> Epilogue | None:
    """A kernel as an epilogue of a product, by ``make``; None where it is none."""
    product = node.outs[0]
    nest, shape = kernel.nest, product.spec.shape
    if nest.rows or nest.sinks or kernel.after or len(nest.exprs) > limits.EPILOGUE_EXPRS:
        return None
    if len(kernel.reads) + len(kernel.writes) > limits.EPILOGUE_ARRAYS:
        return None
    if any(v.spec.dtype in COMPLEX for v in (*kernel.reads, *kernel.writes)):
        return None
    if prod([nest.sizes[d] for d in nest.outer]) != product.spec.size:
        return None
    line: Form = (0, tuple(sorted(zip(
        nest.outer, strides_of([nest.sizes[d] for d in nest.outer])
    ))))  # fmt: skip
    axes = _axes(nest.sizes, nest.outer, shape)
    if axes is None or any(form != line for _, form, _ in nest.outputs):
        return None
    lane = len(shape) - 1 if shape[-1] > 1 else len(shape) - 2
    size = product.spec.size
    large = [v for v in kernel.reads if v.spec.size == size and root(v) is not product]
    if len(large) > limits.EPILOGUE_LARGE:
        return None
    forms: dict[int, Form] = {}
    for i, e in enumerate(nest.exprs):
        if e.kind == "load":
            read, form = e.data
            if e.args:
                return None
            if root(kernel.reads[read]) is product:
                if form != line:
                    return None
                continue
            terms = {}
            for d, c in form[1]:
                for axis, stride in axes[d]:
                    terms[axis] = c * stride
            if terms.get(lane, 0) not in (0, 1):
                return None
            forms[i] = form[0], tuple(sorted(terms.items()))
        elif e.kind not in ("op", "const"):
            return None
    return make(kernel, node, kept, forms, root)


def _axes(
    sizes: list[int], loops: list[int], shape: tuple[int, ...]
) -> dict[int, list[tuple[int, int]]] | None:
    """For each loop the axes of ``shape`` that it joins, with their strides in it."""
    rest = [(i, n) for i, n in enumerate(shape) if n > 1]
    found: dict[int, list[tuple[int, int]]] = {}
    for d in loops:
        mine: list[tuple[int, int]] = []
        while prod([n for _, n in mine]) < sizes[d] and rest:
            mine.append(rest.pop(0))
        if prod([n for _, n in mine]) != sizes[d]:
            return None
        strides = strides_of([n for _, n in mine])
        found[d] = [(i, s) for (i, _), s in zip(mine, strides)]
    return found if not rest else None


def fuse_products(
    units: list[Any],
    outputs: set[Value],
    root: Callable[[Value], Value],
    target: Target,
) -> list[Any]:
    """Give products the kernels that follow them as epilogues.

    Args:
        units: kernels and opaque units in order.
        outputs: the roots of what the caller gets.
        root: the value whose memory another one is.
        target: whose products take epilogues.
    """
    written: dict[Value, int] = {}
    readers: dict[Value, list[int]] = {}
    for i, unit in enumerate(units):
        for v in unit.all_writes() if isinstance(unit, Kernel) else unit.writes:
            written[v] = i
        for v in _reads(unit):
            readers.setdefault(root(v), []).append(i)
    units = list(units)
    moved: dict[int, int] = {}
    products = [  # those of before: one that has its epilogue takes no other
        (i, unit, target.products[unit.node.primitive.name])
        for i, unit in enumerate(units)
        if isinstance(unit, Opaque) and unit.node.primitive.name in target.products
    ]
    for i, unit, maker in products:
        product = unit.node.outs[0]
        users = [j for j in readers.get(product, ()) if units[j] is not None]
        for j in users:
            kernel = units[j]
            if not isinstance(kernel, Kernel):
                continue
            others = [k for k in users if k != j]
            needs = [moved.get(p, p) for p in (written.get(root(v), -1) for v in kernel.reads)]
            if all(p <= i for p in needs):
                place = i
            elif all(k >= j for k in others):
                place = j
            else:
                continue
            kept = bool(others) or product in outputs
            epilogue = epilogue_of(kernel, unit.node, kept, root, target.epilogue)
            if epilogue is None:
                continue
            steps = maker(unit.node, epilogue)
            if steps is None:
                continue
            names = ", ".join(sorted(kernel.names))
            steps[-1].name += f" + {names}"
            steps[-1].lines = tuple(sorted({*steps[-1].lines, *kernel.lines}))
            made = Opaque(unit.node, list(steps))
            units[i] = units[j] = None
            units[place] = made
            moved[i] = moved[j] = place
            for v in made.writes:
                written[v] = place
            for v in made.reads:
                readers.setdefault(root(v), []).append(place)
            break
    return [u for u in units if u is not None]


def _reads(unit: Any) -> list[Value]:
    if isinstance(unit, Kernel):
        return [*unit.reads, *[v for k in unit.after for v in _reads(k)]]
    return list(unit.reads)
