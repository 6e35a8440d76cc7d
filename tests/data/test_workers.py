"""Worker processes: what they give, how they die, what they leave behind."""

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import fx
from fx.data import DataLoader, Dataset, IterableDataset, WorkerError, get_worker_info
from fx.data.loading import processes, slots

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork"), reason="worker processes are tested where they can be forked"
)
LARGE = (3, 32, 32)  # float32: more than slots.SMALL bytes


class Numbers(Dataset):
    """Arrays of one number; ``act`` is done in the worker before sample ``at``."""

    def __init__(self, n=12, act=None, at=5):
        self.n, self.act, self.at = n, act, at

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if self.act is not None and index == self.at:
            self.act()
        return np.full(LARGE, index, np.float32)


def first_values(batches):
    return [x[:, 0, 0, 0].tolist() for x in batches]


def children():
    """The process ids of our children."""
    task = Path(f"/proc/{os.getpid()}/task")
    found = [(t / "children").read_text().split() for t in task.iterdir()]
    return {int(pid) for pids in found for pid in pids}


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Whatever happens in a test: no process, no descriptor, no mapping of shared memory stays."""
    gc.collect()
    before, descriptors = children(), len(os.listdir("/proc/self/fd"))
    yield
    gc.collect()
    assert children() <= before
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert "memfd:fx-data" not in Path("/proc/self/maps").read_text()


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
    loader = DataLoader(Numbers(40), 2, num_workers=2, persistent_workers=True)
    for _ in range(3):
        for i, x in enumerate(loader):
            assert x[:, 0, 0, 0].tolist() == [2 * i, 2 * i + 1]
            if i == 3:
                break
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


# failures ---------------------------------------------------------------------------------------


def kill(number):
    return lambda: os.kill(os.getpid(), number)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize(
    ("act", "message"),
    [
        (kill(signal.SIGKILL), r"was killed by signal 9 \(SIGKILL\).*memory runs out"),
        (kill(signal.SIGSEGV), r"was killed by signal 11 \(SIGSEGV\)(.|\n)*__getitem__"),
        (lambda: os._exit(3), "exited with code 3"),
        (lambda: sys.exit(0), "exited with code 0"),
    ],
    ids=["killed", "crashed", "left", "left quietly"],
)
def test_a_worker_that_dies_is_reported_at_once(act, message, persistent):
    loader = DataLoader(Numbers(act=act), 2, num_workers=2, persistent_workers=persistent)
    start = time.monotonic()
    with pytest.raises(WorkerError, match=message) as caught:
        list(loader)
    assert time.monotonic() - start < 5
    assert "while it fetched batch 2 (indices [4, 5])" in str(caught.value)
    assert "DataLoader worker 0 (pid " in str(caught.value)
    loader.dataset.act = None
    assert len(list(loader)) == 6  # new workers


def test_a_worker_that_dies_between_epochs_is_reported():
    loader = DataLoader(Numbers(), 4, num_workers=1, persistent_workers=True)
    list(loader)
    (pid,) = children()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match=rf"\(pid {pid}\).*SIGKILL"):
        list(loader)


class OddError(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KeyError("lost"), KeyError),
        (ValueError("lost"), ValueError),
        (MemoryError("lost"), MemoryError),
        (OddError("lost", 1), WorkerError),
        (StopIteration("lost"), WorkerError),
        (UnicodeDecodeError("utf-8", b"lost", 0, 1, "lost"), WorkerError),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("where", ["sample", "collate", "init"])
def test_an_exception_keeps_its_class_and_its_traceback(error, kind, where):
    def fail(*_):
        raise error

    options = {"collate": {"collate_fn": fail}, "init": {"worker_init_fn": fail}}.get(where, {})
    data = Numbers(act=fail if where == "sample" else None, at=0)
    loader = iter(DataLoader(data, 2, num_workers=1, **options))
    with pytest.raises(kind, match=f"Caught {type(error).__name__} in DataLoader worker process 0"):
        next(loader)
    if where == "init":
        with pytest.raises(StopIteration):
            next(loader)
    elif where == "sample":  # the next batch is as good as ever
        assert first_values([next(loader)]) == [[2, 3]]
    loader.close()


def test_the_message_shows_the_workers_traceback():
    def broken():
        raise ValueError("this sample is broken")

    with pytest.raises(ValueError, match=r"(?s)Original Traceback.*in broken.*this sample is bro"):
        list(DataLoader(Numbers(act=broken), 2, num_workers=1))


def test_what_cannot_be_sent_is_reported():
    loader = DataLoader([0], None, num_workers=1, collate_fn=lambda _: lambda: 0)
    with pytest.raises(Exception, match=r"(?s)in DataLoader worker process 0.*pickle"):
        next(iter(loader))


def test_a_worker_that_takes_too_long_is_named(monkeypatch):
    monkeypatch.setattr(processes, "PATIENCE", 0.1)
    data = Numbers(act=lambda: time.sleep(60), at=1)
    loader = iter(DataLoader(data, 2, num_workers=1, timeout=0.2))
    with pytest.raises(
        RuntimeError, match=r"timed out after 0.2 seconds waiting for worker 0 \(pid \d+\) while it"
    ):
        next(loader)


# endings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["end", "break", "raise", "kill", "interrupt"])
def test_a_program_that_ends_leaves_no_worker(ending, tmp_path):
    """However the parent ends, and whatever its workers are at."""
    script = tmp_path / "script.py"
    script.write_text(PROGRAM.replace("ENDING", ending))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, env=env, start_new_session=True,
    )  # fmt: skip
    pids = [int(pid) for pid in run.stdout.readline().split()]
    if ending == "interrupt":
        os.killpg(run.pid, signal.SIGINT)
    _, errors = run.communicate(timeout=60)
    codes = {"raise": 1, "kill": -9, "interrupt": -2}
    assert run.returncode == codes.get(ending, 0), errors
    assert errors.count("Traceback") == (ending in ("raise", "interrupt"))
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{pid}").exists() and not zombie(pid) for pid in pids):
        assert time.monotonic() < deadline, "a worker lives on"
        time.sleep(0.02)


def zombie(pid):
    try:
        return ") Z" in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


PROGRAM = """
import os, signal, time
import numpy as np
from fx.data import DataLoader

class Slow:
    def __len__(self):
        return 100
    def __getitem__(self, index):
        if index > 20 and "ENDING" == "kill":
            time.sleep(600)
        time.sleep(0.001)
        return np.full(5000, index)

loader = DataLoader(Slow(), 2, num_workers=2, persistent_workers=True)
for i, batch in enumerate(loader):
    if i == 3:
        print(*[w.pid for w in loader._pool.workers], flush=True)
    if i > 3:
        if "ENDING" == "break":
            break
        if "ENDING" == "raise":
            raise ValueError
        if "ENDING" == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if "ENDING" == "interrupt":
            time.sleep(60)
"""


# computing in workers ---------------------------------------------------------------------------


class Computing(Dataset):
    """A bit of everything that the parent does on several threads."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        x = fx.arange(300.0 * 300).reshape(300, 300) / 9e4 + index
        image = x.reshape(1, 1, 300, 300)
        return {
            "matmul": x @ x,
            "softmax": fx.nn.functional.softmax(x, dim=1),
            "conv": fx.nn.functional.conv2d(image, fx.ones((8, 1, 3, 3))),
            "sorted": fx.argsort(fx.sin(x * 1000).reshape(-1)),
            "jitted": jitted(x),
            "drawn": fx.randn(300, 300, generator=fx.Generator().manual_seed(index)),
        }


@fx.jit
def jitted(x):
    return fx.tanh(x @ x).sum(axis=0)


@pytest.mark.parametrize("threads", [1, 4])
def test_workers_compute_what_the_parent_computes(threads):
    """Although the parent has used its threads, of all kinds, before it forks."""
    before = fx.get_num_threads()
    fx.set_num_threads(threads)
    try:
        expected = fx.data.default_collate([Computing()[i] for i in range(4)])
        (found,) = DataLoader(Computing(), 4, num_workers=1, timeout=60)
        (again,) = DataLoader(Computing(), 4, num_workers=1, timeout=60, worker_type="thread")
    finally:
        fx.set_num_threads(before)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name].numpy(), value.numpy(), err_msg=name)
        np.testing.assert_array_equal(again[name].numpy(), value.numpy(), err_msg=name)


def test_workers_fork_while_other_threads_compute():
    stop = threading.Event()

    def work():
        x = fx.ones((200, 200))
        while not stop.is_set():
            jitted(x @ x)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(5):
            assert len(list(DataLoader(Computing(), 2, num_workers=1, timeout=60))) == 2
    finally:
        stop.set()
        thread.join()
