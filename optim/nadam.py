"""NAdam: Adam with Nesterov's momentum."""

from __future__ import annotations

from typing import Any

from fx.optim._pure import Pure, pure
from fx.optim._rule import Options, Rule, Slots, check_betas, check_positive, decayed, options_of
from fx.optim.optimizer import Optimizer
from fx.prims.compare import astype
from fx.prims.elementwise import sqrt, square
from fx.tensor import Tensor


def _check(options: Options) -> None:
    check_positive("NAdam", options, "lr", "eps")
    check_betas("NAdam", options)
    check_positive("NAdam", options, "weight_decay", "momentum_decay")


def _slots(options: Options, x: Tensor) -> tuple[str, ...]:
    return ("exp_avg", "exp_avg_sq")


def _counts(options: Options) -> tuple[str, ...]:
    return ("step", "mu_product")


def _begin_count(name: str, options: Options) -> float:
    return 1.0 if name == "mu_product" else 0.0


def _scalars(counts: dict[str, Tensor], options: Options) -> dict[str, Any]:
    beta1, beta2 = options["betas"]
    step, before, lr = counts["step"], counts["mu_product"], options["lr"]
    mu, mu_next = (
        beta1 * (1.0 - 0.5 * 0.96 ** (n * options["momentum_decay"])) for n in (step, step + 1)
    )
    product = before * astype(mu, dtype=before.dtype)  # rounded as it is kept
    exact = astype(product, dtype=step.dtype)
    return {
        "along_gradient": lr * (1.0 - mu) / (1.0 - exact),
        "along_mean": lr * mu_next / (1.0 - exact * mu_next),
        "root": 1.0 / sqrt(1.0 - beta2**step),
        "mu_product": product,
    }


def _update(
    x: Tensor, g: Tensor, slots: Slots, scalars: dict[str, Any], options: Options
) -> tuple[Tensor, Slots]:
    beta1, beta2 = options["betas"]
    x, g = decayed(x, g, options)
    first, second = slots["exp_avg"], slots["exp_avg_sq"]
    first = first + (g - first) * (1.0 - beta1)
    second = second * beta2 + square(g) * (1.0 - beta2)
    step = g * scalars["along_gradient"] + first * scalars["along_mean"]
    x = x - step / (sqrt(second) * scalars["root"] + options["eps"])
    return x, {"exp_avg": first, "exp_avg_sq": second}


RULE = Rule(_check, _slots, _update, _counts, _scalars, begin_count=_begin_count)
_ORDER = (  # of a group
    "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize "
    "foreach capturable differentiable"
)


def nadam(
    lr: Any = 2e-3,
    betas: tuple[Any, Any] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: Any = 0.0,
    momentum_decay: float = 4e-3,
    decoupled_weight_decay: bool = False,
    *,
    maximize: bool = False,
) -> Pure:
    """The pure form of ``NAdam``; see ``sgd`` for its use.

    Example:
        >>> import fx
        >>> init, update = fx.optim.pure.nadam(lr=0.1)
        >>> params = fx.tensor([1.0, 2.0])
        >>> params, state = update(fx.tensor([1.0, -3.0]), init(params), params)
        >>> params
        tensor([0.8944, 2.1056])
    """
    return pure("nadam", RULE, locals())


class NAdam(Optimizer):
    """NAdam: Adam that looks ahead along its momentum.

    Args:
        params: parameters, or dicts of a group's parameters and options.
        lr: the learning rate.
        betas: the shares of the moments that are kept.
        eps: added to the root of the second moment.
        weight_decay: times the parameter, added to the gradient.
        momentum_decay: how fast the momentum grows to its full share.
        decoupled_weight_decay: shrink the parameter itself instead, as ``AdamW``.
        foreach, maximize, capturable, differentiable: as of ``Adam``.

    Raises:
        ValueError: for options out of range.

    Source: Dozat, "Incorporating Nesterov momentum into Adam", 2016.

    Example:
        >>> import fx
        >>> w = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
        >>> optimizer = fx.optim.NAdam([w], lr=0.1)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8944, 1.8944])
    """

    rule = RULE

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals(), _ORDER))
