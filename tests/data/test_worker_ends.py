"""Worker processes: how they die, what is said then, what they leave behind."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import fx
from fx.data import DataLoader, Dataset, WorkerError
from fx.data.loading import processes
from tests.data.processes import Numbers, children, first_values, forking

pytestmark = forking


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
    with pytest.raises(WorkerError, match=message) as caught:
        list(loader)
    assert "while it fetched batch 2 (indices [4, 5])" in str(caught.value)
    assert "DataLoader worker 0 (pid " in str(caught.value)
    loader.dataset.act = None
    assert len(list(loader)) == 6  # new workers


def test_a_worker_that_dies_between_epochs_is_reported():
    before = children()
    loader = DataLoader(Numbers(), 4, num_workers=1, persistent_workers=True)
    list(loader)
    (pid,) = children() - before
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

# what runs in the background of a shell starts with Ctrl-C ignored
signal.signal(signal.SIGINT, signal.default_int_handler)

class Slow:
    def __len__(self):
        return 100
    def __getitem__(self, index):
        if index > 20 and "ENDING" == "kill":
            time.sleep(600)
        time.sleep(0.001)
        return np.full(5000, index), "x" * 200_000  # more than the socket takes

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
