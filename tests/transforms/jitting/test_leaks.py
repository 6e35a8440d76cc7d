"""What is compiled and dropped gives its memory back: code, contexts of the compiler, programs."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from weakref import ref

import pytest

import fx
from fx import limits

ROOT = Path(fx.__file__).resolve().parents[1]

MEASURED = """
import ctypes, gc, sys
import fx
from fx import limits
from fx.backends.cpu.llvm import engine

engine._KEPT = 24  # modules: what is kept is no leak

class Heap(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "abcdefghij"]

heap = ctypes.CDLL(None).mallinfo2
heap.restype = Heap

def resident():
    # KiB: what lies outside of the C library's heap, and what is in use there;
    # holes in it, which come and go with the order of allocations, are no leak
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    found, inside = heap().h / 1024, False
    with open("/proc/self/smaps") as told:
        for line in told:
            if line[0].islower() or line[0].isdigit():
                inside = line.rstrip().endswith("[heap]")
            elif line.startswith("Rss") and not inside:
                found += int(line.split()[1])
    return found

{body}

count = {count}
with limits.given(KEPT_PROGRAMS=12):
    for k in range(count):
        run(k)
    before = resident()
    for k in range(count, 2 * count):
        run(k)
    print((resident() - before) / count)
"""

DISTINCT = """
x = fx.ones((7, 5))
def run(k):
    f = fx.jit(lambda x: fx.exp(x * float(k)).sum(0))
    f(x), f(x)
"""

SHAPES = """
f = fx.jit(lambda x: x * 2 + 1)
def run(k):
    f(fx.ones(k + 1)), f(fx.ones(k + 1))
"""

MODULES = """
from fx.backends.cpu.llvm import engine
text = "define i64 @f(i64 %x) {\\n  %y = add i64 %x, 1\\n  ret i64 %y\\n}\\n"
def run(k):
    engine.Loaded([engine.compile_text(text)], ["f"], {}).address("f")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/smaps_rollup")
@pytest.mark.parametrize(
    ("body", "count", "most"), [(DISTINCT, 100, 10.0), (SHAPES, 200, 10.0), (MODULES, 200, 5.0)],
    ids=["distinct functions", "shapes of one function", "modules"],
)  # fmt: skip
def test_a_compile_that_is_dropped_leaves_nothing(body, count, most):
    program = MEASURED.format(body=body, count=count)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FX_CACHE": "0"}
    environment["MALLOC_ARENA_MAX"] = "1"  # the compiler's threads do not each keep some
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
    assert float(found.stdout) < most  # KiB each; one that stays takes 20 to 120, a module 10


def test_the_programs_used_last_are_kept():
    f = fx.jit(lambda x: x * 2 + 1, dynamic=False)  # a program for each size
    with limits.given(KEPT_PROGRAMS=4, PLANS=1):
        for n in range(1, 5):
            f(fx.ones(n))
        f(fx.ones(1))
        dropped = ref(f.programs[next(iter(f.programs))][0])
        f(fx.ones(5))
        assert f.cache_size() == 4
        assert [entry.reason for entry in f.explain().entries][-1] == (
            "argument x: float32[4] -> float32[5]"
        )
        gc.collect()
        assert dropped() is None
        made = f.made
        for n in (1, 3, 4, 5):
            f(fx.ones(n))
        assert f.made == made
        f(fx.ones(2))
        assert f.made == made + 1 and f.cache_size() == 4


PROGRAMS = {
    "plain": "def f(x):\n    return fx.sin(x) * {k} + x",
    "calls": "def g(x):\n    return x * {k}\n\n\ndef f(x):\n    return g(x) + fx.vmap(g)(x)",
    "class": (
        "class C:\n    __slots__ = ('a',)\n\n    def __init__(self):\n        self.a = {k}\n\n\n"
        "c = C()\n\n\ndef f(x):\n    return x * c.a"
    ),
    "handled": (
        "def f(x):\n    try:\n        return (x @ x) * {k}\n    except TypeError:\n        return x"
    ),
    "effect": "seen = []\n\n\ndef f(x):\n    seen.append({k})\n    return x * 2",
    "gradient": "def f(x):\n    return fx.grad(lambda y: (y * {k}).sum())(x)",
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_code_that_was_compiled_goes(name):
    """Nothing remembers a function or a class that its program has let go of."""
    gone = []

    def run(k):
        names = {"fx": fx, "__name__": "made"}
        exec(compile(PROGRAMS[name].format(k=k), "<made>", "exec"), names)
        jitted = fx.jit(names["f"])
        for _ in range(3):
            jitted(fx.ones(4))
        gone.append(ref(names["f"].__code__))
        if "C" in names:
            gone.append(ref(names["C"]))

    for k in range(12):
        run(k)
    gc.collect()
    left = [one() for one in gone[: len(gone) * 3 // 4] if one() is not None]  # some wait in queues
    assert not left, left
