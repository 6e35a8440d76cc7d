"""Rprop: resilient backpropagation."""

from __future__ import annotations

from typing import Any

from fx.ops.pointwise.composed import clip
from fx.optim._pure import Pure, pure
from fx.optim._rule import (
    Options,
    Rule,
    Slots,
    check_pair,
    check_positive,
    filled,
    options_of,
    step_alone,
    zeros,
)
from fx.optim.optimizer import Optimizer
from fx.prims.compare import where
from fx.prims.elementwise import sign
from fx.tensor import Tensor


def _check(options: Options) -> None:
    check_positive("Rprop", options, "lr")
    low, high = check_pair("Rprop", "etas", options["etas"])
    check_pair("Rprop", "step_sizes", options["step_sizes"])
    if not 0.0 < low < 1.0 < high:
        raise ValueError(
            f"Invalid eta values: {low}, {high}; Rprop takes one between 0 and 1 and one above 1"
        )


def _slots(options: Options, x: Tensor) -> tuple[str, ...]:
    return ("prev", "step_size")


def _begin(name: str, x: Tensor, options: Options) -> Tensor:
    return filled(x, options["lr"] if name == "step_size" else 0)


def _update(
    x: Tensor, g: Tensor, slots: Slots, scalars: dict[str, Any], options: Options
) -> tuple[Tensor, Slots]:
    (shrink, grow), (low, high) = options["etas"], options["step_sizes"]
    if options["maximize"]:
        g = -g
    size = slots["step_size"]
    turn = sign(g * slots["prev"])
    turned = turn < 0
    size = where(turned, size * shrink, where(turn > 0, size * grow, size))
    size = clip(size, low, high)
    g = where(turned, zeros(g), g)
    return x - sign(g) * size, {"prev": g, "step_size": size}


# the count is kept for the state dict's sake alone
RULE = Rule(_check, _slots, _update, step_alone, begin=_begin)
_ORDER = (  # of a group
    "lr etas step_sizes foreach maximize differentiable capturable"
)


def rprop(
    lr: Any = 1e-2,
    etas: tuple[float, float] = (0.5, 1.2),
    step_sizes: tuple[float, float] = (1e-6, 50),
    *,
    maximize: bool = False,
) -> Pure:
    """The pure form of ``Rprop``; see ``sgd`` for its use.

    Example:
        >>> import fx
        >>> init, update = fx.optim.pure.rprop(lr=0.1)
        >>> params = fx.tensor([1.0, 2.0])
        >>> params, state = update(fx.tensor([1.0, -3.0]), init(params), params)
        >>> params
        tensor([0.9000, 2.1000])
    """
    return pure("rprop", RULE, locals())


class Rprop(Optimizer):
    """Rprop: steps whose sizes grow while the gradient keeps its sign, whatever its size.

    For gradients of the whole data, not of batches.

    Args:
        params: parameters, or dicts of a group's parameters and options.
        lr: the first size of the steps.
        etas: what a size is multiplied by when the sign has turned, and when it has not.
        step_sizes: the least and the greatest size.
        capturable, foreach, maximize, differentiable: as of ``Adam``.

    Raises:
        ValueError: for options out of range.

    Source: Riedmiller and Braun, "A direct adaptive method for faster backpropagation learning:
    the RPROP algorithm", 1993.

    Example:
        >>> import fx
        >>> w = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
        >>> optimizer = fx.optim.Rprop([w], lr=0.1)
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
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals(), _ORDER))
