"""Recurrences of RNN, LSTM and GRU over whole sequences: one operation with a rule of its own.

What a step takes from its input is computed for all steps at once, outside; here a step is what
depends on the step before. The way back gives the cotangents of the gates of every step, and the
gradients of the weights follow from them in one product over all steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import fx.prims.compare as compare
import fx.prims.elementwise as ew
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
from fx.nn.functional._steps import steps
from fx.prims.creation import constant_like
from fx.prims.linear import matmul
from fx.tensor import Tensor
from fx.transforms import custom_vjp

Flat = list[Tensor]


def recurrence(
    mode: str,
    gates: Tensor,
    carry: Sequence[Tensor],
    weight: Tensor,
    biases: Sequence[Tensor] = (),
    projection: Tensor | None = None,
    keep: Tensor | None = None,
    reverse: bool = False,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """One layer in one direction over a sequence.

    Args:
        mode: ``"LSTM"``, ``"GRU"``, ``"RNN_TANH"`` or ``"RNN_RELU"``.
        gates: (time, batch, gates * hidden), the products of inputs and their weight.
        carry: the state at the start: h (batch, output), and of an LSTM c (batch, hidden).
        weight: (gates * hidden, output), of the state.
        biases: of the input and of the state, (gates * hidden,) each; or none.
        projection: (output, hidden), of an LSTM whose output is smaller than its state.
        keep: (time, batch, 1) bool, False where a sequence has ended and its state stays.
        reverse: whether to start with the last step.

    Returns:
        the outputs (time, batch, output), and the state at the end.
    """
    outs = _recurrence(
        (mode, reverse), gates, tuple(carry), weight, tuple(biases), projection, keep
    )
    return outs[0], tuple(outs[1:])


def step(
    mode: str,
    gates: Tensor,
    carry: Sequence[Tensor],
    weight: Tensor,
    biases: Sequence[Tensor] = (),
) -> Flat:
    """The state after one step, by ordinary operations; arguments as of ``recurrence``."""
    after: Flat = _STEPS[mode](carry, gates, _t(weight), tuple(biases))[0]
    return after


def _run(
    how: tuple[str, bool],
    gates: Tensor,
    carry: tuple[Tensor, ...],
    weight: Tensor,
    biases: tuple[Tensor, ...],
    projection: Tensor | None,
    keep: Tensor | None,
    saving: bool = False,
) -> Flat:
    """The state at the end, the outputs, and what the way back needs of every step."""
    mode, reverse = how
    rows = [gates] if keep is None else [gates, keep]
    rest = _given(_t(weight), *biases, None if projection is None else _t(projection))
    masked, biased, n, end = keep is not None, len(biases), len(carry), len(carry) + len(rows)

    def forward(*xs: Tensor) -> Flat:
        now, row, w = xs[:n], xs[n:end], xs[end]
        after, saved = _STEPS[mode](now, row[0], w, xs[end + 1 :][:biased], *xs[end + 1 + biased :])
        if masked:
            after = [compare.where(_wide(row[1], a), a, b) for a, b in zip(after, now)]
        return [*after, after[0], *saved, *after[1:]] if saving else [*after, after[0]]

    key = (mode, "saving" if saving else "forward", masked, biased, projection is not None)
    return steps(key, forward, carry, rows, rest, reverse)


def recurrent(how: Any, gates: Any, carry: Any, *rest: Any) -> Flat:
    """The outputs, and the state at the end."""
    out, n = _run(how, gates, carry, *rest), len(carry)
    return [out[n], *out[:n]]


def _fwd(how: Any, gates: Any, carry: Any, *rest: Any) -> tuple[Flat, Any]:
    out, n = _run(how, gates, carry, *rest, saving=True), len(carry)
    return [out[n], *out[:n]], (carry, *rest, out[n:])


def _bwd(how: tuple[str, bool], residuals: Any, cts: Any) -> tuple[Any, ...]:
    mode, reverse = how
    carry, weight, biases, projection, keep, (ys, *saved) = residuals
    dy, *dcarry = cts
    before = _before(carry[0], ys, reverse)  # the states that the steps began with
    more = {"LSTM": [], "GRU": [before]}.get(mode, [ys])
    if mode == "LSTM":
        more = [_before(carry[1], saved[-1], reverse)]
    rows = _given(dy, *saved, *more, keep)
    rest = _given(weight, projection)
    masked, n, end = keep is not None, len(carry), len(carry) + len(rows)

    def backward(*xs: Tensor) -> Flat:
        now, row, fixed = [xs[0] + xs[n], *xs[1:n]], xs[n + 1 : end], xs[end:]
        if not masked:
            after, outs = _BACKS[mode](now, row, *fixed)
            return [*after, *outs]
        zero = constant_like(0.0, now[0])
        runs = [_wide(row[-1], x) for x in now]
        stays = [compare.where(r, zero, x) for r, x in zip(runs, now)]
        now = [compare.where(r, x, zero) for r, x in zip(runs, now)]
        after, outs = _BACKS[mode](now, row[:-1], *fixed)
        return [*[a + b for a, b in zip(after, stays)], *outs]

    key = (mode, "backward", masked, projection is not None)
    found = steps(key, backward, dcarry, rows, rest, not reverse)
    dcarry, dgates, more = found[:n], found[n], found[n + 1 :]
    hidden = dgates
    if mode == "GRU":  # the state's part of the third gate has a cotangent of its own
        (third,) = more
        hidden = shape_prims.concatenate(_columns(dgates, 0, 2 * third.shape[-1]), third, axis=2)
    dweight = _over_all_steps(hidden, before)
    dprojection = None
    if projection is not None:
        (dh,) = more
        *_, o, c = saved
        dprojection = _over_all_steps(dh, o * ew.tanh(c))
    dbiases: tuple[Tensor, ...] = ()
    if biases:
        of_input = reduction.sum(dgates, axes=(0, 1), keepdims=False)
        of_state = of_input
        if hidden is not dgates:
            of_state = reduction.sum(hidden, axes=(0, 1), keepdims=False)
        dbiases = (of_input, of_state)
    return dgates, tuple(dcarry), dweight, dbiases, dprojection, None


_recurrence = custom_vjp(recurrent, nondiff_argnums=(0,))
_recurrence.defvjp(_fwd, _bwd)
_recurrence.is_closed = True


# steps: the state, the gates of the input, weights (in, out) -> the state after, what is saved ----


def _elman_step(now: Sequence[Tensor], x: Tensor, w: Tensor, biases: Any, activation: Any) -> Any:
    x = x + matmul(now[0], w)
    if biases:
        x = _plus(x, biases[0] + biases[1])
    return [activation(x)], []


def _lstm_step(
    now: Sequence[Tensor], x: Tensor, w: Tensor, biases: Any, p: Tensor | None = None
) -> Any:
    h, c = now
    x = x + matmul(h, w)
    if biases:
        x = _plus(x, biases[0] + biases[1])
    i, f, g, o = _parts(x, 4)  # (batch, hidden) each
    i, f, g, o = ew.sigmoid(i), ew.sigmoid(f), ew.tanh(g), ew.sigmoid(o)
    c = f * c + i * g
    h = o * ew.tanh(c)
    return [h if p is None else matmul(h, p), c], [i, f, g, o]


def _gru_step(now: Sequence[Tensor], x: Tensor, w: Tensor, biases: Any) -> Any:
    (h,) = now
    hidden = matmul(h, w)
    if biases:
        x, hidden = _plus(x, biases[0]), _plus(hidden, biases[1])
    xr, xz, xn = _parts(x, 3)
    hr, hz, hn = _parts(hidden, 3)
    r, z = ew.sigmoid(xr + hr), ew.sigmoid(xz + hz)
    n = ew.tanh(xn + r * hn)
    return [n + z * (h - n)], [r, z, n, hn]


_STEPS: dict[str, Callable[..., Any]] = {
    "RNN_TANH": lambda now, x, w, b: _elman_step(now, x, w, b, ew.tanh),
    "RNN_RELU": lambda now, x, w, b: _elman_step(now, x, w, b, ew.relu),
    "LSTM": _lstm_step,
    "GRU": _gru_step,
}


# steps back: cotangents of the state, what was saved, weights -> cotangents before, rows ----------


def _tanh_back(now: Sequence[Tensor], saved: Sequence[Tensor], w: Tensor) -> Any:
    (dh,), (h,) = now, saved
    dgates = dh * (1.0 - h * h)
    return [matmul(dgates, w)], [dgates]


def _relu_back(now: Sequence[Tensor], saved: Sequence[Tensor], w: Tensor) -> Any:
    (dh,), (h,) = now, saved
    dgates = compare.where(h > 0, dh, constant_like(0.0, dh))
    return [matmul(dgates, w)], [dgates]


def _lstm_back(
    now: Sequence[Tensor], saved: Sequence[Tensor], w: Tensor, p: Tensor | None = None
) -> Any:
    (dh, dc), (i, f, g, o, c, before) = now, saved
    dm = dh if p is None else matmul(dh, p)  # (batch, hidden)
    t = ew.tanh(c)
    dc = dc + dm * o * (1.0 - t * t)
    parts = [
        dc * g * i * (1.0 - i),
        dc * before * f * (1.0 - f),
        dc * i * (1.0 - g * g),
        dm * t * o * (1.0 - o),
    ]
    dgates = shape_prims.concatenate(*parts, axis=1)
    outs = [dgates] if p is None else [dgates, dh]
    return [matmul(dgates, w), dc * f], outs


def _gru_back(now: Sequence[Tensor], saved: Sequence[Tensor], w: Tensor) -> Any:
    (dh,), (r, z, n, hn, before) = now, saved
    dn = dh * (1.0 - z) * (1.0 - n * n)
    dz = dh * (before - n) * z * (1.0 - z)
    dr = dn * hn * r * (1.0 - r)
    third = dn * r
    hidden = shape_prims.concatenate(dr, dz, third, axis=1)
    dgates = shape_prims.concatenate(dr, dz, dn, axis=1)
    return [matmul(hidden, w) + dh * z], [dgates, third]


_BACKS: dict[str, Callable[..., Any]] = {
    "RNN_TANH": _tanh_back,
    "RNN_RELU": _relu_back,
    "LSTM": _lstm_back,
    "GRU": _gru_back,
}


# pieces -------------------------------------------------------------------------------------------


def _t(w: Tensor) -> Tensor:
    return shape_prims.transposed(w, (1, 0))


def _columns(x: Tensor, start: int, stop: int) -> Tensor:
    lead = x._shape[:-1]
    return shape_prims.slice(
        x, start=(*[0] * len(lead), start), stop=(*lead, stop), step=(1,) * x.ndim
    )


def _parts(x: Tensor, count: int) -> list[Tensor]:
    """Equal parts of the last axis."""
    size = x._shape[-1] // count
    return [_columns(x, k * size, (k + 1) * size) for k in range(count)]


def _plus(x: Tensor, b: Tensor) -> Tensor:
    return x + shape_prims.stretched(b, x._shape)


def _given(*xs: Tensor | None) -> Flat:
    return [x for x in xs if x is not None]


def _wide(keep: Tensor, x: Tensor) -> Tensor:
    """(batch, 1) as the shape of ``x``."""
    return shape_prims.stretched(keep, x._shape)


def _before(start: Tensor, rows: Tensor, reverse: bool) -> Tensor:
    """The state that each step began with, (time, batch, features)."""
    first = shape_prims.reshaped(start, (1, *start._shape))
    length, zeros = rows._shape[0], (0,) * start.ndim
    one = (1,) * rows.ndim
    if reverse:
        rest = shape_prims.slice(rows, start=(1, *zeros), stop=rows._shape, step=one)
        return shape_prims.concatenate(rest, first, axis=0)
    rest = shape_prims.slice(rows, start=(0, *zeros), stop=(length - 1, *rows._shape[1:]), step=one)
    return shape_prims.concatenate(first, rest, axis=0)


def _over_all_steps(ct: Tensor, x: Tensor) -> Tensor:
    """The gradient of a weight: (time, batch, out), (time, batch, in) to (out, in)."""
    rows = ct._shape[0] * ct._shape[1]
    left = shape_prims.reshaped(ct, (rows, ct._shape[2]))
    right = shape_prims.reshaped(x, (rows, x._shape[2]))
    return matmul(_t(left), right)
