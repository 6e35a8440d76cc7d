"""Kullback-Leibler divergences of unlike distributions, from cross entropies and supports."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math
from typing import Any

import fx
from fx.ops.pointwise.torch_names import mvlgamma
from fx.tensor import Tensor
from fx.torch.distributions.continuous import Exponential, Gumbel, Laplace, Normal, Uniform
from fx.torch.distributions.discrete import Bernoulli, Binomial, Poisson
from fx.torch.distributions.gammas import Beta, Gamma
from fx.torch.distributions.kl import register_kl
from fx.torch.distributions.matrices import Wishart, multidigamma
from fx.torch.distributions.multivariate import half_log_det
from fx.torch.distributions.positive import Pareto
from fx.torch.distributions.relaxed import ContinuousBernoulli

_EULER = 0.57721566490153286060
_WIDE = (Normal, Laplace, Gumbel)
_POSITIVE = (Exponential, Gamma)
_UNIT = (Beta, ContinuousBernoulli)


def _from_normal(p: Any, q: Any) -> Tensor:
    square = (p.variance + (p.mean - q.loc) ** 2) / q.scale**2
    return 0.5 * (square + math.log(2 * math.pi)) + q.scale.log() - p.entropy()


def _from_exponential(p: Any, q: Any) -> Tensor:
    return q.rate * p.mean - q.rate.log() - p.entropy()


def _infinite(p: Any, q: Any) -> Tensor:
    """p gives what q never does."""
    shape = fx.broadcast_shapes(p.batch_shape, q.batch_shape)
    return fx.full(shape, fx.inf, dtype=p._dtype)


def _mean_log(p: Any) -> Tensor:
    """The mean of log x."""
    if isinstance(p, Beta):
        return fx.digamma(p.concentration1) - fx.digamma(p.concentration1 + p.concentration0)
    if isinstance(p, Exponential):
        return -_EULER - p.rate.log()
    if isinstance(p, Pareto):
        return p.scale.log() + 1 / p.alpha
    return (fx.xlogy(p.high, p.high) - fx.xlogy(p.low, p.low)) / (p.high - p.low) - 1


def _mean_fall(p: Any, scale: Tensor) -> Tensor:
    """The mean of exp(-x / scale); infinite where the tail of p is too heavy."""
    if isinstance(p, Exponential):
        return p.rate / (p.rate + 1 / scale)
    if isinstance(p, Gamma):
        return (-p.concentration * fx.log1p(1 / (scale * p.rate))).exp()
    if isinstance(p, Normal):
        return (p.scale**2 / (2 * scale**2) - p.loc / scale).exp()
    return scale * ((-p.low / scale).exp() - (-p.high / scale).exp()) / (p.high - p.low)


def _from_gamma(p: Any, q: Any) -> Tensor:
    a = q.concentration
    first = fx.lgamma(a) - a * q.rate.log() - (a - 1) * _mean_log(p)
    return first + q.rate * p.mean - p.entropy()


def _from_gumbel(p: Any, q: Any) -> Tensor:
    fall = _mean_fall(p, q.scale) * (q.loc / q.scale).exp()
    return (p.mean - q.loc) / q.scale + fall + q.scale.log() - p.entropy()


def _from_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return -p.entropy() - p.mean * q.logits - fx.log1p(-q.probs) - q._log_constant()


def _from_uniform(p: Any, q: Any) -> Tensor:
    return (q.high - q.low).log() - p.entropy()


def _within(rule: Any, inside: Any) -> Any:
    """The rule, of which the result is infinite where p gives what q never does."""

    def found(p: Any, q: Any) -> Tensor:
        return fx.where(inside(p, q), rule(p, q), fx.inf)

    return found


for _p in (Exponential, Gamma, Gumbel, Laplace, Uniform, Pareto, *_UNIT):
    register_kl(_p, Normal)(_from_normal)
for _p in (Gamma, Pareto, *_UNIT):
    register_kl(_p, Exponential)(_from_exponential)
for _p in (Beta, Exponential, Pareto):
    register_kl(_p, Gamma)(_from_gamma)
for _p in (Exponential, Gamma, Normal, Uniform):
    register_kl(_p, Gumbel)(_from_gumbel)
for _p in _UNIT:
    register_kl(_p, Uniform)(_within(_from_uniform, lambda p, q: (q.low <= 0) & (q.high >= 1)))
register_kl(Beta, ContinuousBernoulli)(_from_continuous_bernoulli)
register_kl(Uniform, ContinuousBernoulli)(
    _within(_from_continuous_bernoulli, lambda p, q: (p.low >= 0) & (p.high <= 1))
)
register_kl(Uniform, Exponential)(_within(_from_exponential, lambda p, q: p.low >= 0))
register_kl(Uniform, Gamma)(_within(_from_gamma, lambda p, q: p.low >= 0))


@register_kl(Bernoulli, Poisson)
def _(p: Any, q: Any) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()


@register_kl(Normal, Laplace)
def _(p: Any, q: Any) -> Tensor:
    off = (p.loc - q.loc) / p.scale
    far = math.sqrt(2 / math.pi) * (-off * off / 2).exp() + off * fx.erf(off * math.sqrt(0.5))
    return p.scale * far / q.scale + (2 * q.scale).log() - p.entropy()


@register_kl(Uniform, Beta)
def _(p: Any, q: Any) -> Tensor:
    a, b = q.concentration1, q.concentration0
    turned = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    logs = (a - 1) * _mean_log(p) + (b - 1) * _mean_log(turned)
    out = fx.lgamma(a) + fx.lgamma(b) - fx.lgamma(a + b) - logs - p.entropy()
    return fx.where((p.low >= 0) & (p.high <= 1), out, fx.inf)


@register_kl(Uniform, Pareto)
def _(p: Any, q: Any) -> Tensor:
    inside = p.low >= q.scale
    logs = (q.alpha + 1) * _mean_log(p) - q.alpha.log() - q.alpha * q.scale.log()
    return fx.where(inside, logs - p.entropy(), fx.inf)


@register_kl(Wishart, Wishart)
def _(p: Any, q: Any) -> Tensor:
    n, a, b = p.event_shape[0], p.df / 2, q.df / 2
    shape = fx.broadcast_shapes(p.scale_tril.shape, q.scale_tril.shape)
    mine, other = (fx.broadcast_to(d.scale_tril, shape) for d in (p, q))
    z = fx.linalg.solve_triangular(other, mine, upper=False)
    logs = 2 * (half_log_det(other) - half_log_det(mine))
    first = a * ((z * z).sum((-2, -1)) - n) + b * logs
    return first + mvlgamma(b, n) - mvlgamma(a, n) + (a - b) * multidigamma(a, n)


_NEVER: Any = {
    _WIDE: (*_POSITIVE, *_UNIT, Pareto, Uniform),
    (*_POSITIVE, Pareto): (*_UNIT, Uniform),
    (*_POSITIVE, *_UNIT): (Pareto,),
    (Poisson,): (Bernoulli, Binomial),
}
for _wider, _narrower in _NEVER.items():
    for _p in _wider:
        for _q in _narrower:
            register_kl(_p, _q)(_infinite)
