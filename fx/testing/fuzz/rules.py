"""Functions with derivative rules that are not their derivatives: who loses a rule gives others."""

from __future__ import annotations

from typing import Any

import fx
from fx.autograd import Function
from fx.tensor import Tensor


@fx.custom_vjp
def bent(x: Tensor) -> Tensor:
    """Twice x, whose gradient is that of -3x."""
    return x + x


bent.defvjp(lambda x: (x + x, x.shape), lambda shape, ct: (ct.reshape(shape) * -3,))


@fx.custom_jvp
def leaning(x: Tensor) -> Tensor:
    """x, whose tangent is seven times that."""
    return x * 1


@leaning.defjvp
def _leaning(primals: Any, tangents: Any) -> Any:
    return leaning(primals[0]), tangents[0] * 7


@fx.custom_gradient
def through(x: Tensor) -> Any:
    """x rounded, whose gradient passes where it is above its mean."""
    return fx.round(x), lambda ct: (fx.where(x > fx.mean(x), ct, ct * 0),)


class Steep(Function):
    """x n, whose gradient is multiplied by the result and by n."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, n: Any) -> Tensor:
        out = x * n
        ctx.save_for_backward(out)
        ctx.n = n
        return out

    @staticmethod
    def backward(ctx: Any, ct: Tensor) -> Any:
        (out,) = ctx.saved_tensors
        return ct * out * ctx.n, None
