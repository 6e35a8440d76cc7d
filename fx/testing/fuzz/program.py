"""Programs as lists of operations: printed as Python source, run from it, and made smaller.

A program is a template of source with sections of operations in it. What is run is the printed
source, so what a finding prints is what failed::

    sections  inputs  x0 = values.tensor((130, 31), 'float32', 7, layout='columns')
              main    def f(x0):
                          v1 = fx.sin(x0)
                          return [v1]
                      compare.compiled(f, x0)
    template  def test_found():
                  {inputs}

                  {main}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from fx.slotted import slotted

HEADER = """\
import numpy as np

import fx
from fx import limits
from fx.testing.fuzz import compare, rules, values

"""


@slotted(frozen=True)
class Op:
    """One statement.

    Attributes:
        name: the variable that it binds; empty if it binds none.
        text: its source, with ``{0}``, ``{1}`` for the arguments, ``{all}`` for all of them in a
            row, and ``{body}`` on a line of its own for the statements inside.
        args: the variables that it uses, which others may take the place of.
        simpler: other texts to try in its place, the simplest first.
        body: the statements inside.
    """

    name: str
    text: str
    args: tuple[str, ...] = ()
    simpler: tuple[str, ...] = ()
    body: tuple[Op, ...] = ()

    def lines(self) -> list[str]:
        """The statement as source."""
        bound = f"{self.name} = " if self.name else ""
        out: list[str] = []
        for line in (bound + self.text).split("\n"):
            if line.strip() == "{body}":
                indent = line[: len(line) - len(line.lstrip())]
                inner = [indent + s for op in self.body for s in op.lines()]
                out += inner or [indent + "pass"]
                continue
            line = line.replace("{all}", ", ".join(self.args))
            for i, arg in enumerate(self.args):
                line = line.replace(f"{{{i}}}", arg)
            out.append(line)
        return out


Section = tuple[Op, ...]


@slotted(frozen=True)
class Program:
    """A program of a generator, as data.

    Attributes:
        generator: which one made it.
        template: the source, with ``{section}`` on lines of their own.
        sections: the operations of each.
    """

    generator: str
    template: str
    sections: dict[str, Section]

    def source(self, name: str = "test_found") -> str:
        """A complete test module."""
        out = []
        for line in self.template.rstrip().split("\n"):
            found = re.fullmatch(r"( *)\{(\w+)\}", line)
            if found is None:
                out.append(line)
                continue
            ops = self.sections.get(found[2], ())
            out += [found[1] + s for op in ops for s in op.lines()]
        text = "\n".join(line.rstrip() for line in out).rstrip()
        return HEADER + "\n" + text.replace("test_found", name) + "\n"

    def size(self) -> int:
        """The number of its statements."""
        return sum(_count(ops) for ops in self.sections.values())

    def as_data(self) -> dict[str, Any]:
        """The program as what JSON can hold."""
        return asdict(self)


def from_data(data: dict[str, Any]) -> Program:
    """The program of ``as_data``."""
    sections = {k: tuple(map(_op, ops)) for k, ops in data["sections"].items()}
    return Program(data["generator"], data["template"], sections)


def _op(data: dict[str, Any]) -> Op:
    return Op(
        data["name"], data["text"], tuple(data["args"]), tuple(data["simpler"]),
        tuple(map(_op, data["body"])),
    )  # fmt: skip


def _count(ops: Section) -> int:
    return sum(1 + _count(op.body) for op in ops)


# smaller ones -----------------------------------------------------------------------------------


def smaller(program: Program) -> Iterator[Program]:
    """Programs that are a little smaller, the boldest first; they need not be valid."""
    for key, ops in program.sections.items():
        for changed in _fewer(ops):
            yield replace(program, sections={**program.sections, key: changed})
    for key, ops in program.sections.items():
        for changed, name, other in _merged(ops):
            less = replace(program, sections={**program.sections, key: changed})
            yield _renamed(less, name, other)
    for key, ops in program.sections.items():
        for changed in _plainer(ops):
            yield replace(program, sections={**program.sections, key: changed})


def _fewer(ops: Section) -> Iterator[Section]:
    """Without a run of statements: half of them, a quarter, … one."""
    length = len(ops)
    while length:
        for start in range(0, len(ops), length):
            yield ops[:start] + ops[start + length :]
        length //= 2
    for i, op in enumerate(ops):
        for body in _fewer(op.body):
            yield (*ops[:i], replace(op, body=body), *ops[i + 1 :])
        if op.body:  # the statements inside in its place
            yield ops[:i] + op.body + ops[i + 1 :]


def _merged(ops: Section) -> Iterator[tuple[Section, str, str]]:
    """Without a statement that binds a variable, and another one to take that one's place."""
    for i, op in enumerate(ops):
        near = [o.name for o in (*ops[:i][-2:], *ops[i + 1 :][:1]) if o.name]
        for other in (*op.args, *near) if op.name else ():
            yield ops[:i] + ops[i + 1 :], op.name, other
        for body, name, other in _merged(op.body):
            yield (*ops[:i], replace(op, body=body), *ops[i + 1 :]), name, other


def _plainer(ops: Section) -> Iterator[Section]:
    """With a simpler statement, or one that uses less."""
    for i, op in enumerate(ops):
        around = ops[:i], ops[i + 1 :]
        for n, text in enumerate(op.simpler):
            rest = op.simpler[:n]
            yield (*around[0], replace(op, text=text, simpler=rest), *around[1])
        if "{all}" in op.text and len(op.args) > 1:
            for drop in range(len(op.args)):
                args = op.args[:drop] + op.args[drop + 1 :]
                yield (*around[0], replace(op, args=args), *around[1])
        for body in _plainer(op.body):
            yield (*around[0], replace(op, body=body), *around[1])


def _renamed(program: Program, name: str, other: str) -> Program:
    """The program with another variable in the place of one that is no more."""

    def change(op: Op) -> Op:
        args = tuple(other if a == name else a for a in op.args)
        if "{all}" in op.text:
            args = tuple(dict.fromkeys(args))  # a parameter stands once
        return replace(op, args=args, body=tuple(map(change, op.body)))

    sections = {k: tuple(map(change, ops)) for k, ops in program.sections.items()}
    return replace(program, sections=sections)
