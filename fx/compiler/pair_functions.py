"""Functions of complex numbers by real ones, with the special values of C99, Annex G.

What overflows on the way to a finite result is scaled: ``exp`` and its kin take out a factor
exp(64) where the exponent is larger, roots and logarithms take out powers of two. The square root
and the hyperbolic tangent follow W. Kahan, "Branch Cuts for Complex Elementary Functions", 1987.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fx.compiler.real_terms import Parts, Real
from fx.dtypes import bool_

_TAKEN = 64.0  # exponents above it are taken down by as much


def _infinite(x: Real) -> Real:
    return x("isinf", dtype=bool_)


def _finite(x: Real) -> Real:
    return x("isfinite", dtype=bool_)


def _grown(x: Real) -> tuple[Real, Real]:
    """exp(x) as a product, whose second factor is to be multiplied in last."""
    large = x.is_("greater", _TAKEN)
    return large.pick(x - _TAKEN, x)("exp"), large.pick(x.like(math.exp(_TAKEN)), 1)


def exp(z: Parts) -> Parts:
    """e ** z."""
    x, y = z
    size, factor = _grown(x)
    # an infinite x tells a part where y is no number; that of y = 0 is real
    lost = ~_finite(y) & _infinite(x)
    limit = x.is_("less", 0).pick(x.like(0), x)
    real = lost.pick(limit, size * y("cos") * factor)
    turned = size * y("sin") * factor
    imaginary = (lost & x.is_("less", 0)).pick(x.like(0), turned)
    return real, y.is_("equal", 0).pick(y, imaginary)


def exp2(z: Parts) -> Parts:
    """2 ** z."""
    return exp((z[0] * math.log(2.0), z[1] * math.log(2.0)))


def _scales(dtype: Any) -> tuple[float, float]:
    """What is above the first and below the second is scaled before it is squared."""
    info = np.finfo(dtype)
    return float(info.max) / 8, float(info.tiny) * 2.0 ** (info.nmant + 4)


def log(z: Parts) -> Parts:
    """The logarithm whose imaginary part is the angle."""
    x, y = z
    p, q = abs(x), abs(y)
    large = p("maximum", q).is_("greater", _scales(x.dtype)[0])
    down = large.pick(x.like(0.25), 1)
    size = (p * down)("hypot", q * down)
    shift = large.pick(x.like(math.log(4.0)), 0)
    # near 1 what the size differs by from 1 is known better than the size
    near = size.is_("greater", 0.7) & size.is_("less", 1.5)
    most, least = p.is_("less", q).pick(q, p), p.is_("less", q).pick(p, q)
    rest = near.pick((most - 1) * (most + 1) + least * least, 0)
    real = near.pick(rest("log1p") * 0.5, size("log") + shift)
    return real, y("arctan2", x)


def _log_to(base: float) -> Any:
    def to_base(z: Parts) -> Parts:
        real, imaginary = log(z)
        factor = 1 / math.log(base)
        return real * factor, imaginary * factor

    return to_base


log2, log10 = _log_to(2.0), _log_to(10.0)


def sqrt(z: Parts) -> Parts:
    """The root in the right half of the plane."""
    x, y = z
    p, q = abs(x), abs(y)
    above, below = _scales(x.dtype)
    most = p("maximum", q)
    large, small = most.is_("greater", above), most.is_("less", below)
    digits = int(np.finfo(x.dtype).nmant) // 2 + 4
    up = large.pick(x.like(0.0625), small.pick(x.like(4.0**digits), 1))
    down = large.pick(x.like(4.0), small.pick(x.like(2.0**-digits), 1))
    p, q = p * up, q * up
    size = ((p + p("hypot", q)) * 0.5)("sqrt")
    other = size.is_("equal", 0).pick(size, q / (size + size))
    right = ~x("signbit", dtype=bool_)
    real, imaginary = right.pick(size, other) * down, right.pick(other, size) * down
    endless = _infinite(y)
    return endless.pick(abs(y), real), endless.pick(y, imaginary("copysign", y))


def _hyperbolic(x: Real) -> tuple[Real, Real, Real]:
    """cosh x and sinh x, and a factor that is to be multiplied in last."""
    size = abs(x)
    large = size.is_("greater", _TAKEN)
    grown = (size - _TAKEN)("exp") * 0.5
    return (
        large.pick(grown, x("cosh")),
        large.pick(grown("copysign", x), x("sinh")),
        large.pick(x.like(math.exp(_TAKEN)), 1),
    )


def _times(x: Real, y: Real) -> Real:
    """x * y, of which 0 times what is not finite is 0."""
    one = x.like(1)
    left = (y.is_("equal", 0) & ~_finite(x)).pick(one("copysign", x), x)
    return left * (x.is_("equal", 0) & ~_finite(y)).pick(one("copysign", y), y)


def cosh(z: Parts) -> Parts:
    """cosh x cos y + i sinh x sin y."""
    x, y = z
    c, s, factor = _hyperbolic(x)
    real = (_infinite(x) & ~_finite(y)).pick(abs(x), c * y("cos") * factor)
    return real, _times(s, y("sin")) * factor


def sinh(z: Parts) -> Parts:
    """sinh x cos y + i cosh x sin y."""
    x, y = z
    c, s, factor = _hyperbolic(x)
    real = (_infinite(x) & ~_finite(y)).pick(abs(x), _times(s, y("cos")) * factor)
    return real, _times(c, y("sin")) * factor


def tanh(z: Parts) -> Parts:
    """sinh z / cosh z, without the cancellation near the axes."""
    x, y = z
    far = abs(x).is_("greater", 11.0 if x.dtype == np.float32 else 22.0)
    t, s = y("tan"), far.pick(x.like(0), x)("sinh")
    b = t * t + 1
    d = b * s * s + 1
    real = b * ((s * s + 1)("sqrt") * s) / d
    limit = (_infinite(x) | _finite(y)).pick(x.like(1)("copysign", x), y - y)
    real = (x.is_("equal", 0) & ~_finite(y)).pick(x, far.pick(limit, real))
    small = (-abs(x))("exp")
    rest = y("sin") * y("cos") * 4 * small * small
    rest = (_infinite(x) & ~_finite(y)).pick(x.like(0), rest)
    return real, y.is_("equal", 0).pick(y, far.pick(rest, t / d))


def _turned(z: Parts) -> Parts:
    """i z."""
    return -z[1], z[0]


def sin(z: Parts) -> Parts:
    """-i sinh(i z)."""
    real, imaginary = sinh(_turned(z))
    return imaginary, -real


def cos(z: Parts) -> Parts:
    """cosh(i z)."""
    return cosh(_turned(z))


def tan(z: Parts) -> Parts:
    """-i tanh(i z)."""
    real, imaginary = tanh(_turned(z))
    return imaginary, -real


def sign(z: Parts) -> Parts:
    """z / |z|, and 0 of 0; of an infinity in one part the sign of that."""
    x, y = z
    p, q = _infinite(x), _infinite(y)
    x, y = [mine.pick(a.like(1)("copysign", a), (other & ~mine).pick(a.like(0), a))
            for a, mine, other in ((x, p, q), (y, q, p))]  # fmt: skip
    down = (abs(x)("maximum", abs(y))).is_("greater", _scales(x.dtype)[0]).pick(x.like(0.25), 1)
    x, y = x * down, y * down
    size = x("hypot", y)
    size = size.is_("equal", 0).pick(size.like(1), (p & q).pick(size.like(math.nan), size))
    return x / size, y / size


NAMES = (
    "exp", "exp2", "log", "log2", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "sign",
)  # fmt: skip
