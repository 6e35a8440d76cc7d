"""Which transforms hold for a function, by a call of it: what the coverage page says of each name.

A function is called with small arrays; a transform holds if its result is what differences (grad,
jvp), a loop (vmap), the eager call (jit) or its shapes and dtypes (meta) say.
"""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

import fx
import fx.torch
from fx.dtypes import FLOATING, INEXACT
from fx.tensor import Tensor

LETTERS = {"g": "grad", "j": "jvp", "v": "vmap", "c": "jit", "m": "meta"}
STEP, COARSE, SECONDS = 2.0**-16, 0.25, 60


class Call:
    """An expression of a function ``f`` and of arrays, which are what transforms see.

    Args:
        function: what ``f`` is.
        text: the expression; the arrays are known by their names.
        arrays: by name, and whatever else the expression may speak of.
    """

    def __init__(self, function: Callable[..., Any], text: str, arrays: Mapping[str, Any]) -> None:
        self.text, self.code = text, compile(text, "<call>", "eval")
        names = [
            n for n in dict.fromkeys(_names(self.code)) if isinstance(arrays.get(n), np.ndarray)
        ]
        self.names, self.arrays = names, [arrays[n] for n in names]
        # who imports fx.torch may write
        self.room = {**arrays, "f": function, "torch": fx.torch, "__name__": "call"}

    def __call__(self, *tensors: Tensor, seed: int = 0) -> tuple[Tensor, ...]:
        """The tensors among the results; the function may write into its own arguments."""
        fx.manual_seed(seed)
        given = {n: x.clone() for n, x in zip(self.names, tensors, strict=True)}
        found = eval(self.code, {**self.room, **given})
        return tuple([x for x in fx.tree.leaves(found) if isinstance(x, Tensor)])

    def values(self, arrays: Sequence[np.ndarray], seed: int = 0) -> list[np.ndarray]:
        """The results for arrays, called eagerly."""
        return [_array(x) for x in self(*map(fx.asarray, arrays), seed=seed)]

    @property
    def random(self) -> bool:
        """Whether the results depend on the seed."""
        pairs = zip(self.values(self.arrays), self.values(self.arrays, seed=1), strict=True)
        return not all(a.shape == b.shape and np.array_equal(a, b, True) for a, b in pairs)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for part in code.co_consts:  # the bodies of functions and comprehensions
        if isinstance(part, CodeType):
            yield from _names(part)


def _array(x: Tensor) -> np.ndarray:
    return np.array(x.detach().resolve_conj().numpy())


def states(call: Call) -> str:
    """What holds: a letter for each transform, a capital where it does not; none does not apply.

    Example:
        >>> import numpy as np
        >>> import fx
        >>> from fx.testing.coverage.probe import Call, states
        >>> states(Call(fx.sin, "f(X)", {"X": np.ones(3)}))
        'gjvcm'
        >>> states(Call(fx.argmax, "f(X)", {"X": np.arange(3.0)}))
        'vcm'
    """
    want = call.values(call.arrays)
    checks: dict[str, Callable[[], Any]] = {"c": lambda: _jit(call, want)}
    if call.arrays:
        checks |= {"v": lambda: _vmap(call), "m": lambda: _meta(call)}
    slope = _differences(call, want)
    if slope is not None:
        checks |= {"g": lambda: _grad(call, slope), "j": lambda: _jvp(call, slope)}
    return "".join(
        letter if holds(checks[letter]) else letter.upper()
        for letter in LETTERS
        if letter in checks
    )


def holds(check: Callable[[], Any]) -> bool:
    """Whether a check comes to an end, in time."""
    try:
        with quiet():
            check()
    except Exception:
        return False
    return True


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings, and for some seconds at most."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _same(got: Sequence[np.ndarray], want: Sequence[np.ndarray], close: float = 1e-6) -> None:
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a.shape, b.shape)
        tolerance = 1e-3 if a.dtype.itemsize <= 4 or a.dtype.kind == "c" else close
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def _jit(call: Call, want: Sequence[np.ndarray]) -> None:
    compiled = fx.jit(lambda *xs: call(*xs))
    _same([_array(x) for x in compiled(*map(fx.asarray, call.arrays))], want)


def _lanes(call: Call) -> list[list[np.ndarray]]:
    def other(x: np.ndarray) -> np.ndarray:
        return x * x.dtype.type(0.96875) if x.dtype in INEXACT else x

    return [call.arrays, [other(x) for x in call.arrays]]


def _vmap(call: Call) -> None:
    lanes = _lanes(call)
    wanted = [call.values(lane) for lane in lanes]
    stacked = [fx.asarray(np.stack(pair)) for pair in zip(*lanes, strict=True)]
    got = fx.vmap(lambda *xs: call(*xs), randomness="different")(*stacked)
    want = [np.stack(pair) for pair in zip(*wanted, strict=True)]
    if call.random:  # each lane draws its own
        assert [x.shape for x in got] == [y.shape for y in want]
    else:
        _same([_array(x) for x in got], want)


def _meta(call: Call) -> None:
    want = call(*map(fx.asarray, call.arrays))
    got = call(*[fx.asarray(x).to("meta") for x in call.arrays])
    for a, b in zip(got, want, strict=True):
        assert (tuple(a.shape), a.dtype) == (tuple(b.shape), b.dtype)


# derivatives ------------------------------------------------------------------------------------


class Slope(NamedTuple):
    """A derivative along the directions, and how far differences may be from it."""

    value: float
    tolerance: float

    def check(self, got: float) -> None:
        """Compare what a transform gives."""
        np.testing.assert_allclose(got, self.value, rtol=self.tolerance, atol=self.tolerance / 10)


def _wide(arrays: Sequence[np.ndarray]) -> list[int]:
    return [i for i, x in enumerate(arrays) if x.dtype in FLOATING]


def _directions(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.uniform(0.5, 1.5, arrays[i].shape) for i in _wide(arrays)]


def _total(outs: Sequence[Any], library: Any) -> Any:
    """A generic linear function of the floating results, a number."""
    total = 0.0
    for k, y in enumerate(outs):
        if y.dtype not in INEXACT:
            continue
        y = library.real(y) + 0.7 * library.imag(y) if y.dtype not in FLOATING else y
        n = int(np.prod(y.shape))
        weights = np.cos(np.arange(n) + k).reshape(y.shape).astype(y.dtype)
        total = total + (y * (fx.asarray(weights) if library is fx else weights)).sum()
    return total


def _differences(call: Call, want: Sequence[np.ndarray]) -> Slope | None:
    """The slope along the directions, by differences; None where there is nothing to have one."""
    wide = _wide(call.arrays)
    if not wide or not any(y.dtype in INEXACT for y in want):
        return None
    step = COARSE if _narrow(want) else STEP

    def at(k: float) -> Any:
        arrays = list(call.arrays)
        for i, d in zip(wide, _directions(call.arrays), strict=True):
            arrays[i] = (arrays[i] + k * step * d).astype(arrays[i].dtype)
        return _total([y.astype("float64" if y.dtype.kind != "c" else y.dtype)
                       for y in call.values(arrays)], np)  # fmt: skip

    try:
        with quiet():
            value = float((8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step))
        return Slope(value, 5e-2 if step == COARSE else 1e-4)
    except Exception:
        return None


def _narrow(outs: Sequence[np.ndarray]) -> bool:
    """Whether there are results, of casts, that have too few digits for differences of a step."""
    return any(y.dtype in (*FLOATING - {np.dtype("float64")}, np.complex64) for y in outs)


def _of_wide(call: Call) -> tuple[Callable[..., Any], list[Tensor]]:
    wide = _wide(call.arrays)
    given = [fx.asarray(x) for x in call.arrays]

    def function(*xs: Tensor) -> Any:
        for i, x in zip(wide, xs, strict=True):
            given[i] = x
        return _total(call(*given), fx)

    return function, [given[i] for i in wide]


def _grad(call: Call, slope: Slope) -> None:
    function, xs = _of_wide(call)
    found = fx.grad(function, argnums=tuple(range(len(xs))))(*xs)
    pairs = zip(found, _directions(call.arrays), strict=True)
    slope.check(sum(float((g.numpy() * d).sum()) for g, d in pairs))


def _jvp(call: Call, slope: Slope) -> None:
    function, xs = _of_wide(call)
    tangents = [fx.asarray(d) for d in _directions(call.arrays)]
    slope.check(float(fx.jvp(function, tuple(xs), tuple(tangents))[1].item()))
