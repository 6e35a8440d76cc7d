"""Losses of classes: cross-entropy and the negative log-likelihood."""

from __future__ import annotations

from math import prod
from typing import Any

import fx.prims.compare as compare
import fx.prims.losses as losses_prims
import fx.prims.reduction as reduction_prims
import fx.prims.shape as shape_prims
from fx.dtypes import INEXACT, INTEGRAL, int64
from fx.errors import DTypeError, IndexingError, ShapeError
from fx.nn.functional.loss import reduced, reduction_of, total
from fx.ops.autocasting import in_float32
from fx.ops.operands import argument, cast, floating
from fx.prims.creation import constant_like
from fx.tensor import Tensor


@in_float32
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """``-log(softmax(input))`` at the target class, or averaged over a target distribution.

    Args:
        input: logits (batch, classes, ...), or (classes,).
        target: class indices (batch, ...) as integers, or probabilities of the input's shape.
        weight: (classes,), a factor a class; the mean is then divided by the sum of the factors.
        size_average, reduce: PyTorch's old form of ``reduction``.
        ignore_index: a target index that counts for nothing.
        reduction: ``"mean"``, ``"sum"``, or ``"none"`` for a loss a target.
        label_smoothing: the share, in [0, 1], of a uniform distribution mixed into the target.

    Raises:
        ShapeError: if the shapes do not fit.
        DTypeError: if the target is neither integers nor floating.
        IndexingError: if a class index is out of range.
        ValueError: if ``label_smoothing`` is not in [0, 1], or for another ``reduction``.

    Example:
        >>> import fx
        >>> logits = fx.tensor([[0.0, 0.0], [100.0, 0.0]])
        >>> fx.nn.functional.cross_entropy(logits, fx.tensor([1, 1]), reduction="none")
        tensor([  0.6931, 100.0000])
    """
    x = floating("cross_entropy", input)
    y = argument("cross_entropy", target, x)
    how = reduction_of(size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"cross_entropy: label_smoothing must be in [0, 1], got {label_smoothing}")
    sizes = x._shape
    if not sizes:
        raise ShapeError("cross_entropy takes logits (batch, classes, ...), got a scalar")
    axis = min(1, len(sizes) - 1)
    plain = weight is None and not label_smoothing and len(sizes) == 2 and x._dtype.itemsize > 2
    if plain and y._dtype in INTEGRAL and y._shape == sizes[:1]:
        try:
            return losses_prims.cross_entropy_of(x, cast(y, int64), ignore_index, how)  # type: ignore[no-any-return]
        except IndexError:
            raise _outside("cross_entropy", x, axis, ignore_index) from None
    log_p = reduction_prims.log_softmax(x, axis=axis)
    if y._dtype in INEXACT:
        return _soft_cross_entropy(log_p, y, weight, how, label_smoothing, axis)
    if not label_smoothing:
        return _at_classes("cross_entropy", log_p, y, weight, ignore_index, axis, how)
    y, factors = _fitting("cross_entropy", log_p, y, weight, axis)
    try:
        losses, shares, used = losses_prims.at_targets(
            log_p, y, *factors, axis=axis, ignore_index=ignore_index
        )
    except IndexError:
        raise _outside("cross_entropy", log_p, axis, ignore_index) from None
    spread = log_p if weight is None else log_p * _along(weight, log_p, axis)
    smooth = -reduction_prims.sum(spread, axes=(axis,), keepdims=False)
    smooth = compare.where(used, smooth, constant_like(0.0, smooth)) / max(x._shape[axis], 1)
    mixed = losses * (1.0 - label_smoothing) + smooth * label_smoothing
    return total(mixed) / total(shares) if how == "mean" else reduced(mixed, how)


def _soft_cross_entropy(
    log_p: Tensor, y: Tensor, weight: Any, how: str, label_smoothing: float, axis: int
) -> Tensor:
    if y._shape != log_p._shape:
        raise ShapeError(
            f"cross_entropy: a target of probabilities must have the shape of the input "
            f"{log_p.shape}, got {y.shape}; class indices must be integers: y.astype(fx.int64)"
        )
    if label_smoothing:
        y = y * (1.0 - label_smoothing) + label_smoothing / max(log_p._shape[axis], 1)
    terms = log_p * y
    if weight is not None:
        terms = terms * _along(weight, log_p, axis)
    losses = -reduction_prims.sum(terms, axes=(axis,), keepdims=False)
    return reduced(losses, how)  # the mean is over targets, whatever the weights


@in_float32
def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """The negative of the input at the target class: ``cross_entropy`` of log-probabilities.

    Args:
        input: log-probabilities (batch, classes, ...), or (classes,).
        target: class indices (batch, ...).
        weight, size_average, ignore_index, reduce, reduction: as of ``cross_entropy``.

    Raises:
        ShapeError, DTypeError, IndexingError, ValueError: as of ``cross_entropy``.

    Example:
        >>> import fx
        >>> fx.nn.functional.nll_loss(fx.tensor([[-1.0, -2.0]]), fx.tensor([1]))
        tensor(2.)
    """
    log_p = floating("nll_loss", input)
    y = argument("nll_loss", target, log_p)
    how = reduction_of(size_average, reduce, reduction)
    sizes = log_p._shape
    rank = len(sizes)
    if not rank:
        raise ShapeError("nll_loss takes log-probabilities (batch, classes, ...), got a scalar")
    axis = 1 if rank > 1 else 0
    if weight is None and rank == 2 and y._dtype is int64 and y._shape == sizes[:1]:
        try:
            return losses_prims.nll_of(log_p, y, axis, ignore_index, how)  # type: ignore[no-any-return]
        except IndexError:
            raise _outside("nll_loss", log_p, axis, ignore_index) from None
    return _at_classes("nll_loss", log_p, y, weight, ignore_index, axis, how)


def _at_classes(
    name: str, log_p: Tensor, y: Tensor, weight: Any, ignore_index: int, axis: int, how: str
) -> Tensor:
    y, factors = _fitting(name, log_p, y, weight, axis)
    try:
        if factors:
            return losses_prims.weighted_nll_of(log_p, y, *factors, axis, ignore_index, how)  # type: ignore[no-any-return]
        return losses_prims.nll_of(log_p, y, axis, ignore_index, how)  # type: ignore[no-any-return]
    except IndexError:
        raise _outside(name, log_p, axis, ignore_index) from None


def _fitting(
    name: str, log_p: Tensor, y: Tensor, weight: Any, axis: int
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The targets as int64, and the weight if there is one."""
    shape = log_p._shape
    if y._dtype not in INTEGRAL:
        raise DTypeError(
            f"{name}: the target must hold class indices (integers) or, for cross_entropy, "
            f"probabilities, got {y.dtype.name}; write y.astype(fx.int64)"
        )
    wanted = (*shape[:axis], *shape[axis + 1 :])
    if y._shape != wanted:
        raise ShapeError(
            f"{name}: for an input of shape {shape} the target must have shape "
            f"{wanted}, one class index for each, got {y.shape}; "
            f"perhaps y.squeeze(-1) or y.argmax(1)"
        )
    y = cast(y, int64)  # which holds any ignore_index
    if weight is None:
        return y, ()
    w = argument(name, weight)
    if w._shape != (shape[axis],):
        raise ShapeError(
            f"{name}: the weight must have shape ({shape[axis]},), one a class, got {w.shape}"
        )
    return y, (w,)


def _outside(name: str, x: Tensor, axis: int, ignore_index: int) -> IndexingError:
    return IndexingError(
        f"{name}: the target holds a class outside 0..{x._shape[axis] - 1}, the classes of "
        f"an input of shape {x._shape}; mark targets to be left out with "
        f"ignore_index={ignore_index}, or write ignore_index=-1 if that is their mark"
    )


def _along(weight: Any, x: Tensor, axis: int) -> Tensor:
    """A vector with one entry a class, shaped to broadcast against ``x``."""
    w = argument("cross_entropy", weight)
    n = x._shape[axis]
    if prod(w._shape) != n:
        raise ShapeError(f"cross_entropy: the weight must have shape ({n},), got {w.shape}")
    return shape_prims.reshaped(w, (n, *[1] * (x.ndim - axis - 1)))
