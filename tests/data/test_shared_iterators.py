"""One iterator in several threads, and systems that have no thread or process to spare."""

import os
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import fx
from fx.data.loading import processes, threaded

COUNT = 60


class Stream(fx.data.IterableDataset):
    def __iter__(self):
        info = fx.data.get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(first, 4 * COUNT, step))


def squares(samples):
    return [int(s) ** 2 for s in samples]


WAYS = {
    "here": dict(num_workers=0),
    "threads": dict(num_workers=3, worker_type="thread"),
    "processes": dict(num_workers=2),
    "out of order": dict(num_workers=2, in_order=False),
    "a stream": dict(dataset=Stream(), num_workers=2),
    "a stream here": dict(dataset=Stream()),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_batch_goes_to_one_thread(way):
    options = {"dataset": range(4 * COUNT), **WAYS[way]}
    shuffled = way[0] != "a" and way != "out of order"
    loader = fx.data.DataLoader(**options, batch_size=4, shuffle=shuffled, collate_fn=squares)
    batches = iter(loader)
    got, errors = [], []

    def take():
        try:
            for batch in batches:
                got.append(batch)
        except BaseException as error:
            errors.append(error)

    takers = [threading.Thread(target=take, daemon=True) for _ in range(4)]
    for taker in takers:
        taker.start()
    for taker in takers:
        taker.join(60)
    assert not errors
    assert not any(taker.is_alive() for taker in takers)
    assert len(got) == COUNT
    assert sorted(v for b in got for v in b) == [i * i for i in range(4 * COUNT)]
    assert loader.state_dict()["key"] is None  # the epoch has ended, once


# no threads, no processes -----------------------------------------------------------------------


def no_more(*_, **__):
    raise RuntimeError("can't start new thread")


def no_fork(*_, **__):
    raise BlockingIOError(11, "Resource temporarily unavailable")


@pytest.fixture(params=["thread", "process"])
def exhausted(request, monkeypatch):
    """A system that gives one worker, and then no more."""
    made = []

    def start(original, refuse):
        def run(self):
            made.append(self)
            return original(self) if len(made) < 2 else refuse()

        return run

    if request.param == "thread":
        monkeypatch.setattr(
            threaded.threading.Thread, "start", start(threading.Thread.start, no_more)
        )
    else:
        kind = processes.multiprocessing.get_context("fork").Process
        monkeypatch.setattr(kind, "start", start(kind.start, no_fork))
    return {"worker_type": request.param, "multiprocessing_context": None}


def options_of(exhausted):
    return {"worker_type": exhausted["worker_type"], "num_workers": 3}


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_without_workers_a_loop_fetches_its_batches_itself(exhausted):
    data = np.arange(40.0, dtype="f4")

    def epochs(**options):
        fx.manual_seed(5)
        loader = fx.data.DataLoader(data, batch_size=8, shuffle=True, **options)
        return [[b.tolist() for b in loader] for _ in range(2)]

    with pytest.warns(RuntimeWarning, match=r"no .* can be started.*as with num_workers=0"):
        got = epochs(**options_of(exhausted))
    assert got == epochs(num_workers=0)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_streams_of_several_workers_are_refused_without_them(exhausted):
    loader = fx.data.DataLoader(Stream(), batch_size=8, **options_of(exhausted))
    with pytest.raises(fx.data.WorkerError, match="write num_workers=0"):
        iter(loader)


def test_a_stream_of_one_worker_goes_on(exhausted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        list(fx.data.DataLoader(range(3), **{**options_of(exhausted), "num_workers": 1}))
        options = {**options_of(exhausted), "num_workers": 1}
        loader = fx.data.DataLoader(Stream(), batch_size=8, **options)
        assert [v for b in loader for v in b.tolist()] == list(range(4 * COUNT))


ALONE = """
import threading
def refuse(self): raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
import io, tempfile
import numpy as np
import fx
from fx.backends.cpu.llvm import parallel
parallel._Native._start = lambda self, number: False
fx.set_num_threads(4)
x = fx.from_numpy(np.random.default_rng(0).normal(size=(900, 700)).astype("f4"))
want = np.asarray(x).astype("f8") @ np.asarray(x).astype("f8").T
assert np.allclose(np.asarray(x @ x.T), want, atol=1e-2)
f = fx.jit(lambda x: fx.sort(fx.softmax(x @ x.T, 0), axis=1).sum() + (x * 2).std())
assert np.isfinite(float(f(x)))
conv = fx.nn.Conv2d(3, 8, 3)
conv(fx.ones((8, 3, 32, 32))).sum().backward()
big = {"a": fx.ones(3_000_000), "b": fx.zeros(100_000)}
file = io.BytesIO()
fx.save(big, file)
assert fx.load(file)["a"].sum() == 3_000_000
checkpoint = fx.Checkpoint(tempfile.mkdtemp())
checkpoint.save(1, big=big)
assert checkpoint.load(1)["big"]["a"].shape == (3_000_000,)
print("done")
"""


def test_nothing_needs_a_thread():
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True,
        env={**os.environ, "FX_CACHE": "0"},
    )  # fmt: skip
    assert done.stdout == "done\n", done.stderr[-3000:]
