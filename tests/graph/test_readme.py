"""The README of graphs is a program: its blocks run, in order."""

import re
from pathlib import Path

import fx.graph
from fx.graph import pipeline

README = Path(fx.graph.__file__).with_name("README.md")


def test_the_blocks_run():
    before = pipeline()
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 4
    names = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{README.name}, block {number}", "exec"), names)
    assert pipeline() == before


def test_every_pass_of_the_pipeline_is_told_of():
    rows = re.findall(r"^\| `(\w+)` \| `passes/", README.read_text(), re.MULTILINE)
    assert rows[:-1] == list(pipeline()) and rows[-1] == "recompute"
