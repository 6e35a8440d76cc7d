"""Messages of ranks that do not do the same."""

import pytest

from tests.distributed.ranks import SIZES, cases

CASES = cases("cases_agreement.py")


@pytest.mark.parametrize("size", [*SIZES, 4])
@pytest.mark.parametrize("case", CASES)
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_agreement.py", size)[case]
