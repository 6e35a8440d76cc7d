"""A loop that is left and gone on with gives what a loop that was not left gives."""

import json
import random

import numpy as np
import pytest

import fx
from fx.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    WeightedRandomSampler,
    get_worker_info,
)
from fx.errors import StateError
from tests.data.processes import children


class Noisy(Dataset):
    """Its samples draw from every source that workers seed."""

    def __init__(self, n=23):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        drawn = (float(fx.rand(())),)
        if get_worker_info() is not None and get_worker_info().worker_method != "thread":
            drawn += (np.random.rand(), random.random())
        return (index, *drawn)


class Stream(IterableDataset):
    """Numbers in a stream, of which each worker has its own."""

    def __iter__(self):
        worker = get_worker_info()
        first = 0 if worker is None else 100 * worker.id
        for i in range(first, first + 11 + first // 20):
            yield i, float(fx.rand(()))


class Standing(IterableDataset):
    """A stream that says where it stands."""

    def __init__(self):
        self.at, self.read = 0, 0

    def __iter__(self):
        while self.at < 21:
            self.at += 1
            self.read += 1
            yield self.at, float(fx.rand(())), self.read
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class Halves(Sampler):
    """A sampler that says where it stands."""

    def __init__(self, n):
        self.n, self.at = n, 0

    def __len__(self):
        return self.n

    def __iter__(self):
        while self.at < self.n:
            self.at += 1
            yield self.n - self.at
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class Lazy(Sampler):
    """A sampler that draws as it goes."""

    def __iter__(self):
        for _ in range(17):
            yield int(fx.randint(0, 23, ()))


def plain(batch):
    return [x.tolist() if isinstance(x, fx.Tensor) else x for x in batch]


LOADERS = {
    "in order": lambda **o: DataLoader(Noisy(), 4, **o),
    "shuffled": lambda **o: DataLoader(Noisy(), 4, shuffle=True, **o),
    "short": lambda **o: DataLoader(Noisy(), 4, shuffle=True, drop_last=True, **o),
    "single": lambda **o: DataLoader(Noisy(7), None, shuffle=True, **o),
    "own generator": lambda **o: DataLoader(
        Noisy(), 4, shuffle=True, generator=fx.Generator().manual_seed(3), **o
    ),
    "sampler": lambda **o: DataLoader(
        Noisy(),
        4,
        sampler=RandomSampler(
            range(23), num_samples=31, replacement=True, generator=fx.Generator().manual_seed(4)
        ),
        **o,
    ),
    "weighted": lambda **o: DataLoader(
        Noisy(), 4, sampler=WeightedRandomSampler(np.arange(23.0), 20), **o
    ),
    "distributed": lambda **o: DataLoader(
        Noisy(), 2, sampler=DistributedSampler(range(23), 2, 1), **o
    ),
    "lazy": lambda **o: DataLoader(Noisy(), 4, sampler=Lazy(), **o),
    "batch_sampler": lambda **o: DataLoader(
        Noisy(), batch_sampler=BatchSampler(RandomSampler(range(23)), 5, True), **o
    ),
    "stateful": lambda **o: DataLoader(Noisy(), 4, sampler=Halves(23), **o),
    "stream": lambda **o: DataLoader(Stream(), 3, **o),
    "stream, short": lambda **o: DataLoader(Stream(), 3, drop_last=True, **o),
    "stream, single": lambda **o: DataLoader(Stream(), None, **o),
}
WORKERS = {
    "here": {},
    "process": {"num_workers": 1},
    "processes": {"num_workers": 2, "persistent_workers": True},
    "threads": {"num_workers": 2, "worker_type": "thread"},
}


def check(make, stops, epochs=2):
    """Run ``epochs`` epochs in one go, and again with a new loader after each stop."""
    fx.manual_seed(11)
    loader = make()
    expected = [[plain(b) for b in loader] for _ in range(epochs)]
    assert expected[0] != expected[1] or not stops
    for stop in stops:
        fx.manual_seed(11)
        loader, found, given = make(), [[] for _ in range(epochs)], 0
        epoch = 0
        while epoch < epochs:
            batches, left = iter(loader), False
            for batch in batches:
                found[epoch].append(plain(batch))
                given += 1
                if given == stop:
                    left = True
                    break
            if left:
                states = json.dumps(loader.state_dict()), fx.get_rng_state()
                batches.close()
                fx.manual_seed(99)  # a new process
                loader = make()
                loader.load_state_dict(json.loads(states[0]))
                assert loader.state_dict() == json.loads(states[0])
                fx.set_rng_state(states[1])
            else:
                epoch += 1
        assert found == expected, stop


@pytest.mark.parametrize("workers", ["here", "processes"])
@pytest.mark.parametrize("name", LOADERS)
def test_a_loop_is_gone_on_with(name, workers):
    stops = (1, 3, 9) if workers == "here" else (4,)
    check(lambda: LOADERS[name](**WORKERS[workers]), stops)


@pytest.mark.parametrize("name", ["shuffled", "stream"])
@pytest.mark.parametrize("workers", ["process", "threads"])
def test_with_other_workers(name, workers):
    check(lambda: LOADERS[name](**WORKERS[workers]), (2,))


@pytest.mark.parametrize("workers", ["here", "process"])
def test_a_stream_that_says_where_it_stands_is_not_read_again(workers):
    fx.manual_seed(1)
    expected = [plain(b)[:2] for b in DataLoader(Standing(), 2, **WORKERS[workers])]
    fx.manual_seed(1)
    loader = DataLoader(Standing(), 2, **WORKERS[workers])
    batches = iter(loader)
    found = [plain(next(batches))[:2] for _ in range(5)]
    state = loader.state_dict()
    other = DataLoader(Standing(), 2, **WORKERS[workers])
    other.load_state_dict(state)
    rest = [plain(b) for b in other]
    assert found + [b[:2] for b in rest] == expected
    assert rest[0][2] == [1, 2]
    batches.close()


def test_the_number_of_workers_may_change():
    fx.manual_seed(2)
    loader = DataLoader(Noisy(), 2, shuffle=True, num_workers=1)
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    state = loader.state_dict()
    rest = [plain(b) for b in batches]
    other = DataLoader(Noisy(), 2, shuffle=True, num_workers=2)
    other.load_state_dict(state)
    assert [plain(b) for b in other] == rest


def test_out_of_order_every_sample_comes_once():
    class Slow(Noisy):
        def __getitem__(self, index):
            if index == 0:
                import time

                time.sleep(0.2)
            return index

    loader = DataLoader(Slow(), 1, num_workers=2, in_order=False)
    batches = iter(loader)
    found = [next(batches).item() for _ in range(6)]
    assert 0 not in found
    state = loader.state_dict()
    assert state["batches"] == 0 and state["ahead"] == sorted(found)
    batches.close()
    other = DataLoader(Slow(), 1, num_workers=2, in_order=False)
    other.load_state_dict(state)
    assert sorted(found + [b.item() for b in other]) == list(range(23))


def test_the_end_of_an_epoch_is_no_position():
    loader = DataLoader(Noisy(), 4)
    assert loader.state_dict()["epoch"] == 0
    list(loader)
    state = loader.state_dict()
    assert state["key"] is None and state["epoch"] == 1
    other = DataLoader(Noisy(), 4)
    other.load_state_dict(state)
    assert len(list(other)) == 6 and other.state_dict()["epoch"] == 2
    last = iter(loader)
    for _ in range(6):
        next(last)
    other.load_state_dict(loader.state_dict())  # after the last batch, before the loop ends
    assert list(other) == []


def test_the_state_is_small_and_can_be_saved(tmp_path):
    loader = DataLoader(range(100_000), 4, shuffle=True)
    next(iter(loader))
    assert len(json.dumps(loader.state_dict())) < 600


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: s.pop("key"),
            r"what state_dict\(\) gave, got dict without a usable 'key'",
        ),
        (lambda s: s.update(version=99), "the state is of version 99, this fx reads version 1"),
        (lambda s: s.update(batch_size=7), "batch_size=7, and this loader has batch_size=4"),
    ],
)
def test_what_is_no_state_is_refused(change, message):
    loader = DataLoader(range(10), 4)
    next(iter(loader))
    state = loader.state_dict()
    change(state)
    with pytest.raises(StateError, match=message):
        loader.load_state_dict(state)


def test_a_state_that_does_not_fit_is_refused_where_the_loop_begins():
    loader = DataLoader(range(40), 4)
    batches = iter(loader)
    for _ in range(6):
        next(batches)
    state = loader.state_dict()
    smaller = DataLoader(range(10), 4)
    smaller.load_state_dict(state)
    with pytest.raises(StateError, match=r"6 batches were given out .* the sampler gives only 3"):
        iter(smaller)
    stream = DataLoader(Stream(), 4)
    next(iter(stream))
    other = DataLoader(Stream(), 4, num_workers=2)
    other.load_state_dict(stream.state_dict())
    before = children()
    with pytest.raises(StateError, match=r"the state is of 1 workers.*give num_workers=1"):
        iter(other)
    assert children() <= before  # nothing was started


@pytest.mark.parametrize("later", [1, 2, 3, 4])
@pytest.mark.parametrize("drop_last", [False, True])
def test_a_distributed_epoch_goes_on_with_other_numbers_of_replicas(later, drop_last):
    def loaders(n):
        samplers = [DistributedSampler(range(48), n, r, True, 5, drop_last) for r in range(n)]
        return [DataLoader(range(48), 4, sampler=sampler) for sampler in samplers]

    given, state = [], None
    for loader in loaders(2):
        loader.sampler.set_epoch(3)
        batches = iter(loader)
        given += [int(i) for _ in range(3) for i in next(batches)]
        before, state = state, loader.state_dict()
        assert before is None or before["sampler"] == state["sampler"]
    assert state["sampler"]["passed"] == 24
    whole = DistributedSampler(range(48), 1, 0, True, 5)
    whole.set_epoch(3)
    assert sorted(given) == sorted(list(whole)[:24])
    for loader in loaders(later):
        loader.load_state_dict(state)
        given += [int(i) for batch in loader for i in batch]
        loader.sampler.set_epoch(4)
        assert len(list(loader)) == -(-48 // later // 4)  # the next epoch is whole
    assert sorted(given) == list(range(48))


def test_a_state_of_another_order_is_refused():
    state = DistributedSampler(range(9), 2, 0, seed=1).state_dict()
    for other in (DistributedSampler(range(8), 2, 0, seed=1), DistributedSampler(range(9), 2, 0)):
        with pytest.raises(StateError, match="make it as it was made then"):
            other.load_state_dict(state)
