"""Jitted functions of tensors on a mesh, on ranks."""

import pytest

from tests.distributed.ranks import cases

CASES = cases("cases_propagation.py")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", [2, 3])
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_propagation.py", size)[case]
