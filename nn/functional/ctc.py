"""Connectionist temporal classification."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes

import fx.prims.compare as compare
import fx.prims.creation as creation
import fx.prims.elementwise as elementwise
import fx.prims.indexing as indexing
import fx.prims.reduction as reduction_prims
from fx.dtypes import INTEGRAL, int64
from fx.errors import DTypeError, ShapeError
from fx.nn.functional._steps import steps
from fx.nn.functional.loss import reduced, reduction_of
from fx.ops.autocasting import in_float32
from fx.ops.convert import as_tensor
from fx.ops.operands import argument, cast, floating
from fx.ops.reductions.cumulative import cumsum
from fx.ops.shapes.joining import concat, stack
from fx.ops.shapes.splitting import unstack
from fx.prims.placement import device_put
from fx.prims.shape import broadcast_to, pad, reshape
from fx.prims.shape import slice as slice_prim
from fx.tensor import Tensor
from fx.transforms import custom_vjp


@in_float32
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """``-log`` of the probability of a label sequence, summed over all its alignments.

    Args:
        log_probs: (time, batch, classes), logarithms of probabilities, or (time, classes).
        targets: (batch, labels), integers; what lies beyond a length counts for nothing. Or the
            labels of all sequences one after the other, (sum of target_lengths,).
        input_lengths: (batch,), how many time steps each sequence has: a tensor or a list.
        target_lengths: (batch,), how many labels.
        blank: the class between labels.
        reduction: ``"mean"`` (of the losses divided by their target lengths), ``"sum"``, or
            ``"none"`` for a loss a sequence.
        zero_infinity: whether the loss of a target that is too long for its input is 0 instead of
            inf.

    Raises:
        ShapeError: if shapes do not fit, or a length exceeds what there is.
        DTypeError: if the targets are not integers.
        ValueError: if ``blank`` is no class, or for another ``reduction``.

    The gradient is PyTorch's: that of a loss behind ``log_softmax``, whether one stands there or
    not; NaN for a target that is too long, unless ``zero_infinity``.

    Source: Graves et al., "Connectionist temporal classification", 2006.

    Example:
        >>> import fx
        >>> log_probs = fx.log(fx.full((3, 1, 2), 0.5))
        >>> fx.nn.functional.ctc_loss(log_probs, fx.tensor([[1]]), [3], [1])
        tensor(0.2877)
    """
    x = floating("ctc_loss", log_probs)
    y = argument("ctc_loss", targets)
    how = reduction_of(None, None, reduction)
    if y._dtype not in INTEGRAL:
        raise DTypeError(f"ctc_loss: targets must be integers, got {y.dtype.name}")
    single = x.ndim == 2
    if single:
        x = reshape(x, shape=(x._shape[0], 1, x._shape[1]))
    if x.ndim != 3:
        raise ShapeError(
            f"ctc_loss takes log_probs (time, batch, classes) or (time, classes), got {x.shape}"
        )
    time, batch, classes = x._shape
    if not 0 <= blank < classes:
        raise ValueError(f"ctc_loss: blank must be one of the {classes} classes, got {blank}")
    lengths = _lengths("input_lengths", input_lengths, x, time)
    counts = _lengths("target_lengths", target_lengths, x, None)
    labels = _labels(cast(y, int64), counts, batch, blank)  # (batch, labels)
    losses = _losses(x, labels, lengths, counts, blank)
    losses = losses + _of_distributions(x, lengths, compare.isfinite(losses))
    if zero_infinity:
        zero = creation.constant_like(0.0, losses)
        losses = compare.where(compare.isinf(losses), zero, losses)
    if how == "mean":
        least = elementwise.maximum(counts, creation.constant_like(1, counts))
        losses = losses / cast(least, losses.dtype)
    return reshape(losses, shape=()) if single else reduced(losses, how)


def _losses(x: Tensor, labels: Tensor, lengths: Tensor, counts: Tensor, blank: int) -> Tensor:
    """For each sequence the negative logarithm of the sum over all alignments: (batch,)."""
    time, batch, _ = x._shape
    states = 2 * labels._shape[1] + 1
    never = creation.constant_like(-math.inf, x)
    between = broadcast_to(creation.constant_like(blank, labels), shape=labels._shape)
    path = reshape(stack([between, labels], axis=2), shape=(batch, states - 1))
    path = pad(path, creation.constant_like(blank, path), low=(0, 0), high=(0, 1), inside=(0, 0))
    # a label may follow another one without a blank if they differ
    before = _moved(path, 2, creation.constant_like(blank, path))
    skips = (path != blank) & (path != before)
    emitted = indexing.take_along_axis(
        x, broadcast_to(path, shape=(time, batch, states)), axis=2
    )  # (time, batch, states)
    clock = _count(time, lengths, (time, 1, 1), 0)
    runs = broadcast_to(clock, shape=(time, batch, 1)) < broadcast_to(
        reshape(lengths, shape=(1, batch, 1)), shape=(time, batch, 1)
    )
    place = _count(states, lengths, (batch, states), 1)
    start = compare.where(place == 0, creation.constant_like(0.0, x), never)
    alpha = alignments(start, emitted, runs, skips)
    last = reshape(counts * 2, shape=(batch, 1))
    ends = (place == broadcast_to(last, shape=place.shape)) | (
        place == broadcast_to(last - 1, shape=place.shape)
    )
    total = compare.where(ends, alpha, never)
    return -reduction_prims.logsumexp(total, axes=(1,), keepdims=False)


@custom_vjp
def _of_distributions(x: Tensor, lengths: Tensor, possible: Tensor) -> Tensor:
    """Zeros (batch,), whose gradient makes that of the loss PyTorch's.

    PyTorch takes ``x`` (time, batch, classes) for logarithms of probabilities that add up to 1, and
    gives the derivative by what a softmax before it was computed of: ``exp(x)`` is added up to each
    sequence's length. Behind ``log_softmax`` that changes nothing. Where no alignment is
    ``possible`` the gradient is NaN.
    """
    return creation.full(shape=(x._shape[1],), value=0.0, dtype=x._dtype, device=x.device.name)


def _kept(x: Tensor, lengths: Tensor, possible: Tensor) -> Any:
    return _of_distributions(x, lengths, possible), (x, lengths, possible)


def _pull_distributions(residuals: tuple[Tensor, ...], ct: Tensor) -> tuple[Tensor | None, ...]:
    x, lengths, possible = residuals
    time, batch, _ = x.shape
    zero, nan = [creation.constant_like(v, x) for v in (0.0, math.nan)]
    line = [reshape(v, shape=(1, batch, 1)) for v in (ct, lengths, possible)]
    ct, lengths, possible = [broadcast_to(v, shape=x.shape) for v in line]
    clock = broadcast_to(_count(time, lengths, (time, 1, 1), 0), shape=x.shape)
    slope = ct * compare.where(possible, elementwise.exp(x), nan)
    used = (clock < lengths) & (ct != zero)
    return compare.where(used, slope, zero), None, None


_of_distributions.defvjp(_kept, _pull_distributions)
_of_distributions.is_closed = True


def _ways(alpha: Tensor, skip: Tensor) -> Tensor:
    """What leads to each state: itself, the one before, the one before that: (3, batch, states)."""
    never = creation.constant_like(-math.inf, alpha)
    two = compare.where(skip, _moved(alpha, 2, never), never)
    return stack([alpha, _moved(alpha, 1, never), two], axis=0)


def _run(start: Tensor, emitted: Tensor, runs: Tensor, skips: Tensor, saving: bool) -> list[Tensor]:
    """Alpha at the end, and of every step what it began with."""

    def step(alpha: Tensor, emission: Tensor, run: Tensor, skip: Tensor) -> list[Tensor]:
        after = reduction_prims.logsumexp(_ways(alpha, skip), axes=(0,), keepdims=False) + emission
        after = compare.where(broadcast_to(run, shape=alpha._shape), after, alpha)
        return [after, alpha] if saving else [after]

    return steps(
        ("ctc", "saving" if saving else "forward"), step, [start], [emitted, runs], [skips]
    )


def _pull(residuals: tuple[Tensor, ...], ct: Tensor) -> tuple[Tensor | None, ...]:
    alphas, runs, skips = residuals

    def step(ct: Tensor, alpha: Tensor, run: Tensor, skip: Tensor) -> list[Tensor]:
        run = broadcast_to(run, shape=ct._shape)
        zero = creation.constant_like(0.0, ct)
        stays, ct = compare.where(run, zero, ct), compare.where(run, ct, zero)
        ways = _ways(alpha, skip)
        total = reduction_prims.logsumexp(ways, axes=(0,), keepdims=False)
        # where nothing leads -inf is lifted, so that -inf - total stays -inf instead of nan
        least = creation.constant_like(_LEAST[ct._dtype.name], ct)
        total = elementwise.maximum(total, least)
        shares = elementwise.exp(ways - broadcast_to(total, shape=ways.shape))
        parts = [ct * x for x in unstack(shares, axis=0)]
        back = parts[0] + _moved_back(parts[1], 1) + _moved_back(parts[2], 2)
        return [back + stays, ct]

    (start, emitted) = steps(("ctc", "backward"), step, [ct], [alphas, runs], [skips], reverse=True)
    return start, emitted, None, None


@custom_vjp
def alignments(start: Tensor, emitted: Tensor, runs: Tensor, skips: Tensor) -> Tensor:
    """The logarithm of the sum over all beginnings that end in each state: (batch, states)."""
    return _run(start, emitted, runs, skips, False)[0]


def _forward(start: Tensor, emitted: Tensor, runs: Tensor, skips: Tensor) -> Any:
    last, before = _run(start, emitted, runs, skips, True)
    return last, (before, runs, skips)


alignments.defvjp(_forward, _pull)
alignments.is_closed = True
_LEAST = {
    name: float(ml_dtypes.finfo(name).min) for name in ("float16", "bfloat16", "float32", "float64")
}


def _moved_back(x: Tensor, by: int) -> Tensor:
    """(batch, states) moved towards the first state, zeros behind."""
    batch, states = x._shape
    by = min(by, states)
    kept = slice_prim(x, start=(0, by), stop=(batch, states), step=(1, 1))
    zero = creation.constant_like(0.0, x)
    return pad(kept, zero, low=(0, 0), high=(0, by), inside=(0, 0))


def _moved(x: Tensor, by: int, fill: Tensor) -> Tensor:
    """(batch, states) moved along the states."""
    batch, states = x._shape
    by = min(by, states)
    kept = slice_prim(x, start=(0, 0), stop=(batch, states - by), step=(1, 1))
    return pad(kept, fill, low=(0, by), high=(0, 0), inside=(0, 0))


def _count(size: int, like: Tensor, shape: tuple[int, ...], axis: int) -> Tensor:
    return creation.iota(
        shape=shape, axis=axis, start=0, step=1, dtype=int64, device=like.device.name
    )


def _lengths(name: str, given: Any, like: Tensor, most: int | None) -> Tensor:
    """The lengths (batch,), on the device of ``like`` (time, batch, classes)."""
    batch = like._shape[1]
    x = as_tensor(given)
    if x._dtype not in INTEGRAL:
        raise DTypeError(f"ctc_loss: {name} must be integers, got {x.dtype.name}")
    if not x.ndim:
        x = reshape(x, shape=(1,))
    if x._shape != (batch,):
        raise ShapeError(f"ctc_loss: {name} must have shape ({batch},), got {x.shape}")
    known = _known(x)
    if any(n < 0 or (most is not None and n > most) for n in known):
        up_to = "" if most is None else f" and at most the {most} time steps"
        raise ShapeError(f"ctc_loss: {name} must not be negative{up_to}, got {known}")
    there = like.device
    return cast(x if x.device == there else device_put(x, device=there.name), int64)


def _known(lengths: Tensor) -> list[int]:
    """The lengths, where they are known now."""
    values = type(lengths) is Tensor and lengths.device.name != "meta"
    return lengths.tolist() if values else []


def _labels(y: Tensor, counts: Tensor, batch: int, blank: int) -> Tensor:
    """The labels as (batch, labels), blanks beyond their lengths."""
    if y.ndim == 1:
        longest = int(counts.max()) if batch else 0
        shape = (batch, longest)
        starts = reshape(cumsum(counts, axis=0) - counts, shape=(batch, 1))
        places = broadcast_to(starts, shape=shape) + _count(longest, counts, shape, 1)
        total = int(counts.sum())
        if total != y._shape[0]:
            raise ShapeError(
                f"ctc_loss: target_lengths add up to {total}, but targets {y.shape} are given one "
                f"after the other; they must be as many"
            )
        last = creation.constant_like(max(total - 1, 0), places)
        y = concat([y, broadcast_to(creation.constant_like(blank, y), shape=(1,))], axis=0)
        found = indexing.take(y, elementwise.minimum(places, last), axis=0)
    elif y.ndim == 2 and y._shape[0] == batch:
        found, shape = y, y._shape
        if any(n > shape[1] for n in _known(counts)):
            raise ShapeError(
                f"ctc_loss: target_lengths must be at most the {shape[1]} labels of targets "
                f"{y.shape}, got {counts.tolist()}"
            )
    else:
        raise ShapeError(
            f"ctc_loss: targets must be (batch, labels) with a batch of {batch}, or one after the "
            f"other (sum of target_lengths,), got {y.shape}"
        )
    used = _count(shape[1], counts, shape, 1) < broadcast_to(
        reshape(counts, shape=(batch, 1)), shape=shape
    )
    return compare.where(used, found, creation.constant_like(blank, found))
