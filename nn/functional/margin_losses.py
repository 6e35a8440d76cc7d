"""Losses with margins: ranking, hinges, embeddings, triplets, several classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fx.prims.compare as compare
import fx.prims.cumulative as cumulative
import fx.prims.elementwise as elementwise
import fx.prims.indexing as indexing
import fx.prims.reduction as reduction_prims
from fx.dtypes import INTEGRAL, int64
from fx.errors import DTypeError, ShapeError
from fx.nn.functional.distance import pairwise_distance
from fx.nn.functional.loss import reduced, reduction_of
from fx.ops.autocasting import in_float32
from fx.ops.operands import argument, cast, floating, operands, promoted
from fx.ops.operands import classes as classes_within
from fx.ops.pointwise.composed import clip
from fx.prims.creation import constant_like, iota
from fx.prims.fused import fuse, of_reference
from fx.prims.shape import broadcast_to, reshape
from fx.tensor import Tensor


@in_float32
def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, margin - target * (input1 - input2))``: a target of 1 wants the first larger.

    Args:
        input1, input2: of shapes that broadcast.
        target: 1 or -1, likewise; all three have the same number of axes.
        margin: how much larger.
        size_average, reduce: PyTorch's old form of ``reduction``.
        reduction: ``"mean"``, ``"sum"``, or ``"none"`` for a loss an element.

    Raises:
        ShapeError: if the numbers of axes differ, or the shapes do not broadcast.
        ValueError: for another ``reduction``.

    Example:
        >>> import fx
        >>> a, b, y = fx.tensor([1.0]), fx.tensor([3.0]), fx.tensor([1.0])
        >>> fx.nn.functional.margin_ranking_loss(a, b, y)
        tensor(2.)
    """
    name = "margin_ranking_loss"
    x1, x2, y = promoted(name, floating(name, input1), input2, target)
    if not x1.ndim == x2.ndim == y.ndim:
        raise ShapeError(
            f"{name}: inputs and target must have the same number of axes, got {x1.shape}, "
            f"{x2.shape} and {y.shape}"
        )
    losses = clip(margin - y * (x1 - x2), 0.0)
    return reduced(losses, reduction_of(size_average, reduce, reduction))


@in_float32
def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """The input where the target is 1, ``max(0, margin - input)`` where it is -1.

    Args:
        input: distances, any shape.
        target: 1 or -1, of a shape that broadcasts.
        margin: how far apart dissimilar pairs should be.
        size_average, reduce: PyTorch's old form of ``reduction``.
        reduction: ``"mean"``, ``"sum"``, or ``"none"`` for a loss an element.

    Raises:
        ShapeError: if the shapes do not broadcast.
        ValueError: for another ``reduction``.

    Example:
        >>> import fx
        >>> x, y = fx.tensor([0.2, 0.2]), fx.tensor([1.0, -1.0])
        >>> fx.nn.functional.hinge_embedding_loss(x, y, reduction="none")
        tensor([0.2000, 0.8000])
    """
    x, y = operands("hinge_embedding_loss", input, target, True)
    zero = constant_like(0.0, x)
    apart, near = (
        compare.where(y != 1, clip(margin - x, 0.0), zero),
        compare.where(y != -1, x, zero),
    )
    return reduced(apart + near, reduction_of(size_average, reduce, reduction))


@in_float32
def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """``1 - cos`` where the target is 1, ``max(0, cos - margin)`` where it is -1.

    Args:
        input1, input2: (batch, features), or (features,).
        target: (batch,), or a scalar: 1 or -1.
        margin: in [-1, 1].
        size_average, reduce: PyTorch's old form of ``reduction``.
        reduction: ``"mean"``, ``"sum"``, or ``"none"`` for a loss a row.

    Raises:
        ShapeError: if the shapes do not fit.
        ValueError: for another ``reduction``.

    Example:
        >>> import fx
        >>> a, b = fx.tensor([[3.0, 4.0]]), fx.tensor([[4.0, 3.0]])
        >>> fx.nn.functional.cosine_embedding_loss(a, b, fx.tensor([1]))
        tensor(0.0400)
    """
    x1, x2 = operands("cosine_embedding_loss", input1, input2, True)
    y = argument("cosine_embedding_loss", target)
    if y.ndim > 1 or x1.ndim != y.ndim + 1 or x2.ndim != x1.ndim:
        raise ShapeError(
            f"cosine_embedding_loss takes inputs (batch, features) and a target (batch,), or "
            f"(features,) and a scalar, got {x1.shape}, {x2.shape} and {y.shape}"
        )
    dot = lambda a, b: reduction_prims.sum(a * b, axes=(y.ndim,), keepdims=False)
    cosine = dot(x1, x2) / elementwise.sqrt((dot(x1, x1) + 1e-12) * (dot(x2, x2) + 1e-12))
    zero = constant_like(0.0, cosine)
    near = compare.where(y == 1, 1.0 - cosine, zero)
    apart = compare.where(y == -1, clip(cosine - margin, 0.0), zero)
    return reduced(near + apart, reduction_of(size_average, reduce, reduction))


@in_float32
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))`` of p-norm distances d.

    Args:
        anchor, positive, negative: (batch, features), or (features,).
        margin: how much farther the negative should be.
        p: of the norm.
        eps: added to differences.
        swap: whether the negative's distance to the positive counts where it is smaller.
        size_average, reduce: PyTorch's old form of ``reduction``.
        reduction: ``"mean"``, ``"sum"``, or ``"none"`` for a loss a row.

    Raises:
        ShapeError: if the shapes do not fit.
        ValueError: if ``margin`` is not positive, or for another ``reduction``.

    Source: Balntas et al., "Learning shallow convolutional feature descriptors with triplet
        losses", 2016.

    Example:
        >>> import fx
        >>> a, p, n = fx.zeros((1, 2)), fx.zeros((1, 2)), fx.tensor([[0.3, 0.4]])
        >>> fx.nn.functional.triplet_margin_loss(a, p, n, eps=0.0)
        tensor(0.5000)
    """
    return _triplet(
        "triplet_margin_loss", anchor, positive, negative, margin, swap,
        lambda a, b: pairwise_distance(a, b, p, eps), reduction_of(size_average, reduce, reduction),
    )  # fmt: skip


def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """``triplet_margin_loss`` with a distance of one's own.

    Args:
        anchor, positive, negative: what the distance takes.
        distance_function: gives the distance of two of them; ``pairwise_distance`` unless told.
        margin, swap, reduction: as of ``triplet_margin_loss``.

    Raises:
        ShapeError: if the numbers of axes differ.
        ValueError: if ``margin`` is not positive, or for another ``reduction``.

    Example:
        >>> import fx
        >>> a, p, n = fx.zeros((1, 2)), fx.zeros((1, 2)), fx.tensor([[0.3, 0.4]])
        >>> fx.nn.functional.triplet_margin_with_distance_loss(
        ...     a, p, n, distance_function=lambda x, y: abs(x - y).sum(-1)
        ... )
        tensor(0.3000)
    """
    return _triplet(
        "triplet_margin_with_distance_loss", anchor, positive, negative, margin, swap,
        distance_function or pairwise_distance, reduction_of(None, None, reduction),
    )  # fmt: skip


def _triplet(
    name: str,
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float,
    swap: bool,
    distance: Callable[[Any, Any], Tensor],
    how: str,
) -> Tensor:
    if margin <= 0:
        raise ValueError(f"{name}: margin must be greater than 0, got {margin}")
    a, p, n = (argument(name, x) for x in (anchor, positive, negative))
    if not a.ndim == p.ndim == n.ndim:
        raise ShapeError(
            f"{name}: anchor, positive and negative must have the same number of axes, got "
            f"{a.shape}, {p.shape} and {n.shape}"
        )
    near, far = distance(a, p), distance(a, n)
    if swap:
        far = elementwise.minimum(far, distance(p, n))
    return reduced(clip(margin + near - far, 0.0), how)


# several classes --------------------------------------------------------------------------------


@in_float32
def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """The sum over other classes of ``max(0, margin - x[target] + x[i])**p``, by their number.

    Args:
        input: scores (batch, classes), or (classes,).
        target: the class of each row, (batch,) or a scalar.
        p: 1 or 2.
        margin: how much larger the target's score should be.
        weight: (classes,), a factor a class.
        size_average, reduce: PyTorch's old form of ``reduction``.
        reduction: ``"mean"``, ``"sum"``, or ``"none"`` for a loss a row.

    Raises:
        ShapeError, DTypeError: if shapes do not fit, or the target is not integers.
        IndexingError: if a class is out of range.
        ValueError: for another ``p`` or ``reduction``.

    Example:
        >>> import fx
        >>> fx.nn.functional.multi_margin_loss(fx.tensor([[0.1, 0.2, 0.4]]), fx.tensor([2]))
        tensor(0.5000)
    """
    name = "multi_margin_loss"
    x = floating(name, input)
    y = _classes(name, target, x)
    how = reduction_of(size_average, reduce, reduction)
    if p not in (1, 2):
        raise ValueError(f"{name}: only p == 1 and p == 2 are supported, got {p}")
    scores, single = _matrix(name, x)
    rows, classes = scores.shape
    if y.shape not in ((rows,), () if single else (rows,)):
        raise ShapeError(
            f"{name}: an input {x.shape} takes one class a row, ({rows},), got a target {y.shape}"
        )
    y = reshape(classes_within(name, y, classes), shape=(rows, 1))
    own = indexing.take_along_axis(scores, y, axis=1)  # (rows, 1)
    terms = elementwise.relu(margin - broadcast_to(own, shape=scores.shape) + scores)
    if p == 2:
        terms = elementwise.square(terms)
    if weight is not None:
        w = argument(name, weight)
        if w._shape != (classes,):
            raise ShapeError(f"{name}: weight must have shape ({classes},), got {w.shape}")
        terms = terms * indexing.take(w, y, axis=0)
    other = _places(scores) != broadcast_to(y, shape=scores.shape)
    terms = compare.where(other, terms, constant_like(0.0, terms))
    losses = reduction_prims.sum(terms, axes=(1,), keepdims=False) / classes
    return reduced(reshape(losses, shape=()) if single else losses, how)


@in_float32
def multilabel_margin_loss(
    input: Any,
    target: Any,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:
    """The sum over labels t and other classes i of ``max(0, 1 - x[t] + x[i])``, by classes.

    Args:
        input: scores (batch, classes), or (classes,).
        target: of the same shape, integers: in each row the labels, then -1.
        size_average, reduce: PyTorch's old form of ``reduction``.
        reduction: ``"mean"``, ``"sum"``, or ``"none"`` for a loss a row.

    Raises:
        ShapeError, DTypeError: if shapes differ, or the target is not integers.
        ValueError: for another ``reduction``.

    Example:
        >>> import fx
        >>> x, y = fx.tensor([[0.1, 0.2, 0.4, 0.8]]), fx.tensor([[3, 0, -1, 1]])
        >>> fx.nn.functional.multilabel_margin_loss(x, y)
        tensor(0.8500)
    """
    name = "multilabel_margin_loss"
    x = floating(name, input)
    y = _classes(name, target, x)
    how = reduction_of(size_average, reduce, reduction)
    if x._shape != y.shape:
        raise ShapeError(f"{name}: the input has shape {x.shape} and the target {y.shape}")
    scores, single = _matrix(name, x)
    losses = _multilabel(scores, reshape(y, shape=scores.shape))
    return reduced(reshape(losses, shape=()) if single else losses, how)


def _multilabel_in_steps(scores: Tensor, y: Tensor) -> Tensor:
    rows, classes = scores.shape
    counts = cast(y >= 0, int64)
    named = cumulative.cumprod(counts, axis=1, reverse=False) == 1  # (rows, labels): before the -1
    safe = compare.where(named, y, constant_like(0, y))
    own = reshape(indexing.take_along_axis(scores, safe, axis=1), shape=(rows, classes, 1))
    cube = (rows, classes, classes)  # labels, then classes
    wide = lambda a, shape: broadcast_to(reshape(a, shape=shape), shape=cube)
    hits = wide(safe, (rows, classes, 1)) == wide(_places(scores), (rows, 1, classes))
    hits = hits & wide(named, (rows, classes, 1))
    labels = reduction_prims.any(hits, axes=(1,), keepdims=True)  # (rows, 1, classes)
    terms = elementwise.relu(1.0 - broadcast_to(own, shape=cube) + wide(scores, (rows, 1, classes)))
    used = wide(named, (rows, classes, 1)) & ~broadcast_to(labels, shape=cube)
    terms = compare.where(used, terms, constant_like(0.0, terms))
    return reduction_prims.sum(terms, axes=(1, 2), keepdims=False) / classes  # type: ignore[no-any-return]


_multilabel_vjp = of_reference(_multilabel_in_steps)


def _multilabel_grad_in_steps(ct: Tensor, scores: Tensor, y: Tensor) -> Tensor:
    return _multilabel_vjp((True, None), scores, y)(ct)[0]  # type: ignore[no-any-return]


_multilabel_grad = fuse("multilabel_margin_grad", reference=_multilabel_grad_in_steps)
_multilabel = fuse(  # a loss a row, of scores (rows, classes) and labels int64 (rows, classes)
    "multilabel_margin", reference=_multilabel_in_steps, torch_name="MultilabelMarginLoss",
    vjp=lambda needs, scores, y: lambda ct: (_multilabel_grad(ct, scores, y), None),
)  # fmt: skip


def _classes(name: str, target: Any, x: Tensor) -> Tensor:
    y = argument(name, target, x)
    if y._dtype not in INTEGRAL:
        raise DTypeError(f"{name}: the target must be integers, got {y.dtype.name}")
    return cast(y, int64)


def _matrix(name: str, x: Tensor) -> tuple[Tensor, bool]:
    """(rows, classes), and whether there was no row axis."""
    if x.ndim not in (1, 2):
        raise ShapeError(f"{name} takes (batch, classes) or (classes,), got {x.shape}")
    single = x.ndim == 1
    return (reshape(x, shape=(1, *x._shape)) if single else x), single


def _places(x: Tensor) -> Tensor:
    return iota(shape=x._shape, axis=1, start=0, step=1, dtype=int64, device=x.device.name)
