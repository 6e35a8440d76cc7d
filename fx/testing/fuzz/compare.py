"""What found programs assert: that what is compiled, batched or looped is what runs eagerly."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import fx
from fx import dtypes
from fx.errors import BatchedValueError, EscapedTracerError
from fx.tensor import Tensor
from fx.testing.fuzz.outcomes import Found, Invalid, Outcome, leaves, near, same


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
    return [getattr(x, "shape", None) for x in leaves(value)]


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
