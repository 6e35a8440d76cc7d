"""Losses."""

from __future__ import annotations

import warnings
from math import exp, prod
from typing import Any

import fx.prims.compare as compare
import fx.prims.elementwise as elementwise
import fx.prims.indexing as indexing
import fx.prims.reduction as reduction_prims
import fx.prims.shape as shape_prims
from fx.dtypes import INEXACT, INTEGRAL
from fx.errors import DTypeError, ShapeError
from fx.ops.operands import argument, floating, operands
from fx.prims.creation import constant_like
from fx.prims.families import broadcast_shapes
from fx.tensor import Tensor
from fx.transforms import custom_jvp

REDUCTIONS = ("none", "mean", "sum")


def reduction_of(size_average: Any, reduce: Any, reduction: str) -> str:
    """The reduction, also from PyTorch's old pair of flags.

    Raises:
        ValueError: if it is none of "none", "mean", "sum".
    """
    if size_average is not None or reduce is not None:
        if reduce is False:
            return "none"
        return "sum" if size_average is False else "mean"
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction!r} is not a valid value for reduction; use none, mean or sum")
    return reduction


def _reduced(losses: Tensor, how: str) -> Tensor:
    if how == "none":
        return losses
    total = _total(losses)
    return total if how == "sum" else total / losses.size


def _total(x: Tensor) -> Tensor:
    return reduction_prims.sum(x, axes=tuple(range(x.ndim)), keepdims=False)  # type: ignore[no-any-return]


def _pair(name: str, input: Any, target: Any, strict: bool = False) -> tuple[Tensor, Tensor]:
    """Input and target promoted; shapes that differ are a warning, or an error where ``strict``."""
    x, y = operands(name, input, target, True)
    if x.shape != y.shape:
        fix = "bring them to one shape, for example with x.squeeze(-1) or y.reshape(x.shape)"
        if strict:
            raise ShapeError(
                f"{name}: the input has shape {x.shape} and the target {y.shape}; {fix}"
            )
        both = broadcast_shapes(name, x.shape, y.shape)
        warnings.warn(
            f"{name}: the input has shape {x.shape} and the target {y.shape}, and the loss is over "
            f"all pairs of their broadcast {both}, which is rarely meant; {fix}",
            stacklevel=3,
        )
        x = shape_prims.broadcast_to(x, shape=both)
        y = shape_prims.broadcast_to(y, shape=both)
    return x, y


# distances --------------------------------------------------------------------------------------


def mse_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Tensor:
    """The squared difference.

    Args:
        input, target: of one shape; others are broadcast, with a warning.
        size_average, reduce: PyTorch's old form of ``reduction``.
        reduction: ``"mean"``, ``"sum"``, or ``"none"`` for a loss an element.
        weight: a factor an element; the mean is then divided by the sum of the weights.

    Raises:
        ShapeError: if the shapes do not broadcast.
        ValueError: for another ``reduction``.

    Example:
        >>> import fx
        >>> fx.nn.functional.mse_loss(fx.tensor([1.0, 2.0]), fx.tensor([1.0, 4.0]))
        tensor(2.)
    """
    x, y = _pair("mse_loss", input, target)
    how = reduction_of(size_average, reduce, reduction)
    return _weighted("mse_loss", elementwise.square(x - y), weight, how)


def l1_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Tensor:
    """The absolute difference; arguments as of ``mse_loss``.

    Example:
        >>> import fx
        >>> fx.nn.functional.l1_loss(fx.tensor([1.0, 2.0]), fx.tensor([1.0, 4.0]))
        tensor(1.)
    """
    x, y = _pair("l1_loss", input, target)
    how = reduction_of(size_average, reduce, reduction)
    return _weighted("l1_loss", elementwise.abs(x - y), weight, how)


def smooth_l1_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """``d**2 / (2 * beta)`` for differences d below ``beta``, ``|d| - beta / 2`` above.

    Raises:
        ShapeError: if the shapes do not broadcast.
        ValueError: if ``beta`` is negative, or for another ``reduction``.

    Example:
        >>> import fx
        >>> fx.nn.functional.smooth_l1_loss(fx.tensor([0.5, 4.0]), fx.zeros(2), reduction="none")
        tensor([0.1250, 3.5000])
    """
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: beta must not be negative, got {beta}")
    x, y = _pair("smooth_l1_loss", input, target)
    d = elementwise.abs(x - y)
    losses = d
    if beta:
        losses = compare.where(d < beta, elementwise.square(x - y) * (0.5 / beta), d - 0.5 * beta)
    return _reduced(losses, reduction_of(size_average, reduce, reduction))


def huber_loss(
    input: Any, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None
) -> Tensor:
    """``d**2 / 2`` for differences d below ``delta``, ``delta * (|d| - delta / 2)`` above.

    Raises:
        ShapeError: if the shapes do not broadcast.
        ValueError: if ``delta`` is not positive, or for another ``reduction``.

    Example:
        >>> import fx
        >>> fx.nn.functional.huber_loss(fx.tensor([0.5, 4.0]), fx.zeros(2), reduction="none")
        tensor([0.1250, 3.5000])
    """
    if delta <= 0:
        raise ValueError(f"huber_loss: delta must be positive, got {delta}")
    x, y = _pair("huber_loss", input, target)
    d = elementwise.abs(x - y)
    losses = compare.where(
        d <= delta, elementwise.square(x - y) * 0.5, (d - 0.5 * delta) * delta
    )
    if weight is not None:  # unlike that of the other two, its mean is over the elements
        losses = _weighted("huber_loss", losses, weight, "none")
    return _reduced(losses, reduction_of(None, None, reduction))


def _weighted(name: str, losses: Tensor, weight: Any, how: str) -> Tensor:
    if weight is None:
        return _reduced(losses, how)
    w = argument(name, weight)
    if w.shape != losses.shape:
        raise ShapeError(
            f"{name}: the weight must have the shape of the input {losses.shape}, got {w.shape}"
        )
    if how == "mean":
        return _total(losses * w) / _total(w)
    return _reduced(losses * w, how)


# probabilities of two classes -------------------------------------------------------------------


def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """``-(y * log(p) + (1 - y) * log(1 - p))`` of probabilities p; logarithms stop at -100.

    Args:
        input: probabilities in [0, 1].
        target: of the same shape, in [0, 1].
        weight: a factor that broadcasts to the losses.
        size_average, reduce: PyTorch's old form of ``reduction``.
        reduction: ``"mean"``, ``"sum"``, or ``"none"`` for a loss an element.

    Raises:
        ShapeError: if the shapes differ.

    Example:
        >>> import fx
        >>> fx.nn.functional.binary_cross_entropy(fx.tensor([0.5]), fx.tensor([1.0]))
        tensor(0.6931)
    """
    p, y = _pair("binary_cross_entropy", input, target, strict=True)
    losses = _bce(p, y)
    if weight is not None:
        losses = losses * weight
    return _reduced(losses, reduction_of(size_average, reduce, reduction))


@custom_jvp
def _bce(p: Tensor, y: Tensor) -> Tensor:
    return -(y * _log(p) + (1.0 - y) * _log(1.0 - p))


@_bce.defjvp
def _bce_rule(primals: Any, tangents: Any) -> tuple[Tensor, Tensor]:
    # PyTorch's slope, finite at 0 and 1 where the logarithms end
    (p, y), (tp, ty) = primals, tangents
    slope = (p - y) / elementwise.maximum((1.0 - p) * p, constant_like(1e-12, p))
    return _bce(p, y), tp * slope + ty * (_log(1.0 - p) - _log(p))


def _log(p: Tensor) -> Tensor:
    """log(p), at least -100; where it ends there, without a slope."""
    inside = p > _LEAST
    safe = compare.where(inside, p, constant_like(1.0, p))
    return compare.where(inside, elementwise.log(safe), constant_like(-100.0, p))


_LEAST = exp(-100.0)


def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Tensor:
    """``binary_cross_entropy`` of ``sigmoid(input)``, without its overflow.

    Args:
        input: logits of any shape.
        target: of the same shape, in [0, 1].
        weight: a factor that broadcasts to the losses.
        size_average, reduce: PyTorch's old form of ``reduction``.
        reduction: ``"mean"``, ``"sum"``, or ``"none"`` for a loss an element.
        pos_weight: a factor for the positive part, that broadcasts to the losses.

    Raises:
        ShapeError: if the shapes differ.

    Example:
        >>> import fx
        >>> fx.nn.functional.binary_cross_entropy_with_logits(fx.tensor([0.0]), fx.tensor([1.0]))
        tensor(0.6931)
    """
    x, y = _pair("binary_cross_entropy_with_logits", input, target, strict=True)
    if pos_weight is None:
        losses = (1.0 - y) * x + elementwise.softplus(-x)
    else:
        losses = (1.0 - y) * x + ((pos_weight - 1.0) * y + 1.0) * elementwise.softplus(-x)
    if weight is not None:
        losses = losses * weight
    return _reduced(losses, reduction_of(size_average, reduce, reduction))


# classes ----------------------------------------------------------------------------------------


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
    y = argument("cross_entropy", target)
    how = reduction_of(size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"cross_entropy: label_smoothing must be in [0, 1], got {label_smoothing}")
    if not x.ndim:
        raise ShapeError("cross_entropy takes logits (batch, classes, ...), got a scalar")
    axis = min(1, x.ndim - 1)
    log_p = reduction_prims.log_softmax(x, axis=axis)
    if y.dtype in INEXACT:
        return _soft_cross_entropy(log_p, y, weight, how, label_smoothing, axis)
    losses, factors, used = _at_target("cross_entropy", log_p, y, weight, ignore_index, axis)
    if not label_smoothing:
        return _class_mean(losses, factors, how)
    classes = x.shape[axis]
    spread = log_p if weight is None else log_p * _along(weight, log_p, axis)
    smooth = -reduction_prims.sum(spread, axes=(axis,), keepdims=False)
    smooth = compare.where(used, smooth, constant_like(0.0, smooth)) / classes
    mixed = losses * (1.0 - label_smoothing) + smooth * label_smoothing
    return _class_mean(mixed, factors, how)


def _soft_cross_entropy(
    log_p: Tensor, y: Tensor, weight: Any, how: str, label_smoothing: float, axis: int
) -> Tensor:
    if y.shape != log_p.shape:
        raise ShapeError(
            f"cross_entropy: a target of probabilities must have the shape of the input "
            f"{log_p.shape}, got {y.shape}; class indices must be integers: y.astype(fx.int64)"
        )
    if label_smoothing:
        y = y * (1.0 - label_smoothing) + label_smoothing / log_p.shape[axis]
    terms = log_p * y
    if weight is not None:
        terms = terms * _along(weight, log_p, axis)
    losses = -reduction_prims.sum(terms, axes=(axis,), keepdims=False)
    return _reduced(losses, how)  # the mean is over targets, whatever the weights


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
    y = argument("nll_loss", target)
    how = reduction_of(size_average, reduce, reduction)
    if not log_p.ndim:
        raise ShapeError("nll_loss takes log-probabilities (batch, classes, ...), got a scalar")
    axis = min(1, log_p.ndim - 1)
    losses, factors, _ = _at_target("nll_loss", log_p, y, weight, ignore_index, axis)
    return _class_mean(losses, factors, how)


def _at_target(
    name: str, log_p: Tensor, y: Tensor, weight: Any, ignore_index: int, axis: int
) -> tuple[Tensor, Tensor, Tensor]:
    """For each target: its loss, its factor (0 where ignored), and whether it is used."""
    shape = log_p.shape
    if y.dtype not in INTEGRAL:
        raise DTypeError(
            f"{name}: the target must hold class indices (integers) or, for cross_entropy, "
            f"probabilities, got {y.dtype.name}; write y.astype(fx.int64)"
        )
    if y.shape != (*shape[:axis], *shape[axis + 1 :]):
        raise ShapeError(
            f"{name}: for an input of shape {shape} the target must have shape "
            f"{(*shape[:axis], *shape[axis + 1 :])}, one class index for each, got {y.shape}; "
            f"perhaps y.squeeze(-1) or y.argmax(1)"
        )
    used = y != ignore_index
    safe = compare.where(used, y, constant_like(0, y))
    places = shape_prims.reshape(safe, shape=(*shape[:axis], 1, *shape[axis + 1 :]))
    picked = indexing.take_along_axis(log_p, places, axis=axis)
    zero = constant_like(0.0, log_p)
    losses = compare.where(used, -shape_prims.reshape(picked, shape=y.shape), zero)
    if weight is None:
        return losses, compare.astype(used, dtype=log_p.dtype), used
    w = argument(name, weight)
    if w.shape != (shape[axis],):
        raise ShapeError(
            f"{name}: the weight must have shape ({shape[axis]},), one a class, got {w.shape}"
        )
    factors = compare.where(used, indexing.take(w, safe, axis=0), zero)
    return losses * factors, factors, used


def _class_mean(losses: Tensor, factors: Tensor, how: str) -> Tensor:
    """The mean is over what is not ignored, weighted."""
    if how == "mean":
        return _total(losses) / _total(factors)
    return _reduced(losses, how)


def _along(weight: Any, x: Tensor, axis: int) -> Tensor:
    """A vector with one entry a class, shaped to broadcast against ``x``."""
    w = argument("cross_entropy", weight)
    n = x.shape[axis]
    if prod(w.shape) != n:
        raise ShapeError(f"cross_entropy: the weight must have shape ({n},), got {w.shape}")
    return shape_prims.reshape(w, shape=(n, *[1] * (x.ndim - axis - 1)))  # type: ignore[no-any-return]
