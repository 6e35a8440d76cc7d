"""Dtypes: NumPy's own dtype objects, the standard's promotion table, weak Python scalars.

A dtype of fx *is* a ``numpy.dtype`` (``ml_dtypes`` supplies bfloat16), so that no table stands
between a tensor and its array. Promotion within a kind is the Python Array API standard's table;
across kinds, which the standard leaves open, a floating dtype keeps its width whatever integer it
meets (``int64 + float32 -> float32``), as in PyTorch and JAX.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from fx.errors import DTypeError
from fx.modes import default_dtype
from fx.seen import TORCH, TorchDType

DType = np.dtype

bool_ = np.dtype("bool")
int8 = np.dtype("int8")
int16 = np.dtype("int16")
int32 = np.dtype("int32")
int64 = np.dtype("int64")
uint8 = np.dtype("uint8")
uint16 = np.dtype("uint16")
uint32 = np.dtype("uint32")
uint64 = np.dtype("uint64")
float16 = np.dtype("float16")
bfloat16 = np.dtype(ml_dtypes.bfloat16)
float32 = np.dtype("float32")
float64 = np.dtype("float64")
complex64 = np.dtype("complex64")
complex128 = np.dtype("complex128")

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
FLOATING = frozenset((float16, bfloat16, float32, float64))
COMPLEX = frozenset((complex64, complex128))
INTEGRAL = frozenset(SIGNED + UNSIGNED)
INEXACT = FLOATING | COMPLEX
ALL = (bool_, *SIGNED, *UNSIGNED, float16, bfloat16, float32, float64, complex64, complex128)

_BY_NAME: dict[str, DType[Any]] = {d.name: d for d in ALL}
_BY_NAME |= {
    "half": float16,
    "float": float32,
    "double": float64,
    "int": int32,
    "long": int64,
    "short": int16,
}
_PYTHON: dict[Any, DType[Any]] = {bool: bool_, int: int64, complex: complex64}


def as_dtype(dtype: Any) -> DType[Any]:
    """Turn anything that names a dtype into the dtype object.

    Args:
        dtype: a dtype, its name, a NumPy scalar type, or ``bool``/``int``/``float``/``complex``.

    Raises:
        DTypeError: if it names no dtype that fx supports.

    Example:
        >>> import fx
        >>> fx.dtypes.as_dtype("bfloat16") == fx.bfloat16
        True
    """
    if type(dtype) is TorchDType:
        return dtype.dtype  # type: ignore[no-any-return]
    if isinstance(dtype, np.dtype):
        known = _ONE.get(dtype)
        if known is not None:
            return known
    if dtype is float:
        return default_dtype()
    known = _PYTHON.get(dtype) if isinstance(dtype, type) else None
    if known is not None:
        return known
    if isinstance(dtype, str) and dtype in _BY_NAME:
        return _BY_NAME[dtype]
    try:
        found: DType[Any] | None = np.dtype(dtype)
    except TypeError:
        found = None
    if found is not None and found.byteorder == ">":
        found = found.newbyteorder("=")
    one = None if found is None else _ONE.get(found)
    if one is None:
        names = ", ".join(d.name for d in ALL)
        raise DTypeError(f"{dtype!r} is not a dtype of fx; expected one of {names}")
    return one


_ONE = {d: d for d in ALL}  # an unpickled dtype equals one of them and is another object
TORCH.update({d: TorchDType(d) for d in ALL})


def is_integral(dtype: DType[Any]) -> bool:
    """Whether ``dtype`` is a signed or unsigned integer dtype (bool is not)."""
    return dtype in INTEGRAL


def kind_rank(dtype: DType[Any]) -> int:
    """0 for bool, 1 for integers, 2 for floating, 3 for complex dtypes."""
    if dtype in FLOATING:
        return 2
    if dtype in INTEGRAL:
        return 1
    return 0 if dtype == bool_ else 3


def _promote(a: DType[Any], b: DType[Any]) -> DType[Any]:
    if a == b:
        return a
    rank_a, rank_b = kind_rank(a), kind_rank(b)
    if rank_a != rank_b:
        low, high = (a, b) if rank_a < rank_b else (b, a)
        if {rank_a, rank_b} == {2, 3}:  # the complex dtype that holds both
            return complex128 if float64 in (a, b) or complex128 in (a, b) else complex64
        return high if low != high else low
    if rank_a == 2 and {a, b} == {float16, bfloat16}:
        return float32
    if rank_a == 1:
        signed_a, signed_b = a in SIGNED, b in SIGNED
        if signed_a != signed_b:
            unsigned, signed = (b, a) if signed_a else (a, b)
            if unsigned.itemsize < signed.itemsize:
                return signed
            if unsigned.itemsize == 8:
                raise DTypeError(
                    f"{a.name} and {b.name} have no common integer dtype; cast one of them: "
                    f"x.astype(fx.int64)"
                )
            return SIGNED[(1, 2, 4, 8).index(unsigned.itemsize) + 1]
    return a if a.itemsize >= b.itemsize else b


_TABLE: dict[tuple[DType[Any], DType[Any]], DType[Any]] = {}


def promote_types(a: DType[Any], b: DType[Any]) -> DType[Any]:
    """The dtype that both ``a`` and ``b`` are converted to before they are combined.

    Source: Python Array API standard 2024.12, "Type promotion rules".

    Raises:
        DTypeError: for uint64 with a signed integer, which the standard does not define.

    Example:
        >>> import fx
        >>> fx.dtypes.promote_types(fx.int64, fx.float32).name
        'float32'
    """
    found = _TABLE.get((a, b))
    if found is None:
        found = _TABLE[a, b] = _promote(a, b)
    return found


def result_dtype_with_scalar(dtype: DType[Any], scalar: bool | int | float | complex) -> DType[Any]:
    """The dtype of ``tensor <op> scalar`` for a weak Python scalar.

    A scalar of the tensor's kind or below takes the tensor's dtype; a scalar of a higher kind lifts
    the tensor to the default dtype of that kind (``int32 tensor + 1.5 -> default float``).
    """
    if isinstance(scalar, bool):
        return dtype
    if isinstance(scalar, int):
        return int64 if dtype == bool_ else dtype
    if isinstance(scalar, float):
        return dtype if dtype in INEXACT else default_dtype()
    if dtype in COMPLEX:
        return dtype
    return complex128 if (dtype if dtype in FLOATING else default_dtype()) == float64 else complex64


def dtype_of_scalar(scalar: Any) -> DType[Any]:
    """The dtype that a Python scalar takes when it becomes a tensor on its own."""
    if isinstance(scalar, bool):
        return bool_
    if isinstance(scalar, int):
        return int64
    if isinstance(scalar, float):
        return default_dtype()
    return complex128 if default_dtype() == float64 else complex64


def to_float(dtype: DType[Any]) -> DType[Any]:
    """``dtype`` itself if it is floating or complex, else the default floating dtype."""
    if dtype in INEXACT:
        return dtype
    return default_dtype()


def real_of(dtype: DType[Any]) -> DType[Any]:
    """The real dtype with the precision of ``dtype``."""
    if dtype.kind != "c":
        return dtype
    return float32 if dtype == complex64 else float64


def plain(value: Any, dtype: Any) -> Any:
    """A Python number such that NumPy takes it for this dtype, however large it is."""
    if type(value) is int and not -(1 << 63) <= value < 1 << 63:
        if dtype == np.bool_:
            return True
        return float(value) if dtype.kind == "V" else value  # bfloat16
    return value
