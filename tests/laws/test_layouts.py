"""Every primitive on operands of every layout, with limits that a handful of elements crosses."""

import random

import pytest

from fx import limits
from fx.testing import draw
from fx.testing.layouts import compiled_on_any_layout, kernel_on_any_layout
from tests.laws.samples import NUMBERS, PRIMITIVES, stands_for_others


@pytest.mark.parametrize("name", PRIMITIVES)
def test_kernel_on_any_layout(name):
    """Small and larger samples, each under both limits where others rest on it, else under one."""
    for turn, stretch in enumerate((1, 4), NUMBERS[name]):
        sample = draw(PRIMITIVES[name], random.Random(stretch), stretch=stretch)
        if stands_for_others(name) or turn % 2:
            kernel_on_any_layout(PRIMITIVES[name], sample)
        if stands_for_others(name) or not turn % 2:
            with limits.tiny():
                kernel_on_any_layout(PRIMITIVES[name], sample)


@pytest.mark.parametrize("name", PRIMITIVES)
def test_compiled_on_any_layout(name):
    with limits.tiny():
        sample = draw(PRIMITIVES[name], random.Random(1), stretch=3)
        compiled_on_any_layout(PRIMITIVES[name], sample)
