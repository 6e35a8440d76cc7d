"""DistributedDataParallel; ``test_rendezvous.py`` compares a script of it with torch."""

import pytest

from tests.distributed.ranks import cases


@pytest.mark.parametrize("case", cases("cases_ddp.py"))
def test_of_ranks(outcomes, case):
    assert not outcomes("cases_ddp.py", 2)[case]
