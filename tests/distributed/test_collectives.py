"""Collectives, groups and messages between ranks."""

import pytest

from tests.distributed.ranks import SIZES, cases

CASES = cases("cases_collectives.py")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", CASES)
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_collectives.py", size)[case]
