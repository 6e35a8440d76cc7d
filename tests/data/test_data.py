"""Datasets, samplers, collation and loaders; torch is the oracle where there is one."""

import threading
import time
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import fx
from fx.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    get_worker_info,
    random_split,
)
from fx.errors import ShapeError

torch = pytest.importorskip("torch")
TD = torch.utils.data


def tensors(n=11):
    return fx.arange(3.0 * n).reshape(n, 3), fx.arange(n)


class Items(Dataset):
    """Samples one at a time; draws from fx and may fail or be slow."""

    def __init__(self, n=11, fail=None, slow=False):
        self.n, self.fail, self.slow = n, fail, slow

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if index == self.fail:
            raise KeyError(f"sample {index} is broken")
        if self.slow:
            time.sleep(0.002 * (self.n - index))
        return {"x": fx.full((2,), float(index)), "noise": fx.rand(1), "y": index}


def equal(a, b):
    assert type(a) is type(b)
    if isinstance(a, fx.Tensor):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for k in a:
            equal(a[k], b[k])
    elif isinstance(a, int):
        assert a == b
    else:
        assert len(a) == len(b)
        for x, y in zip(a, b):
            equal(x, y)


# datasets ---------------------------------------------------------------------------------------


def test_tensor_dataset():
    x, y = tensors()
    data = TensorDataset(x, y)
    assert len(data) == 11
    np.testing.assert_array_equal(data[-1][0].numpy(), x[10].numpy())
    with pytest.raises(
        ShapeError, match=r"size mismatch between tensors of shapes \(11, 3\), \(4,\)"
    ):
        TensorDataset(x, y[:4])


def test_subset_and_concat():
    both = Subset(range(10), [5, 6, 7]) + Subset(range(10), [1])
    assert isinstance(both, ConcatDataset)
    assert [both[i] for i in range(-4, 4)] == [5, 6, 7, 1, 5, 6, 7, 1]
    with pytest.raises(IndexError, match="index 4 is out of range for 4 samples"):
        both[4]


@pytest.mark.parametrize(
    "lengths", [[7, 3], [0.75, 0.25], [0.33, 0.33, 0.34], [10], [1.0], [0, 10]]
)
def test_random_split_sizes_are_torchs(lengths):
    fx.manual_seed(0)
    parts = random_split(range(10), lengths)
    assert [len(p) for p in parts] == [len(p) for p in TD.random_split(range(10), lengths)]
    assert sorted(i for p in parts for i in p) == list(range(10))


def test_random_split_repeats_and_refuses():
    a, b = (random_split(range(30), [20, 10], fx.Generator().manual_seed(1)) for _ in range(2))
    assert a[0].indices == b[0].indices != list(range(20))
    with pytest.raises(ValueError, match=r"the lengths \[5, 6\] must add up to 10"):
        random_split(range(10), [5, 6])


# samplers ---------------------------------------------------------------------------------------


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


# collation --------------------------------------------------------------------------------------

Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    "samples",
    [
        [1.5, 2.5],
        [1, 2],
        [True, False],
        ["a", "b"],
        [np.float32(1), np.float32(2)],
        [np.ones((2, 2), "int32")] * 3,
        [(1, 2.0), (3, 4.0)],
        [[1, "x"], [2, "y"]],
        [Pair(1, "x"), Pair(2, "y")],
        [{"a": 1, "b": (2, 3)}, {"a": 4, "b": (5, 6)}],
        [OrderedDict(a=1.0), OrderedDict(a=2.0)],
    ],
    ids=str,
)
def test_default_collate_is_torchs(samples):
    def compare(a, b):
        if isinstance(b, torch.Tensor):
            assert isinstance(a, fx.Tensor) and a.numpy().dtype == b.numpy().dtype
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        elif isinstance(b, dict):
            assert type(a) is type(b) and list(a) == list(b)
            for k in b:
                compare(a[k], b[k])
        elif isinstance(b, str):
            assert a == b
        else:
            assert type(a) is type(b) or {type(a), type(b)} == {list, tuple}
            assert len(a) == len(b)
            for x, y in zip(a, b):
                compare(x, y)

    compare(default_collate(samples), TD.default_collate(samples))


def test_single_samples_are_converted():
    sample = {"a": np.ones(2), "b": (1, np.float32(2)), "c": "x", "d": Pair(1, np.zeros(1))}
    got, expected = default_convert(sample), TD.default_convert(sample)
    assert type(got["b"]) is type(expected["b"]) and type(got["d"]) is Pair
    assert isinstance(got["a"], fx.Tensor) and isinstance(got["d"].b, fx.Tensor)
    assert got["b"][0] == 1 and got["c"] == "x" and got["b"][1].dtype == fx.float32


def test_what_collation_refuses():
    with pytest.raises(ShapeError, match=r"must have one shape, got \(2,\), \(3,\); pad them"):
        default_collate([fx.ones(2), fx.ones(3)])
    with pytest.raises(ShapeError, match="each element in list of batch should be of equal size"):
        default_collate([[1, 2], [1]])
    with pytest.raises(TypeError, match="found <class 'object'>; give the DataLoader a collate_fn"):
        default_collate([object()])


# loaders ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size", [1, 4, 20, None])
def test_batches_are_torchs(size, drop_last):
    x, y = tensors()
    if size is None:
        drop_last = False
    ours = DataLoader(TensorDataset(x, y), size, drop_last=drop_last)
    theirs = TD.DataLoader(
        TD.TensorDataset(torch.tensor(x.numpy()), torch.tensor(y.numpy())),
        size,
        drop_last=drop_last,
    )
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert type(a) is type(b)
        for p, q in zip(a, b, strict=True):
            assert p.numpy().dtype == q.numpy().dtype
            np.testing.assert_array_equal(p.numpy(), q.numpy())


@pytest.mark.parametrize("subset", [False, True])
def test_batches_by_take_equal_batches_by_stacking(subset):
    data = TensorDataset(*tensors())
    if subset:
        data = Subset(data, [9, 3, 3, 7, 0])

    class Slow(Dataset):
        def __len__(self):
            return len(data)

        def __getitem__(self, index):
            return data[index]

    fast, slow = (
        DataLoader(d, 3, shuffle=True, generator=fx.Generator().manual_seed(4))
        for d in (data, Slow())
    )
    for a, b in zip(fast, slow, strict=True):
        equal(a, b)


def test_a_subclass_with_samples_of_its_own_is_asked_for_them():
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            return tuple(2 * t for t in super().__getitem__(index))

    data = Doubled(*tensors())
    (x, _) = next(iter(DataLoader(data, 4)))
    np.testing.assert_array_equal(x.numpy(), 2 * data.tensors[0][:4].numpy())
    (x, _) = next(iter(DataLoader(Subset(data, [1]), 4)))
    np.testing.assert_array_equal(x.numpy(), 2 * data.tensors[0][1:2].numpy())


def test_shuffling_repeats_with_the_seed_and_changes_with_the_epoch():
    def epochs(**options):
        loader = DataLoader(TensorDataset(fx.arange(40)), 8, shuffle=True, **options)
        return [[i for (b,) in loader for i in b.tolist()] for _ in range(2)]

    fx.manual_seed(0)
    first = epochs()
    fx.manual_seed(0)
    assert epochs() == first
    assert sorted(first[0]) == sorted(first[1]) == list(range(40))
    assert first[0] != first[1] and first[0] != list(range(40))
    g = fx.Generator().manual_seed(9)
    assert epochs(generator=g) == epochs(generator=g.manual_seed(9))


@pytest.mark.parametrize("options", [{"batch_size": 3}, {"batch_size": None}, {"batch_size": 20}])
@pytest.mark.parametrize("shuffle", [False, True])
def test_workers_give_the_same_batches_in_the_same_order(options, shuffle):
    """Also what the dataset draws from fx, and whichever worker is faster."""
    runs = []
    for workers in (0, 1, 3):
        fx.manual_seed(3)
        loader = DataLoader(
            Items(slow=workers == 3), shuffle=shuffle, num_workers=workers, **options
        )
        runs.append([list(loader), list(loader)])
        assert len(loader) == len(runs[-1][0])
    equal(runs[0], runs[1])
    equal(runs[0], runs[2])
    noise = [float(b["noise"].ravel()[0]) for epoch in runs[0] for b in epoch]
    assert len(set(noise)) == len(noise)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_comes_where_its_batch_was_due(workers):
    loader = iter(DataLoader(Items(fail=5), 2, num_workers=workers))
    assert next(loader)["y"].tolist() == [0, 1]
    assert next(loader)["y"].tolist() == [2, 3]
    with pytest.raises(KeyError, match="sample 5 is broken"):
        next(loader)
    with pytest.raises(StopIteration):
        next(loader)


def wait_for_workers():
    deadline = time.monotonic() + 20
    while any(t.name.startswith("fx-data") for t in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_workers_know_who_they_are():
    started = []

    class Who(Items):
        def __getitem__(self, index):
            info = get_worker_info()
            return info.id, info.num_workers, info.dataset is self

    loader = DataLoader(Who(), 1, num_workers=2, worker_init_fn=started.append)
    seen = [tuple(int(v) for v in batch) for batch in loader]
    assert {s[0] for s in seen} <= {0, 1} and {s[1:] for s in seen} == {(2, 1)}
    assert set(started) <= {0, 1} and get_worker_info() is None
    wait_for_workers()


def test_a_loop_that_is_left_leaves_no_work_behind():
    asked, go = [], threading.Event()

    class Slow(Items):
        def __getitem__(self, index):
            asked.append(index)
            assert index == 0 or go.wait(20)
            return index

    loader = iter(DataLoader(Slow(40), 1, num_workers=1, prefetch_factor=10))
    next(loader)
    loader.close()
    go.set()
    wait_for_workers()
    assert asked in ([0], [0, 1])


def test_workers_prefetch_no_more_than_they_are_told():
    asked = []

    class Counting(Items):
        def __getitem__(self, index):
            asked.append(index)
            return index

    loader = iter(DataLoader(Counting(40), 1, num_workers=2, prefetch_factor=2))
    next(loader)
    time.sleep(0.05)
    assert len(asked) <= 5
    loader.close()


def test_a_worker_that_takes_too_long():
    class Stuck(Items):
        def __getitem__(self, index):
            time.sleep(0.3)
            return index

    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0.05 seconds"):
        next(iter(DataLoader(Stuck(), num_workers=1, timeout=0.05)))


def test_the_device_of_the_loop_holds_in_workers():
    with fx.device("meta"):
        batch = next(iter(DataLoader(Items(), 2, num_workers=1)))
    assert batch["x"].device.name == "meta"


def test_samplers_and_batch_samplers_of_the_user():
    data = TensorDataset(fx.arange(6))
    batches = [b.tolist() for (b,) in DataLoader(data, 2, sampler=[5, 1, 3])]
    assert batches == [[5, 1], [3]]
    batches = [b.tolist() for (b,) in DataLoader(data, batch_sampler=[[0, 5], [2]])]
    assert batches == [[0, 5], [2]]


def test_collate_fn():
    loader = DataLoader(TensorDataset(*tensors()), 4, collate_fn=len)
    assert list(loader) == [4, 4, 3]
    assert list(DataLoader(range(3), None, collate_fn=lambda i: -i)) == [0, -1, -2]


def test_streams():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(5))

        def __len__(self):
            return 5

    loader = DataLoader(Stream(), 2)
    assert [b.tolist() for b in loader] == [[0, 1], [2, 3], [4]] and len(loader) == 3
    assert [b.tolist() for b in DataLoader(Stream(), 2, drop_last=True)] == [[0, 1], [2, 3]]
    assert list(DataLoader(Stream(), None)) == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="an IterableDataset gives its samples in its own order"):
        DataLoader(Stream(), shuffle=True)
    with pytest.raises(ValueError, match="a stream has no order that workers could share"):
        DataLoader(Stream(), num_workers=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": [0], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "batch_size=None option disables batching"),
        ({"batch_size": 0}, "batch_size should be a positive integer"),
        ({"num_workers": -1}, "num_workers option should be non-negative"),
        ({"timeout": -1}, "timeout option should be non-negative"),
        ({"prefetch_factor": 2}, "prefetch_factor must be at least 1 and needs workers"),
    ],
)
def test_what_loaders_refuse(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(range(3), **options)


def test_training_in_threads_gives_the_numbers_of_training_in_sequence():
    def train(seed):
        generator = fx.Generator().manual_seed(seed)
        with fx.random.using(generator):
            model = fx.nn.Sequential(fx.nn.Linear(3, 8), fx.nn.Dropout(0.2), fx.nn.Linear(8, 1))
            optimizer = fx.optim.Adam(model.parameters(), lr=0.01)
            data = TensorDataset(fx.randn(20, 3), fx.randn(20, 1))
            for x, y in DataLoader(data, 5, shuffle=True):
                optimizer.zero_grad()
                fx.nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()
        return [p.detach().numpy() for p in model.parameters()]

    expected = [train(seed) for seed in range(4)]
    found = [None] * 4

    def run(seed):
        found[seed] = train(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for a, b in zip(expected, found):
        for p, q in zip(a, b, strict=True):
            np.testing.assert_array_equal(p, q)
