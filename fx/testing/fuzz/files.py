"""Mutated files: a reader gives a value or one clear error, in bounded memory, and does not die."""

from __future__ import annotations

import random

from fx.testing.fuzz import mutations
from fx.testing.fuzz.program import Op, Program

TEMPLATE = """\
def test_found():
    import random

    from fx.testing.fuzz import mutations

    {inputs}
    {main}
"""


def make(rng: random.Random) -> Program:
    """A sound file, some changes of it, and its reader."""
    kind = rng.choice([*mutations.BASES])
    body = []
    if kind in ("pt", "checkpoint", "npz") and rng.random() < 0.6:  # records, with right checksums
        sealed = kind == "checkpoint"
        text = f"data = mutations.rebuilt(data, random.Random({rng.randrange(10**6)}), {sealed})"
        body.append(Op("", text))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4)) if body else rng.choice((1, 1, 1, 2, 4))):
        change = rng.choice(mutations.CHANGES).__name__.strip("_")
        body.append(Op("", f"data = mutations.changed(data, {change!r}, {rng.randrange(10**6)})"))
    main = (*body, Op("", f"mutations.read({kind!r}, data)"))
    inputs = (Op("data", f"mutations.base({kind!r})"),)
    return Program("files", TEMPLATE, {"inputs": inputs, "main": main})
