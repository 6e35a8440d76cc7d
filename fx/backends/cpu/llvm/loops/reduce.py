"""How reductions combine values, and what they start from."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir

from fx.backends.cpu.llvm.vecmath.types import suffix
from fx.dtypes import FLOATING, bool_

_I32 = ir.IntType(32)
# loose_max: where one of two is NaN it gives either
REDUCTIONS = frozenset(("sum", "prod", "max", "min", "any", "all", "loose_max"))


def identity(name: str, dtype: Any) -> Any:
    """The number that a reduction starts from."""
    if name in ("any", "all"):
        return int(name == "all")
    if dtype == bool_:
        return int(name in ("prod", "min"))
    if name in ("sum", "prod"):
        return int(name == "prod") if dtype not in FLOATING else float(name == "prod")
    if dtype in FLOATING:
        return np.inf if name == "min" else -np.inf
    info = np.iinfo(dtype)
    return int(info.min if name == "max" else info.max)


def combine(b: Any, name: str, dtype: Any, x: Any, y: Any) -> Any:
    """``x`` and ``y`` as one; NaN wins over every number."""
    if name == "any" or (dtype == bool_ and name in ("sum", "max")):
        return b.or_(x, y)
    if name == "all" or dtype == bool_:
        return b.and_(x, y)
    if dtype in FLOATING:
        if name == "sum":
            return b.fadd(x, y)
        if name == "prod":
            return b.fmul(x, y)
        if name == "loose_max":
            return b.select(b.fcmp_ordered(">", x, y), x, y)
        full = f"llvm.{name}imum.{suffix(x.type)}"
        function = b.module.globals.get(full)
        if function is None:
            kind = ir.FunctionType(x.type, [x.type, x.type])
            function = ir.Function(b.module, kind, full)
        return b.call(function, (x, y), fastmath=("nsz",))
    if name == "sum":
        return b.add(x, y)
    if name == "prod":
        return b.mul(x, y)
    compare = b.icmp_signed if dtype.kind == "i" else b.icmp_unsigned
    return b.select(compare(">" if name == "max" else "<", x, y), x, y)


def halved(b: Any, name: str, dtype: Any, x: Any) -> Any:
    """The lanes of a vector combined, halves with halves."""
    n = x.type.count
    while n > 1:
        n //= 2
        low, high = (
            b.shuffle_vector(x, x, ir.Constant(ir.VectorType(_I32, n), list(range(k, k + n))))
            for k in (0, n)
        )
        x = combine(b, name, dtype, low, high)
    return b.extract_element(x, ir.Constant(_I32, 0))
