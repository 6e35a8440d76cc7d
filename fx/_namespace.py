"""What the Array API asks of a namespace: version, inspection, dtypes as data, constants."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from fx import dtypes
from fx.config import default_device, default_dtype
from fx.devices import Device, as_device
from fx.errors import DTypeError
from fx.tensor import Tensor

__array_api_version__ = "2024.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")

e, inf, nan, pi = math.e, math.inf, math.nan, math.pi
newaxis = None


def check_version(version: str | None) -> None:
    """Refuse a version of the standard that fx does not follow.

    Raises:
        ValueError: naming those it does.
    """
    if version is not None and version not in VERSIONS:
        raise ValueError(
            f"fx does not follow version {version!r} of the Array API standard; "
            f"expected one of {', '.join(VERSIONS)}"
        )


class NamespaceInfo:
    """What a library can ask about fx before it uses it; ``fx.__array_namespace_info__()``."""

    def capabilities(self) -> dict[str, Any]:
        """Which optional parts of the standard there are."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """The device of new tensors."""
        return as_device(default_device())

    def devices(self) -> list[Device]:
        """All devices."""
        return [Device("cpu"), Device("meta")]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes that Python's numbers take."""
        real = default_dtype()
        return {
            "real floating": real,
            "complex floating": dtypes.complex128 if real == dtypes.float64 else dtypes.complex64,
            "integral": dtypes.int64,
            "indexing": dtypes.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The standard's dtypes, those of a kind or of a tuple of kinds if asked."""
        return {
            d.name: d
            for d in dtypes.ALL
            if d not in (dtypes.float16, dtypes.bfloat16) and (kind is None or isdtype(d, kind))
        }


def __array_namespace_info__() -> NamespaceInfo:
    """The inspection of the standard.

    Example:
        >>> import fx
        >>> fx.__array_namespace_info__().default_dtypes()["integral"].name
        'int64'
    """
    return NamespaceInfo()


# dtypes as data ---------------------------------------------------------------------------------

_KINDS = {
    "bool": frozenset((dtypes.bool_,)),
    "signed integer": frozenset(dtypes.SIGNED),
    "unsigned integer": frozenset(dtypes.UNSIGNED),
    "integral": dtypes.INTEGRAL,
    "real floating": dtypes.FLOATING,
    "complex floating": dtypes.COMPLEX,
    "numeric": dtypes.INTEGRAL | dtypes.INEXACT,
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind.

    Args:
        dtype: a dtype.
        kind: a dtype, one of ``"bool"``, ``"signed integer"``, ``"unsigned integer"``,
            ``"integral"``, ``"real floating"``, ``"complex floating"``, ``"numeric"``, or a tuple.

    Raises:
        ValueError: for a kind that does not exist.

    Source: Python Array API standard 2024.12, ``isdtype``.

    Example:
        >>> import fx
        >>> fx.isdtype(fx.bfloat16, "real floating")
        True
    """
    found = dtypes.as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(found, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"isdtype: there is no kind {kind!r}; expected one of {list(_KINDS)}")
        return found in _KINDS[kind]
    return found == dtypes.as_dtype(kind)


def _dtype_of(x: Any) -> Any:
    return x.dtype if isinstance(x, Tensor | np.ndarray) else dtypes.as_dtype(x)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether the promotion rules turn ``from_``, a dtype or tensor, into ``to``.

    Source: Python Array API standard 2024.12, ``can_cast``.

    Example:
        >>> import fx
        >>> fx.can_cast(fx.int32, fx.int64), fx.can_cast(fx.int64, fx.int32)
        (True, False)
    """
    wanted = dtypes.as_dtype(to)
    try:
        return dtypes.promote_types(_dtype_of(from_), wanted) == wanted
    except DTypeError:
        return False


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype that the arguments are promoted to when they meet in an operation.

    Args:
        arrays_and_dtypes: tensors, dtypes and Python numbers, which are weak.

    Raises:
        DTypeError: if they have no common dtype.
        ValueError: if there are no arguments.

    Source: Python Array API standard 2024.12, ``result_type``.

    Example:
        >>> import fx
        >>> fx.result_type(fx.float32, 1.0, fx.int64).name
        'float32'
    """
    if not arrays_and_dtypes:
        raise ValueError("result_type takes at least one tensor, dtype or number")
    weak = [x for x in arrays_and_dtypes if isinstance(x, bool | int | float | complex)]
    strong = [_dtype_of(x) for x in arrays_and_dtypes if not isinstance(x, int | float | complex)]
    if not strong:
        out = dtypes.dtype_of_scalar(weak[0])
        for x in weak[1:]:
            out = dtypes.promote_types(out, dtypes.dtype_of_scalar(x))
        return out
    out = strong[0]
    for dtype in strong[1:]:
        out = dtypes.promote_types(out, dtype)
    for x in weak:
        out = dtypes.result_dtype_with_scalar(out, x)
    return out


class _Limits:
    """The fields of a dtype's limits."""

    __slots__ = ("__dict__",)

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        return f"limits({', '.join(f'{k}={v}' for k, v in self.__dict__.items())})"


def finfo(type: Any, /) -> _Limits:
    """The limits of a floating or complex dtype, as Python floats.

    Args:
        type: a dtype or tensor.

    Returns:
        an object with ``bits``, ``eps``, ``max``, ``min``, ``smallest_normal``, ``tiny``,
        ``resolution`` and ``dtype``; for a complex dtype, of its parts.

    Raises:
        DTypeError: for a dtype that is not floating.

    Source: Python Array API standard 2024.12, ``finfo``.

    Example:
        >>> import fx
        >>> fx.finfo(fx.float32).eps == 2.0**-23
        True
    """
    dtype = _dtype_of(type)
    if dtype not in dtypes.INEXACT:
        raise DTypeError(f"finfo takes a floating dtype, got {dtype.name}; write fx.iinfo")
    dtype = dtypes.real_of(dtype)
    found = ml_dtypes.finfo(dtype)
    normal = float(found.smallest_normal)
    return _Limits(
        bits=dtype.itemsize * 8,
        eps=float(found.eps),
        max=float(found.max),
        min=float(found.min),
        smallest_normal=normal,
        tiny=normal,
        resolution=float(found.resolution),
        dtype=dtype,
    )


def iinfo(type: Any, /) -> _Limits:
    """The limits of an integer dtype: ``bits``, ``max``, ``min``, ``dtype``.

    Args:
        type: a dtype or tensor.

    Raises:
        DTypeError: for a dtype that is not integer.

    Source: Python Array API standard 2024.12, ``iinfo``.

    Example:
        >>> import fx
        >>> fx.iinfo(fx.int8).max
        127
    """
    dtype = _dtype_of(type)
    if dtype not in dtypes.INTEGRAL:
        raise DTypeError(f"iinfo takes an integer dtype, got {dtype.name}; write fx.finfo")
    found = np.iinfo(dtype)
    return _Limits(bits=found.bits, max=int(found.max), min=int(found.min), dtype=dtype)
