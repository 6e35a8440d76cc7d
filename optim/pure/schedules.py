"""The usual schedules as pure functions of the number of steps made."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fx.dtypes import INEXACT, float64
from fx.ops.convert import as_tensor
from fx.ops.pointwise.composed import clip
from fx.prims.compare import astype, where
from fx.prims.elementwise import cos
from fx.tensor import Tensor

Schedule = Callable[[Any], Tensor]


def _count(count: Any) -> Tensor:
    """The number of steps in a dtype to compute with."""
    x = as_tensor(count)
    return x if x.dtype in INEXACT else astype(x, dtype=float64)


def _progress(count: Any, steps: float) -> Tensor:
    """The share of ``steps`` that is done, at most one."""
    return clip(_count(count) / steps, 0.0, 1.0)


def constant(value: float) -> Schedule:
    """The same value in every step.

    Example:
        >>> import fx
        >>> fx.optim.pure.schedules.constant(0.5)(3)
        tensor(0.5000, dtype=fx.float64)
    """
    return lambda count: _count(count) * 0.0 + value


def linear(start: float, end: float, steps: int) -> Schedule:
    """From one value to another in a line, and on at that.

    Example:
        >>> import fx
        >>> float(fx.optim.pure.schedules.linear(1.0, 0.0, steps=4)(1))
        0.75
    """
    return polynomial(start, end, steps, power=1.0)


def polynomial(start: float, end: float, steps: int, power: float = 1.0) -> Schedule:
    """From one value to another along a power of the steps that are left, and on at that.

    Example:
        >>> import fx
        >>> float(fx.optim.pure.schedules.polynomial(1.0, 0.0, steps=4, power=2.0)(2))
        0.25
    """
    return lambda count: end + (start - end) * (1.0 - _progress(count, steps)) ** power


def cosine(start: float, steps: int, end: float = 0.0) -> Schedule:
    """Half a cosine from one value down to another, and on at that.

    Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2016.

    Example:
        >>> import fx
        >>> round(float(fx.optim.pure.schedules.cosine(1.0, steps=4)(2)), 6)
        0.5
    """
    return lambda count: end + (start - end) * (1.0 + cos(_progress(count, steps) * math.pi)) / 2.0


def exponential(start: float, gamma: float, steps: int = 1, staircase: bool = False) -> Schedule:
    """Times ``gamma`` every ``steps`` steps, smoothly or in stairs.

    Example:
        >>> import fx
        >>> float(fx.optim.pure.schedules.exponential(1.0, 0.5, steps=10, staircase=True)(19))
        0.5
    """

    def at(count: Any) -> Tensor:
        times = _count(count) / steps
        return start * gamma ** (times.floor() if staircase else times)

    return at


def piecewise(values: Sequence[float], milestones: Sequence[int]) -> Schedule:
    """One value up to the first milestone, the next one from there on, and so forth.

    Raises:
        ValueError: unless there is one value more than milestones.

    Example:
        >>> import fx
        >>> float(fx.optim.pure.schedules.piecewise([1.0, 0.1], [30])(30))
        0.1
    """
    return join([constant(v) for v in values], milestones, whole=True)


def join(schedules: Sequence[Schedule], milestones: Sequence[int], whole: bool = False) -> Schedule:
    """One schedule after the other; at each milestone the next one begins, with its own count.

    Args:
        schedules: one more than milestones.
        milestones: counts, growing.
        whole: whether schedules go on with the whole count instead.

    Raises:
        ValueError: unless there is one schedule more than milestones.

    Example:
        >>> import fx
        >>> from fx.optim.pure import schedules
        >>> f = schedules.join([schedules.linear(0.0, 1.0, 5), schedules.cosine(1.0, 20)], [5])
        >>> float(f(4)), float(f(5))
        (0.8, 1.0)
    """
    if len(schedules) != len(milestones) + 1:
        raise ValueError(
            f"join: {len(schedules)} schedules need {len(schedules) - 1} milestones, got "
            f"{len(milestones)}"
        )

    def at(count: Any) -> Tensor:
        count = _count(count)
        out = schedules[0](count)
        for f, begin in zip(schedules[1:], milestones, strict=True):
            out = where(count >= begin, f(count if whole else count - begin), out)
        return out

    return at


def warmup_cosine(
    peak: float, warmup: int, steps: int, start: float = 0.0, end: float = 0.0
) -> Schedule:
    """A line up to the peak, and half a cosine down from there.

    Args:
        peak: the greatest value.
        warmup: steps up.
        steps: of both together.
        start: the first value.
        end: the last one.

    Example:
        >>> import fx
        >>> f = fx.optim.pure.schedules.warmup_cosine(1.0, warmup=10, steps=110)
        >>> float(f(5)), float(f(10)), float(f(110))
        (0.5, 1.0, 0.0)
    """
    return join([linear(start, peak, warmup), cosine(peak, steps - warmup, end)], [warmup])


def one_cycle(
    peak: float, steps: int, up: float = 0.3, div: float = 25.0, final_div: float = 1e4
) -> Schedule:
    """Half a cosine up to the peak, and half a cosine down to nearly nothing.

    Args:
        peak: the greatest value.
        steps: of the whole cycle.
        up: the share of them that goes up.
        div: how many times less than the peak the first value is.
        final_div: how many times less than the first the last value is.

    Source: Smith and Topin, "Super-convergence: very fast training of neural networks using large
    learning rates", 2017.

    Example:
        >>> import fx
        >>> f = fx.optim.pure.schedules.one_cycle(1.0, steps=10)
        >>> round(float(f(0)), 6), round(float(f(2)), 6)
        (0.04, 1.0)
    """
    low, rise = peak / div, max(1, round(up * steps) - 1)
    parts = [cosine(low, rise, peak), cosine(peak, steps - 1 - rise, low / final_div)]
    return join(parts, [rise])


def restarts(start: float, steps: int, end: float = 0.0) -> Schedule:
    """Half cosines one after the other, each of ``steps`` steps.

    Example:
        >>> import fx
        >>> f = fx.optim.pure.schedules.restarts(1.0, steps=4)
        >>> float(f(0)) == float(f(4))
        True
    """
    return lambda count: cosine(start, steps, end)(_count(count) % steps)
