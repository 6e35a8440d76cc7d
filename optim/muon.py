"""Muon: momentum of matrices, made orthogonal."""

from __future__ import annotations

import math
from typing import Any

from fx.dtypes import bfloat16, float32
from fx.errors import ShapeError
from fx.ops.pointwise.composed import clip
from fx.ops.reductions.reduction import sum as total
from fx.optim._pure import Pure, pure
from fx.optim._rule import Options, Rule, Slots, check_single, options_of
from fx.optim.optimizer import Optimizer
from fx.prims.compare import astype
from fx.prims.elementwise import sqrt, square
from fx.tensor import Tensor


def _check(options: Options) -> None:
    lr = options["lr"]
    if isinstance(lr, Tensor):
        check_single("Muon", "lr", lr)
    elif not lr >= 0.0:
        raise ValueError(f"Learning rate should be >= 0 but is: {lr}, in Muon")
    for key, spoken in (("momentum", "momentum"), ("weight_decay", "weight decay")):
        if not isinstance(options[key], Tensor) and not options[key] >= 0.0:
            raise ValueError(f"{spoken} should be >= 0 but is: {options[key]}, in Muon")
    if options["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
        raise ValueError(
            f"Adjust learning rate function {options['adjust_lr_fn']} is not supported by Muon; "
            f"use 'original' or 'match_rms_adamw'"
        )
    if options["ns_steps"] >= 100:
        raise ValueError(f"Number of steps must be less than 100, Muon got {options['ns_steps']}")
    if len(options["ns_coefficients"]) != 3:
        raise ValueError(
            f"Coefficients must be a tuple of exactly 3 values, Muon got "
            f"{options['ns_coefficients']}"
        )


def _slots(options: Options, x: Tensor) -> tuple[str, ...]:
    if len(x.shape) != 2:
        raise ShapeError(_MATRICES.format(x.shape))
    return ("momentum_buffer",)


_MATRICES = (
    "Muon only supports 2D parameters whereas we found a parameter with size: {0}; leave "
    "biases and embeddings to AdamW"
)


def orthogonal(x: Tensor, coefficients: Any, steps: int, eps: float) -> Tensor:
    """A matrix with singular values near one and the singular vectors of another.

    Newton-Schulz steps of degree five: values are bfloat16, products are summed in float32.

    Args:
        x: (rows, columns).
        coefficients: of the polynomial.
        steps: how many.
        eps: the least norm that ``x`` is divided by.
    """
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    x = _short(x.T if tall else x)
    norm = _short(sqrt(total(square(x))))
    x = _short(x / clip(norm, eps, None))  # the spectral norm is at most one now
    for _ in range(steps):
        gram = _short(x @ x.T)
        change = _short(gram * b + gram @ gram * c)
        x = _short(x * a + change @ x)
    return x.T if tall else x


def _short(x: Tensor) -> Tensor:
    """Rounded to bfloat16, as float32."""
    return astype(astype(x, dtype=bfloat16), dtype=float32)


def _ratio(options: Options, shape: tuple[int, ...]) -> float:
    """What a matrix of a shape multiplies the learning rate by."""
    rows, columns = shape
    if options["adjust_lr_fn"] == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / columns))


def _update(
    x: Tensor, g: Tensor, slots: Slots, scalars: dict[str, Any], options: Options
) -> tuple[Tensor, Slots]:
    buffer, momentum, lr = slots["momentum_buffer"], options["momentum"], options["lr"]
    buffer = buffer + (g - buffer) * (1.0 - momentum)
    step = g + (buffer - g) * momentum if options["nesterov"] else buffer
    step = orthogonal(step, options["ns_coefficients"], int(options["ns_steps"]), options["eps"])
    x = x * (1.0 - lr * options["weight_decay"])
    step = astype(step, dtype=x.dtype) * (lr * _ratio(options, x.shape))
    return x - step, {"momentum_buffer": buffer}


RULE = Rule(_check, _slots, _update, elementwise=False)
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def muon(
    lr: Any = 1e-3,
    weight_decay: Any = 0.1,
    momentum: Any = 0.95,
    nesterov: bool = True,
    ns_coefficients: tuple[float, float, float] = _COEFFICIENTS,
    eps: float = 1e-7,
    ns_steps: int = 5,
    adjust_lr_fn: str | None = None,
) -> Pure:
    """The pure form of ``Muon``; see ``sgd`` for its use.

    Example:
        >>> import fx
        >>> init, update = fx.optim.pure.muon(lr=0.1, weight_decay=0.0)
        >>> params = fx.zeros((2, 2))
        >>> params, state = update(fx.tensor([[3.0, 0.0], [0.0, 1.0]]), init(params), params)
        >>> params.diagonal() < -0.05
        tensor([True, True])
    """
    return pure("muon", RULE, locals())


class Muon(Optimizer):
    """Muon: steps along the momentum of a matrix with its singular values made equal.

    For the matrices inside a model; leave biases, embeddings and heads to ``AdamW``.

    Args:
        params: matrices, or dicts of a group's matrices and options.
        lr: the learning rate.
        weight_decay: shrinks the parameter itself, times the learning rate.
        momentum: the share of the last momentum that is kept.
        nesterov: look ahead along the momentum.
        ns_coefficients: of the polynomial that makes singular values equal.
        eps: the least norm that the momentum is divided by.
        ns_steps: how often the polynomial is applied.
        adjust_lr_fn: what the shape of a matrix does to ``lr``: ``"original"`` (the default), or
            ``"match_rms_adamw"``, for learning rates of AdamW.

    Raises:
        ValueError: for options out of range, and for parameters that are no matrices.

    Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.

    Example:
        >>> import fx
        >>> w = fx.nn.Parameter(fx.eye(2))
        >>> optimizer = fx.optim.Muon([w], lr=0.1)
        >>> (w * w).sum().backward()
        >>> optimizer.step()
        >>> w.detach().diagonal() < 1
        tensor([True, True])
    """

    rule = RULE

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = _COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        super().__init__(params, options_of(locals()))
        for group in self.param_groups:
            for p in group["params"]:
                _slots(group, p)
