"""Programs on disk: what an entry of the cache holds of one, and what is looked at first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from fx import limits
from fx.backends.cpu.llvm import disk_cache
from fx.backends.cpu.llvm.executable import Program
from fx.backends.cpu.llvm.recipe import Recipe, from_json, to_json
from fx.graph.key import is_stable


def name_of(donated: Sequence[int], *keys: str) -> str | None:
    """The name of the entry of some graphs; None where a key means something in this process only.

    Args:
        donated: positions of inputs whose memory results may take over.
        keys: of the graphs.
    """
    return disk_cache.name_of(*keys, repr(tuple(donated))) if all(map(is_stable, keys)) else None


def is_whole(recipe: Recipe) -> bool:
    """Whether the recipe says all that another process needs."""
    literal = sum(len(c[2]) for c in recipe.constants if not isinstance(c, int))
    nodes = [s.node for s in recipe.segments if s.part is None]
    return literal <= limits.CACHED_CONSTANTS and min(nodes, default=0) >= 0


def store(
    name: str, program: Program, code: Sequence[bytes], listing: bytes, tables: Any = None
) -> None:
    """Keep a program.

    Args:
        name: of its entry.
        program: what is kept.
        code, listing: its object files and its IR.
        tables: what else a program for any size is told by.
    """
    head = {"recipe": to_json(program.recipe), "objects": [len(x) for x in code]}
    if tables is not None:
        head["tables"] = tables
    disk_cache.store(name, head, b"".join(code), listing)


def load(name: str, inputs: int) -> tuple[Program, Any] | None:
    """The program that the cache holds, and its tables; None if there is none that fits.

    Args:
        name: of its entry.
        inputs: how many arrays it takes.
    """
    found = disk_cache.load(name)
    if found is None:
        return None
    told, code, listing = found
    try:
        recipe = from_json(told["recipe"])
        objects = _cut(code, told["objects"])
        if recipe.inputs != inputs:
            raise ValueError("another graph's")
        if not is_whole(recipe):
            raise ValueError("a step of no node")
        tables = told.get("tables")
        if (tables is None) != all(s.part is None or s.part.words is None for s in recipe.segments):
            raise ValueError("words without tables, or the reverse")
        return Program(recipe, objects, listing), tables
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, RuntimeError):
        disk_cache.drop(name)
        return None


def _cut(code: bytes, sizes: Any) -> list[bytes]:
    if not all(type(n) is int and n > 0 for n in sizes) or sum(sizes) != len(code):
        raise ValueError("object files of other sizes")
    ends = list(accumulate(sizes))
    return [code[end - size : end] for end, size in zip(ends, sizes)]
