"""The Kullback-Leibler divergence of two distributions."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fx
from fx.tensor import Tensor
from fx.torch.distributions.continuous import Cauchy, Exponential, Gumbel, Laplace, Normal, Uniform
from fx.torch.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    OneHotCategorical,
    Poisson,
)
from fx.torch.distributions.distribution import Distribution, Independent, summed
from fx.torch.distributions.gammas import Beta, Dirichlet, Gamma, InverseGamma
from fx.torch.distributions.multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    half_log_det,
)
from fx.torch.distributions.positive import HalfCauchy, HalfNormal, LogNormal, Pareto
from fx.torch.distributions.relaxed import ContinuousBernoulli
from fx.torch.distributions.transformed import TransformedDistribution

_RULES: dict[tuple[type, type], Callable[[Any, Any], Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """A decorator: the function gives KL(p || q) for distributions of these types."""

    def register(function: Any) -> Any:
        _RULES[type_p, type_q] = function
        return function

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q) for each distribution of the batch.

    Raises:
        NotImplementedError: for a pair of types without a formula.

    Example:
        >>> import fx.torch as torch
        >>> from fx.torch.distributions import Normal, kl_divergence
        >>> kl_divergence(Normal(1.0, 1.0), Normal(0.0, 1.0))
        tensor(0.5000)
    """
    for one in type(p).__mro__:
        for two in type(q).__mro__:
            if (one, two) in _RULES:
                return _RULES[one, two](p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
        f"{type(q).__name__}; write a function and put @register_kl on it"
    )


@register_kl(Normal, Normal)
def _(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(Categorical, Categorical)
def _(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = fx.where((q.probs == 0).expand(terms.shape), fx.inf, terms)
    return fx.where((p.probs == 0).expand(terms.shape), 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _(p: Any, q: Any) -> Tensor:
    return kl_divergence(p._categorical, q._categorical)


@register_kl(Bernoulli, Bernoulli)
def _(p: Any, q: Any) -> Tensor:
    softplus = fx.softplus
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    zero = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    return one + zero


@register_kl(Uniform, Uniform)
def _(p: Any, q: Any) -> Tensor:
    out = ((q.high - q.low) / (p.high - p.low)).log()
    return fx.where((q.low > p.low) | (q.high < p.high), fx.inf, out)


@register_kl(Exponential, Exponential)
def _(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Laplace, Laplace)
def _(p: Any, q: Any) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1


@register_kl(Poisson, Poisson)
def _(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Gamma, Gamma)
def _(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    first = b * (p.rate / q.rate).log() + fx.lgamma(b) - fx.lgamma(a)
    return first + (a - b) * fx.digamma(a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(Dirichlet, Dirichlet)
def _(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    first = fx.lgamma(total) - fx.lgamma(b.sum(-1)) - (fx.lgamma(a) - fx.lgamma(b)).sum(-1)
    return first + ((a - b) * (fx.digamma(a) - fx.digamma(total)[..., None])).sum(-1)


@register_kl(Beta, Beta)
def _(p: Any, q: Any) -> Tensor:
    return kl_divergence(p._both, q._both)


@register_kl(Independent, Independent)
def _(p: Any, q: Any) -> Tensor:
    if p.count != q.count:
        raise NotImplementedError("KL of Independent distributions of unlike numbers of axes")
    return summed(kl_divergence(p.base_dist, q.base_dist), p.count)


@register_kl(InverseGamma, InverseGamma)
@register_kl(LogNormal, LogNormal)
@register_kl(HalfCauchy, HalfCauchy)
@register_kl(HalfNormal, HalfNormal)
def _(p: Any, q: Any) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(TransformedDistribution, TransformedDistribution)
def _(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL of distributions that unlike transforms make")
    extra = len(p.event_shape) - len(p.base_dist.event_shape)
    return summed(kl_divergence(p.base_dist, q.base_dist), extra)


@register_kl(Cauchy, Cauchy)
def _(p: Any, q: Any) -> Tensor:
    apart = (p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2
    return (apart / (4 * p.scale * q.scale)).log()


@register_kl(Gumbel, Gumbel)
def _(p: Any, q: Any) -> Tensor:
    ratio, off, euler = p.scale / q.scale, (q.loc - p.loc) / q.scale, 0.57721566490153286060
    first = -ratio.log() - off + ratio * euler
    return first + (off + fx.lgamma(1 + ratio)).exp() - (1 + euler)


@register_kl(Geometric, Geometric)
def _(p: Any, q: Any) -> Tensor:
    return -p.entropy() - fx.log1p(-q.probs) / p.probs - q.logits


@register_kl(Binomial, Binomial)
def _(p: Any, q: Any) -> Tensor:
    n = p.total_count
    one = p.probs * (p.logits - q.logits) + fx.log1p(-p.probs) - fx.log1p(-q.probs)
    return fx.where(n > q.total_count, fx.inf, n * one)


@register_kl(Pareto, Pareto)
def _(p: Any, q: Any) -> Tensor:
    ratio = q.alpha / p.alpha
    out = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return fx.where(p.scale < q.scale, fx.inf, out)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _(p: Any, q: Any) -> Tensor:
    first = p.mean * (p.logits - q.logits) + p._log_constant() - q._log_constant()
    return first + fx.log1p(-p.probs) - fx.log1p(-q.probs)


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between normal distributions of vectors of {p.event_shape[0]} and "
            f"{q.event_shape[0]} elements is not defined"
        )
    mine, other = p.scale_tril, q.scale_tril
    off = (p.loc - q.loc)[..., None]  # (*batch, n, 1)
    lead = off.shape[:-2]
    mine, other = (fx.broadcast_to(v, (*lead, *v.shape[-2:])) for v in (mine, other))
    z = fx.linalg.solve_triangular(other, fx.concat([mine, off], -1), upper=False)
    half = half_log_det(other) - half_log_det(mine)
    return half + 0.5 * ((z * z).sum((-2, -1)) - p.event_shape[0])
