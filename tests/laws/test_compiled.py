"""Every primitive, compiled: on drawn samples, in every floating dtype."""

import random

import pytest

from fx import limits
from fx.testing import all_primitives, draw
from fx.testing.case import taken_in
from fx.testing.compiled import DTYPES, compiled_in, compiled_is_the_kernel
from tests.thorough import THOROUGH

PRIMITIVES = all_primitives()


@pytest.mark.parametrize("name", PRIMITIVES)
def test_compiled_is_the_kernel(name):
    """One sample in every dtype, others in one each."""
    primitive = PRIMITIVES[name]
    for seed in range(4):
        sample = draw(primitive, random.Random(seed))
        if seed == 0 or THOROUGH:
            compiled_is_the_kernel(primitive, sample)
        else:
            taken = [dtype for dtype, _ in taken_in(primitive, sample, DTYPES)]
            compiled_in(primitive, sample, taken[seed % len(taken)])


IN_BLOCKS = ("conv", "conv_input_grad", "conv_weight_grad", "matmul", "max_pool", "window_sum")


@pytest.mark.parametrize("name", PRIMITIVES)
def test_compiled_under_tiny_limits_is_the_kernel(name):
    seeds = range(5, 11 if name in IN_BLOCKS else 6)
    for seed in seeds:
        sample = draw(PRIMITIVES[name], random.Random(seed), stretch=seed - 2)
        with limits.tiny():
            compiled_is_the_kernel(PRIMITIVES[name], sample)
