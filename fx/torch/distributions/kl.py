"""The Kullback-Leibler divergence of two distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fx
from fx.tensor import Tensor
from fx.torch.distributions.continuous import (
    Beta,
    Dirichlet,
    Exponential,
    Gamma,
    Laplace,
    Normal,
    Uniform,
)
from fx.torch.distributions.discrete import Bernoulli, Categorical, OneHotCategorical, Poisson
from fx.torch.distributions.distribution import Distribution, Independent

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
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())  # type: ignore[no-any-return]


@register_kl(Categorical, Categorical)
def _(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = fx.where((q.probs == 0).expand(terms.shape), fx.inf, terms)
    return fx.where((p.probs == 0).expand(terms.shape), 0.0, terms).sum(-1)  # type: ignore[no-any-return]


@register_kl(OneHotCategorical, OneHotCategorical)
def _(p: Any, q: Any) -> Tensor:
    return kl_divergence(p._categorical, q._categorical)


@register_kl(Bernoulli, Bernoulli)
def _(p: Any, q: Any) -> Tensor:
    softplus = fx.softplus
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    zero = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    return one + zero  # type: ignore[no-any-return]


@register_kl(Uniform, Uniform)
def _(p: Any, q: Any) -> Tensor:
    out = ((q.high - q.low) / (p.high - p.low)).log()
    return fx.where((q.low > p.low) | (q.high < p.high), fx.inf, out)  # type: ignore[no-any-return]


@register_kl(Exponential, Exponential)
def _(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1  # type: ignore[no-any-return]


@register_kl(Laplace, Laplace)
def _(p: Any, q: Any) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * (-distance / p.scale).exp() - 1  # type: ignore[no-any-return]


@register_kl(Poisson, Poisson)
def _(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)  # type: ignore[no-any-return]


@register_kl(Gamma, Gamma)
def _(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    first = b * (p.rate / q.rate).log() + fx.lgamma(b) - fx.lgamma(a)
    return first + (a - b) * fx.digamma(a) + (q.rate - p.rate) * (a / p.rate)  # type: ignore[no-any-return]


@register_kl(Dirichlet, Dirichlet)
def _(p: Any, q: Any) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    first = fx.lgamma(total) - fx.lgamma(b.sum(-1)) - (fx.lgamma(a) - fx.lgamma(b)).sum(-1)
    return first + ((a - b) * (fx.digamma(a) - fx.digamma(total)[..., None])).sum(-1)  # type: ignore[no-any-return]


@register_kl(Beta, Beta)
def _(p: Any, q: Any) -> Tensor:
    return kl_divergence(p._both, q._both)


@register_kl(Independent, Independent)
def _(p: Any, q: Any) -> Tensor:
    return p._summed(kl_divergence(p.base_dist, q.base_dist))  # type: ignore[no-any-return]
