"""What calls gave, and whether two of them gave the same but for rounding."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import fx
from fx import dtypes
from fx.primitive import registry
from fx.tensor import Tensor

UNITS = 64  # in the last place of the largest value on the way: what rounding may differ by
NOISE = 2.0**-14  # of that value: what a last digit of an argument may decide, jumps are larger
TURNS = 16  # to see what last digits decide
MOVES = ("view", "strided", "move", "creation")  # kinds of primitives that compute nothing
_INVALID = (NameError, SyntaxError, IndentationError)


class Found(AssertionError):
    """Two things that should be equal differ."""


class Invalid(Exception):
    """The program says nothing: it fails without fx."""


class Outcome:
    """What a call gave: its result, or the exception that it raised.

    Attributes:
        function, args: what was called.
        value: the result.
        error: the exception; None for a result.
        scale: the largest magnitude among the tensors that the function held when it returned.
        coarsest: the largest machine epsilon among their dtypes.
    """

    def __init__(self, function: Callable[..., Any], args: Sequence[Any], watched: bool) -> None:
        self.function, self.args = function, args
        self.value: Any = None
        self.error: Exception | None = None
        self.scale, self.coarsest, self.loose = 0.0, 0.0, False
        code = getattr(function, "__code__", None)

        def watch(frame: Any, event: str, arg: Any) -> None:
            if event == "return" and frame.f_code is code:
                for x in frame.f_locals.values():
                    self.see(x)

        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            if watched and code is not None:
                sys.setprofile(watch)
            try:
                self.value = function(*args)
            except _INVALID as error:
                raise Invalid(str(error)) from error
            except Exception as error:
                self.error = error
            finally:
                sys.setprofile(None)
        self.see(self.value)

    def see(self, x: Any) -> None:
        """Take a value into account."""
        for leaf in leaves(x):
            if isinstance(leaf, Tensor) and leaf.dtype in dtypes.INEXACT and leaf.level < 0:
                array = numbers(leaf)
                finite = np.abs(array[np.isfinite(array)])
                size = float(finite.max()) if finite.size else 0.0
                self.scale = max(self.scale, size)
                limits = fx.finfo(dtypes.real_of(leaf.dtype))
                self.coarsest = max(self.coarsest, float(limits.eps))
                self.loose |= size > float(limits.max) ** 0.5  # the next product may overflow


def leaves(value: Any) -> list[Any]:
    """What lists, tuples and dicts hold, in order."""
    if isinstance(value, list | tuple):
        return [leaf for v in value for leaf in leaves(v)]
    if isinstance(value, dict):
        return [leaf for v in value.values() for leaf in leaves(v)]
    return [value]


def numbers(x: Tensor) -> np.ndarray:
    """The values of a tensor, in a dtype that NumPy has."""
    array = np.asarray(x.detach())
    return array.astype(np.float32) if array.dtype == dtypes.bfloat16 else array


def same(got: Outcome, want: Outcome, what: str) -> None:
    """Compare results: structure, dtypes, values; or the exceptions.

    Raises:
        Found: if they differ.
    """
    if want.error is not None or got.error is not None:
        kinds = [type(o.error).__name__ if o.error else "a result" for o in (got, want)]
        if kinds[0] != kinds[1]:
            raise Found(
                f"{what}: {kinds[0]}, expected {kinds[1]}: {got.error or got.value} against "
                f"{want.error or want.value}"
            ) from got.error
        return
    near(got.value, want, what)


def near(got: Any, want: Outcome, what: str) -> None:
    """Compare a value with that of an outcome.

    Raises:
        Found: if they differ.
        Invalid: if a last digit of the arguments decides what differs.
    """
    try:
        alike(got, want.value, what, want)
    except Found:
        if _is_noise(got, want):
            raise Invalid("rounding decides the value") from None
        raise


def _is_noise(got: Any, want: Outcome) -> bool:
    """Whether all that differs differs by a little that last digits on the way decide."""
    given, wanted = leaves(got), leaves(want.value)
    if fx.tree.structure(got) != fx.tree.structure(want.value) or _specs(given) != _specs(wanted):
        return False
    tensors = [(g, w) for g, w in zip(given, wanted) if isinstance(w, Tensor)]
    try:
        for g, w in zip(given, wanted):
            if not isinstance(w, Tensor):
                alike(g, w, "")
    except Found:
        return False
    halves = [[np.zeros(w.shape) for _, w in tensors] for _ in range(2)]
    for turn in range(TURNS):
        with _moving(turn) as move:
            other = Outcome(want.function, [move(x) for x in want.args], False)
        found = leaves(other.value)
        if _specs(found) != _specs(wanted):
            return False
        found = [x for x in found if isinstance(x, Tensor)]
        gaps = [_gaps(x, w) for x, (_, w) in zip(found, tensors)]
        if not turn and any(gap.any() for gap in gaps):
            return False  # it draws, or counts
        half = 2 * turn // TURNS
        halves[half] = [np.maximum(m, gap) for m, gap in zip(halves[half], gaps)]
    return any(_explain(moved, tensors, want) for moved in halves)


def _explain(moved: Sequence[np.ndarray], tensors: Sequence[Any], want: Outcome) -> bool:
    """Whether what last digits moved is about as much as what differs."""
    for (g, w), m in zip(tensors, moved):
        at = _wrong(numbers(g), numbers(w), w.dtype, want)
        gap = _gaps(g, w)[at].max(initial=0.0)
        if at.any() and not (gap <= NOISE * want.scale and m[at].max() > 0.1 * gap):
            return False
    return True


@contextmanager
def _moving(turn: int) -> Any:
    """While it lasts, what kernels compute is off by up to two units in the last place.

    Gives what moves a tensor in the same way. Turn 0 moves nothing. Whole numbers stay in the first
    half of the turns, since they may be exponents, and integers in all; in the second half whole
    numbers move too: the mean of equal elements is one of them or not, as a division rounds.
    """
    rng = np.random.default_rng(turn)

    def moved(array: Any) -> Any:
        if array.dtype not in dtypes.INEXACT or not turn:
            return array
        eps = float(fx.finfo(dtypes.real_of(array.dtype)).eps)
        ways = rng.integers(-2, 3, array.shape)
        with np.errstate(all="ignore"):
            if 2 * turn < TURNS:
                ways = ways * (array != np.round(array))
            return np.asarray(array * (1 + eps * ways)).astype(array.dtype)

    def moving(kernel: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arrays: Any, **params: Any) -> Any:
            out = kernel(*arrays, **params)
            return tuple(map(moved, out)) if isinstance(out, list | tuple) else moved(out)

        return run

    kernels = {p: p.cpu for p in registry.values() if p.kind not in MOVES}
    for primitive, kernel in kernels.items():
        primitive.cpu = moving(kernel)
    try:
        yield lambda x: fx.from_numpy(moved(np.asarray(x.detach()))) if type(x) is Tensor else x
    finally:
        for primitive, kernel in kernels.items():
            primitive.cpu = kernel


def _specs(values: Sequence[Any]) -> list[Any]:
    return [x.spec if isinstance(x, Tensor) else type(x) for x in values]


def _gaps(x: Tensor, y: Tensor) -> np.ndarray:
    with np.errstate(all="ignore"):
        a, b = numbers(x).astype(np.complex128), numbers(y).astype(np.complex128)
        return np.where((a == b) | ((a != a) & (b != b)), 0.0, np.abs(a - b))


def alike(got: Any, want: Any, what: str, measure: Outcome | None = None) -> None:
    """Compare two values of the same structure; tensors by dtype, shape and values.

    Raises:
        Found: naming the first place where they differ.
    """
    if isinstance(want, Tensor | np.ndarray):
        _tensors(got, want, what, measure)
    elif isinstance(want, list | tuple):
        if type(got) is not type(want) or len(got) != len(want):
            raise Found(f"{what}: got {got!r:.200}, expected {want!r:.200}")
        for i, (g, w) in enumerate(zip(got, want)):
            alike(g, w, f"{what}[{i}]", measure)
    elif isinstance(want, dict):
        if type(got) is not type(want) or list(got) != list(want):
            raise Found(f"{what}: got {got!r:.200}, expected {want!r:.200}")
        for key in want:
            alike(got[key], want[key], f"{what}[{key!r}]", measure)
    else:
        equal = type(got) is type(want) and (got == want or (got != got and want != want))
        if not equal or (isinstance(want, float) and str(got) != str(want)):  # -0.0
            raise Found(f"{what}: got {got!r:.200}, expected {want!r:.200}")


def _tensors(got: Any, want: Any, what: str, measure: Outcome | None) -> None:
    if type(got) is not type(want):
        raise Found(f"{what}: got {type(got).__name__}, expected {type(want).__name__}")
    if got.shape != want.shape or got.dtype != want.dtype:
        raise Found(
            f"{what}: got {got.dtype}{tuple(got.shape)}, expected {want.dtype}{tuple(want.shape)}"
        )
    g, w = (numbers(x) if isinstance(x, Tensor) else x for x in (got, want))
    wrong = _wrong(g, w, want.dtype, measure)
    if wrong.any():
        at = tuple(map(int, np.argwhere(wrong)[0]))
        raise Found(
            f"{what}: {int(wrong.sum())} of {wrong.size} elements of {want.dtype}{tuple(w.shape)} "
            f"differ, the first at {at}: got {g[at]!r}, expected {w[at]!r}"
        )


def _wrong(g: np.ndarray, w: np.ndarray, dtype: Any, measure: Outcome | None) -> np.ndarray:
    """Where two arrays of a dtype differ by more than roundings."""
    wrong = np.asarray((g != w) & ~((g != g) & (w != w)))
    if dtype in dtypes.INEXACT and wrong.any():
        finite = np.isfinite(g) & np.isfinite(w)
        if measure is not None and measure.loose:
            wrong &= finite  # near the end of the range the order of a sum decides
        if dtype in dtypes.COMPLEX:  # infinity times infinity: which of inf and nan, the order says
            wrong &= np.isfinite(g) | np.isfinite(w)
        eps = max(float(fx.finfo(dtypes.real_of(dtype)).eps), measure.coarsest if measure else 0)
        largest = np.abs(w[np.isfinite(w)]).max(initial=0.0)
        allowed = UNITS * eps * max(float(largest), measure.scale if measure else 0.0)
        with np.errstate(all="ignore"):
            wrong &= ~(finite & (np.abs(g.astype(complex) - w.astype(complex)) <= allowed))
    return wrong
