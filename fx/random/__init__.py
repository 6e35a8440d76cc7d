"""Random numbers: explicit keys and their samplers, and the generator behind ``fx.randn``.

``fx.random.normal(key, shape)`` takes its key as an argument and is a pure function;
``fx.randn(shape)`` takes the next key of the default generator. ``README.md`` beside this file says
which bits are drawn when.
"""

from fx.random.continuous import (
    exponential,
    gumbel,
    laplace,
    logistic,
    normal,
    truncated_normal,
    uniform,
)
from fx.random.counts import binomial, geometric, multinomial, poisson, rademacher
from fx.random.discrete import bernoulli, bits, categorical, randint
from fx.random.families import (
    cauchy,
    chisquare,
    double_sided_maxwell,
    f,
    generalized_normal,
    lognormal,
    maxwell,
    pareto,
    rayleigh,
    t,
    triangular,
    wald,
    weibull_min,
)
from fx.random.gammas import beta, dirichlet, gamma, loggamma
from fx.random.generator import (
    Generator,
    current_generator,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    next_key,
    seed,
    set_rng_state,
    using,
)
from fx.random.keys import (
    PRNGKey,
    clone,
    fold_in,
    key,
    key_data,
    key_dtype,
    key_impl,
    split,
    wrap_key_data,
)
from fx.random.lanes import lane
from fx.random.multivariate import ball, multivariate_normal, orthogonal
from fx.random.order import choice, permutation
