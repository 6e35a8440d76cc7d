"""The Step of a ``matmul`` node."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.gemm.kernel import Kernel, Packing, unit
from fx.backends.cpu.llvm.gemm.plan import Plan, plan
from fx.backends.cpu.llvm.gemm.problem import Problem, simplified
from fx.backends.cpu.llvm.gemm.skinny import Dots, Skinny, SkinnyPlan, Sums, skinny_plan
from fx.backends.cpu.llvm.gemm.vectors import vector_bytes
from fx.backends.cpu.llvm.gemm.views import dense, view_of
from fx.backends.cpu.llvm.step import Step
from fx.dtypes import float32
from fx.graph.ir import Node, Value, input_value
from fx.spec import TensorSpec

_DTYPES = frozenset(("float32", "float64", "float16", "bfloat16"))


class ProductStep(Step):
    """One product with what follows it."""

    def __init__(self, node: Node, problem: Problem, reads: tuple[Any, ...], epilogue: Any) -> None:
        shape = node.out.spec.shape
        self.problem = problem
        self.epilogue = epilogue
        self.kernel = _kernel(problem, _plan(problem), shape, epilogue)
        self.reads = reads if epilogue is None else (*reads, *epilogue.reads)
        self.writes = (node.out,) if epilogue is None else tuple(epilogue.writes)
        self.tasks = self.kernel.tasks
        self.scratch = self.kernel.scratch
        self.cost = problem.work / 45 + node.out.spec.size * 0.05
        if epilogue is not None:
            self.cost += epilogue.cost * node.out.spec.size
        self.inplace = ()
        self.lines = (node.line,) if node.line else ()
        p = problem
        self.name = f"matmul: {p.batches}x({p.m},{p.k},{p.n})"
        self.key = ("matmul", vector_bytes(), problem, self.kernel.plan) if epilogue is None else (
            "matmul", vector_bytes(), problem, self.kernel.plan, shape, epilogue.key,
            tuple([(v.spec.shape, v.spec.dtype) for v in epilogue.reads]),
            tuple([v.spec.dtype for v in epilogue.writes]),
        )  # fmt: skip

    def emit(self, module: ir.Module, name: str) -> ir.Function:
        """The kernel under ``name``."""
        k = self.kernel
        kernel = _kernel(self.problem, k.plan, k.shape, self.epilogue)  # it keeps what it emits
        return kernel.emit(module, name, len(self.reads), len(self.writes))


def _plan(problem: Problem) -> Plan | SkinnyPlan:
    return skinny_plan(problem) or plan(problem)


def _kernel(problem: Problem, plan: Any, shape: tuple[int, ...], epilogue: Any) -> Kernel | Skinny:
    kinds: dict[str, type] = {"dots": Dots, "sums": Sums}
    emitter = kinds[plan.kind] if isinstance(plan, SkinnyPlan) else Kernel
    return emitter(problem, plan, shape, epilogue)


class PackStep(Step):
    """The right factor of a product, packed for all its tasks."""

    def __init__(self, product: ProductStep, source: Value, line: str) -> None:
        problem = product.problem
        self.problem = problem
        self.plan = product.kernel.plan
        kernel = Packing(problem, self.plan)
        dtype = float32 if problem.y.dtype.itemsize < 4 else problem.y.dtype
        self.reads = (source,)
        self.writes = (input_value(TensorSpec((kernel.elements,), dtype)),)
        self.tasks = kernel.tasks
        self.cost = kernel.elements * 0.15
        self.scratch = 0
        self.inplace = ()
        self.lines = (line,) if line else ()
        self.name = f"pack: {kernel.matrices}x({problem.k},{problem.n})"
        self.key = ("pack", vector_bytes(), problem, self.plan)

    def emit(self, module: ir.Module, name: str) -> ir.Function:
        """The kernel under ``name``."""
        return Packing(self.problem, self.plan).emit(module, name, 1, 1)


def product(node: Node, epilogue: Any = None) -> list[Step] | None:
    """The Steps of a ``matmul`` node, None where the eager kernel has to do.

    The last one is the product; one before it may arrange a factor for all its tasks.

    Args:
        node: a ``matmul``.
        epilogue: what is computed from its elements before they are stored; see ``epilogue.py``.
    """
    x, y = node.inputs
    out = node.out.spec
    if out.dtype.name not in _DTYPES or not out.size or not x.spec.size:
        return None
    fold = epilogue is None
    best = None
    for views in (
        (view_of(x), view_of(y)),
        (view_of(x), dense(y)),
        (dense(x), view_of(y)),
        (dense(x), dense(y)),
    ):
        problem = simplified(*views, out.dtype, out.dtype, fold)
        if unit(problem.x) and unit(problem.y):
            best = problem, views
            break
    if best is None:
        return None
    problem, (left, right) = best
    if problem.swapped:
        left, right = right, left
    step = ProductStep(node, problem, (left.value, right.value), epilogue)
    if not step.kernel.plan.shared:
        return [step]
    pack = PackStep(step, right.value, node.line)
    step.reads = (left.value, pack.writes[0], *step.reads[2:])
    return [pack, step]
