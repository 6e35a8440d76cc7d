"""A line search that ends where the strong Wolfe conditions hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from fx.optim._flat import dot, largest
from fx.tensor import Tensor


class Point(NamedTuple):
    """A place on the line: the step, the loss there, the gradient, and its slope on the line."""

    t: float
    loss: float
    gradient: Tensor  # (n,)
    slope: float


def _between(a: Point, b: Point, low: float, high: float) -> float:
    """Where the cubic through two points with their slopes is least, within bounds."""
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2.0
    if a.t > b.t:
        a, b = b, a
    d2 = square**0.5
    try:
        least = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    except ZeroDivisionError:  # the cubic is a line
        return (low + high) / 2.0
    return min(max(least, low), high)


def strong_wolfe(
    evaluate: Callable[[float], tuple[float, Tensor]],
    t: float,
    direction: Tensor,
    start: Point,
    tolerance: float = 1e-9,
    most: int = 25,
    c1: float = 1e-4,
    c2: float = 0.9,
) -> tuple[Point, int]:
    """Find a step along a direction that lowers the loss and flattens the slope enough.

    Args:
        evaluate: ``t -> (loss, gradient)`` at a step.
        t: the first step to try.
        direction: (n,).
        start: the point of step 0.
        tolerance: how short the bracket may become, in units of the parameters.
        most: how many steps are tried.
        c1: the share of the decrease that the slope promises.
        c2: the share of the slope that may be left.

    Returns:
        The point found, and how often ``evaluate`` was called.

    Source: Nocedal and Wright, "Numerical optimization", algorithms 3.5 and 3.6.
    """

    def at(t: float) -> Point:
        loss, gradient = evaluate(t)
        return Point(t, loss, gradient, float(dot(gradient, direction)))

    def low_enough(x: Point) -> bool:
        return not x.loss > start.loss + c1 * x.t * start.slope

    def flat_enough(x: Point) -> bool:
        return abs(x.slope) <= -c2 * start.slope

    reach = float(largest(direction))
    new, before = at(t), start
    calls, tried = 1, 0
    bracket: list[Point] = []
    while tried < most:  # go on until a point lies beyond
        if not low_enough(new) or (tried > 1 and new.loss >= before.loss):
            bracket = [before, new]
            break
        if flat_enough(new):
            return new, calls
        if new.slope >= 0:
            bracket = [before, new]
            break
        next_t = _between(before, new, new.t + 0.01 * (new.t - before.t), new.t * 10)
        before, new = new, at(next_t)
        calls += 1
        tried += 1
    if not bracket:
        bracket = [start, new]
    stuck = False
    low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
    while tried < most:  # narrow the bracket
        ends = sorted(x.t for x in bracket)
        if (ends[1] - ends[0]) * reach < tolerance:
            break
        t = _between(*bracket, *ends)
        edge = 0.1 * (ends[1] - ends[0])
        if min(ends[1] - t, t - ends[0]) < edge:  # too near to an end to learn much
            if stuck or t >= ends[1] or t <= ends[0]:
                t = ends[1] - edge if abs(t - ends[1]) < abs(t - ends[0]) else ends[0] + edge
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new = at(t)
        calls += 1
        tried += 1
        if not low_enough(new) or new.loss >= bracket[low].loss:
            bracket[high] = new
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
            continue
        done = flat_enough(new)
        if not done and new.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = new
        if done:
            break
    return bracket[low], calls
