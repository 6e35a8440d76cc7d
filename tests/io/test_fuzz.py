"""Malformed and hostile files: each reader is fed thousands, and gives a value or one error."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fx
from fx.errors import FileFormatError
from tests import thorough
from tests.io.fuzzing import READERS

SCRIPT = str(Path(__file__).with_name("fuzzing.py"))
ROOT = Path(__file__).parents[2]
FILES, PARTS = thorough.of(10_000, 1_500), 1


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


def test_no_bit_of_an_archive_changes_what_is_read(tmp_path):
    """Names and numbers of records lie under no checksum: the directory and the records agree."""
    path = tmp_path / "arrays.npz"
    np.savez(path, a=np.arange(3.0), b=np.ones(2, "int8"))
    whole, refused = path.read_bytes(), 0
    for bit in range(0, 8 * len(whole), 3):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        try:
            found = fx.load(path)
        except FileFormatError:
            refused += 1
            continue
        assert sorted(found) == ["a", "b"], bit
        assert found["a"].tolist() == [0, 1, 2] and found["b"].tolist() == [1, 1], bit
    assert refused > 400
