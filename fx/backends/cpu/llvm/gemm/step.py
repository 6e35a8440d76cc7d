"""The Steps of a ``matmul`` node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.gemm.frame import Frame, inplace
from fx.backends.cpu.llvm.gemm.kernel import Kernel, Packing, Totals, parts_of
from fx.backends.cpu.llvm.gemm.plan import Plan, plan
from fx.backends.cpu.llvm.gemm.problem import Factor, Problem, simplified
from fx.backends.cpu.llvm.gemm.skinny import Dots, SkinnyPlan, Sums, skinny_plan
from fx.backends.cpu.llvm.gemm.tiles import tiled
from fx.backends.cpu.llvm.gemm.views import dense, view_of
from fx.backends.cpu.llvm.ir import target
from fx.compiler.step import Step
from fx.dtypes import float32
from fx.graph.ir import Node, Value, input_value
from fx.spec import TensorSpec

_DTYPES = frozenset(("float32", "float64", "float16", "bfloat16"))


class KernelStep(Step):
    """A kernel of this package as a Step.

    Args:
        make: makes the kernel; once more for each time that it is emitted.
        name, cost, key, lines: of the Step.
        reads: the values that it reads; those of an epilogue come last.
        writes: the values that it writes.
    """

    def __init__(
        self,
        make: Callable[[], Frame],
        name: str,
        reads: Sequence[Value],
        writes: Sequence[Value],
        cost: float,
        key: Any,
        line: str,
    ) -> None:
        self._make = make
        self.kernel = make()
        self.name = name
        self.reads = tuple(reads)
        self.writes = tuple(writes)
        self.tasks = self.kernel.tasks
        self.scratch = self.kernel.scratch
        self.cost = cost
        self.key = key
        # never the memory of a factor, which is read again after elements of the result are stored
        shift = len(reads) - self.kernel.extras
        factors = self.reads[:shift]
        self.inplace = tuple([
            (i, j + shift) for i, j in inplace(self.kernel.epilogue)
            if self.reads[j + shift] not in factors
        ])  # fmt: skip
        self.lines = (line,) if line else ()

    def emit(self, module: ir.Module, name: str) -> ir.Function:
        """The kernel under ``name``."""
        return self._make().emit(module, name, len(self.reads), len(self.writes))


def product(node: Node, epilogue: Any = None) -> list[Step] | None:
    """The Steps of a ``matmul`` node, None where the eager kernel has to do.

    The one that writes the result is the last; one before it may pack a factor for all its tasks,
    or compute parts of sums.

    Args:
        node: a ``matmul``.
        epilogue: what is computed from its elements before they are stored; see ``epilogue.py``.

    Example:
        >>> import fx
        >>> from fx.backends.cpu.llvm.gemm import product
        >>> graph = fx.make_graph(fx.matmul)(fx.ones((4, 3)), fx.ones((3, 5)))
        >>> [step.name for step in product(graph.nodes[0])]
        ['matmul: (4, 3, 5)']
    """
    out = node.out.spec
    if out.dtype.name not in _DTYPES or not out.size or not node.inputs[0].spec.size:
        return None
    p, x, y = _simplest(node, epilogue is None)
    shape, line = out.shape, node.line
    name = f"matmul: {f'{p.batches} x ' if p.batches > 1 else ''}({p.m}, {p.k}, {p.n})"
    by_tiles = tiled(p, x, y, node.out, name, line)
    if by_tiles is not None:
        return by_tiles if epilogue is None else None
    plan_ = skinny_plan(p) or plan(p)
    extra: tuple[Value, ...] = ()
    writes: tuple[Value, ...] = (node.out,)
    key: tuple[Any, ...] = ()
    if epilogue is not None:
        extra, writes = tuple(epilogue.reads), tuple(epilogue.writes)
        specs = [(v.spec.shape, v.spec.dtype) for v in (*extra, *writes)]
        key = (shape, epilogue.key, inplace(epilogue), len(extra), *specs)
    key = ("matmul", target().vector_bytes, p, plan_, *key)
    cost = _cost(p, epilogue)
    temporary = float32 if out.dtype.itemsize < 4 else out.dtype
    if isinstance(plan_, SkinnyPlan):
        kind = Dots if plan_.kind == "dots" else Sums
        make = lambda: kind(p, plan_, shape, epilogue)
        return [KernelStep(make, name, (x, y, *extra), writes, cost, key, line)]
    if plan_.split:
        parts = p._replace(out=temporary)
        first = lambda: Kernel(parts, plan_, shape, None)
        held = _temporary(parts_of(p, plan_) * p.m * p.n, temporary)
        return [
            KernelStep(first, name, (x, y), (held,), cost, ("parts", *key[:4]), line),
            KernelStep(
                lambda: Totals(p, plan_, shape, epilogue), f"{name}, sums",
                (held, *extra), writes, held.spec.size * 0.1, ("totals", *key), line,
            ),
        ]  # fmt: skip
    steps: list[Step] = []
    if plan_.shared:
        pack = lambda: Packing(p, plan_)
        packed = _temporary(pack().elements, temporary)
        steps.append(
            KernelStep(
                pack, f"{name}, pack", (y,), (packed,), packed.spec.size * 0.15,
                ("pack", *key[:4]), line,
            )
        )  # fmt: skip
        y = packed
    main = lambda: Kernel(p, plan_, shape, epilogue)
    return [*steps, KernelStep(main, name, (x, y, *extra), writes, cost, key, line)]


def _temporary(size: int, dtype: Any) -> Value:
    return input_value(TensorSpec((size,), dtype))


def _cost(p: Problem, epilogue: Any) -> float:
    """Nanoseconds: of the arithmetic, or of the memory traffic if that takes longer."""
    size = p.out.itemsize
    elements = p.batches * p.m * p.n
    traffic = p.batches * (p.m + p.n) * p.k * p.y.dtype.itemsize + elements * size
    time = max(p.work / (25 if size == 8 else 50), traffic / 40)
    return float(time if epilogue is None else time + epilogue.cost * elements)


def _simplest(node: Node, fold: bool) -> tuple[Problem, Value, Value]:
    """The product with factors read from as far back as strides allow."""
    x, y = node.inputs
    dtype = node.out.spec.dtype
    for views in (
        (view_of(x), view_of(y)),
        (view_of(x), dense(y)),
        (dense(x), view_of(y)),
        (dense(x), dense(y)),
    ):
        p = simplified(*views, dtype, dtype, fold)
        left, right = reversed(views) if p.swapped else views
        # the left factor is read by elements, unless it is packed; the right one by vectors
        if (_unit(p.x) or dtype.itemsize >= 4) and _unit(p.y):
            break
    return p, left.value, right.value


def _unit(f: Factor) -> bool:
    """Whether elements along one of the axes are neighbours, as vectors and packing need."""
    return f.row == 1 or f.column == 1


__all__ = ["KernelStep", "Plan", "product"]
