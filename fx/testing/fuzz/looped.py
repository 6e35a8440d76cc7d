"""Ways to repeat a step in a graph, each beside the Python loop that it must be equal to.

A step is ``(i, a, b, x) -> (a, b, y)``: two carries, one input and one output of each turn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fx
from fx import dtypes
from fx.tensor import Tensor
from fx.testing.fuzz.outcomes import Found, Invalid, Outcome, numbers, same

Step = Callable[..., tuple[Tensor, Tensor, Tensor]]
Whole = Callable[..., list[Tensor]]
AMPLIFIED = 1e5  # times a change of the arguments: where a loop is chaotic, roundings decide


def _plain(step: Step, outputs: bool, backwards: bool = False) -> Whole:
    def whole(a: Tensor, b: Tensor, xs: Tensor) -> list[Tensor]:
        ys: list[Any] = [None] * len(xs)
        order = range(len(xs))
        for i in reversed(order) if backwards else order:
            a, b, ys[i] = step(i, a, b, xs[i])
        return [a, b, fx.stack(ys)] if outputs and ys else [a, b]

    return whole


def fori(step: Step, a0: Tensor, b0: Tensor, xs: Tensor, ask: str) -> None:
    """``fori_loop``."""

    def whole(a: Tensor, b: Tensor, xs: Tensor) -> list[Tensor]:
        return list(fx.fori_loop(0, len(xs), lambda i, c: step(i, *c, xs[i])[:2], (a, b)))

    _check(whole, _plain(step, False), a0, b0, xs, ask)


def python(step: Step, a0: Tensor, b0: Tensor, xs: Tensor, ask: str) -> None:
    """A Python loop under ``jit``."""
    plain = _plain(step, True)
    _check(fx.jit(plain), plain, a0, b0, xs, ask)


def scan(step: Step, a0: Tensor, b0: Tensor, xs: Tensor, ask: str) -> None:
    """``scan``."""
    _scan(step, a0, b0, xs, ask, False)


def reverse_scan(step: Step, a0: Tensor, b0: Tensor, xs: Tensor, ask: str) -> None:
    """``scan`` from the end."""
    _scan(step, a0, b0, xs, ask, True)


def _scan(step: Step, a0: Tensor, b0: Tensor, xs: Tensor, ask: str, backwards: bool) -> None:
    if not len(xs):
        raise Invalid("nothing to scan")

    def whole(a: Tensor, b: Tensor, xs: Tensor) -> list[Tensor]:
        def body(carry: Any, given: Any) -> Any:
            a, b, y = step(given[0], *carry, given[1])
            return (a, b), y

        (a, b), ys = fx.scan(body, (a, b), (fx.arange(len(xs)), xs), reverse=backwards)
        return [a, b, ys]

    _check(whole, _plain(step, True, backwards), a0, b0, xs, ask)


def map_scan(step: Step, a0: Tensor, b0: Tensor, xs: Tensor, ask: str) -> None:
    """``scan`` inside ``vmap``'s sequential brother, ``map``."""
    if not len(xs):
        raise Invalid("nothing to map")

    def whole(a: Tensor, b: Tensor, xs: Tensor) -> list[Tensor]:
        return [fx.map(lambda x: step(1, a, b, x)[2], xs)]

    def plain(a: Tensor, b: Tensor, xs: Tensor) -> list[Tensor]:
        return [fx.stack([step(1, a, b, x)[2] for x in xs])]

    _check(whole, plain, a0, b0, xs, ask)


def while_loop(step: Step, a0: Tensor, b0: Tensor, xs: Tensor, ask: str) -> None:
    """``while_loop``, forwards only."""
    if ask not in ("value", "jvp", "vmap"):
        ask = "value"

    def whole(a: Tensor, b: Tensor, xs: Tensor) -> list[Tensor]:
        def body(c: Any) -> Any:
            i, a, b = c
            return (i + 1, *step(i, a, b, xs[0])[:2])

        if not len(xs):
            return [a, b]
        return list(fx.while_loop(lambda c: c[0] < len(xs), body, (fx.asarray(0), a, b))[1:])

    def plain(a: Tensor, b: Tensor, xs: Tensor) -> list[Tensor]:
        for i in range(len(xs)):
            a, b = step(i, a, b, xs[0])[:2]
        return [a, b]

    _check(whole, plain, a0, b0, xs, ask)


def _check(whole: Whole, plain: Whole, a0: Tensor, b0: Tensor, xs: Tensor, ask: str) -> None:
    """Compare, eagerly and under ``jit``, what is asked of both."""
    args = (a0, b0, xs)
    want = Outcome(_asked(plain, ask), args, False)
    if want.error is not None:
        raise Invalid(str(want.error))
    want.scale = max(want.scale, 1.0)  # of the values on the way
    wanted = _asked(whole, ask)
    try:
        same(Outcome(wanted, args, False), want, f"{ask}, eager")
        fast = fx.jit(wanted)
        for turn in ("first", "second"):
            same(Outcome(fast, args, False), want, f"{ask}, jit, {turn} call")
    except Found:
        if want.loose or not _is_finite(want.value):
            raise Invalid("it overflows on the way, which orders of products decide") from None
        if _is_chaotic(want):
            raise Invalid("each turn makes roundings many times larger") from None
        raise


def _is_finite(values: list[Tensor]) -> bool:
    return all(bool(np.isfinite(numbers(x)).all()) for x in values)


def _is_chaotic(want: Outcome) -> bool:
    """Whether what is asked magnifies a small change of the arguments ``AMPLIFIED`` times."""
    rng = np.random.default_rng(0)

    def moved(x: Any) -> Any:
        if not isinstance(x, Tensor) or x.dtype not in dtypes.FLOATING:
            return x
        some = 64 * float(fx.finfo(x.dtype).eps)
        return (x * (1 + some * fx.tensor(rng.choice([-1.0, 1.0], x.shape)))).astype(x.dtype)

    other = Outcome(want.function, [moved(x) for x in want.args], False)
    if other.error is not None:
        return False
    for x, y in zip(other.value, want.value, strict=True):
        gap = np.abs(numbers(x).astype(np.float64) - numbers(y).astype(np.float64))
        least = 64 * float(fx.finfo(x.dtype).eps) * want.scale
        if np.nanmax(gap, initial=0.0) > AMPLIFIED * least:
            return True
    return False


def _asked(whole: Whole, ask: str) -> Whole:
    """A derivative of the whole, or the whole itself."""

    def total(*args: Tensor) -> Tensor:
        out = whole(*args)
        return sum([fx.sum(x * fx.cos(x)) for x in out[1:]], fx.sum(out[0]))

    first = fx.grad(total, (0, 1, 2))
    if ask == "value":
        return whole
    if ask == "grad":
        return lambda *args: list(first(*args))
    if ask == "jitgrad":
        return lambda *args: list(fx.grad(fx.jit(total), (0, 1, 2))(*args))
    if ask == "checkpoint":
        return lambda *args: list(fx.grad(fx.checkpoint(total), (0, 1, 2))(*args))
    if ask == "jvp":
        return lambda *args: list(fx.jvp(whole, args, tuple(fx.cos(x) for x in args))[1])
    if ask == "second":
        along = lambda *args: sum([fx.sum(g * fx.sin(x)) for g, x in zip(first(*args), args)])
        return lambda *args: list(fx.grad(along, (0, 1, 2))(*args))
    if ask == "vmap":
        lanes = lambda x: fx.stack([x, x * 0.5])
        return lambda *args: list(fx.vmap(whole)(*map(lanes, args)))
    raise Invalid(ask)
