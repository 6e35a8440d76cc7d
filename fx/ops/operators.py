"""The operators of Tensor, with the fast path for two plain tensors of one dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy import ndarray

import fx.prims.compare as compare
import fx.prims.elementwise as elementwise
from fx.dtypes import FLOATING, INTEGRAL
from fx.ops.convert import as_operand, promote
from fx.primitive import Primitive, bind_two
from fx.prims.creation import constants_of
from fx.tape import CELL
from fx.tensor import Tensor


def _operator(prim: Primitive, float_only: bool = False) -> tuple[Callable, Callable]:
    """The method and its reflection."""
    tables = in_floats if float_only else weak_numbers

    def convert(x: Tensor, other: Any) -> Any:
        other = as_operand(other, x)
        return other if other is NotImplemented else promote(x, other, float_only)

    def otherwise(x: Tensor, other: Any) -> Any:
        if type(x) is Tensor and (weak := tables.get(type(other))) is not None:
            array = x._a  # a weak scalar that was met before needs no questions
            if type(array) is ndarray and (known := weak.get(array.dtype)) is not None:
                found = known.get(other or repr(other))
                if found is not None:
                    return fast(x, found)
        elif x.level == CELL:
            return fast(x.read(), other)  # type: ignore[operator]
        elif isinstance(other, Tensor) and other.level == CELL:
            return fast(x, other.read())  # type: ignore[operator]
        pair = convert(x, other)
        return pair if pair is NotImplemented else prim(*pair)

    def reflected(x: Tensor, other: Any) -> Any:
        if type(x) is Tensor and (weak := tables.get(type(other))) is not None:
            array = x._a
            if type(array) is ndarray and (known := weak.get(array.dtype)) is not None:
                found = known.get(other or repr(other))
                if found is not None:
                    return fast(found, x)
        elif x.level == CELL:
            return reflected(x.read(), other)  # type: ignore[operator]
        pair = convert(x, other)
        return pair if pair is NotImplemented else prim(pair[1], pair[0])

    fast = bind_two(prim, otherwise)
    if float_only:  # integers must be promoted, whatever their dtype

        def method(self: Tensor, other: Any) -> Any:
            if self._dtype.kind == "f":
                return fast(self, other)
            return otherwise(self, other)

        return method, reflected
    return fast, reflected


# the CPU's scalars by the type of the Python number and the dtypes in which it is weak
_floating = {dtype: constants_of(dtype, "cpu") for dtype in FLOATING}
in_floats = {float: _floating, int: _floating}
weak_numbers = {
    float: _floating,
    int: {**_floating, **{dtype: constants_of(dtype, "cpu") for dtype in INTEGRAL}},
}


def attach() -> None:
    """Put the operators on Tensor."""
    for name, prim, float_only in (
        ("add", elementwise.add, False),
        ("sub", elementwise.subtract, False),
        ("mul", elementwise.multiply, False),
        ("truediv", elementwise.divide, True),
        ("floordiv", elementwise.floor_divide, False),
        ("mod", elementwise.remainder, False),
        ("pow", elementwise.power, False),
        ("and", compare.bitwise_and, False),
        ("or", compare.bitwise_or, False),
        ("xor", compare.bitwise_xor, False),
        ("lshift", compare.left_shift, False),
        ("rshift", compare.right_shift, False),
    ):
        method, reflected = _operator(prim, float_only)
        _put(f"__{name}__", method)
        _put(f"__r{name}__", reflected)
    for name, prim in (
        ("eq", compare.equal),
        ("ne", compare.not_equal),
        ("lt", compare.less),
        ("le", compare.less_equal),
        ("gt", compare.greater),
        ("ge", compare.greater_equal),
    ):
        _put(f"__{name}__", _operator(prim)[0])
    _put("__neg__", lambda self: elementwise.negative(self))
    _put("__pos__", lambda self: self)
    _put("__abs__", lambda self: elementwise.abs(self))
    _put("__invert__", lambda self: compare.bitwise_not(self))


def _put(name: str, method: Callable) -> None:
    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    setattr(Tensor, name, method)
