"""Determinants and their logarithms."""

from __future__ import annotations

from typing import Any, NamedTuple

import fx.prims.elementwise as elementwise
from fx.linalg.operands import square
from fx.prims.linalg.det import det as determinant
from fx.prims.linalg.det import slogdet as parts
from fx.tensor import Tensor


class SlogdetResult(NamedTuple):
    """What ``slogdet`` gives."""

    sign: Tensor
    logabsdet: Tensor


def det(x: Any, /) -> Tensor:
    """The determinant of square matrices.

    Args:
        x: (*B, n, n). Where a matrix is exactly singular the gradient, its cofactors, is good to
            half of the digits.

    Returns:
        (*B).

    Raises:
        ShapeError: if ``x`` is no stack of square matrices.
        DTypeError: unless it is of float32, float64 or complex numbers.

    Source: Python Array API standard 2024.12, ``linalg.det``.

    Example:
        >>> import fx
        >>> fx.linalg.det(fx.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor(8.)
    """
    return determinant(square("linalg.det", x))  # type: ignore[no-any-return]


def slogdet(x: Any, /) -> SlogdetResult:
    """The sign of the determinant and the logarithm of its absolute value.

    Args:
        x: (*B, n, n).

    Returns:
        ``sign`` (*B), a complex number of size 1 of complex matrices, and ``logabsdet`` (*B), real;
        0 and -inf of a singular matrix.

    Source: Python Array API standard 2024.12, ``linalg.slogdet``.

    Example:
        >>> import fx
        >>> fx.linalg.slogdet(fx.eye(2)).logabsdet
        tensor(0.)
    """
    return SlogdetResult(*parts(square("linalg.slogdet", x)))


def logdet(x: Any, /) -> Tensor:
    """The logarithm of the determinant: NaN of real matrices where it is negative.

    Source: ``torch.logdet``.

    Example:
        >>> import fx
        >>> fx.linalg.logdet(fx.eye(2))
        tensor(0.)
    """
    sign, log = parts(square("linalg.logdet", x))
    if sign._dtype.kind == "c":
        return elementwise.log(sign) + log  # type: ignore[no-any-return]
    return log + elementwise.log(sign)  # type: ignore[no-any-return]
