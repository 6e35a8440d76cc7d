"""No kernel touches memory outside of its operands: what does so ends a process of its own."""

import os
import signal
import subprocess
import sys

import pytest

from fx.backends.cpu.llvm import guarded

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="guards need Linux")


def run(side, *parts):
    """Run ``guarded_programs`` beside forbidden pages; how it ended, and the last line before."""
    environment = {**os.environ, "FX_GUARD_MEMORY": side}
    found = subprocess.run(
        [sys.executable, "-m", "tests.laws.guarded_programs", side, *parts],
        env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    last = found.stdout.strip().rpartition("\n")[2]
    return found.returncode, last, found.stderr


@pytest.mark.parametrize("part", ["laws", "steps", "layouts", "sizes"])
@pytest.mark.parametrize("side", ["end", "begin"])
def test_kernels_stay_inside_of_their_operands(side, part):
    code, last, told = run(side, part)
    died = "touched memory outside of an operand" if code == -signal.SIGSEGV else "failed"
    assert (code, last) == (0, "done"), f"[{last}] {died}, guarded at its {side}\n{told}"


@pytest.mark.parametrize("part", ["outside", "after"])
@pytest.mark.parametrize("side", ["end", "begin"])
def test_touching_what_is_forbidden_ends_the_process(side, part):
    code, last, told = run(side, part)
    assert code == -signal.SIGSEGV and last.startswith(part), told


def test_the_switch_says_what_it_takes(monkeypatch):
    assert guarded.side() == os.environ.get("FX_GUARD_MEMORY", "")
    monkeypatch.setenv("FX_GUARD_MEMORY", "0")
    assert guarded.side() == ""
    monkeypatch.setenv("FX_GUARD_MEMORY", "middle")
    with pytest.raises(ValueError, match="FX_GUARD_MEMORY='middle': expected 'end', 'begin'"):
        guarded.side()
