"""What found programs assert: that what is compiled, batched or looped is what runs eagerly."""

from __future__ import annotations

import random
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import fx
from fx import dtypes
from fx.errors import BatchedValueError, EscapedTracerError
from fx.primitive import registry
from fx.tensor import Tensor

UNITS = 64  # in the last place of the largest value on the way: what rounding may differ by
NOISE = 2.0**-14  # of that value: what a last digit of an argument may decide, jumps are larger
TURNS = 8  # to see what last digits decide
MOVES = ("view", "strided", "move", "creation")  # kinds of primitives that compute nothing
_INVALID = (NameError, SyntaxError, IndentationError)


class Found(AssertionError):
    """Two things that should be equal differ."""


class Invalid(Exception):
    """The program says nothing: it fails without fx."""


# outcomes ---------------------------------------------------------------------------------------


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
        for leaf in _leaves(x):
            if isinstance(leaf, Tensor) and leaf.dtype in dtypes.INEXACT and leaf.level < 0:
                array = numbers(leaf)
                finite = np.abs(array[np.isfinite(array)])
                size = float(finite.max()) if finite.size else 0.0
                self.scale = max(self.scale, size)
                limits = fx.finfo(dtypes.real_of(leaf.dtype))
                self.coarsest = max(self.coarsest, float(limits.eps))
                self.loose |= size > float(limits.max) ** 0.5  # the next product may overflow


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [leaf for v in value for leaf in _leaves(v)]
    if isinstance(value, dict):
        return [leaf for v in value.values() for leaf in _leaves(v)]
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
    given, wanted = _leaves(got), _leaves(want.value)
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
        found = _leaves(other.value)
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


def _specs(leaves: Sequence[Any]) -> list[Any]:
    return [x.spec if isinstance(x, Tensor) else type(x) for x in leaves]


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


# checks -----------------------------------------------------------------------------------------


def compiled(function: Callable[..., Any], *args: Any) -> None:
    """``jit(f)`` gives what ``f`` gives, twice."""
    want = Outcome(function, args, True)
    fast = fx.jit(function)
    for turn in ("first", "second"):
        same(Outcome(fast, args, False), want, f"jit, {turn} call")


def batched(function: Callable[..., Any], *args: Any) -> None:
    """``vmap(f)``, plain and compiled, gives what the loop over lanes gives."""
    lanes = [args, tuple(np_rolled(x) for x in args)]
    wants = [Outcome(function, lane, True) for lane in lanes]
    if any(want.error for want in wants):
        raise Invalid("a lane fails")
    if any(_shapes(want.value) != _shapes(wants[0].value) for want in wants):
        raise Invalid("shapes depend on values")
    stacked = [fx.stack([a, b]) for a, b in zip(*lanes)]
    for what, batch in (("vmap", fx.vmap(function)), ("jit(vmap)", fx.jit(fx.vmap(function)))):
        got = Outcome(batch, stacked, False)
        if isinstance(got.error, BatchedValueError):
            raise Invalid(str(got.error))
        if got.error is not None:
            raise Found(f"{what}: {type(got.error).__name__}: {got.error}") from got.error
        for i, want in enumerate(wants):
            near([x[i] for x in got.value], want, f"{what}, lane {i}")


def np_rolled(x: Any) -> Any:
    """Another lane of an argument: its values in another order."""
    return fx.from_numpy(np.roll(np.asarray(x.detach()), 1)) if isinstance(x, Tensor) else x


def _shapes(value: Any) -> list[Any]:
    return [getattr(x, "shape", None) for x in _leaves(value)]


def calls(function: Callable[..., Any], *each: Sequence[Any]) -> None:
    """``jit(f)``, called with one tuple of arguments after the other, gives what ``f`` gives."""
    fast = fx.jit(function)
    for n, args in enumerate(each):
        want = Outcome(function, args, True)
        same(Outcome(fast, args, False), want, f"jit, call {n}")


def at_sizes(
    function: Callable[..., Any], sizes: Sequence[int], inputs: Sequence[Any], derived: Any
) -> None:
    """``jit(f)``, called at one size after the other, gives what ``f`` gives.

    Args:
        function: of tensors.
        sizes: of its calls.
        inputs: functions from a size to an argument.
        derived: whether its gradients are asked for too, "outside" if of the jitted function.
    """

    def slopes(f: Any) -> Any:
        def run(*args: Any) -> Any:
            out, pullback = fx.vjp(f, *args)
            seeds = [x * 0.25 + 1 if x.dtype in dtypes.FLOATING else fx.zeros_like(x) for x in out]
            return [*out, *pullback(seeds)]

        return run

    plain = slopes(function) if derived else function
    fast = slopes(fx.jit(function)) if derived == "outside" else fx.jit(plain)
    for n in sizes:
        args = [given(n) for given in inputs]
        want = Outcome(plain, args, True)
        if derived and want.error is None:  # the function's own values are on the way
            whole = Outcome(function, args, True)
            want.scale, want.loose = max(want.scale, whole.scale), want.loose | whole.loose
        # what sums up to little has the roundings of all that it adds up
        want.scale *= max([x.size for x in args], default=1) ** 0.5
        same(Outcome(fast, args, False), want, f"jit, size {n}")


def derived(function: Callable[..., Any], way: str, w: Any) -> None:
    """What a function of a tensor (3,) and a number gives in a way is what it gives compiled.

    Args:
        function: gives a number.
        way: one of ``WAYS`` in ``histories.py``: the derivative is taken inside of ``jit``, or of
            the jitted function, outside of it.
        w: a parameter that it reads.
    """
    inside = way.endswith("inside") or way == "values"
    taken = {
        "values": lambda f: f,
        "backward": lambda f: lambda x, n: _gathered(f, x, n, w),
        "forward": lambda f: lambda x, n: list(fx.jvp(lambda x: f(x, n), (x,), (x + 1,))),
        "both": lambda f: lambda x, n: fx.jacfwd(fx.grad(lambda x: f(x, n)))(x),
    }.get(way.split()[0], lambda f: lambda x, n: fx.grad(lambda x: f(x, n))(x))
    plain = taken(function)
    fast = fx.jit(plain) if inside else taken(fx.jit(function))
    for i, n in enumerate((2, 2, 2.5, 0.5, 2, 3)):
        x = fx.tensor([0.25, 0.75, -1.125], dtype=fx.float64) * (1, -1, 0.5)[i % 3]
        want = Outcome(plain, (x, n), True)
        if want.error is None:  # the function's own values are on the way
            want.scale = max(want.scale, Outcome(function, (x, n), True).scale)
        same(Outcome(fast, (x, n), False), want, f"{way}, call {i}")


def _gathered(f: Callable[..., Any], x: Tensor, n: Any, w: Any) -> list[Any]:
    """The value, and what backward() leaves in x and in w."""
    x, w.grad = x.detach().requires_grad_(), None
    out = f(x, n)
    if out.requires_grad:
        out.backward()
    grads = [fx.full((3,), 99.0) if t.grad is None else t.grad.clone() for t in (x, w)]
    return [out.detach(), *grads]


@contextmanager
def unchanged_modes() -> Any:
    """See that grad mode, default dtype and device are the same afterwards."""

    def modes() -> tuple[Any, ...]:
        return fx.is_grad_enabled(), fx.is_inference_mode_enabled(), str(fx.ones(1).spec)

    before = modes()
    yield
    if modes() != before:
        raise Found(f"modes: {modes()}, before {before}")


def _shown(state: Any) -> str:
    """The state as text, without where its objects lie."""
    return re.sub(r"0x[0-9a-f]+", "0x…", repr(state))


def worlds(world: Callable[[], Any], turns: int) -> None:
    """A jitted function gives and leaves what the plain one gives and leaves, turn after turn.

    Args:
        world: makes a function of a tensor, one that changes the state before a turn, and one
            that shows the state.
        turns: how many calls there are.
    """
    records = []
    for how in (lambda f: f, fx.jit):
        random.seed(1)
        np.random.seed(1)
        function, change, seen = world()
        called = how(function)
        record: list[tuple[Outcome, Any]] = []
        for turn in range(turns):
            try:
                change(turn)
            except Exception as error:
                raise Invalid(str(error)) from error
            x = fx.arange(3.0) + turn
            record.append((Outcome(called, (x,), called is function), _shown(seen())))
        records.append(record)
    for turn, ((want, left), (got, state)) in enumerate(zip(*records)):
        if turn == 0 and want.error is not None:
            raise Invalid(str(want.error))
        if isinstance(got.error, EscapedTracerError):
            raise Invalid(str(got.error))  # it keeps a tensor in a container, which is refused
        same(got, want, f"call {turn}")
        if state != left:
            raise Found(f"state after call {turn}: {state}, expected {left}")
