"""Functions of the error, gamma and beta families, and those that are 0 where x log(x) is."""

from __future__ import annotations

import math
from typing import Any

import fx.prims.special as prims
from fx.dtypes import float64
from fx.errors import ArgumentError
from fx.ops.convert import to_device
from fx.ops.indexing.searching import where
from fx.ops.operands import alike, cast, floating, operands
from fx.ops.pointwise.elementwise import abs as absolute
from fx.ops.pointwise.elementwise import (
    copysign,
    digamma,
    erfc,
    exp,
    expm1,
    floor,
    lgamma,
    minimum,
)
from fx.ops.shapes.broadcasting import broadcast_arrays
from fx.prims.gamma_ratios import log_beta
from fx.tensor import Tensor


def _of_one(name: str, primitive: Any, says: str) -> Any:
    def function(x: Any) -> Tensor:
        return primitive(floating(name, x))  # type: ignore[no-any-return]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = says
    return function


erfcx = _of_one("erfcx", prims.erfcx, "exp(x^2) erfc(x), which does not vanish for large x.")
erfcinv = _of_one("erfcinv", prims.erfcinv, "Where erfc reaches y, in (0, 2).")
ndtri = _of_one("ndtri", prims.ndtri, "Where the area under the normal curve reaches p.")
log_ndtr = _of_one("log_ndtr", prims.log_ndtr, "log(ndtr(x)), also where ndtr(x) is 0.")
entr = _of_one("entr", prims.entr, "-x log(x); 0 at 0, -inf below.")


def ndtr(x: Any) -> Tensor:
    """The area under the standard normal curve up to x."""
    return erfc(floating("ndtr", x) * -math.sqrt(0.5)) * 0.5  # type: ignore[no-any-return]


def gamma(x: Any) -> Tensor:
    """The gamma function; NaN where x is a negative whole number, infinite at 0.

    Example:
        >>> import fx
        >>> fx.special.gamma(fx.tensor([0.5, 5.0, -1.5]))
        tensor([ 1.7725, 24.0000,  2.3633])
    """
    return prims.gamma(floating("gamma", x))  # type: ignore[no-any-return]


def gammasgn(x: Any) -> Tensor:
    """The sign of ``gamma``, also where that underflows; NaN where x is a negative whole number."""
    x = floating("gammasgn", x)
    one = copysign(where(x == x, 1.0, x), where(x == 0, x, 1.0))
    down = floor(x)
    odd, pole = (x < 0) & (down * 0.5 != floor(down * 0.5)), (x < 0) & (down == x)
    return where(pole, math.nan, where(odd, -one, one))  # type: ignore[no-any-return]


def widened(x: Tensor) -> Tensor:
    """``x`` in float64, for an exponential of which the argument is long."""
    return cast(x, float64) if x._dtype.kind == "f" else x


def together(name: str, *xs: Any) -> list[Tensor]:
    """Operands in float64 and of one shape, for differences of which the terms are long."""
    found = [widened(x) for x in alike(name, *xs)]
    device = next((x.device for x in found if x.ndim), found[0].device)
    return broadcast_arrays(*[x if x.ndim else to_device(x, device) for x in found])  # type: ignore[no-any-return]


def betaln(a: Any, b: Any) -> Tensor:
    """log(abs(beta(a, b)))."""
    return cast(_betaln(*together("betaln", a, b)), alike("betaln", a, b)[0]._dtype)


def _betaln(a: Tensor, b: Tensor) -> Tensor:
    positive = (a > 0) & (b > 0)
    infinite = positive & ((a == math.inf) | (b == math.inf))
    usual = positive & ~infinite
    found = log_beta(where(usual, a, 1.0), where(usual, b, 1.0))
    both = (a == 0) & (b == 0)
    x, y = where(usual | both, 0.5, a), where(usual | both, 0.5, b)
    found = where(usual, found, lgamma(x) + lgamma(y) - lgamma(x + y))
    return where(infinite, -math.inf, where(both, math.inf, found))  # type: ignore[no-any-return]


def gamma_sign(*xs: Tensor) -> Any:
    """The sign of a product of gamma functions, 1 for a pole."""
    sign: Any = 1.0
    for x in xs:
        one = gammasgn(x)
        sign = sign * where(one == one, one, 1.0)
    return sign


def beta(a: Any, b: Any) -> Tensor:
    """gamma(a) gamma(b) / gamma(a + b).

    Example:
        >>> import fx
        >>> fx.special.beta(fx.tensor(2.0), 3.0)
        tensor(0.0833)
    """
    x, y = together("beta", a, b)
    found = gamma_sign(x, y, x + y) * exp(_betaln(x, y))
    return cast(found, alike("beta", a, b)[0]._dtype)


def polygamma(n: int, x: Any) -> Tensor:
    """The derivative of order n of ``digamma``.

    Raises:
        ArgumentError: for a negative n.
    """
    if n < 0:
        raise ArgumentError(f"polygamma: n must not be negative, got {n}")
    x = floating("polygamma", x)
    if n == 0:
        return digamma(x)  # type: ignore[no-any-return]
    if n == 1:
        return prims.trigamma(x)  # type: ignore[no-any-return]
    return prims.polygamma(prims.constant_like(float(n), x), x)  # type: ignore[no-any-return]


def zeta(x: Any, q: Any) -> Tensor:
    """Hurwitz's zeta function, the sum over k of (q + k)^-x; differentiable in both."""
    return prims.zeta(*operands("zeta", x, q, True))  # type: ignore[no-any-return]


def gammainc(a: Any, x: Any) -> Tensor:
    """The regularised lower incomplete gamma function; differentiable in both.

    Example:
        >>> import fx
        >>> fx.special.gammainc(fx.tensor(1.0), fx.tensor(2.0))
        tensor(0.8647)
    """
    return prims.gammainc(*operands("gammainc", a, x, True))  # type: ignore[no-any-return]


def gammaincc(a: Any, x: Any) -> Tensor:
    """1 - gammainc(a, x), without the loss of digits; differentiable in both."""
    return prims.gammaincc(*operands("gammaincc", a, x, True))  # type: ignore[no-any-return]


def betainc(a: Any, b: Any, x: Any) -> Tensor:
    """The regularised incomplete beta function; differentiable in all three."""
    return prims.betainc(*alike("betainc", a, b, x))  # type: ignore[no-any-return]


def xlog1py(x: Any, y: Any) -> Tensor:
    """x log1p(y), 0 where x is 0 and y is not NaN."""
    return prims.xlog1py(*operands("xlog1py", x, y, True))  # type: ignore[no-any-return]


def exprel(x: Any) -> Tensor:
    """(exp(x) - 1) / x, 1 at 0."""
    x = floating("exprel", x)
    near = absolute(x) < 0.2  # where the slope of the quotient is a difference of two like ones
    small = where(near, x, 0.0)
    series = small * 0.0 + 1.0
    for k in range(14, 1, -1):  # 1 + x / 2! + x^2 / 3! + ...
        series = 1.0 + series * small / k
    apart = where(near, 1.0, x)
    large = x > 50.0  # the quotient is finite for longer than exp(x), and infinite at infinity
    half = exp(where(large, minimum(x, 1e4), 0.0) * 0.5)
    rest = where(large, half / minimum(apart, 1e4) * half, expm1(where(large, 1.0, apart)) / apart)
    return where(near, series, rest)  # type: ignore[no-any-return]
