"""RMSprop."""

from __future__ import annotations

from typing import Any

from fx.optim._pure import Pure, pure
from fx.optim._rule import (
    Options,
    Rule,
    Slots,
    check_positive,
    given,
    options_of,
    penalized,
    step_alone,
)
from fx.optim.optimizer import Optimizer
from fx.prims.elementwise import sqrt, square
from fx.tensor import Tensor


def _check(options: Options) -> None:
    check_positive("RMSprop", options, "lr", "eps", "momentum", "weight_decay", "alpha")


def _slots(options: Options, x: Tensor) -> tuple[str, ...]:
    names = ["square_avg"]
    if given(options["momentum"]):
        names.append("momentum_buffer")
    if options["centered"]:
        names.append("grad_avg")
    return tuple(names)


def _update(
    x: Tensor, g: Tensor, slots: Slots, scalars: dict[str, Any], options: Options
) -> tuple[Tensor, Slots]:
    alpha, momentum = options["alpha"], options["momentum"]
    g = penalized(x, g, options)
    second = slots["square_avg"] * alpha + square(g) * (1.0 - alpha)
    new = {"square_avg": second}
    if options["centered"]:
        mean = slots["grad_avg"]
        mean = new["grad_avg"] = mean + (g - mean) * (1.0 - alpha)
        second = second - square(mean)
    step = g / (sqrt(second) + options["eps"])
    if given(momentum):
        step = new["momentum_buffer"] = slots["momentum_buffer"] * momentum + step
    return x - step * options["lr"], new


# the count is kept for the state dict's sake alone
RULE = Rule(_check, _slots, _update, step_alone)
_ORDER = (  # of a group
    "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"
)


def rmsprop(
    lr: Any = 1e-2,
    alpha: float = 0.99,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    momentum: float = 0.0,
    centered: bool = False,
    *,
    maximize: bool = False,
) -> Pure:
    """The pure form of ``RMSprop``; see ``sgd`` for its use.

    Example:
        >>> import fx
        >>> init, update = fx.optim.pure.rmsprop(lr=0.1, alpha=0.75)
        >>> params = fx.tensor([1.0, 2.0])
        >>> params, state = update(fx.tensor([1.0, -3.0]), init(params), params)
        >>> params
        tensor([0.8000, 2.2000])
    """
    return pure("rmsprop", RULE, locals())


class RMSprop(Optimizer):
    """RMSprop: steps scaled by the root of a running mean of squared gradients.

    Args:
        params: parameters, or dicts of a group's parameters and options.
        lr: the learning rate.
        alpha: the share of the mean that is kept.
        eps: added to the root.
        weight_decay: times the parameter, added to the gradient.
        momentum: the share of the last step that is kept.
        centered: scale by the estimated variance instead.
        maximize: climb instead of descend.
        capturable, foreach, differentiable: accepted for PyTorch's sake; see ``Optimizer``.

    Raises:
        ValueError: for options out of range.

    Source: Hinton, "Neural networks for machine learning", lecture 6e, 2012.

    Example:
        >>> import fx
        >>> w = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
        >>> optimizer = fx.optim.RMSprop([w], lr=0.1, alpha=0.75)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8000, 1.8000])
    """

    rule = RULE

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals(), _ORDER))
