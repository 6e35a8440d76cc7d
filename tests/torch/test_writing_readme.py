"""The README of writes is a program, and it names every file."""

import re
from pathlib import Path

import fx.writing

README = Path(fx.writing.__file__).with_name("README.md")


def test_the_readme_runs():
    (block,) = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    exec(compile(block, README.name, "exec"), {})


def test_it_names_every_file():
    files = {p.stem for p in README.parent.glob("*.py")} - {"__init__"}
    text = "".join(re.findall(r"`([^`\n]+)`", README.read_text()))
    assert {name for name in files if name not in text} == set()
