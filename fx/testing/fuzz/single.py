"""One primitive on what its sampler draws: in another layout, between two operations."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import fx
from fx.dtypes import FLOATING, as_dtype
from fx.tensor import Tensor
from fx.testing.case import as_tuple, cast, draw
from fx.testing.fuzz.compare import compiled
from fx.testing.fuzz.outcomes import Invalid, Outcome
from fx.testing.fuzz.values import strided
from fx.testing.laws import primitive as named

BEFORE: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda x: x,
    "flip": lambda x: fx.flip(x),
    "columns": lambda x: fx.stack([x, x], axis=-1)[..., 0],
    "halves": lambda x: fx.concat([x, x], axis=0)[x.shape[0] :] if x.ndim else x,
    "repeated": lambda x: fx.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x,
}
ORDERED = {"searchsorted"}  # take an ordered sequence, and promise nothing for another
AFTER: dict[str, Callable[[Tensor], Tensor]] = {
    "": lambda x: x,
    "sum": lambda x: fx.sum(x) if x.dtype.kind != "b" else fx.any(x),
    "rows": lambda x: fx.max(x, axis=-1) if x.ndim and x.size and x.dtype.kind in "fiu" else x,
    "slice": lambda x: x[..., ::2] if x.ndim else x,
    "concat": lambda x: fx.concat([x, x], axis=0) if x.ndim else x,
}


def primitive(
    name: str, seed: int, dtype: str = "float32", layout: str = "dense", before: str = "",
    after: str = "",
) -> None:  # fmt: skip
    """``jit`` of a primitive between two others gives what eager gives.

    Args:
        name: of the primitive.
        seed: of the sampler.
        dtype: of its floating arguments.
        layout: of all arguments.
        before: one of ``BEFORE``.
        after: one of ``AFTER``.
    """
    chosen = named(name)
    kind = as_dtype(dtype)
    sample = draw(chosen, random.Random(seed))
    sample = cast(sample, kind) if kind in FLOATING else sample
    args = [fx.from_numpy(strided(np.asarray(a), layout)) for a in sample.args]
    first, then = BEFORE[before], AFTER[after]
    if name in ORDERED and before == "flip":
        raise Invalid("a flipped sequence is not ordered")

    def function(*xs: Tensor) -> list[Any]:
        return [then(out) for out in as_tuple(chosen(*map(first, xs), **sample.params))]

    if Outcome(function, args, False).error is not None:
        raise Invalid("the primitive does not take this")
    compiled(function, *args)
