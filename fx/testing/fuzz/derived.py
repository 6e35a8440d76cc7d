"""Words of transforms on a function of one tensor, each letter against what it must be equal to.

A word is read like a product: ``"jg"`` is ``jvp(grad(f))``. Its outermost letter is compared with
differences of the rest, with a loop of it, or, for ``c``, with the rest itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fx
from fx.tensor import Tensor
from fx.testing.fuzz.outcomes import Found, Invalid, Outcome, same

Function = Callable[[Tensor], Any]
STEP = 2.0**-10
RELATIVE = 3e-5  # of differences of derivatives, relative to the largest number on the way


def _along(x: Tensor) -> Tensor:
    return fx.cos(fx.arange(x.size, dtype=fx.float64) + 1).reshape(x.shape)


def _scalar(f: Function) -> Function:
    def whole(x: Tensor) -> Tensor:
        out = f(x)
        return out if out.ndim == 0 else fx.sum(out * _along(out))

    return whole


def _backward(f: Function) -> Function:
    def run(x: Tensor) -> Tensor:
        leaf = x.detach().requires_grad_()
        out = _scalar(f)(leaf)
        if out.requires_grad:
            out.backward()
        return fx.zeros_like(x) if leaf.grad is None else leaf.grad

    return run


def _rows(hessian: Tensor, x: Tensor) -> Tensor:
    """The Hessian times ones."""
    return fx.sum(hessian.reshape(x.size, x.size), axis=1).reshape(x.shape)


def _lanes(x: Tensor) -> Tensor:
    return fx.stack([x, x * 0.75, fx.flip(x)])


LETTERS: dict[str, Callable[[Function], Function]] = {
    "g": lambda f: fx.grad(_scalar(f)),
    "v": lambda f: lambda x: fx.vjp(_scalar(f), x)[1](fx.ones((), dtype=fx.float64))[0],
    "r": lambda f: fx.jacrev(_scalar(f)),
    "f": lambda f: fx.jacfwd(_scalar(f)),
    "j": lambda f: lambda x: fx.jvp(f, (x,), (_along(x),))[1],
    "l": lambda f: lambda x: fx.linearize(f, x)[1](_along(x)),
    "h": lambda f: lambda x: _rows(fx.hessian(_scalar(f))(x), x),
    "n": lambda f: lambda x: fx.hvp(_scalar(f), (x,), (fx.ones_like(x),)),
    "b": _backward,
    "c": lambda f: fx.jit(f),
    "m": lambda f: lambda x: fx.vmap(f)(_lanes(x)),
}


def check(function: Function, x: Tensor, word: str) -> None:
    """The outermost letter of a word is right, eagerly and compiled."""
    inner = function
    for letter in reversed(word[1:]):
        inner = LETTERS[letter](inner)
    base = Outcome(function, (x,), True)
    if base.error is not None or base.value.ndim or base.scale > 1e4:
        raise Invalid(str(base.error))
    outer = LETTERS[word[0]](inner)
    got = Outcome(outer, (x,), False)
    if got.error is not None:
        raise Found(f"{word}: {type(got.error).__name__}: {got.error}") from got.error
    got.scale = max(got.scale, base.scale, 1.0)
    if word[0] == "c":
        want = Outcome(inner, (x,), False)
        want.scale = max(want.scale, got.scale)
        same(got, want, word)
    elif word[0] == "m":
        loop = Outcome(lambda x: fx.stack([inner(lane) for lane in _lanes(x)]), (x,), False)
        loop.scale = max(loop.scale, got.scale)
        same(got, loop, word)
    else:
        _differences(inner, x, got.value, word)
    if "c" not in word[:1] and "b" not in word:
        fast = fx.jit(outer)
        for turn in ("first", "second"):
            same(Outcome(fast, (x,), False), got, f"{word}, jit, {turn} call")


def _differences(inner: Function, x: Tensor, value: Tensor, word: str) -> None:
    """Compare a derivative with differences of the function that it is of."""
    letter = word[0]
    if letter not in "jlhn":  # a gradient: its products with the directions
        value = fx.stack([fx.sum(value * t) for t in _directions(x, letter)])
    got = np.asarray(value.detach()).astype(np.float64)
    want, rough = _estimated(inner, x, letter, STEP)
    size = max(np.abs(want).max(initial=0.0), 1.0)
    if not np.isfinite(want).all() or rough > 0.01 * size:
        raise Invalid("too steep for differences")
    allowed = RELATIVE * size + 0.1 * rough
    wrong = ~(np.abs(got - want) <= allowed)
    if wrong.any():
        nearer, _ = _estimated(inner, x, letter, STEP / 16)
        if not (np.abs(nearer - want) <= allowed).all() or _bent(inner, x, letter):
            raise Invalid("a kink is too near for differences")
        at = tuple(map(int, np.argwhere(wrong)[0]))
        raise Found(f"{word}: got {got[at]!r} at {at}, differences give {want[at]!r}")


def _bent(inner: Function, x: Tensor, letter: str) -> bool:
    """Whether slopes to both sides differ, however near: two elements tie in a sort, say."""
    f = _scalar(inner) if letter not in "jl" else inner
    f = fx.grad(f) if letter in "hn" else f

    def bend(t: Tensor, step: float) -> float:
        ahead, here, behind = (f(x + t * (s * step)) for s in (1, 0, -1))
        return float(fx.max(fx.abs(ahead - 2 * here + behind))) / step

    ways = _directions(x, letter)
    return any(bend(t, STEP / 64) > max(0.5 * bend(t, STEP / 16), RELATIVE) for t in ways)


def _directions(x: Tensor, letter: str) -> list[Tensor]:
    if letter in "jl":
        return [_along(x)]
    return [fx.ones_like(x)] if letter in "hn" else [_along(x), fx.ones_like(x)]


def _estimated(inner: Function, x: Tensor, letter: str, step: float) -> tuple[np.ndarray, float]:
    """A derivative by differences of this step, and how rough they are."""
    f = _scalar(inner) if letter not in "jl" else inner
    f = fx.grad(f) if letter in "hn" else f
    found: list[Any] = []
    rough = 0.0
    for t in _directions(x, letter):
        near, far = ([f(x + t * (s * h)) for s in (1, -1)] for h in (step, 2 * step))
        first = (near[0] - near[1]) / (2 * step)
        second = (far[0] - far[1]) / (4 * step)
        found.append((4 * first - second) / 3)
        rough = max(rough, float(fx.max(fx.abs(first - second))))
    want = found[0] if letter in "jlhn" else fx.stack(found)
    return np.asarray(want.detach()).astype(np.float64), rough
