"""Legendre functions of the second kind, and parabolic cylinder functions of whole orders.

Functions that fall with their order are not to be had by the recurrence upwards. Legendre's are
taken from Gauss's function outside of the unit interval, cylinder functions of negative orders from
the recurrence downwards, which J. C. P. Miller normalised by its end.
"""

from __future__ import annotations

import math
from typing import Any

from fx.dtypes import COMPLEX, complex128
from fx.errors import ArgumentError, DTypeError
from fx.ops.axes import integer
from fx.ops.indexing.searching import where
from fx.ops.operands import argument, cast, floating
from fx.ops.pointwise.elementwise import abs as absolute
from fx.ops.pointwise.elementwise import exp, log, sqrt
from fx.ops.shapes.joining import stack
from fx.prims.creation import constant_like
from fx.prims.scipy_functions import named
from fx.special.functions import widened
from fx.tensor import Tensor

_NEAR = 1.02  # up to here the recurrence loses few digits


def _real(name: str, z: Any) -> Tensor:
    z = argument(name, z)
    if z.dtype in COMPLEX:
        raise DTypeError(f"{name} takes real numbers, got {z.dtype.name}; write z.real")
    return floating(name, z)


def _falling(n: int, z: Tensor) -> Tensor:
    """Q_n of z > 1 by Gauss's function of 1 / z^2: DLMF 14.3.7."""
    scale = math.sqrt(math.pi) * math.exp(math.lgamma(n + 1) - math.lgamma(n + 1.5))
    inverse = 1.0 / (z * z)
    orders = [constant_like(v, z) for v in ((n + 2) / 2, (n + 1) / 2, n + 1.5)]
    return named("hyp2f1", *orders, inverse) * (scale / (z * 2.0) ** (n + 1.0))  # type: ignore[no-any-return]


def _legendre(last: int, z: Tensor) -> list[Tensor]:
    """Q_0 .. Q_last of z in float64."""
    size = absolute(z)
    far = size > _NEAR
    near, away = where(far, 0.5, z), where(far, size, 2.0)
    found = [log(absolute((1.0 + near) / (1.0 - near))) * 0.5]
    if last:
        found.append(near * found[0] - 1.0)
    for k in range(1, last):
        found.append((near * found[k] * (2.0 * k + 1) - found[k - 1] * float(k)) / (k + 1.0))
    sign = where(z < 0, -1.0, 1.0)  # of even degrees the function is odd
    return [
        where(far, _falling(k, away) * (1.0 if k % 2 else sign), value)
        for k, value in enumerate(found)
    ]


def _with_slopes(last: int, z: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    found = _legendre(last, z)
    below = 1.0 - z * z
    slopes = [1.0 / below]
    slopes += [(found[k - 1] - z * found[k]) * float(k) / below for k in range(1, last + 1)]
    return found, slopes


def lqn(n: int, z: Any) -> tuple[Tensor, Tensor]:
    """Legendre's functions of the second kind of degrees 0 .. n, and their derivatives.

    Args:
        n: the last degree, an int; as in SciPy there are two degrees at least.
        z: a real tensor; between -1 and 1 it is the function on the cut.

    Returns:
        Q and its derivatives, with a first axis of degrees.

    Raises:
        ArgumentError: for a negative n.
        DTypeError: for complex numbers.

    Source: DLMF 14.3.7, 14.7.2 and 14.10.3; ``scipy.special.lqn``.

    Example:
        >>> import fx
        >>> fx.special.lqn(2, fx.tensor(0.5))[0]
        tensor([ 0.5493, -0.7253, -0.8187])
    """
    last = integer("lqn", "n", n)
    if last < 0:
        raise ArgumentError(f"lqn: n must not be negative, got {n}")
    z = _real("lqn", z)
    found, slopes = _with_slopes(max(last, 1), widened(z))
    return cast(stack(found), z._dtype), cast(stack(slopes), z._dtype)


def lqmn(m: int, n: int, z: Any) -> tuple[Tensor, Tensor]:
    """Associated Legendre functions of the second kind, and their derivatives.

    Args:
        m, n: the last order and degree, ints.
        z: a real tensor; between -1 and 1 it is the function on the cut.

    Returns:
        Q and its derivatives, with two axes in front: m + 1 orders and n + 1 degrees.

    Raises:
        ArgumentError: for a negative m or n.
        DTypeError: for complex numbers.

    Source: S. Zhang, J. Jin, Computation of special functions, 1996, 4.7; DLMF 14.10;
    ``scipy.special.lqmn``, which takes a number.

    Example:
        >>> import fx
        >>> fx.special.lqmn(1, 1, fx.tensor(0.5))[0]
        tensor([[ 0.5493, -0.7253],
                [-1.1547, -1.0531]])
    """
    orders, last = integer("lqmn", "m", m), integer("lqmn", "n", n)
    if orders < 0 or last < 0:
        raise ArgumentError(f"lqmn: m and n must not be negative, got {m} and {n}")
    z = _real("lqmn", z)
    wide = widened(z)
    outside = absolute(wide) > 1.0
    sign = where(outside, -1.0, 1.0)  # of 1 - z^2
    below = 1.0 - wide * wide
    root = sqrt(sign * below)
    found, slopes = _with_slopes(last, wide)
    rows = [found, [-sign * root * s for s in slopes]][: orders + 1]
    changes = [slopes]
    for i in range(2, orders + 1):
        step = wide / root * (-2.0 * (i - 1))
        rows.append([
            step * rows[i - 1][j] - sign * rows[i - 2][j] * float((j + i - 1) * (j - i + 2))
            for j in range(last + 1)
        ])  # fmt: skip
    for i in range(1, orders + 1):
        changes.append([
            rows[i][j] * (wide / below * float(i))
            + rows[i - 1][j] * float((i + j) * (j - i + 1)) / root
            for j in range(last + 1)
        ])  # fmt: skip
    whole = lambda parts: cast(stack([stack(row) for row in parts]), z._dtype)
    return whole(rows), whole(changes)


# parabolic cylinder functions ---------------------------------------------------------------------


_FAR = 160  # orders beyond the last, where the ratio of neighbours is known


def _ratios(count: int, z: Tensor) -> list[Tensor]:
    """r_k = D_-k / D_(1 - k) for k = 1 .. count, by 1 / r_k = z + k r_(k + 1), for z.real >= 0.

    A continued fraction with a tail: that of constant coefficients, made better by what it leaves
    in the recurrence.
    """
    last = count + _FAR
    tail = {k: 2.0 / (z + sqrt(z * z + (4.0 * k + 2.0))) for k in range(last - 4, last + 1)}
    for first in range(last - 3, last + 1):
        rest = {}
        for k in range(first, last + 1):
            before = 1.0 / tail[k - 1]
            rest[k] = tail[k] + (before - z - tail[k] * float(k)) / (before * before + float(k))
        tail = rest
    ratio, found = tail[last], []
    for k in range(last, 0, -1):
        ratio = 1.0 / (z + ratio * float(k))
        found.append(ratio)
    return found[: -count - 1 : -1]


def _negative(count: int, z: Tensor) -> list[Tensor]:
    """D_0, D_-1 .. D_-count of complex z; of those to the left by those of -z: DLMF 12.2.17."""
    left = z.real < 0
    right = where(left, -z, z)
    found = [exp(z * z * -0.25)]
    for ratio in _ratios(count, right):
        found.append(found[-1] * ratio)
    # sqrt(2 pi) / gamma(k) i^(1 - k) D_(k - 1)(-i z), polynomials times exp(z^2 / 4)
    rest, before = exp(where(left, z * z * 0.25, 0.0)) * math.sqrt(2 * math.pi), z * 0.0
    for k in range(1, count + 1):
        sign = -1.0 if k % 2 else 1.0
        found[k] = where(left, rest + found[k] * sign, found[k])
        rest, before = (before - z * rest) / float(k), rest
    return found


def pbdn_seq(n: int, z: Any) -> tuple[Tensor, Tensor]:
    """Parabolic cylinder functions D of the orders from 0 to n, and their derivatives; holomorphic.

    Args:
        n: the last order, an int, which may be negative; as in SciPy there are two orders at least.
        z: a tensor, taken to be complex.

    Returns:
        D and its derivatives, complex, with a first axis of orders 0, 1 .. n or 0, -1 .. n.

    Source: DLMF 12.7.2, 12.8.1 and 12.8.2; ``scipy.special.pbdn_seq``, which takes a number.

    Example:
        >>> import fx
        >>> fx.special.pbdn_seq(2, fx.tensor(1.0 + 0.0j))[0].real
        tensor([0.7788, 0.7788, 0.0000])
    """
    last = integer("pbdn_seq", "n", n)
    z = floating("pbdn_seq", z)
    narrow = z._dtype if z._dtype in COMPLEX else (z * 1j)._dtype
    wide = cast(z, complex128)
    count = max(abs(last), 1)
    if last >= 0:
        found = [exp(wide * wide * -0.25)]
        found.append(wide * found[0])
        for k in range(1, count):
            found.append(wide * found[k] - found[k - 1] * float(k))
        slopes = [wide * -0.5 * found[0]]
        slopes += [found[k - 1] * float(k) - wide * 0.5 * found[k] for k in range(1, count + 1)]
    else:
        found = _negative(count, wide)
        slopes = [wide * -0.5 * found[0]]
        slopes += [wide * 0.5 * found[k] - found[k - 1] for k in range(1, count + 1)]
    return cast(stack(found), narrow), cast(stack(slopes), narrow)


__all__ = ["lqmn", "lqn", "pbdn_seq"]
