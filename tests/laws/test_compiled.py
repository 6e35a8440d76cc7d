"""Every primitive, compiled: on drawn samples, in every floating dtype."""

import random

import pytest

from fx import limits
from fx.testing import all_primitives, draw
from fx.testing.compiled import compiled_is_the_kernel

PRIMITIVES = all_primitives()


@pytest.mark.parametrize("name", PRIMITIVES)
def test_compiled_is_the_kernel(name):
    for seed in range(4):
        compiled_is_the_kernel(PRIMITIVES[name], draw(PRIMITIVES[name], random.Random(seed)))


IN_BLOCKS = ("conv", "conv_input_grad", "conv_weight_grad", "matmul", "max_pool", "window_sum")


@pytest.mark.parametrize("name", PRIMITIVES)
def test_compiled_under_tiny_limits_is_the_kernel(name):
    seeds = range(5, 11 if name in IN_BLOCKS else 6)
    for seed in seeds:
        sample = draw(PRIMITIVES[name], random.Random(seed), stretch=seed - 2)
        with limits.tiny():
            compiled_is_the_kernel(PRIMITIVES[name], sample)
