"""The README's code runs as it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _blocks(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)


README = _blocks("README.md")
BLOCKS = [*README, *_blocks("fx/JAX.md")]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block_runs(number):
    exec(compile(BLOCKS[number], f"README block {number}", "exec"), {})


@pytest.mark.parametrize("number", range(len(BLOCKS)))
@pytest.mark.filterwarnings("error:jit check")
def test_block_is_eagerly_what_it_is_compiled(number, monkeypatch):
    """Every tenth call of what is jitted is checked."""
    monkeypatch.setenv("FX_CHECK", "10")
    exec(compile(BLOCKS[number], f"README block {number}", "exec"), {})


def test_there_is_one_block_for_each_of_the_three_users():
    assert len(README) == 3
