"""Elements: arithmetic, choices and dtypes by the names of ``jax.lax``."""

from __future__ import annotations

from typing import Any

import fx
from fx.dtypes import INTEGRAL, as_dtype, bool_
from fx.ops.operands import argument
from fx.prims.special import gammainc_by_order
from fx.tensor import Tensor


def div(x: Any, y: Any) -> Tensor:
    """x / y; of integers the quotient without its fraction."""
    x = argument("div", x)
    if x.dtype not in INTEGRAL:
        return fx.divide(x, y)
    return fx.floor_divide(x - fx.fmod(x, y), y)


def clamp(min: Any, x: Any, max: Any) -> Tensor:
    """x, no less than ``min`` and no more than ``max``."""
    return fx.minimum(fx.maximum(x, min), max)


def select(pred: Any, on_true: Any, on_false: Any) -> Tensor:
    """``on_true`` where ``pred`` holds, else ``on_false``."""
    return fx.where(pred, on_true, on_false)


def select_n(which: Any, *cases: Any) -> Tensor:
    """Of each element the case of the number ``which``; of bool the first is that of False."""
    which = argument("select_n", which)
    if which.dtype == bool_:
        which = which.astype(fx.int32)
    out = argument("select_n", cases[-1])
    for i in range(len(cases) - 2, -1, -1):
        out = fx.where(which <= i, cases[i], out)
    return out


def integer_pow(x: Any, y: int) -> Tensor:
    """x ** y of a Python int y."""
    return argument("integer_pow", x) ** y  # type: ignore[no-any-return]


def polygamma(m: Any, x: Any) -> Tensor:
    """The derivative of order m of ``digamma``, of a whole number m."""
    return fx.special.polygamma(int(m), x)


def igamma_grad_a(a: Any, x: Any) -> Tensor:
    """The slope of ``igamma`` in a."""
    a, x = argument("igamma_grad_a", a), argument("igamma_grad_a", x)
    return gammainc_by_order(a, x)  # type: ignore[no-any-return]


def complex(x: Any, y: Any) -> Tensor:
    """x + i y."""
    return x + y * 1j  # type: ignore[no-any-return]


def convert_element_type(operand: Any, new_dtype: Any) -> Tensor:
    """``operand`` in another dtype."""
    return argument("convert_element_type", operand).astype(as_dtype(new_dtype))  # type: ignore[no-any-return]
