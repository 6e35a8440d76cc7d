"""Loaders without workers and with threads; torch is the oracle where there is one."""

import threading
import time

import numpy as np
import pytest

import fx
from fx.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
    get_worker_info,
)

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
@pytest.mark.parametrize("worker_type", ["process", "thread"])
def test_workers_give_the_same_batches_in_the_same_order(options, shuffle, worker_type):
    """Also what the dataset draws from fx, and whichever worker is faster."""
    runs = []
    for workers in (0, 1, 2):
        fx.manual_seed(3)
        loader = DataLoader(
            Items(slow=workers == 2),
            shuffle=shuffle,
            num_workers=workers,
            worker_type=worker_type,
            **options,
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
    assert next(loader)["y"].tolist() == [6, 7]


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

    loader = DataLoader(
        Who(), 1, num_workers=2, worker_type="thread", worker_init_fn=started.append
    )
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

    loader = iter(DataLoader(Slow(40), 1, num_workers=1, worker_type="thread", prefetch_factor=10))
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

    loader = iter(
        DataLoader(Counting(40), 1, num_workers=2, worker_type="thread", prefetch_factor=2)
    )
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
        next(iter(DataLoader(Stuck(), num_workers=1, worker_type="thread", timeout=0.05)))


@pytest.mark.parametrize("worker_type", ["process", "thread"])
def test_the_device_of_the_loop_holds_in_workers(worker_type):
    with fx.device("meta"):
        batch = next(iter(DataLoader(Items(), 2, num_workers=1, worker_type=worker_type)))
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


def test_samples_of_a_batch_are_asked_for_at_once():
    class Many(Items):
        def __getitems__(self, indices):
            return [-i for i in indices]

    assert [b.tolist() for b in DataLoader(Many(5), 2)] == [[0, -1], [-2, -3], [-4]]
    assert [b.tolist() for b in DataLoader(Subset(Many(5), [4, 1]), 2)] == [[-4, -1]]


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_other_ways_to_start_a_process(context):
    loader = DataLoader(TOP_LEVEL, 4, num_workers=1, multiprocessing_context=context)
    assert [x[:, 0].tolist() for (x,) in loader] == [[0, 1, 2, 3], [4, 5]]


TOP_LEVEL = TensorDataset(fx.arange(6.0).reshape(6, 1) * fx.ones((1, 5000)))


def test_more_workers_than_cores_are_warned_about():
    with pytest.warns(UserWarning, match="will create 4000 worker processes in total"):
        DataLoader(range(3), num_workers=4000)


def test_a_stream_that_is_longer_than_it_says():
    class Long(IterableDataset):
        def __len__(self):
            return 2

        def __iter__(self):
            return iter(range(3))

    loader = DataLoader(Long(), 1)
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="was reported to be 2.*but 3 samples have been fetched"):
        assert len(list(loader)) == 3


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
