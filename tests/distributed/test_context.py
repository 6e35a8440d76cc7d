"""``context_parallel``, on ranks."""

import pytest

from tests.distributed.ranks import SIZES, cases

CASES = cases("cases_context.py")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("size", SIZES)
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_context.py", size)[case]


@pytest.mark.peers
@pytest.mark.parametrize("size", [2, 3])
def test_pieces_lie_as_in_pytorch(size):
    balancer = pytest.importorskip(
        "torch.distributed.tensor.experimental._context_parallel._load_balancer"
    )
    from fx.distributed.context import SequenceAxis

    length = 4 * size
    want = balancer._HeadTailLoadBalancer(length, size, "cpu")._generate_indices()
    assert SequenceAxis("cp", "", size, True).order(length).tolist() == want.flatten().tolist()
