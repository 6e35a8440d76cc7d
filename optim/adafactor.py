"""Adafactor: second moments of matrices from their rows and columns."""

from __future__ import annotations

from typing import Any

from fx._namespace import finfo
from fx.ops.pointwise.composed import clip
from fx.ops.pointwise.elementwise import maximum, minimum
from fx.ops.reductions.statistics import mean
from fx.optim._pure import Pure, pure
from fx.optim._rule import (
    Options,
    Rule,
    Slots,
    check_pair,
    check_single,
    filled,
    given,
    options_of,
    step_alone,
)
from fx.optim.optimizer import Optimizer
from fx.prims.elementwise import rsqrt, sqrt, square
from fx.tensor import Tensor


def _check(options: Options) -> None:
    lr, decay = options["lr"], options["beta2_decay"]
    eps1, eps2 = check_pair("Adafactor", "eps", options["eps"])
    if isinstance(lr, Tensor):
        check_single("Adafactor", "lr", lr)
    elif not lr >= 0.0:
        raise ValueError(f"Learning rate should be >= 0 but is: {lr}, in Adafactor")
    if not decay <= 0.0:
        raise ValueError(f"beta2_decay should be <= 0 but is: {decay}, in Adafactor")
    if eps1 is not None and not eps1 >= 0.0:
        raise ValueError(f"epsilon1 should be >= 0 but is: {eps1}, in Adafactor")
    if not eps2 >= 0.0:
        raise ValueError(f"epsilon2 should be >= 0 but is: {eps2}, in Adafactor")
    if not options["d"] >= 1.0:
        raise ValueError(
            f"Clipping threshold d should be >= 1 but is: {options['d']}, in Adafactor"
        )
    if not isinstance(options["weight_decay"], Tensor) and not options["weight_decay"] >= 0.0:
        raise ValueError(
            f"weight_decay should be >= 0 but is: {options['weight_decay']}, in Adafactor"
        )


def _slots(options: Options, x: Tensor) -> tuple[str, ...]:
    return ("row_var", "col_var") if len(x.shape) > 1 else ("variance",)


def _begin(name: str, x: Tensor, options: Options) -> Tensor:
    shape = list(x.shape)
    if name == "row_var":
        shape[-1] = 1
    elif name == "col_var":
        shape[-2] = 1
    return filled(x, 0, tuple(shape))


def _scalars(counts: dict[str, Tensor], options: Options) -> dict[str, Any]:
    step = counts["step"]
    return {
        "weight": step ** options["beta2_decay"],
        "rate": minimum(1.0 / sqrt(step), options["lr"]),
    }


def _update(
    x: Tensor, g: Tensor, slots: Slots, scalars: dict[str, Any], options: Options
) -> tuple[Tensor, Slots]:
    eps1, eps2 = options["eps"]
    if eps1 is None:
        eps1 = finfo(x.dtype).eps
    if options["maximize"]:
        g = -g
    rate = scalars["rate"] * maximum(sqrt(mean(square(x))), eps2)  # in units of the parameter
    if given(options["weight_decay"]):
        x = x * (1.0 - options["lr"] * options["weight_decay"])
    weight, power = scalars["weight"], square(g)
    if g.ndim > 1:
        rows, columns = slots["row_var"], slots["col_var"]  # (..., rows, 1), (..., 1, columns)
        rows = rows + (mean(power, axis=-1, keepdims=True) - rows) * weight
        columns = columns + (mean(power, axis=-2, keepdims=True) - columns) * weight
        estimate = rows * columns / clip(mean(rows, axis=-2, keepdims=True), eps1, None)
        new = {"row_var": rows, "col_var": columns}
    else:
        estimate = slots["variance"]
        estimate = estimate + (power - estimate) * weight
        new = {"variance": estimate}
    step = rsqrt(clip(estimate, eps1 * eps1, None)) * g
    size = maximum(sqrt(mean(square(step))) / options["d"], 1.0)
    return x - step * (rate / size), new


RULE = Rule(_check, _slots, _update, step_alone, _scalars, _begin, elementwise=False)


def adafactor(
    lr: Any = 1e-2,
    beta2_decay: float = -0.8,
    eps: tuple[float | None, float] = (None, 1e-3),
    d: float = 1.0,
    weight_decay: Any = 0.0,
    *,
    maximize: bool = False,
) -> Pure:
    """The pure form of ``Adafactor``; see ``sgd`` for its use.

    Example:
        >>> import fx
        >>> init, update = fx.optim.pure.adafactor(lr=0.1)
        >>> params = fx.tensor([1.0, 2.0])
        >>> params, state = update(fx.tensor([1.0, -3.0]), init(params), params)
        >>> params
        tensor([0.8419, 2.1581])
    """
    return pure("adafactor", RULE, locals())


class Adafactor(Optimizer):
    """Adafactor: Adam-like steps whose memory for a matrix is one row and one column.

    Args:
        params: parameters, or dicts of a group's parameters and options.
        lr: the greatest learning rate, in units of the root mean square of a parameter.
        beta2_decay: the power in which the weight of the newest gradient falls.
        eps: the least mean of rows (the dtype's epsilon if None), and the least unit of ``lr``.
        d: what the root mean square of a step is clipped to.
        weight_decay: shrinks the parameter itself, times the learning rate.
        foreach, maximize: as of ``Adam``.

    Raises:
        ValueError: for options out of range.

    Source: Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost",
    2018.

    Example:
        >>> import fx
        >>> w = fx.nn.Parameter(fx.tensor([1.0, 2.0]))
        >>> optimizer = fx.optim.Adafactor([w], lr=0.1)
        >>> w.sum().backward()
        >>> optimizer.step()
        >>> w.detach()
        tensor([0.8419, 1.8419])
    """

    rule = RULE

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, options_of(locals()))
