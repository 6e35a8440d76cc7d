"""What a generator is: a function that makes a program from a source of choices."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

from fx.testing.fuzz.program import Op, Program

# what each does, and the share of the programs that it gets
GENERATORS = {
    "graphs": 6,
    "sizes": 3,
    "primitives": 4,
    "derivatives": 4,
    "histories": 4,
    "loops": 4,
    "numbers": 4,
    "lengths": 3,
    "pystate": 4,
    "interrupts": 1,
    "threads": 1,
    "files": 3,
    "writes": 4,
    "jitwrites": 2,
}

ORACLES = {"writes": "torch", "jitwrites": "torch"}  # what some are compared with, if it is there
SIZED = (
    "graphs",
    "lengths",
    "sizes",
    "primitives",
    "loops",
    "derivatives",
)  # what changes its way by size
TINY = "with limits.tiny():\n    {body}"
Make = Callable[[random.Random], Program]


def make(generator: str, seed: int, index: int) -> Program:
    """Program number ``index`` of a generator.

    Example:
        >>> from fx.testing.fuzz.generator import make
        >>> make("graphs", 0, 1) == make("graphs", 0, 1)
        True
    """
    module: Any = import_module(f"fx.testing.fuzz.{generator}")
    rng = random.Random(f"{generator} {seed} {index}")
    program: Program = module.make(rng)
    if generator in SIZED and rng.random() < 0.6:
        inside = Op("", TINY, (), (), program.sections["main"])
        return replace(program, sections={**program.sections, "main": (inside,)})
    return program


class Names:
    """Numbered variables."""

    def __init__(self) -> None:
        self.count = 0

    def new(self, letter: str = "v") -> str:
        """A name that was not there."""
        self.count += 1
        return f"{letter}{self.count - 1}"


TEMPLATE = """\
def test_found():
    {inputs}

    {main}
"""


def defined(params: list[str], body: list[Op], checks: list[Op]) -> tuple[Op, ...]:
    """A function ``f`` of these parameters, and what is asked of it."""
    return (Op("", "def f({all}):\n    {body}\n", tuple(params), (), tuple(body)), *checks)


def returned(names: list[str]) -> Op:
    """The statement that returns a list."""
    return Op("", "return [{all}]", tuple(names))
