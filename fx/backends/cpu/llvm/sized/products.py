"""Products of matrices of any size: the kernels of eager calls, told sizes and strides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from fx.backends.cpu.llvm.any_size.products import planned
from fx.backends.cpu.llvm.gemm.views import View, dense, view_of
from fx.backends.cpu.llvm.ir import Frame, at, i64, memory_type
from fx.backends.cpu.llvm.node_steps.calls import call
from fx.compiler.extents import Extent, NoExtentsError, Sizes
from fx.compiler.step import Step
from fx.graph.ir import Node, Value, input_value
from fx.spec import TensorSpec


class _Lying(NamedTuple):
    """How a factor lies in memory, as an array tells it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def ndim(self) -> int:
        return len(self.shape)


class ProductStep(Step):
    """A product, or the packing of its right factor, by a kernel of ``any_size/gemm``.

    Args:
        node: a ``matmul``.
        views: its factors.
        packs: whether the right factor is packed by a step of its own.
        packed: where that is.
        kernel: ``"pack"`` or ``"product"``.
        sizes: those that are known when it runs.
    """

    def __init__(
        self, node: Node, views: Sequence[View], packs: bool, packed: Value | None, kernel: str,
        sizes: Sizes,
    ) -> None:  # fmt: skip
        x, y = views
        out = node.out.spec
        self.name = f"{kernel}: {node.primitive.name}"
        self.views, self.out, self.packs, self.kernel, self.sizes = views, out, packs, kernel, sizes
        factors = (y.value,) if kernel == "pack" else (x.value, packed or y.value)
        self.reads = (*factors, sizes.words)
        self.writes = (packed,) if kernel == "pack" else (node.out,)  # type: ignore[assignment]
        self.first = 0  # of its words, once those are counted
        work = out.size * x.shape[-1]
        self.cost = work / 50 if kernel == "product" else y.value.spec.size * 0.15
        self.lines = (node.line,) if node.line else ()

    @property
    def key(self) -> Any:  # type: ignore[override]
        """Each has words of its own."""
        return "sized product", self.first

    def numbers(self, sizes: Mapping[str, int]) -> list[int]:
        """Its tasks, how many of them a thread takes at once, and what the kernel is told."""
        lying = [
            _Lying(
                tuple([_at(self.sizes.extent(n), sizes) for n in v.shape]),
                tuple([_at(self.sizes.extent(s), sizes) * self.out.dtype.itemsize
                       for s in v.strides]),
                self.out.dtype.itemsize,
            )
            for v in self.views
        ]  # fmt: skip
        lead = tuple([_at(self.sizes.extent(n), sizes) for n in self.out.shape[:-2]])
        plan = planned(*lying, lead, self.packs)  # type: ignore[arg-type]
        assert plan is not None
        if self.kernel == "pack":
            return [*plan.pack_tasks, *plan.pack_words]
        return [*plan.tasks, *plan.words]

    def emit(self, module: Any, name: str) -> Any:
        """A call of the kernel, whose words are among those of the program."""
        frame = Frame(module, name, len(self.reads), len(self.writes), self.sizes.places)
        b, kind = frame.b, memory_type(self.out.dtype)
        count = len(self.numbers({n: p for p, n in self.sizes.primes.items()})) - 2
        told = [
            b.load(b.gep(frame.words, [i64(self.first + 2 + i)], source_etype=i64), typ=i64)
            for i in range(count)
        ]
        factors = []
        for array, view in zip(frame.reads[::-1], self.views[::-1]):
            moved = array
            if not (self.kernel == "product" and self.packs and view is self.views[1]):
                moved = at(b, array, frame.number(self.sizes.extent(view.offset)), kind)
            factors.insert(0, moved)
        if self.kernel == "pack":
            factors.insert(0, None)
        call(frame, ("gemm", self.kernel, _CHARS[self.out.dtype.name]), [
            *factors, *frame.writes, *told, None
        ])  # fmt: skip
        return frame.function


_CHARS = {"float32": "f", "float64": "d"}


def product(node: Node, sizes: Sizes) -> list[Step] | None:
    out = node.out.spec
    if out.dtype.name not in _CHARS or not out.size or not node.inputs[0].spec.size:
        return None
    x, y = view_of(node.inputs[0]), view_of(node.inputs[1])
    if 1 not in y.strides[-2:]:
        y = dense(node.inputs[1])
    size = out.dtype.itemsize
    lying = [_Lying(v.shape, tuple([s * size for s in v.strides]), size) for v in (x, y)]
    plan = planned(*lying, out.shape[:-2])  # type: ignore[arg-type]
    if plan is None:
        return None
    if not plan.packed:
        return [ProductStep(node, (x, y), False, None, "product", sizes)]
    from fx.backends.cpu.llvm.any_size.gemm import wide

    n, k = (sizes.extent(v) for v in (y.shape[-1], y.shape[-2]))
    panels = -(-n // wide(size)) * wide(size) * k
    for length, stride in zip(y.shape[:-2], y.strides[:-2]):
        if stride:
            panels = panels * sizes.extent(length)
    packed = Packed(TensorSpec((plan.packed,), out.dtype), panels)
    return [
        ProductStep(node, (x, y), True, packed, kernel, sizes) for kernel in ("pack", "product")
    ]


class Packed(Value):
    """A packed factor, of so many numbers."""

    __slots__ = ("numbers",)

    def __init__(self, spec: TensorSpec, numbers: int) -> None:
        known = input_value(spec)
        for name in Value.__slots__:
            setattr(self, name, getattr(known, name))
        self.numbers = numbers


def _at(n: int, sizes: Mapping[str, int]) -> int:
    if type(n) is not Extent:
        return n
    if any(not isinstance(a, str) for a in n.atoms):
        raise NoExtentsError(f"{n}")
    return n.factor * prod([sizes[a] for a in n.atoms])  # type: ignore[no-any-return]
