"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from typing import Any

from fx.optim._pure import Pure, pure
from fx.optim._rule import Options, Rule, Slots, check_positive, given, options_of, penalized
from fx.optim.optimizer import Optimizer
from fx.prims.compare import where
from fx.prims.creation import constant_like
from fx.tensor import Tensor


def _check(options: Options) -> None:
    check_positive("SGD", options, "lr", "momentum", "weight_decay")
    momentum, dampening = options["momentum"], options["dampening"]
    if options["nesterov"] and (not given(momentum) or given(dampening)):
        raise ValueError(
            f"Nesterov momentum requires a momentum and zero dampening; SGD got "
            f"momentum={momentum}, dampening={dampening}"
        )


def _slots(options: Options, x: Tensor) -> tuple[str, ...]:
    return ("momentum_buffer",) if given(options["momentum"]) else ()


def _counts(options: Options) -> tuple[str, ...]:
    """The first gradient is not dampened: only then does the count matter."""
    damped = given(options["momentum"]) and given(options["dampening"])
    return ("step",) if damped else ()


def _scalars(counts: dict[str, Tensor], options: Options) -> dict[str, Any]:
    step = counts["step"]
    one = constant_like(1.0, step)
    return {"share": where(step == 1, one, one - options["dampening"])}


def _update(
    x: Tensor, g: Tensor, slots: Slots, scalars: dict[str, Any], options: Options
) -> tuple[Tensor, Slots]:
    g = penalized(x, g, options)
    momentum = options["momentum"]
    if given(momentum):
        buffer = slots["momentum_buffer"] * momentum
        buffer = buffer + (g * scalars["share"] if "share" in scalars else g)
        slots = {"momentum_buffer": buffer}
        g = g + buffer * momentum if options["nesterov"] else buffer
    return x - g * options["lr"], slots


RULE = Rule(_check, _slots, _update, _counts, _scalars, unsaved=("step",))


def sgd(
    lr: Any = 1e-3,
    momentum: Any = 0.0,
    dampening: float = 0.0,
    weight_decay: Any = 0.0,
    nesterov: bool = False,
    *,
    maximize: bool = False,
) -> Pure:
    """The pure form of ``SGD``.

    Options may be tensors, through which derivatives pass, or functions of the number of steps
    made; see ``pure.schedule``. That goes for all pure optimizers.

    Returns:
        ``(init, update)``: ``init(params) -> state``,
        ``update(grads, state, params) -> (params, state)``.

    Example:
        >>> import fx
        >>> from fx.optim import pure
        >>> init, update = pure.sgd(lr=0.5)
        >>> params = {"w": fx.tensor([1.0, 2.0])}
        >>> params, state = update({"w": fx.tensor([1.0, 1.0])}, init(params), params)
        >>> params
        {'w': tensor([0.5000, 1.5000])}
    """
    return pure("sgd", RULE, locals())


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum.

    Args:
        params: parameters, or dicts of a group's parameters and options.
        lr: the learning rate.
        momentum: the share of the last step that is kept.
        dampening: the share of the gradient that momentum leaves out.
        weight_decay: times the parameter, added to the gradient.
        nesterov: look ahead along the momentum.
        maximize: climb instead of descend.
        foreach, differentiable, fused: accepted for PyTorch's sake; see ``Optimizer``.

    Raises:
        ValueError: for options out of range.

    Source: Sutskever et al., "On the importance of initialization and momentum in deep learning",
    2013.

    Example:
        >>> import fx
        >>> w = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
        >>> optimizer = fx.optim.SGD([w], lr=0.5)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.5000, 1.5000])
    """

    rule = RULE

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, options_of(locals()))
