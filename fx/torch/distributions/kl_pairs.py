"""Kullback-Leibler divergences of unlike distributions, from cross entropies and supports."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math
from typing import Any

import fx
from fx.tensor import Tensor
from fx.torch.distributions.continuous import Exponential, Gumbel, Laplace, Normal, Uniform
from fx.torch.distributions.discrete import Bernoulli, Binomial, Poisson
from fx.torch.distributions.gammas import Beta, Gamma
from fx.torch.distributions.kl import register_kl
from fx.torch.distributions.positive import Pareto
from fx.torch.distributions.relaxed import ContinuousBernoulli

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


for _p in (Exponential, Gamma, Gumbel, Laplace, Uniform, *_UNIT):
    register_kl(_p, Normal)(_from_normal)
for _p in (Gamma, Pareto, *_UNIT):
    register_kl(_p, Exponential)(_from_exponential)
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
