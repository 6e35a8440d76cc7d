"""ZeroRedundancyOptimizer."""

import pytest

from tests.distributed.ranks import cases


@pytest.mark.parametrize("case", cases("cases_zero.py"))
@pytest.mark.parametrize("size", [2, 3])
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_zero.py", size)[case]
