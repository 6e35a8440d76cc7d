"""Losses of distances and of probabilities of two classes; ``cross_entropy.py`` has the others."""

from __future__ import annotations

import warnings
from math import exp, nan
from typing import Any

from numpy import ndarray

import fx.prims.activations as prims
import fx.prims.compare as compare
import fx.prims.elementwise as elementwise
import fx.prims.reduction as reduction_prims
import fx.prims.shape as shape_prims
from fx.config import modes
from fx.errors import ShapeError
from fx.ops.autocasting import in_float32
from fx.ops.operands import argument, operands
from fx.ops.reductions.statistics import mean_of
from fx.prims.creation import constant_like
from fx.prims.families import broadcast_shapes
from fx.prims.fused import elements, fuse
from fx.quick import quick
from fx.tensor import Tensor
from fx.transforms import custom_jvp

REDUCTIONS = ("none", "mean", "sum")


def reduction_of(size_average: Any, reduce: Any, reduction: str) -> str:
    """The reduction, also from PyTorch's old pair of flags.

    Raises:
        ValueError: if it is none of "none", "mean", "sum".
    """
    if size_average is not None or reduce is not None:
        how = "sum" if size_average is False else "mean"
        how = "none" if reduce is False else how
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction={how!r} "
            f"instead.",
            stacklevel=3,
        )
        return how
    if reduction not in REDUCTIONS:
        raise ValueError(f"{reduction!r} is not a valid value for reduction; use none, mean or sum")
    return reduction


def reduced(losses: Tensor, how: str) -> Tensor:
    """The losses, their mean or their sum."""
    if how == "none":
        return losses
    return total(losses) if how == "sum" else mean_of(losses)


def total(x: Tensor) -> Tensor:
    """The sum of all elements."""
    return _sum(x, tuple(range(len(x._shape))), False)  # type: ignore[no-any-return]


_sum = quick(reduction_prims.sum, "axes", "keepdims")


def _pair(name: str, input: Any, target: Any, strict: bool = False) -> tuple[Tensor, Tensor]:
    """Input and target promoted; shapes that differ are a warning, or an error where ``strict``."""
    x, y = operands(name, input, target, True)
    if x._shape != y._shape:
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
        x = shape_prims.stretched(x, both)
        y = shape_prims.stretched(y, both)
    return x, y


# distances --------------------------------------------------------------------------------------


@in_float32
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
    return _weighted("mse_loss", prims.squared_error(x, y), weight, how)


@in_float32
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
    return _weighted("l1_loss", prims.absolute_error(x, y), weight, how)


@in_float32
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
    losses = prims.smooth_l1(x, y, beta=beta) if beta else prims.absolute_error(x, y)
    return reduced(losses, reduction_of(size_average, reduce, reduction))


@in_float32
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
    losses = prims.huber(x, y, delta=delta)
    if weight is not None:  # unlike that of the other two, its mean is over the elements
        losses = _weighted("huber_loss", losses, weight, "none")
    return reduced(losses, reduction_of(None, None, reduction))


def _weighted(name: str, losses: Tensor, weight: Any, how: str) -> Tensor:
    if weight is None:
        return reduced(losses, how)
    w = argument(name, weight)
    if w._shape != losses._shape:
        raise ShapeError(
            f"{name}: the weight must have the shape of the input {losses.shape}, got {w.shape}"
        )
    if how == "mean":
        return total(losses * w) / total(w)
    return reduced(losses * w, how)


# probabilities of two classes -------------------------------------------------------------------


@in_float32
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
        RuntimeError: if an element of either lies outside of [0, 1]. Under jit, vmap and grad,
            where values are not known, the loss and the slope of such an element are NaN.

    Example:
        >>> import fx
        >>> fx.nn.functional.binary_cross_entropy(fx.tensor([0.5]), fx.tensor([1.0]))
        tensor(0.6931)
    """
    p, y = _pair("binary_cross_entropy", input, target, strict=True)
    losses = _bce_at_once(_probabilities("input", p), _probabilities("target", y))
    if weight is not None:
        losses = losses * weight
    return reduced(losses, reduction_of(size_average, reduce, reduction))


def _probabilities(name: str, x: Tensor) -> Tensor:
    """The same numbers, all of [0, 1]: others are refused, or NaN where they are not known yet."""
    if not is_known(x):
        return nan_unless((x >= 0) & (x <= 1), x)
    if x.size:
        low, high = x._a.min(), x._a.max()
        if not (low >= 0 and high <= 1):
            raise RuntimeError(
                f"binary_cross_entropy: all elements of {name} should be between 0 and 1, got "
                f"{low} to {high}; for logits write binary_cross_entropy_with_logits"
            )
    return x


def is_known(x: Tensor) -> bool:
    """Whether the values of a tensor can be asked for, and no transform is about to change them."""
    return type(x) is Tensor and modes.stage is None and type(x._a) is ndarray


def nan_unless(valid: Tensor, x: Tensor) -> Tensor:
    """``x``, and NaN with NaN for a slope where it is not valid."""
    return x + compare.where(valid, constant_like(0.0, x), constant_like(nan, x))


@custom_jvp
def _bce_in_steps(p: Tensor, y: Tensor) -> Tensor:
    return _bce_of(p, y)


@_bce_in_steps.defjvp
def _bce_rule(primals: Any, tangents: Any) -> tuple[Tensor, Tensor]:
    (p, y), (tp, ty) = primals, tangents
    return _bce_in_steps(p, y), _bce_slope(tp, p, y) + ty * (_log(1.0 - p) - _log(p))


_bce_in_steps.is_closed = True


def _bce_of(p: Tensor, y: Tensor) -> Tensor:
    return -(y * _log(p) + (1.0 - y) * _log(1.0 - p))


def _bce_slope(ct: Tensor, p: Tensor, y: Tensor) -> Tensor:
    # PyTorch's, finite at 0 and 1 where the logarithms end
    return ct * (p - y) / elementwise.maximum((1.0 - p) * p, constant_like(1e-12, p))


def _bce_vjp(needs: Any, p: Tensor, y: Tensor) -> Any:
    def pullback(ct: Tensor) -> tuple[Tensor | None, Tensor | None]:
        return (
            None if needs[0] is None else _slope_of(ct, p, y),
            None if needs[1] is None else ct * (_log(1.0 - p) - _log(p)),
        )

    return pullback


_slope_of = elements("binary_cross_entropy_slope", _bce_slope)
_bce = fuse(
    "binary_cross_entropy", reference=_bce_in_steps, formula=_bce_of, words=(), vjp=_bce_vjp
)
_bce_at_once = quick(_bce, tensors=2)


def _log(p: Tensor) -> Tensor:
    """log(p), at least -100; where it ends there, without a slope."""
    ended = p <= _LEAST
    safe = compare.where(ended, constant_like(1.0, p), p)
    return compare.where(ended, constant_like(-100.0, p), elementwise.log(safe))


_LEAST = exp(-100.0)


@in_float32
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
        losses = prims.logistic_loss(x, y)
    else:
        losses = (1.0 - y) * x + ((pos_weight - 1.0) * y + 1.0) * elementwise.softplus(-x)
    if weight is not None:
        losses = losses * weight
    return reduced(losses, reduction_of(size_average, reduce, reduction))
