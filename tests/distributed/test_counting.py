"""Messages that a block sends."""

import pytest

import fx
from fx.torch.distributed.tensor.debug import CommDebugMode
from tests.distributed.ranks import cases


@pytest.mark.parametrize("case", cases("cases_counting.py"))
def test_of_ranks(outcomes, case):
    assert not outcomes("cases_counting.py", 3)[case]


def test_what_is_not_counted_is_named():
    with pytest.raises(AttributeError, match="fx counts messages"):
        CommDebugMode().generate_comm_debug_tracing_table()
    with pytest.raises(AttributeError, match=r"torch\.ops\.aten"):
        fx.torch.ops.aten
