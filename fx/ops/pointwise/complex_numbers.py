"""Complex numbers: their parts, angles and signs, and pairs of numbers that are one."""

from __future__ import annotations

import math
from typing import Any

import fx.prims.compare as compare
import fx.prims.complex as complex_prims
import fx.prims.elementwise as prims
from fx import dtypes
from fx.errors import DTypeError, ShapeError
from fx.ops.autocasting import in_float32
from fx.ops.operands import argument, floating, public
from fx.ops.pointwise.elementwise import arctan2, conj, imag, real
from fx.ops.shapes.joining import stack
from fx.prims.creation import constant_like
from fx.tensor import Tensor


def angle(x: Any) -> Tensor:
    """The angle of complex numbers in radians; of real ones 0, or pi for negative ones.

    Example:
        >>> import fx
        >>> fx.angle(fx.tensor([1j, -1.0 + 0j]))
        tensor([1.5708, 3.1416])
    """
    x = floating("angle", x)
    if x._dtype in dtypes.COMPLEX:
        return arctan2(imag(x), real(x))
    flat = compare.where(x < 0, constant_like(math.pi, x), constant_like(0, x))
    return compare.where(compare.isnan(x), x, flat)


def complex(real: Any, imag: Any) -> Tensor:
    """Complex numbers of their parts.

    Example:
        >>> import fx
        >>> from fx.ops.pointwise.complex_numbers import complex
        >>> complex(fx.tensor(1.0), fx.tensor(2.0))
        tensor(1.+2.j)
    """
    a, b = argument("complex", real), argument("complex", imag)
    if a._dtype != b._dtype or a._dtype not in dtypes.FLOATING:
        raise DTypeError(
            f"complex takes two floating tensors of one dtype, got {a.dtype.name} and "
            f"{b.dtype.name}"
        )
    return complex_prims.complex(a, b)  # type: ignore[no-any-return]


@in_float32
def polar(abs: Any, angle: Any) -> Tensor:
    """Complex numbers of their absolute values and angles.

    Example:
        >>> import fx
        >>> fx.polar(fx.tensor(2.0), fx.tensor(0.0))
        tensor(2.+0.j)
    """
    r, phi = argument("polar", abs), argument("polar", angle)
    return complex(r * phi.cos(), r * phi.sin())


def view_as_real(x: Any) -> Tensor:
    """Complex numbers as pairs of real ones along a new last axis.

    Example:
        >>> import fx
        >>> fx.view_as_real(fx.tensor([1 + 2j]))
        tensor([[1., 2.]])
    """
    x = argument("view_as_real", x)
    if x._dtype not in dtypes.COMPLEX:
        raise DTypeError(f"view_as_real takes complex tensors, got {x.spec!r}")
    return stack([real(x), imag(x)], -1)


@in_float32
def view_as_complex(x: Any) -> Tensor:
    """Pairs of real numbers along the last axis as complex ones.

    Example:
        >>> import fx
        >>> fx.view_as_complex(fx.tensor([[1.0, 2.0]]))
        tensor([1.+2.j])
    """
    x = argument("view_as_complex", x)
    if not x.ndim or x._shape[-1] != 2:
        raise ShapeError(f"view_as_complex: the last axis must have size 2, got shape {x.shape}")
    return complex(x[..., 0], x[..., 1])


def sgn(x: Any) -> Tensor:
    """The sign; of a complex number itself divided by its absolute value, 0 for 0."""
    x = argument("sgn", x)
    if x._dtype == dtypes.bool_:
        return x & x  # type: ignore[no-any-return]
    if x._dtype not in dtypes.COMPLEX:
        return prims.sign(x)
    size = x.abs()
    zero = size == 0
    return compare.where(zero, constant_like(0, x), x / compare.where(zero, size + 1, size))


def conj_physical(x: Any) -> Tensor:
    """The complex conjugate."""
    return conj(x)


def isreal(x: Any) -> Tensor:
    """Whether each element has no imaginary part.

    Example:
        >>> import fx
        >>> fx.isreal(fx.tensor([1j, 2.0 + 0j]))
        tensor([False,  True])
    """
    x = argument("isreal", x)
    part = imag(x) if x._dtype in dtypes.COMPLEX else compare.astype(x, dtype=dtypes.bool_) & False
    return part == 0  # type: ignore[no-any-return]


__all__ = public(globals())
