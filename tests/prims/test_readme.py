"""The walk through a primitive is a program: its blocks run, in order."""

import re
from pathlib import Path

import pytest

import fx
from fx.primitive import registry

README = Path(fx.__file__).with_name("prims") / "README.md"


def test_the_blocks_of_the_readme_run():
    known = dict(registry)
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 4
    names = {}
    try:
        for number, block in enumerate(blocks):
            expected = re.search(r"# raises (\w+): (.*)", block)
            code = compile(block, f"{README.name}, block {number}", "exec")
            if expected is None:
                exec(code, names)
                continue
            error = getattr(fx.errors, expected[1], None) or getattr(fx.testing, expected[1])
            with pytest.raises(error, match=re.escape(expected[2])):
                exec(code, names)
    finally:
        registry.clear()
        registry.update(known)
