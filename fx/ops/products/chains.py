"""Products of matrices made of others: powers, chains, and products that are added."""

from __future__ import annotations

from typing import Any

import fx.prims.compare as compare
from fx import dtypes
from fx.errors import ShapeError
from fx.ops.autocasting import in_half
from fx.ops.axes import integer
from fx.ops.convert import as_tensor
from fx.ops.operands import argument, cast, public
from fx.ops.pointwise.composed import addcmul
from fx.tensor import Tensor


def _weighed(x: Any, beta: Any, product: Tensor, alpha: Any) -> Tensor:
    product = product if alpha == 1 else product * alpha
    if beta == 0:  # NaN in x is not seen, as in BLAS
        return product
    return product + (x if beta == 1 else x * beta)  # type: ignore[no-any-return]


def addr(x: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * (the outer product of two vectors)."""
    x, a, b = (argument("addr", one) for one in (x, vec1, vec2))
    a = a[:, None]
    if x._dtype == a._dtype == b._dtype == dtypes.bool_:
        return (x & bool(beta)) | (a & b & bool(alpha))  # type: ignore[no-any-return]
    if beta == 1 and x._dtype == a._dtype == b._dtype:
        return addcmul(x, a, b, value=alpha)
    return _weighed(x, beta, a * b, alpha)


@in_half
def addbmm(x: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * (the sum of the products of a batch of matrices)."""
    a, b = argument("addbmm", batch1), argument("addbmm", batch2)
    return _weighed(argument("addbmm", x), beta, a.bmm(b).sum(0), alpha)


def matrix_power(x: Any, n: int) -> Tensor:
    """A square matrix (..., m, m) multiplied ``n`` times with itself; its inverse if n < 0."""
    x, n = argument("matrix_power", x), integer("matrix_power", "n", n)
    if x.ndim < 2 or x._shape[-1] != x._shape[-2]:
        raise ShapeError(f"matrix_power takes square matrices, got shape {x.shape}")
    if n < 0:
        from fx import linalg

        x, n = linalg.inv(x), -n
    out = None
    while n:
        if n & 1:
            out = x if out is None else out @ x
        n >>= 1
        x = x @ x if n else x
    if out is not None:
        return out
    rows = as_tensor(range(x._shape[-1]))
    return cast(compare.equal(rows[:, None], rows), x._dtype).expand(x._shape)  # type: ignore[no-any-return]


def chain_matmul(*matrices: Any) -> Tensor:
    """The product of several matrices, in the cheapest order."""
    if len(matrices) == 1 and isinstance(matrices[0], tuple | list):
        matrices = tuple(matrices[0])
    if len(matrices) < 3:
        out = matrices[0]
        return out if len(matrices) == 1 else out @ matrices[1]
    from fx.ops.products.einsum import einsum

    letters = "abcdefghijklmnopqrstuvwxyz"[: len(matrices) + 1]
    pairs = ",".join(letters[i : i + 2] for i in range(len(matrices)))
    return einsum(f"{pairs}->{letters[0]}{letters[-1]}", *matrices)


__all__ = public(globals())
