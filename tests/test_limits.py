"""The table of limits: what changes its way by size, with normal and with tiny limits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fx
from fx import limits
from fx.backends.cpu.llvm import disk_cache
from fx.backends.cpu.llvm.driver import compile_graph
from fx.graph.key import graph_key
from fx.nn import functional as F

ROOT = Path(fx.__file__).resolve().parents[1]


def test_every_limit_says_its_unit_and_what_changes_and_is_tiny_when_told():
    for name, row in limits.TABLE.items():
        unit, colon, what = row.told.partition(": ")
        assert unit and colon and what, name
        assert row.tiny <= row.normal, name
        assert getattr(limits, name) == row.normal, name
    with limits.tiny():
        for name, row in limits.TABLE.items():
            assert getattr(limits, name) == (row.normal if row.early else row.tiny), name


def test_limits_are_put_back_when_the_block_raises():
    with pytest.raises(RuntimeError), limits.given(TASK=1.0):
        raise RuntimeError
    assert limits.TABLE["TASK"].normal == limits.TASK and limits.key() == ""


def test_what_is_no_limit_is_refused_by_name():
    with pytest.raises(KeyError, match="NO_SUCH"), limits.given(NO_SUCH=1):
        pass
    with pytest.raises(ValueError, match="FX_LIMITS=tiny"), limits.given(MEMORY_BUCKETS=1):
        pass


def softmax(x):
    return F.softmax(x * 2, 1).sum(0)


def test_compiled_code_is_kept_under_the_limits_that_it_was_made_with(monkeypatch, tmp_path):
    monkeypatch.setenv("FX_CACHE_DIR", str(tmp_path / "cache"))
    x = np.random.default_rng(0).standard_normal((9, 11)).astype(np.float32)
    graph = fx.make_graph(softmax)(fx.tensor(x))
    normal, name = graph_key(graph), disk_cache.name_of("a")
    first = compile_graph(graph)
    with limits.tiny():
        assert graph_key(graph) != normal and disk_cache.name_of("a") != name
        small = compile_graph(graph)
    assert small.code() != first.code()
    again = compile_graph(fx.make_graph(softmax)(fx.tensor(x)))
    assert again.code() == first.code()
    np.testing.assert_array_equal(again.run([x])[0], first.run([x])[0])
    np.testing.assert_allclose(small.run([x])[0], first.run([x])[0], rtol=1e-5)


def test_a_jitted_function_never_serves_normal_calls_from_what_tiny_limits_gave():
    f = fx.jit(softmax)
    x = fx.ones((9, 11))
    with limits.tiny():
        f(x), f(x)
    f(x), f(x)
    assert [entry.calls for entry in f.explain().entries] == [2, 2]
    assert fx.jit(softmax)(x) is not None  # functions of the same code share their programs
    with limits.tiny():
        g = fx.jit(softmax)
        g(x)
        assert g.cache_size() == 1


def test_kernels_of_eager_calls_are_made_again():
    x = fx.tensor(np.random.default_rng(0).standard_normal((7, 9)).astype(np.float32))
    want = F.gelu(x), F.softmax(x, 1), x @ x.mT
    with limits.tiny():
        got = F.gelu(x), F.softmax(x, 1), x @ x.mT
    again = F.gelu(x), F.softmax(x, 1), x @ x.mT
    for w, g, a in zip(want, got, again):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(a.numpy(), w.numpy())


def test_who_keeps_what_limits_made_is_told_of_each_change(monkeypatch):
    monkeypatch.setattr(limits, "_listeners", told := [])
    limits.on_change(lambda: seen.append(limits.TASK))
    seen: list[float] = []
    with limits.given(TASK=1.0):
        assert told and seen == [1.0]
    assert seen == [1.0, limits.TASK]


def start(value: str, program: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "FX_LIMITS": value}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )


DRAWS = """
import fx
from fx import limits
small = {name: getattr(limits, name) == row.tiny for name, row in limits.TABLE.items()}
assert all(small.values()), small
key = fx.random.key(7)
for shape in ((3,), (67,), (40, 5)):
    for x in (fx.random.normal(key, shape), fx.jit(lambda: fx.random.normal(key, shape))()):
        print(x.numpy().tobytes().hex())
arrays = [fx.ones((n,)) * 2 for n in range(1, 200)]  # memory that is given back and taken again
f = fx.jit(lambda x: (x * 2, x.sum()))
print([float(f(x)[1]) for x in arrays] == [2.0 * n for n in range(1, 200)])
"""


def test_a_whole_process_with_tiny_limits_draws_the_same_numbers():
    found = start("tiny", DRAWS)
    assert found.returncode == 0, found.stderr
    *lines, same = found.stdout.split()
    key = fx.random.key(7)
    want = [fx.random.normal(key, s).numpy().tobytes().hex() for s in ((3,), (67,), (40, 5))]
    assert lines == [hex_ for one in want for hex_ in (one, one)]
    assert same == "True"


def test_the_switch_says_what_it_takes():
    found = start("small", "import fx")
    assert found.returncode != 0
    assert "FX_LIMITS is 'normal' or 'tiny', got 'small'" in found.stderr
