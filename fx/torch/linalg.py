"""``torch.linalg``: what ``fx.linalg`` has by PyTorch's names of arguments."""

from __future__ import annotations

from typing import Any

import fx
from fx import linalg
from fx.errors import ShapeError
from fx.ops.operands import floating
from fx.ops.products.chains import chain_matmul, matrix_power
from fx.ops.shapes.assembly import vander as _powers
from fx.tensor import Tensor
from fx.torch._decompositions import eig, eigh, eigvals, eigvalsh, qr, svd, svdvals
from fx.torch._functions import sharing

matmul = fx.matmul
LinAlgError = fx.errors.LinAlgError


def cholesky(A: Any, *, upper: bool = False) -> Tensor:
    """The lower (or upper) factor of positive definite matrices; ``fx.linalg.cholesky``."""
    return linalg.cholesky(A, upper=upper)


def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> linalg.CholeskyEx:
    """The same with ``info`` in place of an error; ``fx.linalg.cholesky_ex``."""
    return linalg.cholesky_ex(A, upper=upper, check_errors=check_errors)


def vector_norm(
    x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The ``ord``-norm of the elements along axes, of all of them unless told."""
    x = floating("linalg.vector_norm", x)
    if dtype is not None:
        x = x.to(dtype)
    return fx.norm(x, ord, dim, keepdim)


def matrix_norm(
    A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of matrices: ``"fro"``, 1, -1, inf or -inf.

    Raises:
        ValueError: for the norms that need singular values.
    """
    x = floating("linalg.matrix_norm", A)
    if dtype is not None:
        x = x.to(dtype)
    rows, columns = (d % x.ndim for d in dim)
    if ord == "fro":
        return fx.norm(x, 2, (rows, columns), keepdim)
    if ord not in (1, -1, float("inf"), -float("inf")):
        raise ValueError(
            f"linalg.matrix_norm: fx has no singular values and so no norm {ord!r}; expected "
            f"'fro', 1, -1, inf or -inf"
        )
    along = rows if abs(ord) == 1 else columns
    other = columns if abs(ord) == 1 else rows
    sums = x.abs().sum(along, True)
    out = sums.amax(other, True) if ord > 0 else sums.amin(other, True)
    return out if keepdim else out.squeeze((rows, columns))


def norm(
    A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """A vector norm, or of two axes (or a matrix and an ``ord``) the matrix norm."""
    x = floating("linalg.norm", A)
    if ord is None:
        return vector_norm(x, 2, dim, keepdim, dtype=dtype)
    if isinstance(dim, tuple | list) and len(dim) == 2:
        return matrix_norm(x, ord, dim, keepdim, dtype=dtype)
    if dim is None and x.ndim == 2:
        return matrix_norm(x, ord, (0, 1), keepdim, dtype=dtype)
    if dim is None and x.ndim != 1:
        raise ShapeError(f"linalg.norm: with ord={ord!r}, shape {x.shape} needs dim=")
    return vector_norm(x, ord, dim, keepdim, dtype=dtype)


def cross(input: Any, other: Any, *, dim: int = -1) -> Tensor:
    """The cross product along an axis of size 3."""
    return fx.cross(input, other, dim)


def vecdot(x: Any, y: Any, *, dim: int = -1) -> Tensor:
    """The dot product along an axis; the first vector is conjugated."""
    return fx.vecdot(x, y, axis=dim)


@sharing
def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices."""
    return fx.diagonal(A, offset, dim1, dim2)


def multi_dot(tensors: Any) -> Tensor:
    """The product of several matrices, in the cheapest order; the outer two may be vectors."""
    first, last = tensors[0], tensors[-1]
    inner = list(tensors)
    if first.ndim == 1:
        inner[0] = first[None]
    if last.ndim == 1:
        inner[-1] = last[:, None]
    out = chain_matmul(inner)
    if last.ndim == 1:
        out = out[..., 0]
    return out[0] if first.ndim == 1 else out


def vander(x: Any, *, N: int | None = None) -> Tensor:
    """The powers 0, 1, 2 ... of a vector's elements as columns."""
    return _powers(x if x.ndim else x.reshape(1), N, increasing=True)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(
        f"fx has no torch.linalg.{name}: what there is: "
        f"{', '.join(__all__)}. For constants write fx.from_numpy(numpy.linalg.{name}(x.numpy()))"
    )


__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cross", "diagonal", "eig", "eigh", "eigvals",
    "eigvalsh", "matmul", "matrix_norm", "matrix_power", "multi_dot", "norm", "qr", "svd",
    "svdvals", "vander", "vecdot", "vector_norm",
]  # fmt: skip
