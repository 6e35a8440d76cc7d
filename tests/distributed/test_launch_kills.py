"""Ranks that are killed at any moment: the training goes on, and its result has the same bits."""

from __future__ import annotations

import os
import random
import re
import signal
import statistics
import time
from pathlib import Path

import pytest

pytest.importorskip("mpi4py")

KILLS = 50 if os.environ.get("FX_HYPOTHESIS") == "thorough" else 4
SCRIPT = str(Path(__file__).with_name("killed.py"))


def _bits(out: str) -> set[str]:
    return set(re.findall(r"bits (\w+)", out))


def test_random_kills_change_no_bit(launcher, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    (whole / "enough").touch()
    code, out, err = launcher.run("--nproc-per-node", "2", SCRIPT, str(whole), cwd=tmp_path)
    assert code == 0, err
    expected = _bits(out)
    assert len(expected) == 1  # the ranks agree

    draw = random.Random(0)
    flags = ["--nproc-per-node", "2", "--max-restarts", str(KILLS)]
    launched = launcher.start(*flags, SCRIPT, str(broken), cwd=tmp_path)
    gaps, killed = [], 0.0
    for kill in range(KILLS + 1):
        launched.until("goes on", 2 * (kill + 1))  # both ranks
        if kill:
            started = [float(at) for at in re.findall(r"goes on at (\S+)", launched.out)]
            gaps.append(max(started) - killed)
        if kill == KILLS:
            break
        time.sleep(draw.uniform(0, 0.2))
        ranks = set(launched.living()) - {launched.pid}
        killed = time.monotonic()
        os.kill(draw.choice(sorted(ranks)), signal.SIGKILL)
    (broken / "enough").touch()
    assert launched.wait(60) == 0, launched.err
    assert launched.err.count("killed by SIGKILL") == KILLS
    assert _bits(launched.out) == expected
    took = f"median {statistics.median(gaps):.2f} s, worst {max(gaps):.2f}"
    print(f"from a kill to where both go on: {took}")
