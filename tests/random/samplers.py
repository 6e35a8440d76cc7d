"""Every sampler that takes a key, as functions of the key alone, for tests that hold for all."""

import fx
from fx import random

SAMPLERS = {
    "bits": lambda k, s: random.bits(k, s),
    "bits8": lambda k, s: random.bits(k, s, fx.uint8),
    "bits64": lambda k, s: random.bits(k, s, fx.uint64),
    "uniform": lambda k, s: random.uniform(k, s),
    "uniform64": lambda k, s: random.uniform(k, s, dtype=fx.float64),
    "uniform16": lambda k, s: random.uniform(k, s, -1.0, 3.0, dtype=fx.float16),
    "normal": lambda k, s: random.normal(k, s),
    "normal64": lambda k, s: random.normal(k, s, 1.0, 3.0, dtype=fx.float64),
    "normal_bf16": lambda k, s: random.normal(k, s, dtype=fx.bfloat16),
    "truncated_normal": lambda k, s: random.truncated_normal(k, -1.0, 2.5, s),
    "exponential": lambda k, s: random.exponential(k, s),
    "gumbel": lambda k, s: random.gumbel(k, s),
    "laplace": lambda k, s: random.laplace(k, s),
    "logistic": lambda k, s: random.logistic(k, s, fx.float64),
    "gamma": lambda k, s: random.gamma(k, 0.7, s),
    "loggamma": lambda k, s: random.loggamma(k, 2.5, s, fx.float64),
    "beta": lambda k, s: random.beta(k, 0.7, 2.5, s),
    "dirichlet": lambda k, s: random.dirichlet(k, fx.tensor([0.3, 1.0, 4.0]), s),
    "bernoulli": lambda k, s: random.bernoulli(k, 0.3, s),
    "randint": lambda k, s: random.randint(k, s, -5, 7),
    "randint_wide": lambda k, s: random.randint(k, s, 0, 3 << 61),
    "categorical": lambda k, s: random.categorical(k, fx.tensor([0.0, 1.0, -2.0]), shape=s),
    "poisson": lambda k, s: random.poisson(k, 4.0, s),
    "poisson_large": lambda k, s: random.poisson(k, 40.0, s),
    "choice": lambda k, s: random.choice(k, 11, s),
    "choice_weighted": lambda k, s: random.choice(k, 3, s, p=fx.tensor([0.2, 0.5, 0.3])),
    "categorical_without": lambda k, s: random.categorical(
        k, fx.tensor([0.0, 1.0, -2.0] * 700), shape=s, replace=False
    ),
    "gumbel_high": lambda k, s: random.gumbel(k, s, mode="high"),
    "bernoulli_high": lambda k, s: random.bernoulli(k, 0.3, s, "high"),
    "truncated_tensors": lambda k, s: random.truncated_normal(
        k, fx.tensor(-1.0), fx.tensor(2.5), s
    ),
    "binomial": lambda k, s: random.binomial(k, 9, 0.3, s),
    "binomial_large": lambda k, s: random.binomial(k, 500.0, 0.8, s, fx.int64),
    "multinomial": lambda k, s: random.multinomial(k, 90, fx.tensor([0.3, 0.1, 0.6]), shape=s),
    "geometric": lambda k, s: random.geometric(k, 0.2, s),
    "rademacher": lambda k, s: random.rademacher(k, s),
    "cauchy": lambda k, s: random.cauchy(k, s),
    "chisquare": lambda k, s: random.chisquare(k, 3.0, s),
    "double_sided_maxwell": lambda k, s: random.double_sided_maxwell(k, 1.0, 2.0, s),
    "f": lambda k, s: random.f(k, 3.0, 7.0, s, fx.float64),
    "generalized_normal": lambda k, s: random.generalized_normal(k, 1.5, s),
    "lognormal": lambda k, s: random.lognormal(k, 0.5, s),
    "maxwell": lambda k, s: random.maxwell(k, s, fx.float64),
    "pareto": lambda k, s: random.pareto(k, 2.5, s),
    "rayleigh": lambda k, s: random.rayleigh(k, 2.0, s),
    "t": lambda k, s: random.t(k, 3.0, s),
    "t16": lambda k, s: random.t(k, 3.0, s, fx.float16),
    "triangular": lambda k, s: random.triangular(k, -1.0, 0.5, 3.0, s),
    "wald": lambda k, s: random.wald(k, 2.0, s),
    "weibull_min": lambda k, s: random.weibull_min(k, 2.0, 1.5, s),
    "ball": lambda k, s: random.ball(k, 3, 1.5, s),
    "multivariate_normal": lambda k, s: random.multivariate_normal(
        k, fx.tensor([1.0, 2.0]), fx.tensor([[2.0, 0.5], [0.5, 1.0]]), s
    ),
    "orthogonal": lambda k, s: random.orthogonal(k, 2, s, m=3),
}
