"""More elementwise functions in PyTorch's names, and products of matrices made of others."""

from __future__ import annotations

import math
from typing import Any

import fx.prims.compare as compare
import fx.prims.elementwise as prims
import fx.prims.special as special
from fx import dtypes
from fx.errors import DTypeError, ShapeError
from fx.ops.autocasting import in_float32, in_half
from fx.ops.axes import integer, normal_axis
from fx.ops.convert import as_tensor
from fx.ops.creation import arange
from fx.ops.elementwise import arctan2, conj, imag, real
from fx.ops.joining import stack
from fx.ops.manipulation import expand_dims
from fx.ops.norms import norm
from fx.ops.operands import argument, cast, floating, operands, public
from fx.prims.creation import constant_like
from fx.tensor import Tensor

# angles and complex numbers ---------------------------------------------------------------------


def deg2rad(x: Any) -> Tensor:
    """Degrees as radians."""
    return floating("deg2rad", x) * (math.pi / 180)  # type: ignore[no-any-return]


def rad2deg(x: Any) -> Tensor:
    """Radians as degrees."""
    return floating("rad2deg", x) * (180 / math.pi)  # type: ignore[no-any-return]


def angle(x: Any) -> Tensor:
    """The angle of complex numbers in radians; of real ones 0, or pi for negative ones."""
    x = floating("angle", x)
    if x._dtype in dtypes.COMPLEX:
        return arctan2(imag(x), real(x))
    flat = compare.where(x < 0, constant_like(math.pi, x), constant_like(0, x))
    return compare.where(compare.isnan(x), x, flat)


def complex(real: Any, imag: Any) -> Tensor:
    """Complex numbers of their parts.

    Example:
        >>> import fx
        >>> from fx.ops.pointwise_more import complex
        >>> complex(fx.tensor(1.0), fx.tensor(2.0))
        tensor(1.+2.j)
    """
    a, b = argument("complex", real), argument("complex", imag)
    if a._dtype != b._dtype or a._dtype not in dtypes.FLOATING:
        raise DTypeError(
            f"complex takes two floating tensors of one dtype, got {a.dtype.name} and "
            f"{b.dtype.name}"
        )
    return a + b * 1j  # type: ignore[no-any-return]


@in_float32
def polar(abs: Any, angle: Any) -> Tensor:
    """Complex numbers of their absolute values and angles."""
    r, phi = argument("polar", abs), argument("polar", angle)
    return complex(r * phi.cos(), r * phi.sin())


def view_as_real(x: Any) -> Tensor:
    """Complex numbers as pairs of real ones along a new last axis."""
    x = argument("view_as_real", x)
    if x._dtype not in dtypes.COMPLEX:
        raise DTypeError(f"view_as_real takes complex tensors, got {x.spec!r}")
    return stack([real(x), imag(x)], -1)


@in_float32
def view_as_complex(x: Any) -> Tensor:
    """Pairs of real numbers along the last axis as complex ones."""
    x = argument("view_as_complex", x)
    if not x.ndim or x._shape[-1] != 2:
        raise ShapeError(f"view_as_complex: the last axis must have size 2, got shape {x.shape}")
    return complex(x[..., 0], x[..., 1])


def sgn(x: Any) -> Tensor:
    """The sign; of a complex number itself divided by its absolute value, 0 for 0."""
    x = argument("sgn", x)
    if x._dtype not in dtypes.COMPLEX:
        return prims.sign(x)
    size = x.abs()
    zero = size == 0
    return compare.where(zero, constant_like(0, x), x / compare.where(zero, size + 1, size))


def conj_physical(x: Any) -> Tensor:
    """The complex conjugate."""
    return conj(x)


# real numbers -----------------------------------------------------------------------------------


def float_power(x: Any, exponent: Any) -> Tensor:
    """x ** exponent in float64 (complex128 for complex numbers)."""
    x, y = operands("float_power", x, exponent)
    wide = dtypes.complex128 if x.dtype in dtypes.COMPLEX else dtypes.float64
    return cast(x, wide) ** cast(y, wide)  # type: ignore[no-any-return]


def fmax(x: Any, other: Any) -> Tensor:
    """The larger of each pair; where one is NaN the other."""
    x, y = operands("fmax", x, other)
    if x.dtype not in dtypes.FLOATING:
        return prims.maximum(x, y)
    return compare.where((x >= y) | compare.isnan(y), x, y)


def fmin(x: Any, other: Any) -> Tensor:
    """The smaller of each pair; where one is NaN the other."""
    x, y = operands("fmin", x, other)
    if x.dtype not in dtypes.FLOATING:
        return prims.minimum(x, y)
    return compare.where((x <= y) | compare.isnan(y), x, y)


def heaviside(x: Any, values: Any) -> Tensor:
    """0 for negative numbers, 1 for positive ones, ``values`` for 0."""
    x, v = operands("heaviside", x, values)
    step = compare.where(x > 0, constant_like(1, x), constant_like(0, x))
    return compare.where(x == 0, v, compare.where(x != x, x, step))


def ldexp(x: Any, other: Any) -> Tensor:
    """x * 2 ** other."""
    return floating("ldexp", x) * prims.exp2(floating("ldexp", other))  # type: ignore[no-any-return]


def logaddexp2(x: Any, other: Any) -> Tensor:
    """log2(2 ** x + 2 ** other), without overflow."""
    x, y = operands("logaddexp2", x, other, True)
    return prims.logaddexp(x * math.log(2), y * math.log(2)) / math.log(2)  # type: ignore[no-any-return]


def sinc(x: Any) -> Tensor:
    """sin(pi x) / (pi x), 1 at 0."""
    x = floating("sinc", x)
    if x.dtype.itemsize == 2:
        return cast(sinc(cast(x, dtypes.float32)), x.dtype)
    t = x * math.pi
    near = prims.abs(t) < 0.25  # where the slope of the quotient is a difference of two like ones
    square = prims.square(compare.where(near, t, constant_like(0, t)))
    series = constant_like(0, t)
    for k in range(6, 0, -1):  # 1 - t**2 / 3! + t**4 / 5! - ...
        series = (1.0 - series) * square / (2 * k * (2 * k + 1))
    t = compare.where(near, constant_like(1, t), t)
    return compare.where(near, 1.0 - series, prims.sin(t) / t)


def isposinf(x: Any) -> Tensor:
    """Whether each element is positive infinity."""
    return argument("isposinf", x) == math.inf  # type: ignore[no-any-return]


def isneginf(x: Any) -> Tensor:
    """Whether each element is negative infinity."""
    return argument("isneginf", x) == -math.inf  # type: ignore[no-any-return]


def isreal(x: Any) -> Tensor:
    """Whether each element has no imaginary part."""
    x = argument("isreal", x)
    part = imag(x) if x._dtype in dtypes.COMPLEX else compare.astype(x, dtype=dtypes.bool_) & False
    return part == 0  # type: ignore[no-any-return]


def is_nonzero(x: Any) -> bool:
    """Whether the one element of a tensor is not 0.

    Raises:
        RuntimeError: if it has not exactly one.
    """
    x = argument("is_nonzero", x)
    if x.numel() != 1:
        raise RuntimeError(f"is_nonzero takes a tensor of one element, got shape {x.shape}")
    return bool(x)


def _integers(name: str, x: Any, y: Any) -> tuple[Tensor, Tensor]:
    x, y = operands(name, x, y)
    if x.dtype not in dtypes.INTEGRAL:
        raise DTypeError(f"{name} takes integers, got {x.dtype.name}; write x.astype(fx.int64)")
    return x.abs(), y.abs()


def gcd(x: Any, other: Any) -> Tensor:
    """The greatest common divisor of each pair of integers; 0 for two zeros.

    Example:
        >>> import fx
        >>> from fx.ops.pointwise_more import gcd
        >>> gcd(fx.tensor([12, 7]), 8)
        tensor([4, 1])
    """
    from fx.transforms import while_loop

    def step(pair: Any) -> Any:
        a, b = pair
        zero = b == 0
        rest = a % compare.where(zero, constant_like(1, b), b)
        return compare.where(zero, a, b), compare.where(zero, b, rest)

    a, b = _integers("gcd", x, other)
    a, b = a + b * 0, b + a * 0  # both in the broadcast shape
    found = while_loop(lambda pair: (pair[1] != 0).any(), step, (a, b))[0]
    return prims.abs(found)  # of the smallest integer, which has no abs, remainders are negative


def lcm(x: Any, other: Any) -> Tensor:
    """The least common multiple of each pair of integers; 0 where one is 0."""
    a, b = _integers("lcm", x, other)
    divisor = gcd(a, b)
    return a // compare.where(divisor == 0, constant_like(1, divisor), divisor) * b  # type: ignore[no-any-return]


def mvlgamma(x: Any, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension ``p``, at least 1."""
    x, p = floating("mvlgamma", x), integer("mvlgamma", "p", p)
    if p < 1:
        raise ShapeError(f"mvlgamma: p must be at least 1, got {p}")
    halves = arange(p, device=x.device) * constant_like(0.5, x)
    parts = special.lgamma(expand_dims(x, -1) - halves)  # (..., p)
    return parts.sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


def hardshrink(x: Any, lambd: float = 0.5) -> Tensor:
    """The elements outside [-lambd, lambd], 0 for the others."""
    x = floating("hardshrink", x)
    return compare.where((x > lambd) | (x < -lambd) | (x != x), x, constant_like(0, x))


def rsub(x: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """other - alpha * x."""
    return other - argument("rsub", x) * alpha  # type: ignore[no-any-return]


def renorm(x: Any, p: float, dim: int, maxnorm: float) -> Tensor:
    """The slices along an axis, those whose ``p``-norm exceeds ``maxnorm`` scaled down to it."""
    x = floating("renorm", x)
    at = normal_axis("renorm", dim, x._shape)
    others = tuple([i for i in range(x.ndim) if i != at])
    size = norm(x, p, others, True)  # with the slope 0 where all is 0
    scale = compare.where(size > maxnorm, maxnorm / (size + 1e-7), constant_like(1, size))
    return x * scale  # type: ignore[no-any-return]


# products ---------------------------------------------------------------------------------------


def _weighed(x: Any, beta: Any, product: Tensor, alpha: Any) -> Tensor:
    product = product if alpha == 1 else product * alpha
    if beta == 0:  # NaN in x is not seen, as in BLAS
        return product
    return product + (x if beta == 1 else x * beta)  # type: ignore[no-any-return]


def addr(x: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * (the outer product of two vectors)."""
    a, b = argument("addr", vec1), argument("addr", vec2)
    return _weighed(argument("addr", x), beta, a[:, None] * b, alpha)


@in_half
def addbmm(x: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * x + alpha * (the sum of the products of a batch of matrices)."""
    a, b = argument("addbmm", batch1), argument("addbmm", batch2)
    return _weighed(argument("addbmm", x), beta, a.bmm(b).sum(0), alpha)


def matrix_power(x: Any, n: int) -> Tensor:
    """A square matrix (..., m, m) multiplied ``n`` times with itself; ``n`` is not negative."""
    x, n = argument("matrix_power", x), integer("matrix_power", "n", n)
    if x.ndim < 2 or x._shape[-1] != x._shape[-2]:
        raise ShapeError(f"matrix_power takes square matrices, got shape {x.shape}")
    if n < 0:
        raise ValueError(f"matrix_power: n must not be negative, got {n}: fx has no inverse")
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
    from fx.ops.einsum import einsum

    letters = "abcdefghijklmnopqrstuvwxyz"[: len(matrices) + 1]
    pairs = ",".join(letters[i : i + 2] for i in range(len(matrices)))
    return einsum(f"{pairs}->{letters[0]}{letters[-1]}", *matrices)


__all__ = public(globals())
