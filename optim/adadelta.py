"""Adadelta."""

from __future__ import annotations

from typing import Any

from fx.optim._pure import Pure, pure
from fx.optim._rule import Options, Rule, Slots, check_positive, options_of, penalized, step_alone
from fx.optim.optimizer import Optimizer
from fx.prims.elementwise import sqrt, square
from fx.tensor import Tensor


def _check(options: Options) -> None:
    check_positive("Adadelta", options, "lr")
    rho = options["rho"]
    if not isinstance(rho, Tensor) and not 0.0 <= rho <= 1.0:
        raise ValueError(f"Invalid rho value: {rho}; Adadelta takes a rho in [0, 1]")
    check_positive("Adadelta", options, "eps", "weight_decay")


def _slots(options: Options, x: Tensor) -> tuple[str, ...]:
    return ("square_avg", "acc_delta")


def _update(
    x: Tensor, g: Tensor, slots: Slots, scalars: dict[str, Any], options: Options
) -> tuple[Tensor, Slots]:
    rho, eps = options["rho"], options["eps"]
    g = penalized(x, g, options)
    second = slots["square_avg"] * rho + square(g) * (1.0 - rho)
    moves = slots["acc_delta"]
    delta = sqrt(moves + eps) / sqrt(second + eps) * g
    moves = moves * rho + square(delta) * (1.0 - rho)
    return x - delta * options["lr"], {"square_avg": second, "acc_delta": moves}


# the count is kept for the state dict's sake alone
RULE = Rule(_check, _slots, _update, step_alone)
_ORDER = (  # of a group
    "lr rho eps weight_decay maximize capturable foreach differentiable"
)


def adadelta(
    lr: Any = 1.0,
    rho: Any = 0.9,
    eps: float = 1e-6,
    weight_decay: Any = 0.0,
    *,
    maximize: bool = False,
) -> Pure:
    """The pure form of ``Adadelta``; see ``sgd`` for its use.

    Example:
        >>> import fx
        >>> init, update = fx.optim.pure.adadelta(eps=0.01)
        >>> params = fx.tensor([1.0, 2.0])
        >>> params, state = update(fx.tensor([1.0, -3.0]), init(params), params)
        >>> params
        tensor([0.6985, 2.3145])
    """
    return pure("adadelta", RULE, locals())


class Adadelta(Optimizer):
    """Adadelta: steps as long as the last ones were, in units of the gradients' size.

    Args:
        params: parameters, or dicts of a group's parameters and options.
        lr: what scales the steps.
        rho: the share of the running means that is kept.
        eps: added under the roots.
        weight_decay: times the parameter, added to the gradient.
        foreach, capturable, maximize, differentiable: as of ``Adam``.

    Raises:
        ValueError: for options out of range.

    Source: Zeiler, "ADADELTA: an adaptive learning rate method", 2012.

    Example:
        >>> import fx
        >>> w = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
        >>> optimizer = fx.optim.Adadelta([w], eps=0.01)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.6985, 1.6985])
    """

    rule = RULE

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals(), _ORDER))
