"""Conversions: anything -> tensor, weak scalars, promotion of operands, another device."""

from __future__ import annotations

from typing import Any

import numpy as np

import fx.prims.compare as compare
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.config import default_device
from fx.devices import as_device, backend, name_of
from fx.errors import DTypeError, ShapeError
from fx.host_values import StagedValue
from fx.prims.creation import constant
from fx.prims.placement import device_put
from fx.staged_number import StagedNumber, weak
from fx.tensor import Tensor, new_tensor

_SCALARS = (bool, int, float, complex)
_SCALAR_SET = frozenset(_SCALARS)
_WIDE = {np.dtype("float64"), np.dtype("complex128")}  # what NumPy makes of Python floats


def as_operand(value: Any, other: Tensor) -> Any:
    """``value`` as the partner of ``other`` in an operation; NotImplemented if it is no tensor.

    NumPy's scalars are as weak as Python's, so that ``x * np.sqrt(2)`` keeps the dtype of ``x``.
    """
    if isinstance(value, Tensor):
        return value
    staged = type(value) is StagedNumber
    if staged or type(value) in _SCALAR_SET:
        now = weak(value) if staged else value
        dtype = dtypes.result_dtype_with_scalar(other._dtype, now)
        try:
            return value.in_dtype(dtype) if staged else constant(value, dtype, other.device.name)
        except OverflowError:
            raise DTypeError(
                f"the Python scalar {now} does not fit {dtype.name}; "
                f"cast the tensor first: x.astype(fx.int64)"
            ) from None
    if isinstance(value, np.ndarray):
        return from_array(value, other.device.name)
    if isinstance(value, np.generic) and type(value.item()) in _SCALAR_SET:
        return as_operand(value.item(), other)
    for kind in (int, float, complex):
        if isinstance(value, kind):  # a subclass, as ``x.size`` is
            return as_operand(kind(value), other)
    return NotImplemented


def promote(x: Tensor, y: Tensor, float_only: bool = False) -> tuple[Tensor, Tensor]:
    """Both tensors in their common dtype, a floating one if ``float_only``."""
    a, b = x._dtype, y._dtype
    common = a if a == b else dtypes.promote_types(a, b)
    if float_only:
        common = dtypes.to_float(common)
    if a != common:
        x = compare.astype(x, dtype=common)
    if b != common:
        y = compare.astype(y, dtype=common)
    return x, y


def from_array(array: np.ndarray, device: str, copy: bool = False) -> Tensor:
    """Wrap a NumPy array of a supported dtype, on the CPU without a copy unless ``copy``."""
    dtype = dtypes.as_dtype(array.dtype)
    if type(array) is StagedValue:
        return array.tensor()
    if array.dtype != dtype:
        array = array.astype(dtype)
    elif copy:
        array = np.array(array, order="C")
    elif type(array) is not np.ndarray:
        array = np.asarray(array)  # the base class of a matrix, a memmap
    if array.dtype is not dtype:  # kernels are chosen by identity; an unpickled dtype is a copy
        array = array.view(dtype)
    return new_tensor(backend(device).from_numpy(array))


def as_tensor(value: Any, dtype: Any = None, device: Any = None, what: str = "asarray") -> Tensor:
    """Anything as a tensor: a tensor stays itself, an array is not copied, a sequence is read.

    Args:
        value: a tensor, an array of any library, a scalar, or a nested sequence of these.
        dtype: the dtype to cast to; None keeps that of ``value``, Python floats take the default.
        device: the device of what is not a tensor yet.
        what: the function's name, for messages.
    """
    if isinstance(value, Tensor):
        return (
            value
            if dtype is None or value._dtype == dtype
            else compare.astype(value, dtype=dtypes.as_dtype(dtype))
        )
    name = device_name(device)
    if type(value) in _SCALAR_SET:
        dtype = dtypes.dtype_of_scalar(value) if dtype is None else dtypes.as_dtype(dtype)
        try:
            # its own object: the shared one must never come to require grad
            return new_tensor(constant(value, dtype, name)._a)
        except (OverflowError, TypeError, ValueError) as error:
            raise _unfit(what, repr(value), dtype, error) from None
    if isinstance(value, (list, tuple)):
        return _from_sequence(value, dtype, name, what)
    if type(value) is StagedNumber:
        try:
            return value.in_dtype(dtype)
        except (OverflowError, TypeError, ValueError) as error:
            dtype = dtype or dtypes.dtype_of_scalar(value.now)
            raise _unfit(what, repr(value.now), dtype, error) from None
    if type(value) is StagedValue and isinstance(value, np.ndarray):
        return value.tensor(dtype)
    if not isinstance(value, (np.ndarray, np.generic)):
        value = _array_of_other(value, what)
        if isinstance(value, Tensor):
            return as_tensor(to_device(value, name), dtype)
    array = _numeric(np.asarray(value), value, what)
    return from_array(array if dtype is None else array.astype(dtype, copy=False), name)


def _numeric(array: np.ndarray, value: Any, what: str) -> np.ndarray:
    """``array``, which must hold numbers."""
    if array.dtype.kind not in "biufcV" or array.dtype.names is not None:
        raise DTypeError(
            f"{what}: cannot make a tensor of {type(value).__name__} {value!r:.60}; expected "
            f"numbers, nested lists of numbers, or an array of numbers"
        )
    return array


def _array_of_other(value: Any, what: str) -> Any:
    """The memory of another library's array as a NumPy array, or as a tensor (bfloat16)."""
    if hasattr(value, "__dlpack__"):
        from fx.ops.making.dlpack import from_dlpack

        return from_dlpack(value)
    return _numeric(np.asarray(value), value, what)


# nested sequences -------------------------------------------------------------------------------


def _from_sequence(data: Any, dtype: Any, device: str, what: str) -> Tensor:
    kinds: set[type] = set()
    _leaf_types(data, kinds)
    if not kinds <= _SCALAR_SET:
        if any(issubclass(kind, Tensor) for kind in kinds):
            return _stacked(data, dtype, device, what)
        if StagedNumber in kinds:
            return _of_numbers(data, dtype, device, what)
    wanted = dtype
    if wanted is None and not kinds:
        wanted = dtypes.to_float(dtypes.bool_)  # an empty list
    try:
        array = np.array(data, dtype=wanted)
    except (ValueError, TypeError, OverflowError) as error:
        ragged = _ragged(data)
        if ragged:
            raise ShapeError(f"{what}: {ragged}") from None
        if wanted is None:
            raise DTypeError(f"{what}: cannot make a tensor of {data!r:.60}: {error}") from None
        raise _unfit(what, f"{data!r:.60}", wanted, error) from None
    if wanted is None and not kinds - _SCALAR_SET:  # Python's numbers alone: weak
        array = _weak(array, what)
    return from_array(_numeric(array, data, what), device)


def _of_numbers(data: Any, dtype: Any, device: str, what: str) -> Tensor:
    """A nested sequence with staged numbers: of the dtype that these have now."""
    staged: list[Any] = []

    def now(x: Any) -> Any:
        if type(x) is StagedNumber:
            staged.append(x)
            return x.now
        return [now(child) for child in x] if isinstance(x, (list, tuple)) else x

    plain = now(data)
    try:
        dtype = as_tensor(plain, dtype, device, what).dtype
    except Exception:
        for x in staged:
            x.known(lambda value: value)
        raise
    for x in staged:
        x.known(_width)
    return _stacked(data, dtype, device, what)


def _width(x: Any) -> int:
    """What NumPy's choice of a dtype for integers depends on."""
    return 0 if isinstance(x, float) or -(2**63) <= x < 2**63 else 1 if 0 <= x < 2**64 else 2


def _weak(array: np.ndarray, what: str) -> np.ndarray:
    if array.dtype in _WIDE:
        return array.astype(dtypes.dtype_of_scalar(1.0 if array.dtype.kind == "f" else 1j))
    if array.dtype.kind in "Ou":
        raise DTypeError(
            f"{what}: the data holds integers that do not fit int64; "
            f"write dtype=fx.float64, or dtype=fx.uint64 where they fit that"
        )
    return array.astype(np.int64) if array.dtype.kind == "i" else array


def _leaf_types(data: Any, found: set[type]) -> None:
    kinds = set(map(type, data))
    if kinds <= _SCALAR_SET:
        found |= kinds
        return
    nested = tuple(k for k in kinds if issubclass(k, list | tuple))
    found |= kinds.difference(nested)
    if nested:
        for child in data:
            if isinstance(child, nested):
                _leaf_types(child, found)


def _stacked(data: Any, dtype: Any, device: str, what: str) -> Tensor:
    """A nested sequence that holds tensors, joined by operations, so that derivatives pass."""
    children = [
        child if type(child) in _SCALAR_SET else as_tensor(child, dtype, device, what)
        for child in data
    ]
    tensors = [c for c in children if isinstance(c, Tensor)]
    if dtype is None:
        dtype = tensors[0].dtype
        for x in tensors[1:]:
            dtype = dtypes.promote_types(dtype, x.dtype)
        for c in children:
            if not isinstance(c, Tensor):
                dtype = dtypes.result_dtype_with_scalar(dtype, c)
    children = [as_tensor(c, dtype, tensors[0].device, what) for c in children]
    shape = children[0].shape
    for i, c in enumerate(children):
        if c.shape != shape:
            raise ShapeError(
                f"{what}: data[0] has shape {shape} and data[{i}] has shape {c.shape}; bring the "
                f"rows to one shape, for example with fx.broadcast_to(row, {shape})"
            )
    rows = [shape_prims.reshaped(c, (1, *shape)) for c in children]
    return shape_prims.concatenate(*rows, axis=0)


def _ragged(data: Any, path: str = "data") -> str:
    """What is uneven about a nested list; nothing if it is rectangular."""
    lengths = [len(c) if isinstance(c, (list, tuple)) else _length(c) for c in data]
    for i, n in enumerate(lengths):
        if n != lengths[0]:
            words = ["a number" if m is None else f"{m} long" for m in (lengths[0], n)]
            return (
                f"the nested list is ragged: {path}[0] is {words[0]}, {path}[{i}] is {words[1]}; "
                f"make the rows equal, for example "
                f"fx.tensor([row + [0] * (n - len(row)) for row in data])"
            )
    for i, child in enumerate(data):
        if isinstance(child, (list, tuple)):
            found = _ragged(child, f"{path}[{i}]")
            if found:
                return found
    return ""


def _length(value: Any) -> int | None:
    shape = getattr(value, "shape", ())
    return shape[0] if shape else None


def _unfit(what: str, shown: str, dtype: Any, error: Exception) -> DTypeError:
    return DTypeError(
        f"{what}: {shown} does not fit {dtype.name} ({error}); "
        f"choose another dtype, for example dtype=fx.float64"
    )


# devices ----------------------------------------------------------------------------------------


def device_name(device: Any) -> str:
    """The name of a device; of the default device for None."""
    return default_device() if device is None else as_device(device).name


def to_device(x: Tensor, device: Any) -> Tensor:
    """``x`` on another device; itself where it is there already.

    Raises:
        DeviceError: from ``meta``, which holds no values.
    """
    here = name_of(x._a) if type(x) is Tensor else x.device.name
    if type(device) is str and device == here:
        return x
    name = device_name(device)
    return x if here == name else device_put(x, device=name)  # type: ignore[no-any-return]
