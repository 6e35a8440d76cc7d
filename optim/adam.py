"""Adam and AdamW."""

from __future__ import annotations

from typing import Any

from fx.optim._pure import Pure, pure
from fx.optim._rule import (
    Options,
    Rule,
    Slots,
    check_betas,
    check_pair,
    check_positive,
    decayed,
    options_of,
    step_alone,
)
from fx.optim.optimizer import Optimizer
from fx.prims.elementwise import maximum, sqrt, square
from fx.tensor import Tensor


def _check(options: Options) -> None:
    check_positive("Adam", options, "lr", "eps")
    check_betas("Adam", options)
    check_positive("Adam", options, "weight_decay")


def _slots(options: Options, x: Tensor) -> tuple[str, ...]:
    return ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if options["amsgrad"] else ()))


def _scalars(counts: dict[str, Tensor], options: Options) -> dict[str, Any]:
    beta1, beta2 = options["betas"]
    step = counts["step"]
    return {
        "step_size": options["lr"] / (1.0 - beta1**step),
        "root": 1.0 / sqrt(1.0 - beta2**step),  # corrects the bias of the root of the second moment
    }


def _update(
    x: Tensor, g: Tensor, slots: Slots, scalars: dict[str, Any], options: Options
) -> tuple[Tensor, Slots]:
    beta1, beta2 = options["betas"]
    x, g = decayed(x, g, options)
    first, second = slots["exp_avg"], slots["exp_avg_sq"]
    first = first + (g - first) * (1.0 - beta1)
    second = second * beta2 + square(g) * (1.0 - beta2)
    new = {"exp_avg": first, "exp_avg_sq": second}
    if options["amsgrad"]:
        second = new["max_exp_avg_sq"] = maximum(slots["max_exp_avg_sq"], second)
    step = first / (sqrt(second) * scalars["root"] + options["eps"])
    return x - step * scalars["step_size"], new


RULE = Rule(_check, _slots, _update, step_alone, _scalars)
_ORDER = (  # of a group
    "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable "
    "fused decoupled_weight_decay"
)


def adam(
    lr: Any = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
    *,
    maximize: bool = False,
    decoupled_weight_decay: bool = False,
) -> Pure:
    """The pure form of ``Adam``; see ``sgd`` for its use.

    Example:
        >>> import fx
        >>> init, update = fx.optim.pure.adam(lr=0.1)
        >>> params = fx.tensor([1.0, 2.0])
        >>> params, state = update(fx.tensor([1.0, -3.0]), init(params), params)
        >>> params
        tensor([0.9000, 2.1000])
    """
    return pure("adam", RULE, locals())


def adamw(
    lr: Any = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    amsgrad: bool = False,
    *,
    maximize: bool = False,
) -> Pure:
    """The pure form of ``AdamW``; see ``sgd`` for its use.

    Example:
        >>> import fx
        >>> init, update = fx.optim.pure.adamw(lr=0.1, weight_decay=0.1)
        >>> params = fx.tensor([1.0, 2.0])
        >>> params, state = update(fx.tensor([1.0, -3.0]), init(params), params)
        >>> params
        tensor([0.8900, 2.0800])
    """
    return adam(**locals(), decoupled_weight_decay=True)


class Adam(Optimizer):
    """Adam: steps scaled by running estimates of the gradient's first and second moment.

    Args:
        params: parameters, or dicts of a group's parameters and options.
        lr: the learning rate.
        betas: the shares of the moments that are kept, both floats or both tensors.
        eps: added to the root of the second moment.
        weight_decay: times the parameter, added to the gradient.
        amsgrad: scale by the largest second moment so far.
        maximize: climb instead of descend.
        decoupled_weight_decay: shrink the parameter itself instead, as ``AdamW``.
        foreach, capturable, differentiable, fused: accepted for PyTorch's sake; see ``Optimizer``.

    Raises:
        ValueError: for options out of range.

    Source: Kingma and Ba, "Adam: a method for stochastic optimization", 2014.

    Example:
        >>> import fx
        >>> w = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
        >>> optimizer = fx.optim.Adam([w], lr=0.1)
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
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_pair("Adam", "betas", betas)
        if not any(all(isinstance(x, kind) for x in betas) for kind in (float, Tensor)):
            raise ValueError(f"betas must be either both floats or both Tensors, Adam got {betas}")
        super().__init__(params, options_of(locals(), _ORDER))


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter itself.

    Args:
        params, lr, betas, eps, weight_decay, amsgrad, maximize: as of ``Adam``.
        foreach, capturable, differentiable, fused: accepted for PyTorch's sake.

    Source: Loshchilov and Hutter, "Decoupled weight decay regularization", 2017.

    Example:
        >>> import fx
        >>> w = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
        >>> optimizer = fx.optim.AdamW([w], lr=0.1, weight_decay=0.1)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8900, 1.8800])
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, **options_of(locals()), decoupled_weight_decay=True)
