"""One primitive at a time, on what its sampler draws, in other layouts, before and after others."""

from __future__ import annotations

import random

from fx.testing.fuzz.program import Op, Program
from fx.testing.fuzz.single import AFTER, BEFORE
from fx.testing.fuzz.values import STRIDED
from fx.testing.laws import all_primitives

TEMPLATE = """\
def test_found():
    from fx.testing.fuzz import single

    {main}
"""


def make(rng: random.Random) -> Program:
    """A primitive between two others."""
    names = [name for name, p in all_primitives().items() if p.sample is not None]
    name, seed = rng.choice(names), rng.randrange(1000)
    dtype = rng.choice(("float32", "float32", "float64", "float16", "bfloat16"))
    layout, before, after = rng.choice(STRIDED), rng.choice([*BEFORE]), rng.choice([*AFTER])
    plain = f"single.primitive({name!r}, {seed}"
    text = f"{plain}, {dtype!r}, {layout!r}, {before!r}, {after!r})"
    simpler = (
        f"{plain}, 'float32')", f"{plain}, {dtype!r})", f"{plain}, {dtype!r}, {layout!r})",
        f"{plain}, {dtype!r}, before={before!r})", f"{plain}, {dtype!r}, after={after!r})",
        f"{plain}, {dtype!r}, {layout!r}, {before!r})",
        f"{plain}, {dtype!r}, {layout!r}, after={after!r})",
    )  # fmt: skip
    return Program("primitives", TEMPLATE, {"main": (Op("", text, (), simpler),)})
