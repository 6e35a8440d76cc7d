"""Samplers under jit: the bits of eager calls, but for the last digits of formulas."""

import numpy as np
import pytest

import fx
from fx import random
from tests.random.samplers import SAMPLERS

KEY = random.key(42)

# made of other samples by exp, sin or power, whose last digits jit computes in its own way
FORMULAS = {"beta", "cauchy", "dirichlet", "f", "lognormal", "pareto", "weibull_min"}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("shape", [(), (7,), (3, 5), (2051,)])
def test_jit_draws_the_bits_of_eager_calls(name, shape):
    sample = SAMPLERS[name]
    eager = sample(KEY, shape)
    staged = fx.jit(lambda key: sample(key, shape))(KEY)
    assert staged.dtype == eager.dtype
    x, y = np.asarray(staged), np.asarray(eager)
    if name in FORMULAS:
        np.testing.assert_allclose(x, y, rtol=16 * np.finfo(y.dtype).eps, atol=1e-30)
    else:
        assert x.tobytes() == y.tobytes()
