"""ZeroRedundancyOptimizer."""

import pytest

from tests.distributed.ranks import SIZES, cases


@pytest.mark.parametrize("case", cases("cases_zero.py"))
@pytest.mark.parametrize("size", SIZES)
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_zero.py", size)[case]
