"""Types: how values of each dtype lie in registers and in memory; constants; intrinsics.

``lanes`` is None for a scalar.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from llvmlite import ir

from fx.backends.cpu.llvm.machines import target
from fx.dtypes import COMPLEX, bfloat16, bool_, float16, real_of

i1, i8, i16, i32, i64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
f16, f32, f64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
pointer, void = ir.PointerType(), ir.VoidType()

FLAGS = ("contract", "reassoc", "nsz", "arcp")  # what float arithmetic may do here

NARROW = frozenset((float16, bfloat16))


def widened(scalar: ir.Type, lanes: int | None) -> ir.Type:
    """The scalar type itself, or vectors of it."""
    return scalar if lanes is None else ir.VectorType(scalar, lanes)


def _scalar(dtype: Any) -> ir.Type:
    if dtype == np.float32 or dtype in NARROW:
        return f32
    if dtype == np.float64:
        return f64
    if dtype in COMPLEX:
        raise TypeError(f"{dtype.name} has no register type")
    return i1 if dtype == bool_ else ir.IntType(8 * dtype.itemsize)


def llvm_type(dtype: Any, lanes: int | None = None) -> ir.Type:
    """The register type: bool is i1; float16 and bfloat16 are float, rounded to 16 bits."""
    return widened(_scalar(dtype), lanes)


def storage_type(dtype: Any, lanes: int | None = None) -> ir.Type:
    """The memory type: bool is i8; float16 and bfloat16 are i16; a complex number two floats."""
    if dtype in COMPLEX:
        return ir.ArrayType(_scalar(real_of(dtype)), 2)
    return widened(i8 if dtype == bool_ else i16 if dtype in NARROW else _scalar(dtype), lanes)


def memory_type(dtype: Any) -> ir.Type:
    """The memory type of an operand of a product: that of float16 is half."""
    return f16 if dtype == float16 else storage_type(dtype)


def compute_type(dtype: Any) -> ir.Type:
    """The type in which products of ``dtype`` are computed: float for the 16-bit ones."""
    return f32 if dtype in NARROW else storage_type(dtype)


def lanes_for(dtype: Any) -> int:
    """How many elements of ``dtype`` a vector register holds."""
    return target().vector_bytes // int(dtype.itemsize)


def lanes_of(kind: ir.Type) -> int | None:
    """The lanes of a vector type; None for a scalar."""
    return kind.count if isinstance(kind, ir.VectorType) else None


def element_of(kind: ir.Type) -> ir.Type:
    """The element type of a vector; a scalar type itself."""
    return kind.element if isinstance(kind, ir.VectorType) else kind


def like(kind: ir.Type, scalar: ir.Type) -> ir.Type:
    """``scalar``, in as many lanes as ``kind`` has."""
    return widened(scalar, lanes_of(kind))


def bit_width(element: ir.Type) -> int:
    """Bits of a scalar type."""
    if isinstance(element, ir.IntType):
        return int(element.width)
    return {f16: 16, f32: 32, f64: 64}[element]


def size_of(kind: ir.Type) -> int:
    """The bytes of a scalar type."""
    return bit_width(kind) // 8


def suffix(kind: ir.Type) -> str:
    """How names of intrinsics and functions say a type: ``v16f32``."""
    if isinstance(kind, ir.PointerType):
        return "p0"
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{suffix(kind.element)}"
    return f"{'i' if isinstance(kind, ir.IntType) else 'f'}{bit_width(kind)}"


class Splat(ir.Constant):
    """A vector with one constant in all lanes, written in the short form that parses fast."""

    def __init__(self, kind: ir.VectorType, scalar: ir.Constant) -> None:
        self.type = kind
        self.constant = scalar

    def _get_reference(self) -> str:
        return f"splat ({self.constant.type} {self.constant.get_reference()})"


def number_of(x: Any) -> int | float | None:
    """The number that is in every lane, if that is known."""
    while isinstance(x, ir.Constant):
        x = x.constant
    return x if isinstance(x, (int, float)) else None


def constant(kind: ir.Type, value: Any) -> ir.Constant:
    """A Python number in every lane of ``kind``; for a float type it is rounded to it."""
    element = element_of(kind)
    if element is f32 or isinstance(element, ir.FloatType):
        scalar = ir.Constant(element, float(np.float32(value)))
    elif isinstance(element, ir.IntType):
        scalar = ir.Constant(element, int(value))
    else:
        scalar = ir.Constant(element, float(value))
    return Splat(kind, scalar) if isinstance(kind, ir.VectorType) else scalar


def zeros(kind: ir.Type, lanes: int | None) -> ir.Constant:
    """A zero, or a vector of zeros."""
    return constant(widened(kind, lanes), 0)


def numbers(kind: ir.Type, values: Sequence[int]) -> ir.Constant:
    """A vector of different constants."""
    return _numbers(kind, tuple(values))


@lru_cache(maxsize=1024)
def _numbers(kind: ir.Type, values: tuple[int, ...]) -> ir.Constant:
    return ir.Constant(ir.VectorType(kind, len(values)), [kind(i) for i in values])


def declared(module: ir.Module, name: str, result: ir.Type, args: Sequence[ir.Type]) -> ir.Function:
    """The declaration of a function, once a module."""
    found = module.globals.get(name)
    if found is None:
        found = ir.Function(module, ir.FunctionType(result, list(args)), name)
    return found


def intrinsic(
    b: ir.IRBuilder, name: str, result: ir.Type, args: Sequence[Any], suffixes: str = ""
) -> Any:
    """Call ``llvm.<name>.<suffix of the result>``, or of the given suffixes."""
    full = f"llvm.{name}.{suffixes or suffix(result)}"
    return b.call(declared(b.module, full, result, [a.type for a in args]), args)
