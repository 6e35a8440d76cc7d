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
}
