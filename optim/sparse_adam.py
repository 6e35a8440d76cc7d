"""SparseAdam: Adam that leaves rows alone whose gradient is zero."""

from __future__ import annotations

from typing import Any

from fx.ops.reductions.reduction import any as some
from fx.optim._pure import Pure, pure
from fx.optim._rule import Options, Rule, Slots, check_betas, check_positive, options_of, step_alone
from fx.optim.optimizer import Optimizer
from fx.prims.compare import where
from fx.prims.elementwise import sqrt, square
from fx.prims.shape import broadcast_to
from fx.tensor import Tensor


def _check(options: Options) -> None:
    for key, spoken in (("lr", "learning rate"), ("eps", "epsilon value")):
        value = options[key]
        if not isinstance(value, Tensor) and not value > 0.0:
            raise ValueError(f"Invalid {spoken}: {value}; SparseAdam takes a {key} above 0")
    check_positive("SparseAdam", options, "lr")
    check_betas("SparseAdam", options)


def _slots(options: Options, x: Tensor) -> tuple[str, ...]:
    return ("exp_avg", "exp_avg_sq")


def _scalars(counts: dict[str, Tensor], options: Options) -> dict[str, Any]:
    beta1, beta2 = options["betas"]
    step = counts["step"]
    return {"step_size": options["lr"] * sqrt(1.0 - beta2**step) / (1.0 - beta1**step)}


def _update(
    x: Tensor, g: Tensor, slots: Slots, scalars: dict[str, Any], options: Options
) -> tuple[Tensor, Slots]:
    beta1, beta2 = options["betas"]
    if options["maximize"]:
        g = -g
    touched = g != 0
    if g.ndim > 1:
        touched = some(touched, axis=tuple(range(1, g.ndim)), keepdims=True)  # (rows, 1, ...)
    first, second = slots["exp_avg"], slots["exp_avg_sq"]
    mean = first + (g - first) * (1.0 - beta1)
    power = second + (square(g) - second) * (1.0 - beta2)
    moved = x - mean / (sqrt(power) + options["eps"]) * scalars["step_size"]
    new = {"exp_avg": _where(touched, mean, first), "exp_avg_sq": _where(touched, power, second)}
    return _where(touched, moved, x), new


def _where(rows: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return where(broadcast_to(rows, shape=x.shape), x, y)


RULE = Rule(_check, _slots, _update, step_alone, _scalars, elementwise=False, whole=("step",))


def sparse_adam(
    lr: Any = 1e-3,
    betas: tuple[Any, Any] = (0.9, 0.999),
    eps: float = 1e-8,
    *,
    maximize: bool = False,
) -> Pure:
    """The pure form of ``SparseAdam``; see ``sgd`` for its use.

    Example:
        >>> import fx
        >>> init, update = fx.optim.pure.sparse_adam(lr=0.1)
        >>> params = fx.tensor([1.0, 2.0])
        >>> params, state = update(fx.tensor([0.0, -3.0]), init(params), params)
        >>> params
        tensor([1.0000, 2.1000])
    """
    return pure("sparse_adam", RULE, locals())


class SparseAdam(Optimizer):
    """Adam for parameters of which a step uses few rows, as of an embedding.

    Gradients are dense here; a row (an index of the first axis) whose gradient is zero counts as
    one that a sparse gradient does not name: neither the row nor its moments change.

    Args:
        params: parameters, or dicts of a group's parameters and options.
        lr: the learning rate.
        betas: the shares of the moments that are kept.
        eps: added to the root of the second moment.
        maximize: climb instead of descend.

    Raises:
        ValueError: for options out of range.

    Example:
        >>> import fx
        >>> w = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
        >>> optimizer = fx.optim.SparseAdam([w], lr=0.1)
        >>> w[1].backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([1.0000, 1.9000])
    """

    rule = RULE

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals()))
