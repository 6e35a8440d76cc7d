"""Worker processes: the batches they give, and the numbers they draw."""

import gc
import random
import time
from pathlib import Path

import numpy as np
import pytest

import fx
from fx.data import DataLoader, Dataset, IterableDataset, get_worker_info
from fx.data.loading import slots
from tests.data.processes import Numbers, children, first_values, forking

pytestmark = forking


# batches ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("persistent", [False, True])
def test_batches_are_views_of_slots_that_are_used_again(persistent):
    loader = DataLoader(Numbers(64), 4, num_workers=1, persistent_workers=persistent)
    expected = [[4.0 * i + j for j in range(4)] for i in range(16)]
    for _ in range(2):
        places = set()
        for i, x in enumerate(loader):
            assert x[:, 0, 0, 0].tolist() == expected[i]
            places.add(x._a.__array_interface__["data"][0])
        assert len(places) <= 5  # 2 fetched ahead, one here, one that was just dropped
        del x


def test_a_slot_is_not_used_again_while_any_view_of_it_lives():
    held, pieces = [], []
    for i, x in enumerate(DataLoader(Numbers(80), 2, num_workers=2)):
        if i % 3 == 0:
            held.append((i, x))
        else:
            pieces.append((i, x[1:, 2].numpy().ravel()[5:9]))
    for i, x in held:
        np.testing.assert_array_equal(x.numpy()[:, 1, 7, 3], [2 * i, 2 * i + 1])
    for i, piece in pieces:
        np.testing.assert_array_equal(piece, 2 * i + 1)


def test_batches_outlive_workers_and_loader():
    loader = DataLoader(Numbers(), 4, num_workers=1)
    batches = list(loader)
    del loader
    gc.collect()
    assert first_values(batches) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_what_a_collate_function_keeps_is_not_written_over():
    kept = []

    def collate(samples):
        x = fx.data.default_collate(samples)
        kept.append(x)
        return [x, kept[0], x[:, :1], str(len(kept))]

    for i, (x, first, part, count) in enumerate(
        DataLoader(Numbers(20), 2, num_workers=1, collate_fn=collate)
    ):
        assert x[:, 0, 0, 0].tolist() == [2 * i, 2 * i + 1] == part[:, 0, 0, 0].tolist()
        assert first[:, 2, 3, 4].tolist() == [0, 1] and count == str(i + 1)


def test_any_kind_of_batch_arrives_as_it_was_sent():
    sent = {
        "strided": np.arange(20_000.0).reshape(100, 200).T[::-1, ::2],
        "half": fx.arange(5000, dtype=fx.bfloat16),
        "complex": fx.ones((3000,), dtype=fx.complex64),
        "record": np.zeros(2000, [("a", "i4"), ("b", "f8")]),
        "text": np.array(["a", "bcd"]),
        "objects": np.array([{1: 2}, None], dtype=object),
        "empty": np.zeros((0, 5000)),
        "scalar": fx.tensor(3),
        "grad": fx.ones(2000, requires_grad=True),
        "other": {"a": ("x", b"y"), "b": {1, 2}},
    }
    sent["twice"] = sent["half"]
    (got,) = DataLoader([0], None, num_workers=1, collate_fn=lambda _: sent)
    assert list(got) == list(sent) and got["other"] == sent["other"]
    assert got["twice"] is got["half"] and got["grad"].requires_grad
    for name in set(sent) - {"other"}:
        a, b = sent[name], got[name]
        assert type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape
        if isinstance(a, fx.Tensor):
            a, b = a.detach().numpy(), b.detach().numpy()
        np.testing.assert_array_equal(a, b)


def test_slots_of_sizes_that_are_gone_are_given_back(monkeypatch):
    monkeypatch.setattr(slots, "_KEEP", 4)

    class Growing(Dataset):
        def __len__(self):
            return 40

        def __getitem__(self, index):
            return np.full((5000 * (1 + index),), index, np.uint8)

    for i, x in enumerate(DataLoader(Growing(), None, num_workers=1)):
        assert int(x[-1]) == i
        names = Path("/proc/self/maps").read_text().count("memfd:fx-data")
    assert names < 15


def test_arrays_are_copied_once_there_are_too_many_to_map(monkeypatch):
    monkeypatch.setattr(slots, "_MOST", 6)
    held = list(DataLoader(Numbers(60), 2, num_workers=1))
    assert Path("/proc/self/maps").read_text().count("memfd:fx-data") < 14
    assert first_values(held) == [[2 * i, 2 * i + 1] for i in range(30)]


def test_the_order_of_streams_is_that_of_turns():
    class Part(IterableDataset):
        def __iter__(self):
            info = get_worker_info()
            for i in range(3 + 4 * info.id):
                if info.id == 0:
                    time.sleep(0.01)
                yield 10 * info.id + i

    loader = DataLoader(Part(), 2, num_workers=2)
    expected = [[0, 1], [10, 11], [2], [12, 13], [14, 15], [16]]
    assert [b.tolist() for b in loader] == expected
    loader = DataLoader(Part(), 2, num_workers=2, drop_last=True, persistent_workers=True)
    expected = [[0, 1], [10, 11], [12, 13], [14, 15]]
    assert [[b.tolist() for b in loader] for _ in range(2)] == [expected] * 2
    loader = DataLoader(Part(), 2, num_workers=2, in_order=False)
    assert sorted(i for b in loader for i in b.tolist()) == [0, 1, 2, *range(10, 17)]


def test_a_slow_sample_does_not_hold_up_the_others_out_of_order():
    data = Numbers(8, act=lambda: time.sleep(0.3), at=0)
    batches = first_values(DataLoader(data, 1, num_workers=2, in_order=False))
    assert sorted(batches) == [[i] for i in range(8)] and [0] in batches[-2:]


def test_a_loop_that_is_left_can_be_begun_again():
    loader = DataLoader(Numbers(40), 2, shuffle=True, num_workers=2, persistent_workers=True)
    for stop in (3, 1, 40):
        seen = []
        for i, x in enumerate(loader):
            seen += x[:, 0, 0, 0].tolist()
            if i == stop:
                break
    assert sorted(seen) == list(range(40))  # nothing of what was fetched for loops that were left
    loader = DataLoader(Numbers(40), 2, num_workers=2, persistent_workers=True)
    list(loader)
    pids = children()
    old = iter(loader)
    new = iter(loader)
    assert children() == pids and first_values([next(new)]) == [[0, 1]]
    with pytest.raises(RuntimeError, match="another loop over a loader with persistent_workers"):
        next(old)


# random numbers ---------------------------------------------------------------------------------


class Draws(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        rng = get_worker_info().rng.numpy_generator
        return float(fx.rand(())), np.random.rand(), random.random(), rng.random()


def drawn(seed=0, epochs=2, **options):
    fx.manual_seed(seed)
    loader = DataLoader(Draws(), 2, **options)
    return [[x.tolist() for batch in loader for x in batch] for _ in range(epochs)]


def test_numbers_are_random_and_repeat_with_the_seed_alone():
    one = drawn(num_workers=1)
    assert one == drawn(num_workers=2, persistent_workers=True)
    assert one == drawn(num_workers=2, multiprocessing_context="fork")
    numbers = [x for epoch in one for batch in epoch for x in batch]
    assert len(set(numbers)) == len(numbers) == 2 * 4 * 8
    assert drawn(seed=1, num_workers=1) != one


def test_what_worker_init_fn_seeds_is_left_alone():
    def init(worker):
        assert get_worker_info().id == worker
        np.random.rand()
        random.seed(7)

    seeded, free = drawn(num_workers=1, worker_init_fn=init), drawn(num_workers=1)
    rng = random.Random(7)
    expected = [[rng.random(), rng.random()] for _ in range(4)]
    assert seeded[0][2::4] == expected == seeded[1][2::4]
    assert [e[0::4] + e[1::4] for e in seeded] == [e[0::4] + e[1::4] for e in free]


def test_the_parents_numpy_numbers_are_its_own():
    np.random.seed(5)
    list(DataLoader(Numbers(), 4))
    list(DataLoader(Numbers(), 4, num_workers=1))
    assert np.random.rand() == np.random.RandomState(5).rand()
