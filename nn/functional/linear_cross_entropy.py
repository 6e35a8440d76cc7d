"""Cross-entropy of a linear layer's result, which need not exist as a whole."""

from __future__ import annotations

from math import ceil, prod
from typing import Any

from fx.dtypes import INTEGRAL
from fx.errors import ShapeError
from fx.nn.functional.cross_entropy import cross_entropy
from fx.nn.functional.linear import linear
from fx.nn.functional.loss import reduced, reduction_of, total
from fx.ops.operands import argument
from fx.ops.shapes.joining import concat
from fx.prims.shape import reshape
from fx.slotted import slotted
from fx.tensor import Tensor
from fx.transforms import checkpoint


@slotted(frozen=True)
class LinearCrossEntropyOptions:
    """How ``linear_cross_entropy`` cuts the batch, so that few logits exist at a time.

    Args:
        allow_retain_graph, acc_policy, acc_dtype: accepted for PyTorch's sake.
        batch_chunk_size: the rows of a piece.
        chunking_method: ``"auto"`` or ``"aspect_ratio:k"``, which choose the rows from the shapes,
            or None.

    Raises:
        ValueError: for anything else.

    Example:
        >>> import fx
        >>> fx.nn.LinearCrossEntropyOptions(batch_chunk_size=16).rows(100, 8, 1000)
        16
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        size, method = self.batch_chunk_size, self.chunking_method
        if size is not None and (not isinstance(size, int) or size <= 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if method not in (None, "auto"):
            name, _, factor = method.partition(":")  # type: ignore[union-attr]
            if name != "aspect_ratio" or not (factor or "1").isdigit() or factor == "0":
                raise ValueError(f"invalid chunking_method: {method!r}")

    def rows(self, batch: int, in_features: int, num_classes: int) -> int:
        """How many rows of a batch are computed at a time."""
        if self.batch_chunk_size is not None:
            return min(self.batch_chunk_size, batch)
        if self.chunking_method is None:
            return batch
        factor = int(self.chunking_method.partition(":")[2] or 1)
        wanted = ceil(batch / ceil(num_classes / in_features))  # as many logits as inputs
        return max(1, min((1 << (wanted - 1).bit_length()) // factor, batch))


def linear_cross_entropy(
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: LinearCrossEntropyOptions | None = None,
) -> Tensor:
    """``cross_entropy(linear(input, linear_weight, linear_bias), target)``.

    Args:
        input: (batch, in_features), or (in_features,).
        linear_weight: (classes, in_features), or (classes, ..., in_features) for as many losses a
            row.
        target: class indices (batch, ...), or probabilities (batch, classes, ...).
        linear_bias: (classes, ...) or None.
        weight: (classes,), a factor a class.
        reduction: ``"mean"``, ``"sum"``, or ``"none"`` for a loss a target.
        ignore_index: a target index that counts for nothing, -100 unless told.
        label_smoothing: the share of a uniform distribution mixed into the target.
        options: computes the logits of some rows at a time, and once more on the way back.

    Raises:
        ShapeError: if the shapes do not fit.
        ValueError: if ``ignore_index`` is given with probabilities; and as of ``cross_entropy``.

    Example:
        >>> import fx
        >>> x, w = fx.ones((2, 3)), fx.zeros((5, 3))
        >>> fx.nn.functional.linear_cross_entropy(x, w, fx.tensor([1, 4]))
        tensor(1.6094)
    """
    name = "linear_cross_entropy"
    x, w, y = argument(name, input), argument(name, linear_weight), argument(name, target)
    if x.ndim not in (1, 2) or w.ndim < 2 or x._shape[-1] != w._shape[-1]:
        raise ShapeError(
            f"{name} takes an input (batch, in_features) and linear_weight (classes, in_features), "
            f"got {x.shape} and {w.shape}"
        )
    classes, *more, features = w._shape
    if more and x.ndim == 1:
        raise ShapeError(
            f"{name}: a linear_weight {w.shape} takes a batch of inputs, got {x.shape}"
        )
    if linear_bias is not None and linear_bias.shape != (classes, *more):
        raise ShapeError(
            f"{name}: linear_bias must have shape {(classes, *more)}, got {linear_bias.shape}"
        )
    logits_shape = (*x._shape[:-1], classes, *more)
    if options is not None and not isinstance(options, LinearCrossEntropyOptions):
        raise TypeError(
            f"{name}: options must be fx.nn.LinearCrossEntropyOptions(...), got "
            f"{type(options).__name__}"
        )
    if ignore_index is not None and y._shape == logits_shape:
        raise ValueError(f"{name}: ignore_index makes no sense with a target of probabilities")
    settings = {
        "weight": weight,
        "ignore_index": -100 if ignore_index is None else ignore_index,
        "label_smoothing": label_smoothing,
    }
    w = reshape(w, shape=(prod((classes, *more)), features))
    b = None if linear_bias is None else reshape(argument(name, linear_bias), shape=(w._shape[0],))

    def losses(x: Tensor, y: Tensor, how: str) -> Tensor:
        logits = reshape(linear(x, w, b), shape=(*x._shape[:-1], classes, *more))
        return cross_entropy(logits, y, reduction=how, **settings)

    rows = options.rows(x._shape[0], features, classes) if options and x.ndim == 2 else 0
    if not rows or rows >= x._shape[0]:
        return losses(x, y, reduction)
    how = reduction_of(None, None, reduction)
    piece = checkpoint(lambda x, y: losses(x, y, "none"))
    found = concat([piece(x[i : i + rows], y[i : i + rows]) for i in range(0, x._shape[0], rows)])
    if how == "mean" and y._dtype in INTEGRAL:
        return total(found) / _factors(y, weight, settings["ignore_index"], found)
    return reduced(found, how)


def _factors(y: Tensor, weight: Any, ignore_index: int, like: Tensor) -> Tensor:
    """What the sum of losses is divided by."""
    used = y != ignore_index
    if weight is None:
        return total(used.astype(like._dtype))
    safe = (y * used).astype("int64")
    return total(argument("linear_cross_entropy", weight)[safe] * used)
