"""Of those that want one entry of the disk cache at once, one makes it; none waits in vain."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

import fx
from fx.backends.cpu.llvm import any_size, disk_cache, driver
from tests.backends.llvm.test_disk_cache import folder  # noqa: F401

SCRIPT = Path(__file__).with_name("claims.py")
CASES = [
    f.name
    for f in ast.parse(SCRIPT.read_text()).body
    if isinstance(f, ast.FunctionDef) and f.name.startswith("case_")
]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    environment = {**os.environ, "PYTHONPATH": str(Path(fx.__file__).resolve().parents[1])}
    environment.pop("FX_CACHE", None)
    out = subprocess.run(
        [sys.executable, SCRIPT, tmp_path_factory.mktemp("claims")],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(map(json.loads, out.stdout.splitlines())), out.stderr


@pytest.mark.parametrize("case", CASES)
def test_of_processes(outcomes, case):
    told, errors = outcomes
    assert told[case] == "passed", told[case] + errors


@pytest.mark.usefixtures("folder")
def test_every_entry_is_made_under_a_claim_and_no_claims_wait_in_a_circle(monkeypatch):
    of, stored, outer, inner = threading.local(), [], set(), set()
    making, store = disk_cache.making, disk_cache.store

    @contextmanager
    def noting(name):
        held = of.held = getattr(of, "held", [])
        outer.update(held)
        inner.update([name] if held else [])
        held.append(name)
        try:
            with making(name) as made:
                yield made
        finally:
            held.pop()

    def checking(name, *rest):
        assert of.held[-1] == name
        stored.append(name)
        store(name, *rest)

    monkeypatch.setattr(disk_cache, "making", noting)
    monkeypatch.setattr(disk_cache, "store", checking)
    driver.forget()
    any_size._loaded.cache_clear()
    of_rows = fx.jit(lambda x: fx.cumsum(fx.sum(fx.tanh(x) @ x.T, axis=0)))
    for n in (5, 6, 9):
        of_rows(fx.ones((n, 4)))
    assert len(stored) == len({*stored}) > 2
    assert inner and not outer & inner
