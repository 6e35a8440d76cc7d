"""Averaged stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from fx.optim._pure import Pure, pure
from fx.optim._rule import Options, Rule, Slots, check_positive, options_of, penalized
from fx.optim.optimizer import Optimizer
from fx.prims.compare import astype, where
from fx.prims.creation import constant_like
from fx.prims.elementwise import maximum
from fx.tensor import Tensor


def _check(options: Options) -> None:
    check_positive("ASGD", options, "lr", "weight_decay")


def _slots(options: Options, x: Tensor) -> tuple[str, ...]:
    return ("ax",)


def _counts(options: Options) -> tuple[str, ...]:
    return ("step", "eta", "mu")


def _begin_count(name: str, options: Options) -> Any:
    return {"step": 0.0, "eta": options["lr"], "mu": 1.0}[name]


def _scalars(counts: dict[str, Tensor], options: Options) -> dict[str, Any]:
    step, lr, decay = counts["step"], options["lr"], options["lambd"]
    late = maximum(step - options["t0"], constant_like(1.0, step))
    eta = astype(counts["eta"], dtype=step.dtype)
    return {
        "step_size": eta,
        "shrink": 1.0 - decay * eta,
        "share": counts["mu"],
        "eta": lr / (1.0 + decay * lr * step) ** options["alpha"],
        "mu": 1.0 / late,
    }


def _update(
    x: Tensor, g: Tensor, slots: Slots, scalars: dict[str, Any], options: Options
) -> tuple[Tensor, Slots]:
    g = penalized(x, g, options)
    step_size, share = scalars["step_size"], scalars["share"]
    x = x * scalars["shrink"] - g * step_size
    mean = slots["ax"]
    return x, {"ax": where(share == 1, x, mean + (x - mean) * share)}


RULE = Rule(_check, _slots, _update, _counts, _scalars, begin_count=_begin_count)


def asgd(
    lr: Any = 1e-2,
    lambd: float = 1e-4,
    alpha: float = 0.75,
    t0: float = 1e6,
    weight_decay: Any = 0.0,
    *,
    maximize: bool = False,
) -> Pure:
    """The pure form of ``ASGD``; see ``sgd`` for its use. The average is ``state.slots["ax"]``.

    Example:
        >>> import fx
        >>> init, update = fx.optim.pure.asgd(lr=0.1)
        >>> params = fx.tensor([1.0, 2.0])
        >>> params, state = update(fx.tensor([1.0, -3.0]), init(params), params)
        >>> params
        tensor([0.9000, 2.3000])
    """
    return pure("asgd", RULE, locals())


class ASGD(Optimizer):
    """Averaged stochastic gradient descent: the state's ``ax`` is the average of the parameter.

    Args:
        params: parameters, or dicts of a group's parameters and options.
        lr: the first learning rate.
        lambd: the decay of parameters and of the learning rate.
        alpha: the power in which the learning rate falls.
        t0: the step after which averaging begins.
        weight_decay: times the parameter, added to the gradient.
        foreach, maximize, differentiable, capturable: as of ``Adam``.

    Raises:
        ValueError: for options out of range.

    Source: Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992.

    Example:
        >>> import fx
        >>> w = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
        >>> optimizer = fx.optim.ASGD([w], lr=0.1)
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
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals()))
