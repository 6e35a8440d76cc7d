"""Quotients by what is the same for a whole row: one reciprocal, and products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fx.compiler.nest import NAMES, Nest
from fx.dtypes import bool_

_RANGE = {"float32": 2.0**60, "float64": 2.0**500}


def with_reciprocals(nest: Nest) -> None:
    """Replace x / r by (x * (1 / (r * s))) * s, if r is known before the innermost loop runs.

    s is 1, or a power of two that brings r to where its reciprocal is a normal number. The result
    is within 1.5 ulp, and what it should be at zeros, infinities and NaN.
    """
    inner = frozenset(nest.rows or nest.outer[-1:])
    deps = nest.loops_of()
    wanted = [
        e.kind == "op" and e.name == "divide" and NAMES[e.dtype] in _RANGE
        and deps[i] & inner and not deps[e.args[1]] & inner
        for i, e in enumerate(nest.exprs)
    ]  # fmt: skip
    if not any(wanted):
        return
    exprs, nest.exprs, nest.table = nest.exprs, [], {}
    place: list[int] = []
    for e, changes in zip(exprs, wanted):
        args = [place[a] for a in e.args]
        if changes:
            place.append(_quotient(nest, args[0], args[1], e.dtype))
        else:
            place.append(nest.expr(e.kind, e.name, args, e.data, e.dtype))
    nest.outputs = [(w, f, place[e]) for w, f, e in nest.outputs]
    nest.sinks = [(w, f, place[e], name) for w, f, e, name in nest.sinks]


def _quotient(nest: Nest, x: int, r: int, dtype: Any) -> int:
    limit = _RANGE[NAMES[dtype]]
    divisor = nest.exprs[r]
    if divisor.kind == "const":
        value = float(np.frombuffer(divisor.data, dtype=dtype)[0])
        if not 1.0 / limit < abs(value) < limit or not math.isfinite(value):
            return nest.op("divide", (x, r), dtype)
        return nest.op("multiply", (x, nest.constant(1.0 / value, dtype)), dtype)
    size = nest.op("abs", (r,), dtype)
    large = nest.op("greater", (size, nest.constant(limit, dtype)), bool_)
    small = nest.op("less", (size, nest.constant(1.0 / limit, dtype)), bool_)
    one = nest.constant(1.0, dtype)
    up = nest.op("where", (small, nest.constant(limit, dtype), one), dtype)
    scale = nest.op("where", (large, nest.constant(1.0 / limit, dtype), up), dtype)
    inverse = nest.op("divide", (one, nest.op("multiply", (r, scale), dtype)), dtype)
    product = nest.op("multiply", (x, inverse), dtype)
    return nest.op("multiply", (product, scale), dtype)
