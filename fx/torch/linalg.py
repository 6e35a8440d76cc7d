"""``torch.linalg``: what ``fx.linalg`` has by PyTorch's names of arguments."""

from __future__ import annotations

from typing import Any

import fx
from fx import linalg
from fx.linalg.solving import singular, solution
from fx.prims.linalg.verified import verified
from fx.tensor import Tensor
from fx.torch._decompositions import (
    eig,
    eigh,
    eigvals,
    eigvalsh,
    householder_product,
    lstsq,
    matrix_exp,
    matrix_rank,
    pinv,
    qr,
    svd,
    svdvals,
)  # fmt: skip
from fx.torch._functions import sharing

LinAlgError = linalg.LinAlgError
matmul = fx.matmul


# norms and products -----------------------------------------------------------------------------


def vector_norm(
    x: Any, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The ``ord``-norm of the elements along axes, of all of them unless told."""
    return linalg.vector_norm(x, axis=dim, keepdims=keepdim, ord=ord, dtype=dtype)


def matrix_norm(
    A: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """The norm of matrices: ``"fro"``, ``"nuc"``, 1, -1, 2, -2, inf or -inf."""
    return linalg.matrix_norm(A, keepdims=keepdim, ord=ord, axis=dim, dtype=dtype)


def norm(
    A: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """A vector norm, or of two axes (or a matrix and an ``ord``) the matrix norm."""
    return linalg.norm(A, ord, dim, keepdim, dtype=dtype)


def cond(A: Any, p: Any = None) -> Tensor:
    """The condition number in a norm."""
    return linalg.cond(A, p)


def cross(input: Any, other: Any, *, dim: int = -1) -> Tensor:
    """The cross product along an axis of size 3."""
    return linalg.cross(input, other, axis=dim)


def vecdot(x: Any, y: Any, *, dim: int = -1) -> Tensor:
    """The dot product along an axis; the first vector is conjugated."""
    return linalg.vecdot(x, y, axis=dim)


@sharing
def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices."""
    return fx.diagonal(A, offset, dim1, dim2)


def multi_dot(tensors: Any) -> Tensor:
    """The product of several matrices, in the cheapest order; the outer two may be vectors."""
    return linalg.multi_dot(tensors)


def matrix_power(A: Any, n: int) -> Tensor:
    """Square matrices multiplied ``n`` times with themselves; a negative n inverts."""
    return linalg.matrix_power(A, n)


def vander(x: Any, *, N: int | None = None) -> Tensor:
    """The powers 0, 1, 2 ... of the elements of vectors, as columns."""
    return linalg.vander(x, N=N)


# factorisations ---------------------------------------------------------------------------------


def cholesky(A: Any, *, upper: bool = False) -> Tensor:
    """The lower (or upper) factor of positive definite matrices."""
    return linalg.cholesky(A, upper=upper)


def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> linalg.CholeskyEx:
    """The same with ``info`` in place of an error."""
    return linalg.cholesky_ex(A, upper=upper, check_errors=check_errors)


def _pivoted(name: str, pivot: bool) -> None:
    if not pivot:
        raise RuntimeError(f"linalg.{name}: LU without pivoting is not implemented on the CPU")


def lu(A: Any, *, pivot: bool = True) -> linalg.LU:
    """P, L and U with A = P L U."""
    _pivoted("lu", pivot)
    return linalg.lu(A)


def lu_factor(A: Any, *, pivot: bool = True) -> linalg.LUFactor:
    """L and U in one matrix, and the pivots."""
    _pivoted("lu_factor", pivot)
    return linalg.lu_factor(A)


def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> linalg.LUFactorEx:
    """The same with ``info`` in place of an error."""
    _pivoted("lu_factor_ex", pivot)
    return linalg.lu_factor_ex(A, check_errors=check_errors)


def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """The solution of A X = B by what ``lu_factor`` gives of A."""
    return linalg.lu_solve(LU, pivots, B, left=left, adjoint=adjoint)


# systems, inverses, determinants ----------------------------------------------------------------


def _solved(name: str, A: Any, B: Any, left: bool) -> tuple[Tensor, Tensor]:
    """PyTorch takes B of the shape of A without its last axis for vectors."""
    vectors = B.ndim == 1 or (A.ndim - 1 == B.ndim and B.shape == A.shape[:-1])
    return solution(name, A, B, left, vectors)


def solve(A: Any, B: Any, *, left: bool = True) -> Tensor:
    """The solution of A X = B, or of X A = B."""
    x, info = _solved("linalg.solve", A, B, left)
    return verified(x, info, words=singular("torch.linalg.solve"))  # type: ignore[no-any-return]


def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> linalg.SolveEx:
    """The same with ``info`` in place of an error."""
    x, info = _solved("linalg.solve_ex", A, B, left)
    if check_errors:
        x = verified(x, info, words=singular("torch.linalg.solve_ex"))
    return linalg.SolveEx(x, info)


def solve_triangular(
    A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """The solution with triangular matrices."""
    return linalg.solve_triangular(A, B, upper=upper, left=left, unitriangular=unitriangular)


def inv(A: Any) -> Tensor:
    """The inverse of square matrices."""
    return linalg.inv(A)


def inv_ex(A: Any, *, check_errors: bool = False) -> linalg.InvEx:
    """The same with ``info`` in place of an error."""
    return linalg.inv_ex(A, check_errors=check_errors)


def det(A: Any) -> Tensor:
    """The determinant of square matrices."""
    return linalg.det(A)


def slogdet(A: Any) -> linalg.SlogdetResult:
    """The sign of the determinant and the logarithm of its absolute value."""
    return linalg.slogdet(A)


def ldl_factor(A: Any, *, hermitian: bool = False) -> linalg.LDLFactor:
    """Triangles and a block diagonal of symmetric matrices, in one matrix."""
    return linalg.ldl_factor(A, hermitian=hermitian)


def ldl_factor_ex(
    A: Any, *, hermitian: bool = False, check_errors: bool = False
) -> linalg.LDLFactorEx:
    """``ldl_factor`` with ``info``."""
    return linalg.ldl_factor_ex(A, hermitian=hermitian, check_errors=check_errors)


def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Tensor:
    """The solution of A X = B by what ``ldl_factor`` gives of A."""
    return linalg.ldl_solve(LD, pivots, B, hermitian=hermitian)


def tensorinv(A: Any, ind: int = 2) -> Tensor:
    """The inverse of ``tensordot`` with A."""
    return linalg.tensorinv(A, ind)


def tensorsolve(A: Any, B: Any, dims: Any = None) -> Tensor:
    """The X with tensordot(A, X, X.ndim) = B."""
    return linalg.tensorsolve(A, B, dims)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    from fx.torch._absent import ALONE

    advice = ALONE.get(name) or (
        f"what there is: {', '.join(__all__)}. For constants write "
        f"fx.from_numpy(numpy.linalg.{name}(x.numpy()))"
    )
    raise AttributeError(f"fx has no torch.linalg.{name}; {advice}")


__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh",
    "eigvals", "eigvalsh", "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex",
    "ldl_solve", "lstsq", "lu", "lu_factor",
    "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power",
    "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_ex",
    "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve", "vander", "vecdot",
    "vector_norm",
]  # fmt: skip
