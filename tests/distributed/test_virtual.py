"""Virtual ranks of ``DistributedDataParallel``."""

import pytest

from tests.distributed.ranks import cases

CASES = cases("cases_virtual.py")


@pytest.mark.parametrize("case", CASES)
def test_of_ranks(outcomes, case):
    assert not outcomes("cases_virtual.py", 4)[case]
