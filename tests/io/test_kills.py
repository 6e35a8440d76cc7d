"""A training run that is killed at any moment goes on bit for bit as if it had not been."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = str(Path(__file__).with_name("training.py"))
ROOT = Path(__file__).parents[2]


def train(*arguments):
    done = subprocess.run(
        [sys.executable, "-W", "error", SCRIPT, *map(str, arguments)],
        capture_output=True, text=True, cwd=ROOT, env=None,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_killed_training_resumes_bit_for_bit(mode, tmp_path):
    told = train("kill", tmp_path, 25, mode)
    kills, torn, runs = map(int, re.findall(r"\b\d+\b(?= )", told)[:3])
    assert kills >= 25
    assert torn > 0, "no kill came while a file was being written"
    assert runs > 0


def test_another_process_goes_on(tmp_path):
    train("run", tmp_path / "parts", 7, "eager")
    assert train("run", tmp_path / "parts", 12, "eager") == train(
        "run", tmp_path / "whole", 12, "eager"
    )
