"""A sum by pairs in the order of its terms, which no pass of a compiler takes apart."""

from __future__ import annotations

from typing import Any

from fx.distributed import mpi
from fx.distributed.filling import Array
from fx.distributed.reductions import ReduceOp, tree
from fx.dtypes import float32
from fx.primitive import NOT_DIFFERENTIABLE, Primitive
from fx.prims.elementwise import astype
from fx.prims.families import to_front
from fx.prims.shape import stretched
from fx.spec import TensorSpec
from fx.tensor import Tensor


def _kernel(*xs: Array) -> Array:
    return tree(ReduceOp.SUM, list(xs), xs[0].dtype)  # type: ignore[no-any-return]


def _spec(*xs: TensorSpec) -> TensorSpec:
    return xs[0]


def _batch(level: Any, args: Any, dims: Any) -> Any:
    lanes = [
        stretched(x, (level.size, *x.shape)) if d is None else to_front(x, d)
        for x, d in zip(args, dims, strict=True)
    ]
    return ordered_sum(*lanes), 0


# of tensors of one shape and dtype; its native step is in ``node_steps/rank_sums.py``
ordered_sum = Primitive(
    "ordered_sum", cpu=_kernel, spec=_spec, batch=_batch, differentiable=False,
    jvp=NOT_DIFFERENTIABLE, vjp=NOT_DIFFERENTIABLE, sample=None,
)  # fmt: skip


def widened(x: Tensor) -> Tensor:
    """In the dtype in which it is added: 16 bits count in 32."""
    return astype(x, dtype=float32) if mpi.datatype(x.dtype) is None else x  # type: ignore[no-any-return]
