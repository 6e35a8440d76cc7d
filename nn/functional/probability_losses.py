"""Losses of distributions: Gaussian, Poisson, Kullback-Leibler, and of several labels at once."""

from __future__ import annotations

import math
import warnings
from typing import Any

import fx.prims.compare as compare
import fx.prims.elementwise as elementwise
import fx.prims.reduction as reduction_prims
from fx.errors import ShapeError
from fx.nn.functional.loss import is_known, nan_unless, reduced, reduction_of
from fx.ops.autocasting import in_float32
from fx.ops.operands import argument, floating, operands, promoted
from fx.ops.pointwise.composed import xlogy
from fx.prims.compare import stop_gradient
from fx.prims.creation import constant_like
from fx.prims.fused import elements
from fx.quick import quick
from fx.tensor import Tensor


def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """``(log(var) + (input - target)**2 / var) / 2``.

    Args:
        input: expectations, any shape.
        target: of the same shape, or one that broadcasts to it.
        var: variances: of the same shape, without the last axis, with one axis of size 1, or one
            number.
        full: whether the constant ``log(2 pi) / 2`` is added.
        eps: the least variance; below, the gradient is that at ``eps``.
        reduction: ``"mean"``, ``"sum"``, or ``"none"`` for a loss an element.

    Raises:
        ValueError: if a variance is negative, or for another ``reduction``. Under jit, vmap and
            grad, where values are not known, the loss of a negative variance is NaN.
        ShapeError: if the shapes do not fit.

    Example:
        >>> import fx
        >>> fx.nn.functional.gaussian_nll_loss(fx.tensor([1.0]), fx.tensor([3.0]), fx.ones(1))
        tensor(2.)
    """
    x, y, v = promoted("gaussian_nll_loss", floating("gaussian_nll_loss", input), target, var)
    how = reduction_of(None, None, reduction)
    if not is_known(v):
        v = nan_unless(v >= 0, v)
    elif bool((v < 0).any()):
        raise ValueError("gaussian_nll_loss: var has negative entry/entries")
    if v.ndim and v.shape != x.shape:
        if v.shape == x.shape[:-1]:
            v = v.reshape((*v.shape, 1))
        elif v.ndim != x.ndim or sum(b for a, b in zip(x.shape, v.shape) if a != b) != 1:
            raise ShapeError(
                f"gaussian_nll_loss: var is of incorrect size {v.shape} for an input {x.shape}; it "
                f"has the shape of the input, lacks its last axis, or has one axis of size 1"
            )
    v = v + stop_gradient(elementwise.maximum(v, constant_like(eps, v)) - v)
    losses = (elementwise.log(v) + elementwise.square(x - y) / v) * 0.5
    if full:
        losses = losses + 0.5 * math.log(2.0 * math.pi)
    return reduced(losses, how)


@in_float32
def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: Any = None,
    eps: float = 1e-8,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """``exp(input) - target * input``, or of rates ``input - target * log(input + eps)``.

    Args:
        input: logarithms of rates, or rates.
        target: counts, of a shape that broadcasts.
        log_input: whether the input are logarithms.
        full: whether Stirling's approximation of ``log(target!)`` is added.
        size_average, reduce: PyTorch's old form of ``reduction``.
        eps: against the logarithm of 0.
        reduction: ``"mean"``, ``"sum"``, or ``"none"`` for a loss an element.

    Raises:
        ShapeError: if the shapes do not broadcast.
        ValueError: for another ``reduction``.

    Example:
        >>> import fx
        >>> fx.nn.functional.poisson_nll_loss(fx.tensor([0.0]), fx.tensor([2.0]))
        tensor(1.)
    """
    x, y = operands("poisson_nll_loss", input, target, True)
    how = reduction_of(size_average, reduce, reduction)
    losses = elementwise.exp(x) - y * x if log_input else x - y * elementwise.log(x + eps)
    if full:
        large = y > 1
        safe = compare.where(large, y, constant_like(1.0, y))
        terms = safe * elementwise.log(safe) - safe + 0.5 * elementwise.log(2.0 * math.pi * safe)
        losses = losses + compare.where(large, terms, constant_like(0.0, y))
    return reduced(losses, how)


_divergence = quick(elements("kl_div", lambda x, y: xlogy(y, y) - y * x), tensors=2)


@in_float32
def kl_div(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """``target * (log(target) - input)``: the input are logarithms of probabilities.

    Args:
        input: logarithms of probabilities, any shape.
        target: probabilities, of a shape that broadcasts; their logarithms if ``log_target``.
        size_average, reduce: PyTorch's old form of ``reduction``.
        reduction: ``"batchmean"`` for the divergence, the sum divided by the first size;
            ``"mean"`` (over elements), ``"sum"``, or ``"none"`` for a term an element.
        log_target: whether the target are logarithms.

    Raises:
        ShapeError: if the shapes do not broadcast.
        ValueError: for another ``reduction``.

    Example:
        >>> import fx
        >>> half = fx.full((1, 2), 0.5)
        >>> fx.nn.functional.kl_div(fx.log(half), half, reduction="batchmean")
        tensor(0.)
    """
    x, y = operands("kl_div", input, target, True)
    if size_average is None and reduce is None and reduction == "mean":
        warnings.warn(
            "kl_div: reduction='mean' divides by the number of elements; the divergence is "
            "reduction='batchmean', which divides by the batch size",
            stacklevel=2,
        )
    by_batch = reduction == "batchmean" and size_average is None and reduce is None
    how = "sum" if by_batch else reduction_of(size_average, reduce, reduction)
    terms = elementwise.exp(y) * (y - x) if log_target else _divergence(x, y)
    out = reduced(terms, how)
    return out / x.shape[0] if by_batch and x.ndim else out


def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross-entropy of logits, averaged over the classes of the last axis.

    Args:
        input: logits (..., classes).
        target: of the same shape, in [0, 1].
        weight: a factor a class.
        size_average, reduce: PyTorch's old form of ``reduction``.
        reduction: ``"mean"``, ``"sum"``, or ``"none"`` for a loss a row.

    Raises:
        ShapeError: if the shapes do not broadcast, or the input is a scalar.
        ValueError: for another ``reduction``.

    Example:
        >>> import fx
        >>> x, y = fx.zeros((1, 3)), fx.tensor([[1.0, 0.0, 1.0]])
        >>> fx.nn.functional.multilabel_soft_margin_loss(x, y)
        tensor(0.6931)
    """
    x, y = operands("multilabel_soft_margin_loss", input, target, True)
    if not x.ndim:
        raise ShapeError("multilabel_soft_margin_loss takes (..., classes), got a scalar")
    how = reduction_of(size_average, reduce, reduction)
    losses = y * elementwise.softplus(-x) + (1.0 - y) * elementwise.softplus(x)
    if weight is not None:
        losses = losses * argument("multilabel_soft_margin_loss", weight)
    rows = reduction_prims.sum(losses, axes=(losses.ndim - 1,), keepdims=False)
    return reduced(rows / x.shape[-1], how)


@in_float32
def soft_margin_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """``log(1 + exp(-target * input))``, where targets are 1 and -1.

    Args:
        input: any shape.
        target: of a shape that broadcasts.
        size_average, reduce: PyTorch's old form of ``reduction``.
        reduction: ``"mean"``, ``"sum"``, or ``"none"`` for a loss an element.

    Raises:
        ShapeError: if the shapes do not broadcast.
        ValueError: for another ``reduction``.

    Example:
        >>> import fx
        >>> fx.nn.functional.soft_margin_loss(fx.tensor([0.0]), fx.tensor([1.0]))
        tensor(0.6931)
    """
    x, y = operands("soft_margin_loss", input, target, True)
    losses = elementwise.softplus(-(y * x))
    return reduced(losses, reduction_of(size_average, reduce, reduction))
