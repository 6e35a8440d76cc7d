"""RAdam: Adam with a rectified warm-up."""

from __future__ import annotations

from typing import Any

from fx.optim._pure import Pure, pure
from fx.optim._rule import (
    Options,
    Rule,
    Slots,
    check_betas,
    check_positive,
    decayed,
    options_of,
    step_alone,
)
from fx.optim.optimizer import Optimizer
from fx.prims.compare import where
from fx.prims.creation import constant_like
from fx.prims.elementwise import sqrt, square
from fx.tensor import Tensor


def _check(options: Options) -> None:
    check_positive("RAdam", options, "lr", "eps")
    check_betas("RAdam", options)
    check_positive("RAdam", options, "weight_decay")


def _slots(options: Options, x: Tensor) -> tuple[str, ...]:
    return ("exp_avg", "exp_avg_sq")


def _scalars(counts: dict[str, Tensor], options: Options) -> dict[str, Any]:
    beta1, beta2 = options["betas"]
    step = counts["step"]
    zero, one = constant_like(0.0, step), constant_like(1.0, step)
    correction = 1.0 - beta2**step
    longest = 2.0 / (1.0 - beta2) - 1.0  # the length of the average in the limit, and now
    length = longest - 2.0 * step * beta2**step / correction
    long = length > 5.0  # enough for the variance of the adaptive step to be finite
    share = (length - 4.0) * (length - 2.0) / length
    share = share * longest / ((longest - 4.0) * (longest - 2.0))
    step_size = options["lr"] / (1.0 - beta1**step)
    return {
        "plain": where(long, zero, step_size),
        "adaptive": where(long, step_size * sqrt(where(long, share, one) * correction), zero),
    }


def _update(
    x: Tensor, g: Tensor, slots: Slots, scalars: dict[str, Any], options: Options
) -> tuple[Tensor, Slots]:
    beta1, beta2 = options["betas"]
    x, g = decayed(x, g, options)
    first, second = slots["exp_avg"], slots["exp_avg_sq"]
    first = first + (g - first) * (1.0 - beta1)
    second = second * beta2 + square(g) * (1.0 - beta2)
    adaptive = scalars["adaptive"]
    scale = where(adaptive > 0, adaptive / (sqrt(second) + options["eps"]), scalars["plain"])
    return x - first * scale, {"exp_avg": first, "exp_avg_sq": second}


RULE = Rule(_check, _slots, _update, step_alone, _scalars)
_ORDER = (  # of a group
    "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay differentiable"
)


def radam(
    lr: Any = 1e-3,
    betas: tuple[Any, Any] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: Any = 0.0,
    decoupled_weight_decay: bool = False,
    *,
    maximize: bool = False,
) -> Pure:
    """The pure form of ``RAdam``; see ``sgd`` for its use.

    Example:
        >>> import fx
        >>> init, update = fx.optim.pure.radam(lr=0.1)
        >>> params = fx.tensor([1.0, 2.0])
        >>> params, state = update(fx.tensor([1.0, -3.0]), init(params), params)
        >>> params
        tensor([0.9000, 2.3000])
    """
    return pure("radam", RULE, locals())


class RAdam(Optimizer):
    """RAdam: plain momentum first, Adam once its second moment is known well enough.

    Args:
        params: parameters, or dicts of a group's parameters and options.
        lr: the learning rate.
        betas: the shares of the moments that are kept.
        eps: added to the root of the second moment.
        weight_decay: times the parameter, added to the gradient.
        decoupled_weight_decay: shrink the parameter itself instead, as ``AdamW``.
        foreach, maximize, capturable, differentiable: as of ``Adam``.

    Raises:
        ValueError: for options out of range.

    Source: Liu et al., "On the variance of the adaptive learning rate and beyond", 2019.

    Example:
        >>> import fx
        >>> w = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
        >>> optimizer = fx.optim.RAdam([w], lr=0.1)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 1.9000])
    """

    rule = RULE

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals(), _ORDER))
