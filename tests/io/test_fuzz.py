"""Malformed and hostile files: each reader is fed thousands, and gives a value or one error."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import thorough
from tests.io.fuzzing import READERS

SCRIPT = str(Path(__file__).with_name("fuzzing.py"))
ROOT = Path(__file__).parents[2]
FILES, PARTS = thorough.of(10_000, 3_000), 2


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("reader", READERS)
def test_mutated_files(reader, part):
    count = FILES // PARTS
    done = subprocess.run(
        [sys.executable, SCRIPT, reader, str(part * count), str(count)],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    words = done.stdout.split()
    loaded, refused = int(words[1]), int(words[3])
    assert loaded + refused == count
    assert loaded > count // 50, "the mutations leave too little to read"
