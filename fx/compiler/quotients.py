"""Quotients by what is the same for a whole row: one reciprocal, and products.

Which quotients these are the graph says, and not the loops of a kernel. A kernel computes again
what another one has computed, and what compares the two, as the derivative of a maximum does, needs
the same bits of both.
"""

from __future__ import annotations

from typing import Any

from fx.compiler.nest import NAMES, Nest
from fx.dtypes import bool_
from fx.graph.ir import Node, Value

_RANGE = {"float32": 2.0**60, "float64": 2.0**500}


def by_row(node: Node) -> bool:
    """Whether a quotient is taken as a product: all of a row is divided by one number.

    One that is known stays a divisor: its quotients are rounded once, as they are eagerly.
    """
    shape = node.out.spec.shape
    return (
        NAMES.get(node.out.spec.dtype) in _RANGE
        and bool(shape)
        and shape[-1] > 1
        and _is_same(node.inputs[1])
    )


def _is_same(value: Value) -> bool:
    """Whether a value that is not known before is the same along its last axis."""
    while value.node is not None and value.node.primitive.name == "broadcast_to":
        value = value.node.inputs[0]
    known = value.constant is not None
    if known or (value.node is not None and value.node.primitive.name == "full"):
        return False
    return value.spec.shape[-1:] in ((), (1,))


def quotient(nest: Nest, x: int, r: int, dtype: Any) -> int:
    """x / r as (x * (1 / (r * s))) * s.

    s is 1, or a power of two that brings r to where its reciprocal is a normal number. The result
    is within 1.5 ulp, and what it should be at zeros, infinities and NaN.
    """
    limit = _RANGE[NAMES[dtype]]
    size = nest.op("abs", (r,), dtype)
    large = nest.op("greater", (size, nest.constant(limit, dtype)), bool_)
    small = nest.op("less", (size, nest.constant(1.0 / limit, dtype)), bool_)
    one = nest.constant(1.0, dtype)
    up = nest.op("where", (small, nest.constant(limit, dtype), one), dtype)
    scale = nest.op("where", (large, nest.constant(1.0 / limit, dtype), up), dtype)
    inverse = nest.op("divide", (one, nest.op("multiply", (r, scale), dtype)), dtype)
    product = nest.op("multiply", (x, inverse), dtype)
    return nest.op("multiply", (product, scale), dtype)
