"""NumPy's names of functions of elements."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from typing import Any

import numpy as np

from fx import dtypes
from fx.config import default_dtype
from fx.errors import DTypeError, ShapeError
from fx.ops.axes import normal_axis
from fx.ops.convert import as_tensor
from fx.ops.given import listed
from fx.ops.indexing.searching import searchsorted, where
from fx.ops.operands import argument, cast, floating, promoted
from fx.ops.pointwise import elementwise
from fx.ops.pointwise.torch_names import deg2rad, ldexp, rad2deg
from fx.ops.shapes.joining import concat
from fx.ops.shapes.manipulation import moveaxis
from fx.prims.creation import constant_like
from fx.prims.fused import fuse
from fx.tensor import Tensor

degrees, radians = rad2deg, deg2rad
conjugate = elementwise.conj
invert = elementwise.bitwise_invert
left_shift, right_shift = elementwise.bitwise_left_shift, elementwise.bitwise_right_shift
mod = elementwise.remainder
around = elementwise.round


def float_(x: Any) -> Tensor:
    """A tensor of the default floating dtype.

    Example:
        >>> import fx
        >>> fx.float_([1, 2])
        tensor([1., 2.])
    """
    return as_tensor(x, dtype=default_dtype())


def rint(x: Any) -> Tensor:
    """The nearest whole numbers, halves to even.

    Example:
        >>> import fx
        >>> fx.rint(fx.tensor([0.5, 1.7]))
        tensor([0., 2.])
    """
    return elementwise.round(floating("rint", x))


def fabs(x: Any) -> Tensor:
    """The magnitudes of real numbers, floating.

    Example:
        >>> import fx
        >>> fx.fabs(fx.tensor([-2, 3]))
        tensor([2., 3.])
    """
    return elementwise.abs(floating("fabs", x))


def cbrt(x: Any) -> Tensor:
    """The real cube roots.

    Example:
        >>> import fx
        >>> fx.cbrt(fx.tensor([-8.0, 27.0]))
        tensor([-2.,  3.])
    """
    x = floating("cbrt", x)
    if x._dtype in dtypes.COMPLEX:
        raise DTypeError(f"cbrt takes real numbers, got {x.spec!r}; write x ** (1 / 3)")
    size = elementwise.abs(x)
    none = (size == 0) | ~elementwise.isfinite(x)
    safe = where(none, constant_like(1.0, x), size)
    root = safe ** (1.0 / 3.0)
    root = root - (root * root * root - safe) / (3.0 * root * root)  # the power rounds 1 / 3
    return where(none, x, elementwise.copysign(root, x))


def divmod(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """``floor_divide`` and ``remainder``.

    Example:
        >>> import fx
        >>> fx.divmod(fx.tensor([7, -7]), 3)
        (tensor([ 2, -3]), tensor([1, 2]))
    """
    return elementwise.floor_divide(x, y), elementwise.remainder(x, y)


def modf(x: Any) -> tuple[Tensor, Tensor]:
    """The fractions and the whole parts, both with the sign of ``x``.

    Example:
        >>> import fx
        >>> fx.modf(fx.tensor([1.5, -2.25]))
        (tensor([ 0.5000, -0.2500]), tensor([ 1., -2.]))
    """
    x = floating("modf", x)
    whole = elementwise.trunc(x)
    endless = elementwise.isinf(x)
    fraction = where(endless, constant_like(0.0, x), x - whole)
    return elementwise.copysign(fraction, x), whole


def frexp(x: Any) -> tuple[Tensor, Tensor]:
    """Mantissas of a magnitude in [0.5, 1) and exponents (int32): ``x = m * 2**e``.

    Example:
        >>> import fx
        >>> fx.frexp(fx.tensor([6.0, 0.0]))
        (tensor([0.7500, 0.0000]), tensor([3, 0], dtype=fx.int32))
    """
    x = floating("frexp", x)
    if x._dtype in dtypes.COMPLEX:
        raise DTypeError(f"frexp takes real numbers, got {x.spec!r}; write x.real")
    return _frexp(x)  # type: ignore[no-any-return]


def _frexp_in_steps(x: Tensor) -> tuple[Tensor, Tensor]:
    none = (x == 0) | ~elementwise.isfinite(x)
    safe = where(none, constant_like(1.0, x), x)
    scale = {2: 2**12, 4: 2**30, 8: 2**60}[x._dtype.itemsize]
    tiny = elementwise.abs(safe) < 1.0 / scale  # subnormal numbers have no exponent of their own
    safe = where(tiny, safe * scale, safe)
    e = elementwise.floor(elementwise.log2(elementwise.abs(safe))) + 1.0
    m = ldexp(safe, -e)
    high = elementwise.abs(m) >= 1.0  # the logarithm may round up or down
    m, e = where(high, m * 0.5, m), where(high, e + 1.0, e)
    low = elementwise.abs(m) < 0.5
    m, e = where(low, m * 2.0, m), where(low, e - 1.0, e)
    e = where(tiny, e - float(scale.bit_length() - 1), e)
    e = where(none, constant_like(0.0, e), e)
    return where(none, x, m), cast(e, dtypes.int32)


def _frexp_of_array(x: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    return None if x.dtype.kind == "V" else np.frexp(x)  # NumPy has none of bfloat16


def _frexp_vjp(needs: Any, x: Tensor) -> Any:
    def pullback(cts: Any) -> tuple[Tensor | None]:
        if cts[0] is None:
            return (None,)
        one = constant_like(1.0, x)
        kept = (x == 0) | ~elementwise.isfinite(x)  # these are mantissas themselves
        # the exponent is a step: what is left is the power of two, which the quotient is
        return (cts[0] * where(kept, one, _frexp(x)[0] / where(kept, one, x)),)

    return pullback


_frexp = fuse(
    "frexp", cpu=_frexp_of_array, reference=_frexp_in_steps, vjp=_frexp_vjp, multiple=True,
    torch_name="Frexp",
)  # fmt: skip


def bitwise_count(x: Any) -> Tensor:
    """How many bits of the magnitude of each integer are set: uint8.

    Example:
        >>> import fx
        >>> fx.bitwise_count(fx.tensor([7, -8]))
        tensor([3, 1], dtype=fx.uint8)
    """
    x = argument("bitwise_count", x)
    if x._dtype not in dtypes.INTEGRAL:
        raise DTypeError(f"bitwise_count takes integers, got {x.spec!r}")
    if x._dtype in dtypes.SIGNED:
        x = elementwise.abs(x)
    count = constant_like(0, x)
    for i in range(8 * x._dtype.itemsize):
        bit = elementwise.bitwise_right_shift(x, constant_like(i, x))
        count = count + elementwise.bitwise_and(bit, constant_like(1, x))
    return cast(count, dtypes.uint8)


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is complex.

    Example:
        >>> import fx
        >>> fx.iscomplexobj(fx.tensor([2.0 + 0j]))
        True
    """
    return getattr(x, "dtype", as_tensor(x).dtype) in dtypes.COMPLEX


def isrealobj(x: Any) -> bool:
    """Whether the dtype is not complex.

    Example:
        >>> import fx
        >>> fx.isrealobj(fx.tensor([2.0]))
        True
    """
    return not iscomplexobj(x)


def iscomplex(x: Any) -> Tensor:
    """Whether each element has an imaginary part.

    Example:
        >>> import fx
        >>> fx.iscomplex(fx.tensor([1j, 2.0 + 0j]))
        tensor([ True, False])
    """
    x = argument("iscomplex", x)
    if x._dtype in dtypes.COMPLEX:
        return elementwise.imag(x) != 0
    return (x != x) & (x == x)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """Of several choices, at each place the first whose condition holds.

    Args:
        condlist: bool tensors.
        choicelist: as many tensors or numbers; all broadcast together.
        default: what stands where no condition holds.

    Raises:
        ShapeError: if the lists are not of one length, or empty.

    Example:
        >>> import fx
        >>> x = fx.arange(5)
        >>> fx.select([x < 2, x > 3], [x, x * 10], default=-1)
        tensor([ 0,  1, -1, -1, 40])
    """
    if len(condlist) != len(choicelist) or not condlist:
        raise ShapeError(
            f"select takes as many choices as conditions, got {len(condlist)} conditions and "
            f"{len(choicelist)} choices"
        )
    *choices, out = promoted("select", *choicelist, default)
    for condition, choice in zip(reversed(condlist), reversed(choices)):
        out = where(condition, choice, out)
    return out


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Tensor:
    """A function by cases: at each place the last whose condition holds.

    Args:
        x: any shape.
        condlist: bool tensors of its shape.
        funclist: for each a function of the whole tensor or a number; one more is the default.

    Example:
        >>> import fx
        >>> fx.piecewise(fx.tensor([-2.0, 3.0]), [fx.tensor([True, False])], [lambda x: -x, 0.0])
        tensor([2., 0.])
    """
    x = argument("piecewise", x)
    conditions = list(condlist) if isinstance(condlist, list | tuple) else [condlist]
    cases = listed("piecewise", "funclist", funclist)
    if len(cases) not in (len(conditions), len(conditions) + 1):
        raise ShapeError(
            f"piecewise takes as many functions as conditions, or one more, got {len(conditions)} "
            f"conditions and {len(cases)} functions"
        )
    value = lambda f: cast(as_tensor(f(x, *args, **kw) if callable(f) else f), x._dtype)
    out = value(cases[-1]) if len(cases) > len(conditions) else constant_like(0, x)
    for condition, case in zip(conditions, cases):
        out = where(condition, value(case), out)
    return out


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None
) -> Tensor:
    """Values between points (xp, fp) along straight lines.

    Args:
        x: places, any shape.
        xp: (n,) places of the points, in increasing order (in any order with ``period``).
        fp: (n,) values there.
        left, right: values before the first and after the last point; those of these unless told.
        period: the length after which the places repeat.

    Example:
        >>> import fx
        >>> fx.interp(
        ...     fx.tensor([0.5, 2.0, 9.0]), fx.tensor([0.0, 1.0, 3.0]), fx.tensor([0.0, 2.0, 6.0])
        ... )
        tensor([1., 4., 6.])
    """
    x, xp, fp = promoted("interp", *[floating("interp", t) for t in (x, xp, fp)])
    if xp.ndim != 1 or xp.shape != fp.shape or not xp.shape[0]:
        raise ShapeError(
            f"interp takes points xp and fp of one shape (n,), n > 0, got {xp.shape} and {fp.shape}"
        )
    if period is not None:
        x, xp = elementwise.remainder(x, period), elementwise.remainder(xp, period)
        order = xp.argsort()
        xp, fp = xp[order], fp[order]
        xp = concat([xp[-1:] - period, xp, xp[:1] + period])
        fp = concat([fp[-1:], fp, fp[:1]])
    n = xp.shape[0]
    if n == 1:
        out = fp[0] + constant_like(0, x)
    else:
        i = searchsorted(xp, x, right=True).clamp(1, n - 1)
        x0, f0 = xp[i - 1], fp[i - 1]
        width = xp[i] - x0
        flat = width == 0
        share = (x - x0) / where(flat, constant_like(1, width), width)
        out = where(flat, f0, f0 + share * (fp[i] - f0))
        out = where(x > xp[-1], fp[-1], out)
        out = where(x < xp[0], fp[0], out)
    if period is None:
        if left is not None:
            out = where(x < xp[0], left, out)
        if right is not None:
            out = where(x > xp[-1], right, out)
    return out


def unwrap(
    p: Any, discont: float | None = None, axis: int = -1, *, period: float = 2 * pi
) -> Tensor:
    """Angles without jumps: neighbours differ by at most half a period.

    Args:
        p: angles.
        discont: the smallest jump that is taken away; half a period unless told.
        axis: along which they follow each other.
        period: the size of a whole turn.

    Example:
        >>> import fx
        >>> fx.unwrap(fx.tensor([0.0, 3.0, 6.0, 2.0]), period=6.0)
        tensor([0., 3., 6., 8.])
    """
    x = floating("unwrap", p)
    at = normal_axis("unwrap", axis, x.shape)
    x = moveaxis(x, at, -1)
    step = x.diff(dim=-1)
    half = period / 2
    turned = elementwise.remainder(step + half, period) - half
    turned = where((turned == -half) & (step > 0), half, turned)
    jump = elementwise.abs(step) < (half if discont is None else max(discont, half))
    change = where(jump, 0.0, turned - step).cumsum(-1)
    return moveaxis(concat([x[..., :1], x[..., 1:] + change], -1), -1, at)
