"""Samplers; torch is the oracle where there is one."""

import pytest

import fx
from fx.data import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

torch = pytest.importorskip("torch")
TD = torch.utils.data


def test_samplers():
    fx.manual_seed(0)
    assert list(SequentialSampler(range(4))) == [0, 1, 2, 3]
    shuffled = RandomSampler(range(50))
    first, second = list(shuffled), list(shuffled)
    assert sorted(first) == sorted(second) == list(range(50)) and first != second
    assert len(list(RandomSampler(range(5), num_samples=12))) == 12
    drawn = list(RandomSampler(range(5), replacement=True, num_samples=100))
    assert set(drawn) == set(range(5)) and len(drawn) == 100
    assert list(RandomSampler(range(0))) == []
    assert sorted(SubsetRandomSampler([7, 3])) == [3, 7]
    weighted = list(WeightedRandomSampler([0.0, 1.0, 3.0], 2000))
    assert 0 not in weighted and abs(weighted.count(2) / 2000 - 0.75) < 0.05
    assert sorted(WeightedRandomSampler([1.0, 2.0, 3.0], 3, replacement=False)) == [0, 1, 2]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size", [1, 3, 4, 20])
def test_batch_sampler_is_torchs(size, drop_last):
    ours = BatchSampler(SequentialSampler(range(10)), size, drop_last)
    theirs = TD.BatchSampler(TD.SequentialSampler(range(10)), size, drop_last)
    assert list(ours) == list(theirs) and len(ours) == len(theirs)


def test_what_samplers_refuse():
    with pytest.raises(ValueError, match="num_samples should be a positive integer"):
        RandomSampler(range(3), num_samples=0)
    with pytest.raises(ValueError, match="batch_size should be a positive integer value"):
        BatchSampler(range(3), 0, False)
