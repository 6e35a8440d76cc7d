"""Every primitive, compiled: on drawn samples, in every floating dtype."""

import random

import pytest

from fx import limits
from fx.testing import draw
from fx.testing.case import taken_in
from fx.testing.compiled import DTYPES, compiled_in, compiled_is_the_kernel
from tests.laws.samples import NUMBERS, PRIMITIVES, stands_for_others
from tests.thorough import THOROUGH


def in_one_dtype(primitive, sample, number):
    """The law in one of the dtypes that the primitive takes."""
    taken = [dtype for dtype, _ in taken_in(primitive, sample, DTYPES)]
    compiled_in(primitive, sample, taken[number % len(taken)])


@pytest.mark.parametrize("name", PRIMITIVES)
def test_compiled_is_the_kernel(name):
    """Samples, each in a dtype of its own: four, the first in every one, where others rest on it.

    Else two of the four, in turns.
    """
    primitive = PRIMITIVES[name]
    for seed in range(4) if stands_for_others(name) else range(NUMBERS[name] % 2, 4, 2):
        sample = draw(primitive, random.Random(seed))
        if THOROUGH or (seed == 0 and stands_for_others(name)):
            compiled_is_the_kernel(primitive, sample)
        else:
            in_one_dtype(primitive, sample, seed)


IN_BLOCKS = ("conv", "conv_input_grad", "conv_weight_grad", "matmul", "max_pool", "window_sum")


@pytest.mark.parametrize("name", PRIMITIVES)
def test_compiled_under_tiny_limits_is_the_kernel(name):
    """Tiny limits cut loops elsewhere, whatever the dtype."""
    whole = stands_for_others(name) or name in IN_BLOCKS
    for seed in range(5, 11 if name in IN_BLOCKS else 6):
        sample = draw(PRIMITIVES[name], random.Random(seed), stretch=seed - 2)
        with limits.tiny():
            if whole:
                compiled_is_the_kernel(PRIMITIVES[name], sample)
            else:
                in_one_dtype(PRIMITIVES[name], sample, NUMBERS[name])
