"""The README of the compiler is a program: its blocks run, and it shows what they print."""

import re
from pathlib import Path

import fx.compiler

README = Path(fx.compiler.__file__).with_name("README.md")


def test_the_readme_runs():
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    names = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"{README.name}, block {number}", "exec"), names)
    shown = re.search(r"^    for i0 .*?\n\n", README.read_text(), re.DOTALL | re.MULTILINE)
    wanted = [line.removeprefix("    ") for line in shown[0].rstrip().splitlines()]
    assert str(names["plan"].steps[0].nest).splitlines() == wanted


def test_its_table_names_every_file():
    files = {p.name for p in README.parent.glob("*.py")} - {"__init__.py"}
    rows = re.findall(r"^\| (`[^|]*\.py`[^|]*)\|", README.read_text(), re.MULTILINE)
    assert set(re.findall(r"`(\w+\.py)`", " ".join(rows))) == files
