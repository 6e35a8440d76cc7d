"""Collectives, groups and messages between ranks."""

import pytest

from tests.distributed.ranks import SIZES, cases

CASES = cases("cases_collectives.py")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", CASES)
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_collectives.py", size)[case]


@pytest.mark.parametrize("case", cases("cases_differentiable.py"))
def test_of_ranks_through_which_gradients_flow(outcomes, case):
    assert not outcomes("cases_differentiable.py", 3)[case]
