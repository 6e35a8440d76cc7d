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
from fx.random.discrete import bernoulli, bits, categorical, poisson, randint
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
from fx.random.keys import fold_in, key, split
from fx.random.lanes import lane
from fx.random.order import choice, permutation
