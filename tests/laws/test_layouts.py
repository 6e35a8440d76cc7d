"""Every primitive on operands of every layout, with limits that a handful of elements crosses."""

import random

import pytest

from fx import limits
from fx.testing import all_primitives, draw
from fx.testing.layouts import compiled_on_any_layout, kernel_on_any_layout

PRIMITIVES = all_primitives()


@pytest.mark.parametrize("name", PRIMITIVES)
def test_kernel_on_any_layout(name):
    for stretch in (1, 4):
        sample = draw(PRIMITIVES[name], random.Random(stretch), stretch=stretch)
        kernel_on_any_layout(PRIMITIVES[name], sample)
        with limits.tiny():
            kernel_on_any_layout(PRIMITIVES[name], sample)


@pytest.mark.parametrize("name", PRIMITIVES)
def test_compiled_on_any_layout(name):
    with limits.tiny():
        sample = draw(PRIMITIVES[name], random.Random(1), stretch=3)
        compiled_on_any_layout(PRIMITIVES[name], sample)
