"""Cholesky's factorisation."""

from __future__ import annotations

from typing import Any, NamedTuple

from fx.linalg.operands import square
from fx.prims.linalg.cholesky import cholesky as factored
from fx.prims.linalg.hermitian import hermitian
from fx.prims.linalg.stacks import adjoint
from fx.prims.linalg.verified import verified
from fx.tensor import Tensor

_NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite"
)


class CholeskyEx(NamedTuple):
    """What ``cholesky_ex`` gives."""

    L: Tensor
    info: Tensor


def _words(name: str) -> tuple[str, str]:
    one = f"{name}: {_NOT_POSITIVE} (the leading minor of order %lld is not positive-definite)."
    return one, f"{name}: (Batch element %lld): {_NOT_POSITIVE}."


def _factors(x: Tensor, upper: bool) -> tuple[Tensor, Tensor]:
    x = hermitian(x)
    factor, info = factored(adjoint(x) if upper else x)
    return factor, info


def cholesky(x: Any, /, *, upper: bool = False, lower: bool | None = None) -> Tensor:
    """The lower triangular L with a positive diagonal and x = L L^H.

    Args:
        x: (*B, n, n), Hermitian and positive definite; the triangle of the result is read alone.
            The derivative is that along Hermitian matrices.
        upper: the upper triangular U with x = U^H U instead.
        lower: the opposite of ``upper``, as SciPy has it (whose default is False, of other rooms).

    Returns:
        (*B, n, n), of the dtype of ``x``.

    Raises:
        LinAlgError: if a matrix is not positive definite.
        ShapeError: if ``x`` is no stack of square matrices.
        DTypeError: unless it is of float32, float64 or complex numbers.

    Source: Python Array API standard 2024.12, ``linalg.cholesky``; ``torch.linalg.cholesky``.

    Example:
        >>> import fx
        >>> fx.linalg.cholesky(fx.tensor([[4.0, 2.0], [2.0, 10.0]]))
        tensor([[2., 0.],
                [1., 3.]])
    """
    upper = upper if lower is None else not lower
    factor, info = _factors(square("linalg.cholesky", x), upper)
    factor = verified(factor, info, words=_words("linalg.cholesky"))
    return adjoint(factor) if upper else factor


def cholesky_ex(x: Any, /, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:
    """``cholesky`` that tells in numbers where there is no factor.

    Args:
        x, upper: as of ``cholesky``.
        check_errors: raise an error as ``cholesky`` does.

    Returns:
        ``L`` (*B, n, n), NaN where there is none, and ``info`` (*B), int32: the order of the first
        leading minor that is not positive, or 0.

    Example:
        >>> import fx
        >>> fx.linalg.cholesky_ex(fx.tensor([[1.0, 2.0], [2.0, 1.0]])).info
        tensor(2, dtype=fx.int32)
    """
    factor, info = _factors(square("linalg.cholesky_ex", x), upper)
    if check_errors:
        factor = verified(factor, info, words=_words("linalg.cholesky_ex"))
    return CholeskyEx(adjoint(factor) if upper else factor, info)
