"""Adagrad."""

from __future__ import annotations

from typing import Any

from fx.optim._pure import Pure, pure
from fx.optim._rule import (
    Options,
    Rule,
    Slots,
    check_positive,
    filled,
    options_of,
    penalized,
    step_alone,
)
from fx.optim.optimizer import Optimizer
from fx.prims.elementwise import sqrt, square
from fx.tensor import Tensor


def _check(options: Options) -> None:
    keys = ("lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")
    check_positive("Adagrad", options, *keys)


def _slots(options: Options, x: Tensor) -> tuple[str, ...]:
    return ("sum",)


def _begin(name: str, x: Tensor, options: Options) -> Tensor:
    return filled(x, options["initial_accumulator_value"])


def _scalars(counts: dict[str, Tensor], options: Options) -> dict[str, Any]:
    return {"step_size": options["lr"] / (1.0 + (counts["step"] - 1) * options["lr_decay"])}


def _update(
    x: Tensor, g: Tensor, slots: Slots, scalars: dict[str, Any], options: Options
) -> tuple[Tensor, Slots]:
    g = penalized(x, g, options)
    total = slots["sum"] + square(g)
    return x - g / (sqrt(total) + options["eps"]) * scalars["step_size"], {"sum": total}


RULE = Rule(_check, _slots, _update, step_alone, _scalars, _begin)
_ORDER = (  # of a group
    "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize differentiable fused"
)


def adagrad(
    lr: Any = 1e-2,
    lr_decay: float = 0.0,
    weight_decay: Any = 0.0,
    initial_accumulator_value: float = 0.0,
    eps: float = 1e-10,
    *,
    maximize: bool = False,
) -> Pure:
    """The pure form of ``Adagrad``; see ``sgd`` for its use.

    Example:
        >>> import fx
        >>> init, update = fx.optim.pure.adagrad(lr=0.1)
        >>> params = fx.tensor([1.0, 2.0])
        >>> params, state = update(fx.tensor([1.0, -3.0]), init(params), params)
        >>> params
        tensor([0.9000, 2.1000])
    """
    return pure("adagrad", RULE, locals())


class Adagrad(Optimizer):
    """Adagrad: steps scaled by the root of the sum of all squared gradients.

    As in PyTorch the state of all parameters exists before the first step.

    Args:
        params: parameters, or dicts of a group's parameters and options.
        lr: the learning rate.
        lr_decay: divides the learning rate by ``1 + lr_decay * steps``.
        weight_decay: times the parameter, added to the gradient.
        initial_accumulator_value: what the sum is at first.
        eps: added to the root.
        maximize: climb instead of descend.
        foreach, differentiable, fused: accepted for PyTorch's sake; see ``Optimizer``.

    Raises:
        ValueError: for options out of range.

    Source: Duchi, Hazan and Singer, "Adaptive subgradient methods for online learning and
    stochastic optimization", 2011.

    Example:
        >>> import fx
        >>> w = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
        >>> optimizer = fx.optim.Adagrad([w], lr=0.1)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.9000, 1.9000])
    """

    rule = RULE

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, options_of(locals(), _ORDER))
        self._begin_all()
