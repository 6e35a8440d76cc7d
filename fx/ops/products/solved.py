"""Methods of linear algebra by PyTorch's names; ``fx.linalg`` loads when one is first called."""

from __future__ import annotations

from typing import Any

from fx.ops.operands import public
from fx.tensor import Tensor


def _linalg() -> Any:
    from fx import linalg

    return linalg


def cholesky(x: Any, upper: bool = False) -> Tensor:
    """The Cholesky factor; ``fx.linalg.cholesky``."""
    return _linalg().cholesky(x, upper=upper)  # type: ignore[no-any-return]


def cholesky_inverse(x: Any, upper: bool = False) -> Tensor:
    """The inverse of what has the Cholesky factor ``x``; ``fx.linalg.cholesky_inverse``."""
    return _linalg().cholesky_inverse(x, upper=upper)  # type: ignore[no-any-return]


def cholesky_solve(x: Any, input2: Any, upper: bool = False) -> Tensor:
    """The solution with what has the factor ``input2``; ``fx.linalg.cholesky_solve``."""
    return _linalg().cholesky_solve(x, input2, upper=upper)  # type: ignore[no-any-return]


def triangular_solve(
    x: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    """The solution of A y = x with triangles of A (or of its transpose), and A."""
    a, upper = (A.mT, not upper) if transpose else (A, upper)
    return _linalg().solve_triangular(a, x, upper=upper, unitriangular=unitriangular), A


def lu_solve(x: Any, LU_data: Any, LU_pivots: Any) -> Tensor:
    """The solution with what has these factors; ``fx.linalg.lu_solve``."""
    return _linalg().lu_solve(LU_data, LU_pivots, x)  # type: ignore[no-any-return]


def inverse(x: Any) -> Tensor:
    """The inverse of square matrices; ``fx.linalg.inv``."""
    return _linalg().inv(x)  # type: ignore[no-any-return]


def det(x: Any) -> Tensor:
    """The determinant; ``fx.linalg.det``."""
    return _linalg().det(x)  # type: ignore[no-any-return]


def logdet(x: Any) -> Tensor:
    """The logarithm of the determinant; ``fx.linalg.logdet``."""
    return _linalg().logdet(x)  # type: ignore[no-any-return]


def slogdet(x: Any) -> Any:
    """The determinant's sign and the logarithm of its size; ``fx.linalg.slogdet``."""
    return _linalg().slogdet(x)


__all__ = public(globals())
