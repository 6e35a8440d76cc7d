"""Losses with margins as layers. ``size_average`` and ``reduce`` are PyTorch's old reductions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx.nn import functional as F
from fx.nn.layers.distance import PairwiseDistance
from fx.nn.losses.loss import _Loss, _WeightedLoss
from fx.tensor import Tensor


class MarginRankingLoss(_Loss):
    """``functional.margin_ranking_loss``.

    Example:
        >>> import fx
        >>> fx.nn.MarginRankingLoss()(fx.tensor([1.0]), fx.tensor([3.0]), fx.tensor([1.0]))
        tensor(2.)
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Any, input2: Any, target: Any) -> Tensor:
        """Shapes that broadcast."""
        return F.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class HingeEmbeddingLoss(_Loss):
    """``functional.hinge_embedding_loss``.

    Example:
        >>> import fx
        >>> fx.nn.HingeEmbeddingLoss()(fx.tensor([0.5, 0.5]), fx.tensor([1, -1]))
        tensor(0.5000)
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Any, target: Any) -> Tensor:
        """Shapes that broadcast."""
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """``functional.cosine_embedding_loss``.

    Example:
        >>> import fx
        >>> a, b = fx.tensor([[3.0, 4.0]]), fx.tensor([[4.0, 3.0]])
        >>> fx.nn.CosineEmbeddingLoss()(a, b, fx.tensor([1]))
        tensor(0.0400)
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Any, input2: Any, target: Any) -> Tensor:
        """(batch, features) twice, and (batch,)."""
        return F.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class MultiLabelMarginLoss(_Loss):
    """``functional.multilabel_margin_loss``.

    Example:
        >>> import fx
        >>> x, y = fx.tensor([[0.1, 0.2, 0.4, 0.8]]), fx.tensor([[3, 0, -1, 1]])
        >>> fx.nn.MultiLabelMarginLoss()(x, y)
        tensor(0.8500)
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """(batch, classes) twice."""
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """``functional.multi_margin_loss``.

    Raises:
        ValueError: for a ``p`` that is not 1 or 2, or a weight that is no vector.

    Example:
        >>> import fx
        >>> fx.nn.MultiMarginLoss()(fx.tensor([[0.1, 0.2, 0.4]]), fx.tensor([2]))
        tensor(0.5000)
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Any = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: only p == 1 and p == 2 are supported, got {p}")
        if weight is not None and weight.ndim != 1:
            raise ValueError(f"MultiMarginLoss: weight must be (classes,), got {weight.shape}")
        self.p = p
        self.margin = margin

    def forward(self, input: Any, target: Any) -> Tensor:
        """(batch, classes) and (batch,)."""
        return F.multi_margin_loss(
            input, target, self.p, self.margin, self.weight, reduction=self.reduction
        )


class TripletMarginLoss(_Loss):
    """``functional.triplet_margin_loss``.

    Raises:
        ValueError: if ``margin`` is not positive.

    Example:
        >>> import fx
        >>> a, p, n = fx.zeros((1, 2)), fx.zeros((1, 2)), fx.tensor([[0.3, 0.4]])
        >>> fx.nn.TripletMarginLoss(eps=0.0)(a, p, n)
        tensor(0.5000)
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        _check_margin("TripletMarginLoss", margin)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Tensor:
        """(batch, features) each."""
        return F.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap,
            reduction=self.reduction,
        )  # fmt: skip


class TripletMarginWithDistanceLoss(_Loss):
    """``functional.triplet_margin_with_distance_loss``.

    Raises:
        ValueError: if ``margin`` is not positive.

    Example:
        >>> import fx
        >>> loss = fx.nn.TripletMarginWithDistanceLoss(
        ...     distance_function=lambda x, y: abs(x - y).sum(-1)
        ... )
        >>> loss(fx.zeros((1, 2)), fx.zeros((1, 2)), fx.tensor([[0.3, 0.4]]))
        tensor(0.3000)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Any, Any], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        _check_margin("TripletMarginWithDistanceLoss", margin)
        self.distance_function = distance_function or PairwiseDistance()
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Tensor:
        """What the distance takes."""
        return F.triplet_margin_with_distance_loss(
            anchor, positive, negative, distance_function=self.distance_function,
            margin=self.margin, swap=self.swap, reduction=self.reduction,
        )  # fmt: skip


def _check_margin(name: str, margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"{name}: expected margin to be greater than 0, got {margin} instead")
