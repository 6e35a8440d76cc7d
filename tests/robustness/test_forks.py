"""A process that is forked at any time leaves a child in which everything works."""

import os
import signal
import threading
import time
import warnings
from importlib import import_module

import numpy as np
import pytest

import fx
from fx import forking

CHILDREN = 12
PATIENCE = 20  # seconds for a child

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a platform without fork")


def in_child(work):
    """What became of ``work()`` in a forked child: its exit status."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons: there are threads
        pid = os.fork()
    if pid == 0:
        signal.alarm(PATIENCE)  # ends the child
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def everything():
    """Compile, train, draw, look."""
    w = fx.nn.Parameter(fx.ones((3, 3)))
    optimizer = fx.optim.Adam([w], lr=0.1)

    @fx.jit
    def step(x):
        optimizer.zero_grad()
        loss = fx.tanh(x @ w).sum() + fx.nn.functional.dropout(x, 0.5).sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step(fx.ones((2, 3)))
    fx.rand(3)


def test_forks_while_other_threads_compile():
    over = threading.Event()

    def compiling(number):
        while not over.is_set():
            number += 2
            fx.jit(lambda x, n=number: fx.sin(x) * n + fx.exp(x * n))(fx.ones(number % 50 + 1))

    everything()
    threads = [threading.Thread(target=compiling, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    try:
        found = [in_child(everything) for _ in range(CHILDREN)]
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert found == [0] * CHILDREN


MODULE = """
import time
time.sleep(0.3)  # as one that loads libraries
value = 3
"""


def test_forks_while_another_thread_imports(tmp_path, monkeypatch):
    """Python itself leaves a module's lock held in the child, which waits for it for ever."""
    for number in range(3):
        (tmp_path / f"slowly_{number}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)

    def importing():
        for number in range(3):
            import_module(f"slowly_{number}")

    def the_same():
        assert [import_module(f"slowly_{n}").value for n in range(3)] == [3, 3, 3]

    thread = threading.Thread(target=importing)
    thread.start()
    time.sleep(0.1)
    found = [in_child(the_same) for _ in range(3)]
    thread.join()
    assert found == [0] * 3


def test_a_module_that_is_never_imported_to_its_end_is_waited_for_once(tmp_path, monkeypatch):
    (tmp_path / "endlessly.py").write_text("import time\nwhile True: time.sleep(0.01)")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(forking, "_PATIENCE", 0.2)
    threading.Thread(target=import_module, args=("endlessly",), daemon=True).start()
    time.sleep(0.1)
    took = []
    for _ in range(2):
        begin = time.monotonic()
        assert in_child(everything) == 0
        took.append(time.monotonic() - begin)
    assert len(forking._endless) == 1
    assert not forking._importing()


def test_forks_while_another_thread_trains():
    """The child has the state between two steps, and can go on from there."""
    ps = [fx.nn.Parameter(fx.zeros(300_000)) for _ in range(2)]
    optimizer = fx.optim.SGD(ps, lr=1.0, momentum=0.5)

    @fx.jit
    def step():
        optimizer.zero_grad()
        sum(p.sum() for p in ps).backward()
        optimizer.step()

    for _ in range(3):
        step()

    def look():
        a, b = [np.unique(p.detach().numpy()) for p in ps]
        assert len(a) == 1 and a == b
        step()
        a, b = [np.unique(p.detach().numpy()) for p in ps]
        assert len(a) == 1 and a == b

    over = threading.Event()

    def train():
        while not over.is_set():
            step()

    thread = threading.Thread(target=train)
    thread.start()
    try:
        found = [in_child(look) for _ in range(CHILDREN)]
    finally:
        over.set()
        thread.join()
    assert found == [0] * CHILDREN
