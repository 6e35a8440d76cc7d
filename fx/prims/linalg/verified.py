"""The check that a factorisation or a solve was possible."""

from __future__ import annotations

import numpy as np

import fx.prims.factors as factors
from fx.primitive import define
from fx.prims.families import to_front
from fx.prims.sampling import Sample


def _batch(level, args, dims, *, words):
    x, info = [a if d is None else to_front(a, d) for a, d in zip(args, dims, strict=True)]
    return verified(x, info, words=words), None if dims[0] is None else 0


# x (*S) as it is where all of info (*B) is 0. The words are two formats of C, one for the number in
# an info without axes, and one for the place of the first that is not 0 in a stack.
verified = define(
    "verified", partial=True, spec=lambda x, info, *, words: x, saves=(),
    jvp=lambda primals, tangents, *, words: (verified(*primals, words=words), tangents[0]),
    vjp=lambda needs, x, info, *, words: lambda ct: (ct, None),
    sharding=factors.verified,
    batch=_batch,
    sample=lambda d: Sample(
        [d.floats(s := d.shape(0, 3)), np.zeros(s[: d.integer(0, len(s))], np.int32)],
        {"words": ("number %lld", "place %lld")},
    ),
)  # fmt: skip
