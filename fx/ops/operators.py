"""The operators of Tensor, with the fast path for two plain tensors of one dtype."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fx.prims.compare as compare
import fx.prims.elementwise as elementwise
from fx.ops.convert import as_operand, promote
from fx.primitive import Primitive
from fx.tensor import Tensor


def _operator(prim: Primitive, float_only: bool = False) -> tuple[Callable, Callable]:
    """The method and its reflection."""

    def method(self: Tensor, other: Any) -> Any:
        if type(other) is Tensor and type(self) is Tensor:
            dtype = self._a.dtype
            if dtype is other._a.dtype and (not float_only or dtype.kind == "f"):
                return prim(self, other)
        other = as_operand(other, self)
        if other is NotImplemented:
            return other
        return prim(*promote(self, other, float_only))

    def reflected(self: Tensor, other: Any) -> Any:
        other = as_operand(other, self)
        if other is NotImplemented:
            return other
        return prim(*promote(other, self, float_only))

    return method, reflected


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


