"""Losses as layers. ``reduction``, ``size_average`` and ``reduce`` are those of the functions."""

from __future__ import annotations

from typing import Any

from fx.nn import functional as F
from fx.nn.base.module import Module
from fx.nn.functional.loss import reduction_of
from fx.tensor import Tensor


class _Loss(Module):
    def __init__(
        self, size_average: Any = None, reduce: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        self.reduction = reduction_of(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    def __init__(
        self,
        weight: Any = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class MSELoss(_Loss):
    """The squared difference.

    Example:
        >>> import fx
        >>> fx.nn.MSELoss()(fx.tensor([1.0, 2.0]), fx.tensor([1.0, 4.0]))
        tensor(2.)
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Both of one shape."""
        return F.mse_loss(input, target, reduction=self.reduction)


class L1Loss(_Loss):
    """The absolute difference.

    Example:
        >>> import fx
        >>> fx.nn.L1Loss()(fx.tensor([1.0, 2.0]), fx.tensor([1.0, 4.0]))
        tensor(1.)
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Both of one shape."""
        return F.l1_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """``functional.smooth_l1_loss``.

    Example:
        >>> import fx
        >>> fx.nn.SmoothL1Loss()(fx.tensor([0.5]), fx.tensor([0.0]))
        tensor(0.1250)
    """

    def __init__(
        self,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Any, target: Any) -> Tensor:
        """Both of one shape."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """``functional.huber_loss``.

    Example:
        >>> import fx
        >>> fx.nn.HuberLoss()(fx.tensor([4.0]), fx.tensor([0.0]))
        tensor(3.5000)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Any, target: Any) -> Tensor:
        """Both of one shape."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class BCELoss(_WeightedLoss):
    """``functional.binary_cross_entropy`` of probabilities.

    Example:
        >>> import fx
        >>> fx.nn.BCELoss()(fx.tensor([0.5]), fx.tensor([1.0]))
        tensor(0.6931)
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Both of one shape."""
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_WeightedLoss):
    """``functional.binary_cross_entropy_with_logits``.

    Example:
        >>> import fx
        >>> fx.nn.BCEWithLogitsLoss()(fx.tensor([0.0]), fx.tensor([1.0]))
        tensor(0.6931)
    """

    def __init__(
        self,
        weight: Any = None,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        pos_weight: Any = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Any, target: Any) -> Tensor:
        """Both of one shape."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class NLLLoss(_WeightedLoss):
    """``functional.nll_loss`` of log-probabilities.

    Example:
        >>> import fx
        >>> fx.nn.NLLLoss()(fx.tensor([[-1.0, -2.0]]), fx.tensor([1]))
        tensor(2.)
    """

    def __init__(
        self,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Any, target: Any) -> Tensor:
        """(batch, classes, ...) and (batch, ...)."""
        return F.nll_loss(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class CrossEntropyLoss(_WeightedLoss):
    """``functional.cross_entropy`` of logits.

    Args:
        weight: (classes,), a factor a class.
        size_average, reduce: PyTorch's old form of ``reduction``.
        ignore_index: a target index that counts for nothing.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        label_smoothing: the share of a uniform distribution mixed into the target.

    Example:
        >>> import fx
        >>> fx.nn.CrossEntropyLoss()(fx.tensor([[0.0, 0.0]]), fx.tensor([1]))
        tensor(0.6931)
    """

    def __init__(
        self,
        weight: Any = None,
        size_average: Any = None,
        ignore_index: int = -100,
        reduce: Any = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Any, target: Any) -> Tensor:
        """(batch, classes, ...) and (batch, ...), or two of one shape."""
        return F.cross_entropy(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )  # fmt: skip
