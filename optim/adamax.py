"""Adamax: Adam with the maximum norm."""

from __future__ import annotations

from typing import Any

from fx.optim._pure import Pure, pure
from fx.optim._rule import (
    Options,
    Rule,
    Slots,
    check_betas,
    check_positive,
    options_of,
    penalized,
    step_alone,
)
from fx.optim.optimizer import Optimizer
from fx.prims.elementwise import abs as magnitude
from fx.prims.elementwise import maximum
from fx.tensor import Tensor


def _check(options: Options) -> None:
    check_positive("Adamax", options, "lr", "eps")
    check_betas("Adamax", options)
    check_positive("Adamax", options, "weight_decay")


def _slots(options: Options, x: Tensor) -> tuple[str, ...]:
    return ("exp_avg", "exp_inf")


def _scalars(counts: dict[str, Tensor], options: Options) -> dict[str, Any]:
    return {"step_size": options["lr"] / (1.0 - options["betas"][0] ** counts["step"])}


def _update(
    x: Tensor, g: Tensor, slots: Slots, scalars: dict[str, Any], options: Options
) -> tuple[Tensor, Slots]:
    beta1, beta2 = options["betas"]
    g = penalized(x, g, options)
    mean = slots["exp_avg"]
    mean = mean + (g - mean) * (1.0 - beta1)
    norm = maximum(slots["exp_inf"] * beta2, magnitude(g) + options["eps"])
    return x - mean / norm * scalars["step_size"], {"exp_avg": mean, "exp_inf": norm}


RULE = Rule(_check, _slots, _update, step_alone, _scalars)


def adamax(
    lr: Any = 2e-3,
    betas: tuple[Any, Any] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: Any = 0.0,
    *,
    maximize: bool = False,
) -> Pure:
    """The pure form of ``Adamax``; see ``sgd`` for its use.

    Example:
        >>> import fx
        >>> init, update = fx.optim.pure.adamax(lr=0.1)
        >>> params = fx.tensor([1.0, 2.0])
        >>> params, state = update(fx.tensor([1.0, -3.0]), init(params), params)
        >>> params
        tensor([0.9000, 2.1000])
    """
    return pure("adamax", RULE, locals())


class Adamax(Optimizer):
    """Adamax: steps scaled by a decaying maximum of the gradient's magnitude.

    Args:
        params: parameters, or dicts of a group's parameters and options.
        lr: the learning rate.
        betas: the shares of the mean and of the maximum that are kept.
        eps: added to the magnitude.
        weight_decay: times the parameter, added to the gradient.
        maximize: climb instead of descend.
        foreach, differentiable, capturable: accepted for PyTorch's sake; see ``Optimizer``.

    Raises:
        ValueError: for options out of range.

    Source: Kingma and Ba, "Adam: a method for stochastic optimization", 2014, section 7.

    Example:
        >>> import fx
        >>> w = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
        >>> optimizer = fx.optim.Adamax([w], lr=0.1)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 1.9000])
    """

    rule = RULE

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals()))
