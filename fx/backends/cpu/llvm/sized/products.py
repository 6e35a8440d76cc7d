"""Products of matrices of any size: the kernels of eager calls, told sizes and strides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from fx.backends.cpu.llvm.any_size.products import planned
from fx.backends.cpu.llvm.gemm.views import View, dense, view_of
from fx.backends.cpu.llvm.ir import Frame, at, i64, memory_type
from fx.backends.cpu.llvm.node_steps.calls import call
from fx.compiler.extents import Extent, NoExtentsError, Sizes
from fx.compiler.step import Step
from fx.graph.ir import Node


class Lying(NamedTuple):
    """How a factor lies in memory, as an array tells it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int

    @property
    def ndim(self) -> int:
        return len(self.shape)


class ProductStep(Step):
    """A product by the kernel of ``any_size/gemm``.

    Args:
        node: a ``matmul``.
        views: its factors.
        sizes: those that are known when it runs.
    """

    def __init__(self, node: Node, views: Sequence[View], sizes: Sizes) -> None:
        x, y = views
        out = node.out.spec
        self.name = f"product: {node.primitive.name}"
        self.views, self.out, self.sizes = views, out, sizes
        self.reads = (x.value, y.value, sizes.words)
        self.writes = (node.out,)
        lying = [_lying(v, out.dtype.itemsize) for v in views]
        self.first = 0  # of its words, once those are counted
        self.count = len(numbers(*lying, out.shape[:-2]))
        self.cost = out.size * x.shape[-1] / 50
        self.lines = (node.line,) if node.line else ()

    @property
    def key(self) -> Any:  # type: ignore[override]
        """Each has words of its own."""
        return "sized product", self.first

    def told(self) -> list[Any]:
        """Its factors as shapes and strides, the shape of the batch, all as formulas; bytes."""
        extent, size = self.sizes.extent, self.out.dtype.itemsize
        factors = [
            [_formulas(map(extent, v.shape)), _formulas([extent(s) * size for s in v.strides])]
            for v in self.views
        ]
        return [*factors, _formulas(map(extent, self.out.shape[:-2])), size]

    def emit(self, module: Any, name: str) -> Any:
        """A call of the kernel, whose words are among those of the program."""
        frame = Frame(module, name, len(self.reads), len(self.writes), self.sizes.places)
        b, kind = frame.b, memory_type(self.out.dtype)
        count = self.count - 2
        told = [
            b.load(b.gep(frame.words, [i64(self.first + 2 + i)], source_etype=i64), typ=i64)
            for i in range(count)
        ]
        factors = [
            at(b, array, frame.number(self.sizes.extent(view.offset)), kind)
            for array, view in zip(frame.reads, self.views)
        ]
        call(frame, ("gemm", "product", _CHARS[self.out.dtype.name]), [
            *factors, *frame.writes, *told, None
        ])  # fmt: skip
        return frame.function


_CHARS = {"float32": "f", "float64": "d"}


def product(node: Node, sizes: Sizes) -> list[Step] | None:
    out = node.out.spec
    if out.dtype.name not in _CHARS or not out.size or not node.inputs[0].spec.size:
        return None
    x, y = view_of(node.inputs[0]), view_of(node.inputs[1])
    shared = len(out.shape) > 2 and not any(y.strides[:-2])  # or it is packed for each of a batch
    if 1 not in y.strides[-1 if shared else -2 :]:
        y = dense(node.inputs[1])
    size = out.dtype.itemsize
    if planned(_lying(x, size), _lying(y, size), out.shape[:-2]) is None:  # type: ignore[arg-type]
        return None
    return [ProductStep(node, (x, y), sizes)]


def numbers(x: Lying, y: Lying, lead: tuple[int, ...]) -> list[int]:
    """The tasks of a product, how many a thread takes at once, and what the kernel is told.

    Args:
        x, y: how its factors lie.
        lead: the shape of the batch.
    """
    plan = planned(x, y, lead)  # type: ignore[arg-type]
    assert plan is not None
    return [*plan.tasks, *plan.words]


def _lying(view: View, itemsize: int) -> Lying:
    return Lying(view.shape, tuple([s * itemsize for s in view.strides]), itemsize)


def _formulas(sizes: Iterable[int]) -> list[str]:
    found = list(sizes)
    for n in found:
        if type(n) is Extent and any(not isinstance(a, str) and a[0] != "+" for a in n.atoms):
            raise NoExtentsError(f"{n}")
    return [repr(n) for n in found]
