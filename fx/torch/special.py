"""``torch.special``: special functions that stand on fx's own."""

from __future__ import annotations

import math
from typing import Any

import fx
from fx.ops.operands import floating, operands
from fx.ops.pointwise.composed import _times_log
from fx.ops.pointwise.torch_names import mvlgamma, sinc
from fx.tensor import Tensor

digamma = psi = fx.digamma
gammaln, multigammaln = fx.lgamma, mvlgamma
erf, erfc, erfinv, exp2, expm1, log1p = fx.erf, fx.erfc, fx.erfinv, fx.exp2, fx.expm1, fx.log1p
expit, logit, xlogy, round = fx.sigmoid, fx.logit, fx.xlogy, fx.round


def logsumexp(input: Any, dim: Any, keepdim: bool = False) -> Tensor:
    """log(sum(exp(x))) along axes, without overflow."""
    return fx.logsumexp(input, dim, keepdim)


def softmax(input: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis."""
    return fx.softmax(input, dim, dtype)


def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Tensor:
    """The logarithm of softmax."""
    return fx.log_softmax(input, dim, dtype)


def entr(input: Any) -> Tensor:
    """-x log(x): 0 at 0, where its slope is 0 as ``xlogy``'s; -inf below."""
    x = floating("special.entr", input)
    # -x * log(x), and not -xlogy(x, x), which is NaN at infinity
    return fx.where(x < 0, -math.inf, fx.xlogy(-x, x))


def xlog1py(input: Any, other: Any) -> Tensor:
    """input * log1p(other), 0 where input is 0."""
    x, y = operands("special.xlog1py", input, other, True)
    return _times_log(x, y, fx.log1p, 0.0, -1.0)


def ndtr(input: Any) -> Tensor:
    """The area under the standard normal curve up to x."""
    return fx.erfc(floating("special.ndtr", input) * -math.sqrt(0.5)) / 2  # type: ignore[no-any-return]


@fx.custom_jvp
def _ndtri(p: Tensor) -> Tensor:
    """In the middle by erfinv; in the tails by Halley's steps from the first terms there."""
    q = fx.where(p > 0.5, 1 - p, p)
    tail = (q > 0) & (q < 0.25)
    q = fx.where(tail, q, 0.25)
    t = fx.sqrt(-2 * fx.log(q))
    x = (fx.log(t) + math.log(math.sqrt(2 * math.pi))) / t - t
    for _ in range(4):
        excess = (ndtr(x) - q) / _density(x)
        x = x - excess / (1 + x * excess / 2)
    x = fx.where(p > 0.5, -x, x)
    outside = fx.where(p < 0, math.nan, fx.erfinv(2 * p - 1))  # 2 * p - 1 may round to -1
    return fx.where(tail, x, outside * math.sqrt(2))


@_ndtri.defjvp
def _ndtri_rule(primals: Any, tangents: Any) -> Any:
    out = _ndtri(*primals)
    return out, tangents[0] / _density(out)


def _density(x: Tensor) -> Tensor:
    return fx.exp(x * x * -0.5) / math.sqrt(2 * math.pi)


def ndtri(input: Any) -> Tensor:
    """Where the area under the standard normal curve reaches p."""
    return _ndtri(floating("special.ndtri", input))  # type: ignore[no-any-return]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise AttributeError(f"fx has no torch.special.{name}; there is: {', '.join(__all__)}")


__all__ = [
    "digamma", "entr", "erf", "erfc", "erfinv", "exp2", "expit", "expm1", "gammaln", "log1p",
    "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "ndtri", "psi", "round", "sinc",
    "softmax", "xlog1py", "xlogy",
]  # fmt: skip
