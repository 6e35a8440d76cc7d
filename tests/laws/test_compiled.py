"""Every primitive, compiled: on drawn samples, in every floating dtype."""

import random

import pytest

from fx.testing import all_primitives, draw
from fx.testing.compiled import compiled_is_the_kernel

PRIMITIVES = all_primitives()


@pytest.mark.parametrize("name", PRIMITIVES)
def test_compiled_is_the_kernel(name):
    for seed in range(4):
        compiled_is_the_kernel(PRIMITIVES[name], draw(PRIMITIVES[name], random.Random(seed)))
