"""How values of each dtype lie in registers and in memory, and what the host's registers hold."""

from __future__ import annotations

import platform
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir

from fx import limits
from fx.dtypes import COMPLEX, bfloat16, bool_, float16

F32, F64 = ir.FloatType(), ir.DoubleType()
I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
NARROW = frozenset((float16, bfloat16))


@cache
def host_features() -> frozenset[str]:
    """The features of this CPU, by LLVM's names."""
    from llvmlite import binding

    found = binding.get_host_cpu_features()
    return frozenset([name for name, there in found.items() if there])


@cache
def has_fma() -> bool:
    """Whether a fused multiply-add is one instruction here."""
    return "fma" in host_features() or platform.machine().lower() in ("aarch64", "arm64")


@cache
def has_half() -> bool:
    """Whether float16 converts to float32 and back in one instruction here."""
    features = host_features()
    return "f16c" in features or "avx512f" in features or "fullfp16" in features


def _scalar(dtype: Any) -> ir.Type:
    if dtype == np.float32 or dtype in NARROW:
        return F32
    if dtype == np.float64:
        return F64
    if dtype in COMPLEX:
        raise TypeError(f"{dtype.name} has no register type")
    return I1 if dtype == bool_ else ir.IntType(8 * dtype.itemsize)


def widened(scalar: ir.Type, lanes: int | None) -> ir.Type:
    """The scalar type itself, or vectors of it."""
    return scalar if lanes is None else ir.VectorType(scalar, lanes)


def llvm_type(dtype: Any, lanes: int | None = None) -> ir.Type:
    """The register type: bool is i1; float16 and bfloat16 are float, rounded to 16 bits."""
    return widened(_scalar(dtype), lanes)


def storage_type(dtype: Any, lanes: int | None = None) -> ir.Type:
    """The memory type: bool is i8; float16 and bfloat16 are i16."""
    scalar = I8 if dtype == bool_ else I16 if dtype in NARROW else _scalar(dtype)
    return widened(scalar, lanes)


def lanes_of(typ: ir.Type) -> int | None:
    """The lanes of a vector type; None for a scalar."""
    return typ.count if isinstance(typ, ir.VectorType) else None


def element_of(typ: ir.Type) -> ir.Type:
    """The element type of a vector; a scalar type itself."""
    return typ.element if isinstance(typ, ir.VectorType) else typ


def like(typ: ir.Type, scalar: ir.Type) -> ir.Type:
    """``scalar``, in as many lanes as ``typ`` has."""
    return ir.VectorType(scalar, typ.count) if isinstance(typ, ir.VectorType) else scalar


class Splat(ir.Constant):
    """A vector with one constant in all lanes, written in the short form that parses fast."""

    def __init__(self, typ: ir.VectorType, scalar: ir.Constant) -> None:
        self.type = typ
        self.constant = scalar

    def _get_reference(self) -> str:
        return f"splat ({self.constant.type} {self.constant.get_reference()})"


def constant(typ: ir.Type, value: Any) -> ir.Constant:
    """A Python number in every lane of ``typ``; for a float type it is rounded to it."""
    element = element_of(typ)
    if element is F32 or isinstance(element, ir.FloatType):
        scalar = ir.Constant(element, float(np.float32(value)))
    elif isinstance(element, ir.DoubleType):
        scalar = ir.Constant(element, float(value))
    else:
        scalar = ir.Constant(element, int(value))
    return Splat(typ, scalar) if isinstance(typ, ir.VectorType) else scalar


def bit_width(element: ir.Type) -> int:
    """Bits of an element type."""
    if isinstance(element, ir.FloatType):
        return 32
    return 64 if isinstance(element, ir.DoubleType) else element.width


def suffix(typ: ir.Type) -> str:
    """How names of intrinsics and functions say a type: ``v16f32``."""
    element, lanes = element_of(typ), lanes_of(typ)
    letter = "i" if isinstance(element, ir.IntType) else "f"
    return f"{'' if lanes is None else f'v{lanes}'}{letter}{bit_width(element)}"


def intrinsic(b: Any, name: str, result: ir.Type, args: list[Any], suffixes: str = "") -> Any:
    """Call ``llvm.<name>.<suffix of the result>``, or of the given suffixes."""
    full = f"llvm.{name}.{suffixes or suffix(result)}"
    module = b.module
    function = module.globals.get(full)
    if function is None:
        function = ir.Function(module, ir.FunctionType(result, [a.type for a in args]), full)
    return b.call(function, args)


@cache
def vector_bytes() -> int:
    """The bytes of a vector: a register of this CPU, if limits allow as many."""
    features = host_features()
    widest = 64 if "avx512f" in features else 32 if "avx2" in features else 16
    return min(widest, limits.VECTOR_BYTES)


limits.on_change(vector_bytes.cache_clear)


def lanes_for(dtype: Any) -> int:
    """How many elements of ``dtype`` a vector register holds."""
    return vector_bytes() // dtype.itemsize


def load_width(dtype: Any) -> int:
    """The bytes of an element in memory, on which arrays are aligned."""
    return int(dtype.itemsize)
