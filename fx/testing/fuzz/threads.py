"""Readers while others train, and jitted functions that call each other in several threads."""

from __future__ import annotations

import random

from fx.testing.fuzz import interrupts
from fx.testing.fuzz.program import Op, Program

READERS = ("state_dict", "detach", "forward", "clone", "optimizer", "save")


def make(rng: random.Random) -> Program:
    """Threads that read a model while one trains it; or functions that call each other."""
    if rng.random() < 0.3:
        edges = [(rng.randrange(3), rng.randrange(3)) for _ in range(rng.choice((1, 2, 3)))]
        calls = sorted({(a, b) for a, b in edges if a < b})
        text = f"training.call_each_other({calls!r}, threads={rng.choice((2, 3, 4))})"
        plain = "training.call_each_other([(0, 1)], threads=2)"
        model: tuple[Op, ...] = (Op("", text, (), (plain,)),)
        return Program("threads", interrupts.TEMPLATE, {"model": model, "main": ()})
    how = rng.choice(("jit", "eager"))
    readers = tuple(repr(rng.choice(READERS)) for _ in range(rng.choice((1, 2, 3))))
    main = Op("", f"training.read_meanwhile(layers, optimizer, {how!r}, [{{all}}])", readers)
    sections = {"model": interrupts.world(rng), "main": (main,)}
    return Program("threads", interrupts.TEMPLATE, sections)
