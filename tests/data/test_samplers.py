"""Samplers; torch is the oracle where there is one."""

import pytest

import fx
from fx.data import (
    BatchSampler,
    DistributedSampler,
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


@pytest.mark.parametrize("size", [1, 2, 7, 12])
@pytest.mark.parametrize("replicas", [1, 3, 5])
@pytest.mark.parametrize("drop_last", [False, True])
def test_distributed_samplers_are_torchs(size, replicas, drop_last):
    for rank in range(replicas):
        options = {"shuffle": False, "drop_last": drop_last}
        ours = DistributedSampler(range(size), replicas, rank, **options)
        theirs = TD.DistributedSampler(range(size), replicas, rank, **options)
        assert len(ours) == len(theirs)
        assert list(ours) == list(theirs)


def test_distributed_samplers_share_an_order_that_changes_with_the_epoch():
    samplers = [DistributedSampler(range(12), 3, rank, seed=5) for rank in range(3)]
    orders = []
    for epoch in range(2):
        for sampler in samplers:
            sampler.set_epoch(epoch)
        parts = [list(sampler) for sampler in samplers]
        assert parts == [list(sampler) for sampler in samplers]
        orders.append([i for row in zip(*parts) for i in row])
        assert sorted(orders[-1]) == list(range(12))
    assert orders[0] != orders[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "num_replicas=None and rank=None must both be given; write DistributedSampler"),
        ((2,), "num_replicas=2 and rank=None must both be given"),
        ((2, 2), r"Invalid rank 2, rank should be in the interval \[0, 1\]"),
        ((2, -1), "Invalid rank -1"),
    ],
)
def test_what_distributed_samplers_refuse(arguments, message):
    with pytest.raises(ValueError, match=message):
        DistributedSampler(range(3), *arguments)


def test_virtual_ranks_that_do_not_divide_are_refused():
    with pytest.raises(ValueError, match="virtual_ranks=4 does not divide by 3 replicas"):
        DistributedSampler(range(3), 3, 0, virtual_ranks=4)


SAMPLERS = {
    "num_samples": (RandomSampler, {"num_samples": 0}),
    "a fraction": (RandomSampler, {"num_samples": 1.5}),
    "replacement": (RandomSampler, {"replacement": 1}),
    "weights": (WeightedRandomSampler, {"num_samples": 1}),
    "batch_size": (BatchSampler, {"batch_size": True, "drop_last": False}),
    "drop_last": (BatchSampler, {"batch_size": 1, "drop_last": 1}),
}


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size", [5, 32, 45])
def test_virtual_ranks_have_the_same_samples_on_any_replicas(size, drop_last):
    """Of a batch of 8, virtual rank v of 4 has the samples that replica v of 4 would have."""
    more = {"seed": 3, "drop_last": drop_last}
    want = [list(DistributedSampler(range(size), 4, v, **more)) for v in range(4)]
    for replicas in (1, 2, 4):
        each = 4 // replicas
        for rank in range(replicas):
            sampler = DistributedSampler(range(size), replicas, rank, virtual_ranks=4, **more)
            found = list(sampler)
            assert len(found) == len(sampler)
            for j in range(each):  # as micro_batches cuts
                assert found[j::each] == want[rank * each + j]


def test_virtual_ranks_resume_with_other_replicas():
    whole = [DistributedSampler(range(40), 1, 0, virtual_ranks=4)]
    order = list(whole[0])
    halves = [DistributedSampler(range(40), 2, r, virtual_ranks=4) for r in range(2)]
    running = [iter(s) for s in halves]
    before = [[next(it) for _ in range(6)] for it in running]  # 3 rows of 2 virtual ranks each
    assert [i for a in range(0, 6, 2) for half in before for i in half[a : a + 2]] == order[:12]
    states = [s.state_dict() for s in halves]
    assert states[0] == states[1]
    whole[0].load_state_dict(states[0])
    assert list(whole[0]) == order[12:]


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_refuse_what_torchs_refuse(name):
    kind, options = SAMPLERS[name]
    source = [[1.0, 2.0]] if kind is WeightedRandomSampler else [1.0, 2.0]
    with pytest.raises((ValueError, TypeError)) as expected:
        getattr(TD, kind.__name__)(source, **options)
    with pytest.raises(expected.type) as found:
        kind(source, **options)
    assert str(found.value).startswith(str(expected.value).split(",")[0][:40])


@pytest.mark.parametrize(
    "make",
    [
        lambda g: RandomSampler(range(100), generator=g),
        lambda g: RandomSampler(range(10), num_samples=35, generator=g),
        lambda g: RandomSampler(range(10), True, 200_000, generator=g),
        lambda g: SubsetRandomSampler(range(100), g),
        lambda g: WeightedRandomSampler([1.0] * 50, 100, generator=g),
    ],
)
def test_samplers_repeat_with_their_generator(make):
    def order(seed):
        sampler = make(fx.Generator().manual_seed(seed))
        return [list(sampler), list(sampler)]

    first = order(1)
    assert first == order(1) and first[0] != first[1] and order(2) != first
    assert len(first[0]) == len(make(None))
