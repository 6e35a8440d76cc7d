"""Whatever the arguments, a call gives a sound tensor or an error for users, and nothing dies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fx
from tests import thorough

PROGRAM = Path(__file__).parent / "fuzzer.py"
PACKAGE = str(Path(fx.__file__).resolve().parent.parent)
CALLS = thorough.of(4_000, 1_000)


def _attack(program: Path, seed: int, calls: int, folder: Path) -> tuple[int, str]:
    """Run the fuzzer in its own process; how it ended, and what is to be said about it."""
    trace = folder / "last_call"
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(program), str(seed), str(calls), str(trace)],
        env={**os.environ, "PYTHONPATH": PACKAGE},
        capture_output=True,
        text=True,
        timeout=300,
    )
    last = trace.read_text() if trace.exists() else "<none>"
    words = f"seed {seed} ended with {done.returncode}; last call: {last}\n"
    return done.returncode, words + done.stdout[-4000:] + done.stderr[-4000:]


@pytest.mark.parametrize("seed", [0, 1])
def test_no_call_breaks_anything(seed: int, tmp_path: Path) -> None:
    code, words = _attack(PROGRAM, seed, CALLS, tmp_path)
    assert code == 0, words


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("dies", "faulthandler._sigsegv()", "last call: fx.dies("),
        ("inside", "None.shape", "is no error of a user's: 'NoneType' object has no attribute"),
        ("silent", "raise_(ValueError())", "has no message"),
        ("loops", "loops(*args)", "RecursionError is no error of a user's"),
        ("writes", "writes(args)", "an input changed"),
    ],
)
def test_the_fuzzer_sees_what_is_wrong(name: str, body: str, words: str, tmp_path: Path) -> None:
    program = tmp_path / "broken.py"
    program.write_text(
        "import faulthandler, sys\n"
        f"sys.path.insert(0, {str(PROGRAM.parent)!r})\n"
        "import fuzzer\n"
        "def raise_(error): raise error\n"
        "def loops(*args): return loops(*args)\n"
        "def writes(args):\n"
        "    for x in args:\n"
        "        array = getattr(x, '_a', None)\n"
        "        if isinstance(array, fuzzer.np.ndarray) and array.size and "
        "array.flags.writeable:\n"
        "            array[...] = array == 0\n"
        f"def broken(*args): return {body}\n"
        f"fuzzer.targets = lambda: [('fx.{name}', broken, False)]\n"
        "sys.exit(fuzzer.main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))\n"
    )
    code, said = _attack(program, 0, 40, tmp_path)
    assert code != 0
    assert words in said, said
