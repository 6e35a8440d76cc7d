"""Jitted functions in several threads: nobody waits for a thread that runs the user's code.

Each program runs in a process of its own, so that one that hangs fails.
"""

import subprocess
import sys
import textwrap

import pytest

START = """
import threading, time, warnings
import fx
from concurrent.futures import ThreadPoolExecutor

def together(*tasks):
    threads = [threading.Thread(target=task, daemon=True) for task in tasks]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
"""
PROGRAMS = {
    "two that call each other": """
        inside = threading.Barrier(2)
        first = {name: threading.Semaphore(1) for name in "fg"}

        def meet(name):
            if first[name].acquire(blocking=False):
                inside.wait()

        @fx.jit
        def f(x, deep=True):
            meet("f")
            return g(x, False) + 1 if deep else x * 2

        @fx.jit
        def g(x, deep=True):
            meet("g")
            return f(x, False) - 1 if deep else x * 3

        found = {}
        x = fx.tensor([1.0, 2.0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            together(
                lambda: found.update(f=f(x).tolist()), lambda: found.update(g=g(x).tolist())
            )
        assert found == {"f": [4.0, 7.0], "g": [1.0, 3.0]}, found
        """,
    "one that waits for a task that calls it": """
        @fx.jit
        def f(x, deep=True):
            if deep:
                pool.submit(lambda: seen.append(f(fx.ones(2), True if not seen else False)))
                time.sleep(0.05)
            return x * 2

        seen = []
        pool = ThreadPoolExecutor(1)

        @fx.jit
        def waits(x, n):
            if n:
                done.append(pool.submit(waits, fx.ones(2), 0).result().tolist())
            return x * (n + 2)

        done = []
        assert waits(fx.ones(2), 1).tolist() == [3.0, 3.0]
        assert done and all(d == [2.0, 2.0] for d in done), done
        """,
    "the same arguments in a task": """
        pool = ThreadPoolExecutor(1)
        done = []

        @fx.jit
        def f(x):
            if threading.current_thread() is threading.main_thread():
                done.append(pool.submit(f, fx.ones(3)).result().tolist())
            return x + 1

        assert f(fx.zeros(3)).tolist() == [1.0] * 3
        assert done[0] == [2.0] * 3, done
        """,
    "a branch that is staged while another thread takes it": """
        gate = threading.Barrier(2)
        first = [True]

        @fx.jit
        def f(x):
            if x.sum() > 0:
                if first and first.pop():
                    time.sleep(0.3)
                return x * 2
            return x * 3

        assert f(-fx.ones(2)).tolist() == [-3.0, -3.0]
        found = []

        def work():
            gate.wait()
            found.append(f(fx.ones(2)).tolist())

        together(work, work)
        assert found == [[2.0, 2.0]] * 2, found
        assert f(fx.ones(2)).tolist() == [2.0, 2.0]
        """,
    "uncompiled ones at the same time": """
        meeting = threading.Barrier(3)

        class Odd(Exception):
            pass

        @fx.jit
        def f(x, how):
            if how:
                meeting.wait(20)
            return x * next(numbers) * 0 + 2 * x

        import itertools
        numbers = itertools.count()
        x = fx.ones(2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            f.eager[fx.transforms.jitting.signature.Signature(f, (x, True), {}).key] = "a test"
            found = []
            work = lambda: found.append(f(x, True).tolist())
            together(work, work, work)
        assert found == [[2.0, 2.0]] * 3, found
        """,
    "first calls of many threads": """
        @fx.jit
        def f(x, n):
            time.sleep(0.001)
            return x * n if x.sum() > n else x - n

        plain = f.__wrapped__
        wrong = []

        def work(seed):
            for i in range(25):
                x, n = fx.ones(1 + (i * seed) % 3) * i, float(i % 5)
                if f(x, n).tolist() != plain(x, n).tolist():
                    wrong.append((seed, i))

        together(*[lambda seed=seed: work(seed) for seed in (1, 2, 3, 5)])
        assert not wrong, wrong
        """,
    "first steps, in which the state of an optimizer begins": """
        import sys
        import fx.nn as nn
        sys.setswitchinterval(1e-5)

        def trained():
            fx.manual_seed(0)
            model = nn.Linear(4, 3)
            optimizer = fx.optim.Adam(model.parameters(), lr=0.01)

            @fx.jit
            def step(x):
                loss = (model(x) ** 2).mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                return loss

            x, begin = fx.ones(8, 4), threading.Barrier(2)
            with ThreadPoolExecutor(2) as pool:
                tasks = [pool.submit(lambda: (begin.wait(), step(x))) for _ in range(2)]
            for task in tasks:
                task.result()
            step(x)
            return [cell for p in model.parameters() for cell in (p, *optimizer.state[p].values())]

        for _ in range(2):
            assert all(type(cell.value) is fx.Tensor for cell in trained())
        """,
    "training steps beside a thread that compiles": """
        import fx.nn as nn
        model = nn.Linear(3, 2)
        optimizer = fx.optim.SGD(model.parameters(), lr=0.01)

        @fx.jit
        def step(x):
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        stop = []

        def compile_others():
            for i in range(15):
                fx.jit(lambda x: x * i + model.bias.sum())(fx.ones(i + 1))
            stop.append(1)

        def train():
            while not stop:
                step(fx.ones(4, 3))

        before = step(fx.ones(4, 3)).item()
        together(train, compile_others)
        assert step(fx.ones(4, 3)).item() < before
        """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_threads(name):
    source = START + textwrap.dedent(PROGRAMS[name])
    try:
        done = subprocess.run(
            [sys.executable, "-c", source], capture_output=True, text=True, timeout=60
        )
    except subprocess.TimeoutExpired:
        pytest.fail("it hangs")
    assert done.returncode == 0, done.stderr[-2000:]
