"""Logarithms of ratios of gamma functions, without the difference of long logarithms.

lgamma(10^6) is 1.3e7, so a difference of two such numbers has lost seven digits. By Stirling's
series lgamma(x) = (x - 1/2) log(x) - x + log(2 pi) / 2 + rest(x), and the long terms of a ratio
cancel in the formula:

    lgamma(y) - lgamma(x + y) = x - (y - 1/2) log1p(x / y) - x log(x + y) + rest(y) - rest(x + y).

Source: A. R. DiDonato, A. H. Morris, "Algorithm 708: significant digit computation of the
incomplete beta function ratios", ACM TOMS 18, 1992.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fx.dtypes import COMPLEX, complex128, float64
from fx.prims.compare import astype, less, where
from fx.prims.creation import constant_like
from fx.prims.elementwise import log, log1p
from fx.tensor import Tensor

_FROM = 10.0  # where the series begins to have all digits of float64
_SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_HALF_LOG_2PI = math.log(2 * math.pi) / 2


def in_double(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule of which the terms are longer than the result, in float64 or complex128."""

    def widened(*args: Tensor) -> Tensor:
        dtype = args[0].dtype
        wide = complex128 if dtype in COMPLEX else float64
        if dtype == wide:
            return rule(*args)  # type: ignore[no-any-return]
        return astype(rule(*[astype(x, dtype=wide) for x in args]), dtype=dtype)  # type: ignore[no-any-return]

    return widened


def stirling_rest(x: Tensor) -> Tensor:
    """lgamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2, for x >= 10."""
    inverse = 1.0 / x
    square = inverse * inverse
    total = constant_like(_SERIES[-1], x)
    for c in _SERIES[-2::-1]:
        total = total * square + c
    return total * inverse  # type: ignore[no-any-return]


def _long(x: Tensor) -> tuple[Tensor, Tensor]:
    """Where the series holds, and ``x`` with 10 elsewhere."""
    least = constant_like(_FROM, x)
    short = less(x, least)
    return short, where(short, least, x)


def log_gamma_step(y: Tensor, x: Tensor) -> Tensor:
    """lgamma(y) - lgamma(y + x), for positive y and y + x of one shape."""
    from fx.prims.special import lgamma

    total = x + y
    short, y_long = _long(where(less(x, constant_like(0.0, x)), total, y))
    # where x is negative the formula is that of the step up from y + x
    size = where(less(x, constant_like(0.0, x)), -x, x)
    far = y_long + size
    step = size - (y_long - 0.5) * log1p(size / y_long) - size * log(far)
    step = step + stirling_rest(y_long) - stirling_rest(far)
    step = where(less(x, constant_like(0.0, x)), -step, step)
    return where(short, lgamma(y) - lgamma(total), step)  # type: ignore[no-any-return]


def log_beta(a: Tensor, b: Tensor) -> Tensor:
    """log(gamma(a) gamma(b) / gamma(a + b)), for positive a and b of one shape."""
    from fx.prims.special import lgamma

    first = less(a, b)
    small, large = where(first, a, b), where(first, b, a)
    short, s = _long(small)
    _, y = _long(large)
    both = -(s - 0.5) * log1p(y / s) - (y - 0.5) * log1p(s / y) - log(s + y) * 0.5 + _HALF_LOG_2PI
    both = both + stirling_rest(s) + stirling_rest(y) - stirling_rest(s + y)
    one = where(short, small, constant_like(1.0, small))
    return where(short, lgamma(one) + log_gamma_step(large, one), both)  # type: ignore[no-any-return]
