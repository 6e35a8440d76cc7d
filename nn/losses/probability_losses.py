"""Losses of distributions and of label sequences as layers."""

from __future__ import annotations

import math
import warnings
from typing import Any

from fx.errors import ShapeError
from fx.nn import functional as F
from fx.nn.functional.linear_cross_entropy import LinearCrossEntropyOptions
from fx.nn.layers.linear import Linear
from fx.nn.losses.loss import NLLLoss, _Loss, _WeightedLoss
from fx.ops.axes import integers
from fx.tensor import Tensor


class GaussianNLLLoss(_Loss):
    """``functional.gaussian_nll_loss``.

    Example:
        >>> import fx
        >>> fx.nn.GaussianNLLLoss()(fx.tensor([1.0]), fx.tensor([3.0]), fx.tensor([1.0]))
        tensor(2.)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Any, target: Any, var: Any) -> Tensor:
        """Expectations, targets and variances."""
        return F.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class PoissonNLLLoss(_Loss):
    """``functional.poisson_nll_loss``.

    Example:
        >>> import fx
        >>> fx.nn.PoissonNLLLoss()(fx.tensor([0.0]), fx.tensor([2.0]))
        tensor(1.)
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: Any = None,
        eps: float = 1e-8,
        reduce: Any = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Any, target: Any) -> Tensor:
        """Logarithms of rates (or rates), and counts."""
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps,
            reduction=self.reduction,
        )  # fmt: skip


class KLDivLoss(_Loss):
    """``functional.kl_div``, also with ``reduction="batchmean"``.

    Example:
        >>> import fx
        >>> half = fx.full((1, 2), 0.5)
        >>> fx.nn.KLDivLoss(reduction="batchmean")(fx.log(half), half)
        tensor(0.)
    """

    def __init__(
        self,
        size_average: Any = None,
        reduce: Any = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        by_batch = reduction == "batchmean" and size_average is None and reduce is None
        super().__init__(size_average, reduce, "sum" if by_batch else reduction)
        if by_batch:
            self.reduction = reduction
        self.log_target = log_target

    def forward(self, input: Any, target: Any) -> Tensor:
        """Logarithms of probabilities, and probabilities (or their logarithms)."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class SoftMarginLoss(_Loss):
    """``functional.soft_margin_loss``.

    Example:
        >>> import fx
        >>> fx.nn.SoftMarginLoss()(fx.tensor([0.0]), fx.tensor([1.0]))
        tensor(0.6931)
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """Scores, and 1 or -1."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """``functional.multilabel_soft_margin_loss``.

    Example:
        >>> import fx
        >>> fx.nn.MultiLabelSoftMarginLoss()(fx.zeros((1, 2)), fx.tensor([[1.0, 0.0]]))
        tensor(0.6931)
    """

    def forward(self, input: Any, target: Any) -> Tensor:
        """(batch, classes) twice."""
        return F.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class CTCLoss(_Loss):
    """``functional.ctc_loss``.

    Args:
        blank: the class between labels.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        zero_infinity: whether infinite losses are 0 instead.

    Source: Graves et al., "Connectionist temporal classification", 2006.

    Example:
        >>> import fx
        >>> log_probs = fx.log(fx.full((3, 1, 2), 0.5))
        >>> fx.nn.CTCLoss()(log_probs, fx.tensor([[1]]), fx.tensor([3]), fx.tensor([1]))
        tensor(0.2877)
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        """(time, batch, classes), (batch, labels) or all labels in a row, and the lengths."""
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction,
            self.zero_infinity,
        )  # fmt: skip


class NLLLoss2d(NLLLoss):
    """``NLLLoss`` under its old name.

    Example:
        >>> import fx, warnings
        >>> with warnings.catch_warnings(action="ignore"):
        ...     loss = fx.nn.NLLLoss2d()
        >>> loss(fx.tensor([[-1.0, -2.0]]), fx.tensor([1]))
        tensor(2.)
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            "NLLLoss2d is an old name of NLLLoss; write fx.nn.NLLLoss", FutureWarning, stacklevel=2
        )
        super().__init__(*args, **kwargs)


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer and the cross-entropy of what it gives: ``functional.linear_cross_entropy``.

    Args:
        in_features: of the input.
        num_classes: how many classes.
        out_features: further axes, one loss for each of their elements.
        bias: whether the linear layer has one.
        device, dtype: of its parameters.
        reduction, weight, ignore_index, label_smoothing, options: as of the function.

    Attributes:
        linear: the layer, from ``in_features`` to ``num_classes * prod(out_features)``.

    Raises:
        ShapeError: if ``weight`` is not (num_classes,).
        ValueError: if ``label_smoothing`` is not in [0, 1].

    Example:
        >>> import fx
        >>> fx.nn.LinearCrossEntropyLoss(3, 5)(fx.ones((2, 3)), fx.tensor([1, 4])).shape
        ()
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Any = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and weight.shape != (num_classes,):
            raise ShapeError(
                f"LinearCrossEntropyLoss: weight must have shape ({num_classes},), got "
                f"{weight.shape}"
            )
        if not 0.0 <= label_smoothing <= 1.0:
            raise ValueError(
                f"LinearCrossEntropyLoss: label_smoothing must be in [0, 1], got {label_smoothing}"
            )
        out_features = integers("LinearCrossEntropyLoss", "out_features", out_features)
        super().__init__(weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        size = num_classes * math.prod(out_features)
        self.linear = Linear(in_features, size, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Any, target: Any) -> Tensor:
        """(batch, in_features), and class indices or probabilities."""
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*shape, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        """All settings."""
        linear = self.linear
        return (
            f"in_features={linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )
