"""DistributedDataParallel; ``test_rendezvous.py`` compares a script of it with torch."""

import pytest

from tests.distributed.ranks import SIZES, cases


@pytest.mark.parametrize("case", cases("cases_ddp.py"))
def test_of_ranks(outcomes, case):
    assert not outcomes("cases_ddp.py", 2)[case]


@pytest.mark.parametrize("case", cases("cases_hooks.py"))
def test_of_hooks(outcomes, case):
    assert not outcomes("cases_hooks.py", 3)[case]


@pytest.mark.parametrize("case", cases("cases_staged.py"))
@pytest.mark.parametrize("size", SIZES)
def test_of_compiled_functions(outcomes, case, size):
    assert not outcomes("cases_staged.py", size)[case]
