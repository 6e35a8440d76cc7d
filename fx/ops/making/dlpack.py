"""DLPack: memory shared with other libraries, read-only where they can be told so."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from fx import dtypes
from fx.ops.convert import from_array, to_device
from fx.ops.making.interop import asarray, readable
from fx.tensor import Tensor


def from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """The tensor that shares the memory of another library's array.

    Args:
        x: an object with ``__dlpack__`` and ``__dlpack_device__``.
        device: where the result lives.
        copy: True copies always, False refuses to copy, None copies where it must.

    Raises:
        TypeError: if ``x`` does not speak DLPack.
        BufferError: if its memory cannot be shared.

    Source: Python Array API standard 2024.12, ``from_dlpack``; DLPack 1.0.

    Example:
        >>> import fx, numpy as np
        >>> fx.from_dlpack(np.ones(2, np.float32))
        tensor([1., 1.])
    """
    if isinstance(x, Tensor):
        return asarray(x, device=device, copy=copy)
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise TypeError(
            f"from_dlpack takes an object with __dlpack__, got {type(x).__name__}; "
            f"write fx.asarray(x)"
        )
    exporter = _Exporter(x)
    array = np.from_dlpack(exporter, copy=copy)
    if exporter.is_bfloat:
        array = array.view(dtypes.bfloat16)
    out = from_array(array, "cpu")
    return out if device is None else to_device(out, device)


class _Exporter:
    """Hands on a DLPack capsule to NumPy, its bfloat16 passed off as uint16."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.is_bfloat = False

    def __dlpack_device__(self) -> Any:
        return self.source.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.source.__dlpack__(**options)
        code = _dtype_code(capsule)
        if code.value == _BFLOAT:
            self.is_bfloat = True
            code.value = _UINT
        return capsule


_UINT, _BFLOAT = 1, 4  # DLDataTypeCode


def _dtype_code(capsule: Any) -> ctypes.c_uint8:
    """The field ``dl_tensor.dtype.code`` of a DLManagedTensor, versioned or not."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    if "dltensor_versioned" in repr(capsule):
        address = pointer(capsule, b"dltensor_versioned") + 32  # version, context, deleter, flags
    else:
        address = pointer(capsule, b"dltensor")
    return ctypes.c_uint8.from_address(address + 20)  # data, device and ndim come first


def __dlpack__(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: tuple[int, int] | None = None,
    dl_device: tuple[int, int] | None = None,
    copy: bool | None = None,
) -> Any:
    """Export the memory, marked read-only.

    A consumer that speaks DLPack 1.0 or newer gets the memory itself with the read-only flag; an
    older one, to whom it cannot be said, gets a copy. (PyTorch 2.13 takes the flagged memory and
    does not heed the flag: do not change in place what it makes of it.)

    Raises:
        BufferError: if ``copy=False`` and the consumer cannot be told that it must not write.
    """
    array = readable(self, "x.__dlpack__()")
    is_bfloat = array.dtype == dtypes.bfloat16
    if max_version is None or max_version[0] < 1:
        if copy is False:
            raise BufferError(
                "__dlpack__: tensors are immutable, and DLPack before 1.0 cannot say so; "
                "ask with max_version=(1, 0), or let copy=None"
            )
        array = array.copy()
        max_version = None
    if is_bfloat:
        array = array.view(np.uint16)
    capsule = array.__dlpack__(
        stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
    )
    if is_bfloat:
        _dtype_code(capsule).value = _BFLOAT
    return capsule


def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    """DLPack's device type and number."""
    if self.device.name != "cpu":
        raise BufferError(f"a tensor on {self.device} has no memory that DLPack could share")
    return (1, 0)  # kDLCPU
