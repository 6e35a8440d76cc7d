"""What the functions of ``fx.linalg`` take: matrices of floating or complex numbers."""

from __future__ import annotations

from typing import Any

from fx.dtypes import COMPLEX, float32, float64
from fx.errors import DTypeError, ShapeError
from fx.ops.operands import argument
from fx.tensor import Tensor

_TAKEN = COMPLEX | {float32, float64}


def inexact(name: str, x: Any) -> Tensor:
    """``x`` as a tensor of float32, float64 or complex numbers.

    Raises:
        DTypeError: for another dtype.
    """
    x = argument(name, x)
    dtype = x._dtype
    if dtype in _TAKEN:
        return x
    if dtype.kind in "iub":
        raise DTypeError(
            f"{name}: Expected a floating point or complex tensor as input. Got {dtype.name}; "
            f"write x.astype(fx.float32)"
        )
    raise DTypeError(
        f"{name}: Low precision dtypes not supported. Got {dtype.name}; write x.astype(fx.float32)"
    )


def matrices(name: str, x: Any, letter: str = "A") -> Tensor:
    """``x`` as a stack of matrices (*B, m, n).

    Raises:
        ShapeError: if it has fewer than two axes.
        DTypeError: unless it is of float32, float64 or complex numbers.
    """
    x = inexact(name, x)
    if len(x._shape) < 2:
        raise ShapeError(
            f"{name}: The input tensor {letter} must have at least 2 dimensions, got {x.shape}"
        )
    return x


def square(name: str, x: Any, letter: str = "A") -> Tensor:
    """``x`` as a stack of square matrices (*B, n, n).

    Raises:
        ShapeError: if it is not.
        DTypeError: unless it is of float32, float64 or complex numbers.
    """
    x = matrices(name, x, letter)
    m, n = x._shape[-2:]
    if m != n:
        raise ShapeError(
            f"{name}: {letter} must be batches of square matrices, but they are {m} by {n} matrices"
        )
    return x
