"""Programs that write in functions under ``jit``, which are called again and again."""

from __future__ import annotations

import random

from fx.testing.fuzz.program import Program
from fx.testing.fuzz.writes import program


def make(rng: random.Random) -> Program:
    """A program with jitted functions."""
    return program(rng, jit=True)
