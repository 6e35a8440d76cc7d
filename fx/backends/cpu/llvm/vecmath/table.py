"""EMIT: the emitter of every elementwise primitive, by its name.

    EMIT[name](b, dtypes_in, dtype_out, values, params) -> value

``values`` are registers of ``llvm_type(dtype)`` for the dtypes of the inputs, all scalars or all
vectors of one length; so is the result. ``supported`` says whether a primitive has an emitter for
its dtypes; where it has none, its eager kernel runs.

It has none for complex dtypes, which are pairs of real numbers here (``fx/compiler/pairs.py``),
integers to an integer power (a negative one is an error) and ``polygamma``.

float16 and bfloat16 travel as float32, and what a primitive computes is rounded to 16 bits after
each, as eager kernels do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import fx.backends.cpu.llvm.vecmath.arithmetic as arithmetic
import fx.backends.cpu.llvm.vecmath.bessel as bessel
import fx.backends.cpu.llvm.vecmath.division as division
import fx.backends.cpu.llvm.vecmath.error as error
import fx.backends.cpu.llvm.vecmath.exponential as exponential
import fx.backends.cpu.llvm.vecmath.gamma as gamma
import fx.backends.cpu.llvm.vecmath.inverse as inverse
import fx.backends.cpu.llvm.vecmath.logarithm as logarithm
import fx.backends.cpu.llvm.vecmath.power as power
import fx.backends.cpu.llvm.vecmath.scalars as scalars
import fx.backends.cpu.llvm.vecmath.trigonometric as trigonometric
from fx.backends.cpu.llvm.ir import NARROW, llvm_type, number_of, storage_type
from fx.backends.cpu.llvm.vecmath.casts import (
    convert,
    load_convert,
    rounded,
    store_convert,
    term,
)
from fx.backends.cpu.llvm.vecmath.outlined import outlined
from fx.dtypes import COMPLEX, FLOATING, INTEGRAL, bool_

__all__ = [
    "BINARY", "EMIT", "UNARY", "llvm_type", "load_convert", "storage_type", "store_convert",
    "supported",
]  # fmt: skip

Emitter = Callable[[Any, Sequence[Any], Any, Sequence[Any], Mapping[str, Any]], Any]

# formulas of float32 and float64 numbers
UNARY: dict[str, Callable[..., Any]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "sigmoid": exponential.sigmoid,
    "tanh": exponential.tanh,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "log": logarithm.log,
    "log1p": logarithm.log1p,
    "log2": logarithm.log2,
    "log10": logarithm.log10,
    "logit": logarithm.logit,
    "softplus": logarithm.softplus,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": trigonometric.tan,
    "arcsin": inverse.arcsin,
    "arccos": inverse.arccos,
    "arctan": inverse.arctan,
    "arcsinh": inverse.arcsinh,
    "arccosh": inverse.arccosh,
    "arctanh": inverse.arctanh,
    "erf": error.erf,
    "erfc": error.erfc,
    "erfinv": error.erfinv,
    "erfcx": error.erfcx,
    "erfcinv": error.erfcinv,
    "ndtri": error.ndtri,
    "log_ndtr": error.log_ndtr,
    "gamma": gamma.gamma,
    "lgamma": gamma.lgamma,
    "digamma": gamma.digamma,
    "trigamma": gamma.trigamma,
}
BESSEL = {("i", 0): bessel.i0, ("i", 1): bessel.i1, ("ie", 0): bessel.i0e, ("ie", 1): bessel.i1e}
BINARY: dict[str, Callable[..., Any]] = {
    "power": power.power,
    "hypot": power.hypot,
    "arctan2": inverse.arctan2,
    "logaddexp": logarithm.logaddexp,
}

_REAL = FLOATING | INTEGRAL
_ANY = _REAL | {bool_}
_NAMES: dict[str, tuple[str, frozenset[Any]]] = {  # function of arithmetic, dtypes that it takes
    "add": ("add", _ANY),
    "subtract": ("subtract", _REAL),
    "multiply": ("multiply", _ANY),
    "divide": ("divide", FLOATING),
    "negative": ("negative", _REAL),
    "abs": ("absolute", _ANY),
    "sign": ("sign", _REAL),
    "square": ("square", _REAL),
    "maximum": ("maximum", _ANY),
    "minimum": ("minimum", _ANY),
    "relu": ("relu", _REAL),
    "sqrt": ("sqrt", FLOATING),
    "rsqrt": ("rsqrt", FLOATING),
    "reciprocal": ("reciprocal", FLOATING),
    "copysign": ("copysign", FLOATING),
    "nextafter": ("nextafter", FLOATING - NARROW),
    "conj": ("identity", FLOATING),
    "stop_gradient": ("identity", _ANY),
} | {
    name: (name, _ANY)
    for name in (
        "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
        "logical_or", "logical_xor", "logical_not", "isnan", "isinf", "isfinite", "signbit",
        "floor", "ceil", "trunc", "round",
    )
} | {
    name: (name, INTEGRAL | {bool_})
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")
} | {name: (name, INTEGRAL) for name in ("left_shift", "right_shift")}  # fmt: skip

_DIVISIONS = ("floor_divide", "remainder", "fmod")


def _terms(b: Any, dtypes: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    return [term(b, v, d) for v, d in zip(values, dtypes, strict=True)]


def _out(x: Any, dtype: Any) -> Any:
    return rounded(x, dtype).v if dtype in NARROW else x.v


def _part(b: Any, dtypes: Any, out: Any, values: Any, params: Any) -> Any:
    (x,) = _terms(b, dtypes, values)
    turn = params["turn"]
    x = x.full(0.0) if turn & 1 else x
    return (-x if turn & 2 else x).v


def _simple(function: Callable[..., Any]) -> Emitter:
    def emit(b: Any, dtypes: Any, out: Any, values: Any, params: Any) -> Any:
        return _out(function(dtypes[0], *_terms(b, dtypes, values)), out)

    return emit


def _formula(name: str, function: Callable[..., Any]) -> Emitter:
    def emit(b: Any, dtypes: Any, out: Any, values: Any, params: Any) -> Any:
        return _out(outlined(name, function, *_terms(b, dtypes, values)), out)

    return emit


def _scalars(name: str) -> Emitter:
    function = scalars.emitter(name)

    def emit(b: Any, dtypes: Any, out: Any, values: Any, params: Any) -> Any:
        return _out(function(params, *_terms(b, dtypes, values)), out)

    return emit


def _bessel(b: Any, dtypes: Any, out: Any, values: Any, params: Any) -> Any:
    kind, order = params["kind"], params["order"]
    formula = BESSEL.get((kind, order))
    if formula is None:
        return _scalars("bessel")(b, dtypes, out, values, params)
    return _formula(f"bessel_{kind}{order}", formula)(b, dtypes, out, values, params)


def _power(b: Any, dtypes: Any, out: Any, values: Any, params: Any) -> Any:
    x, y = _terms(b, dtypes, values)
    known = power.BY_NUMBER.get(number_of(values[1]))
    if known is None:
        return _out(outlined("power", power.power, x, y), out)
    return _out(outlined(known.__name__, known, x), out)


def _where(b: Any, dtypes: Any, out: Any, values: Any, params: Any) -> Any:
    return b.select(*values)


def _astype(b: Any, dtypes: Any, out: Any, values: Any, params: Any) -> Any:
    return convert(term(b, values[0], dtypes[0]), dtypes[0], out).v


EMIT: dict[str, Emitter] = {
    **{name: _simple(getattr(arithmetic, f)) for name, (f, _) in _NAMES.items()},
    **{name: _formula(name, f) for name, f in (UNARY | BINARY).items()},
    **{name: _simple(getattr(division, name)) for name in _DIVISIONS},
    **{name: _scalars(name) for name in scalars.NAMES},
    "bessel": _bessel,
    "power": _power,
    "part": _part,
    "where": _where,
    "astype": _astype,
}
_TAKES: dict[str, frozenset[Any]] = {
    **{name: takes for name, (_, takes) in _NAMES.items()},
    **dict.fromkeys((*UNARY, *BINARY, *scalars.NAMES), FLOATING),
    **dict.fromkeys(_DIVISIONS, _REAL),
    "part": FLOATING,
    "where": _ANY,
    "astype": _ANY,
}


def supported(
    name: str,
    dtypes: Sequence[Any],
    out: Any,
    params: Mapping[str, Any] | None = None,
) -> bool:
    """Whether ``EMIT[name]`` emits the primitive for these dtypes."""
    takes = _TAKES.get(name)
    if takes is None or out in COMPLEX:
        return False
    return all(d in takes for d in dtypes)
