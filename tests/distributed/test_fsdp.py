"""``fully_shard`` on ranks."""

import pytest

from tests.distributed.ranks import SIZES, cases

CASES = cases("cases_fsdp.py")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [*SIZES, 4])
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_fsdp.py", size)[case]


@pytest.mark.parametrize("case", cases("cases_wrapper.py"))
def test_of_ranks_with_the_older_class(outcomes, case):
    assert not outcomes("cases_wrapper.py", 3)[case]


@pytest.mark.parametrize("case", cases("cases_fsdp_jit.py"))
@pytest.mark.parametrize("size", SIZES)
def test_of_compiled_ranks(outcomes, case, size):
    assert not outcomes("cases_fsdp_jit.py", size)[case]


@pytest.mark.parametrize("case", cases("cases_fsdp_memory.py"))
def test_of_memory(outcomes, case):
    assert not outcomes("cases_fsdp_memory.py", 2)[case]
