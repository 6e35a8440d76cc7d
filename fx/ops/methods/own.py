"""Tensor's own methods: conversion, indexing, printing, copying, in PyTorch's names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

import fx.ops.making.creation as creation
import fx.ops.making.dlpack as dlpack
import fx.ops.making.interop as interop
import fx.ops.methods.inplace as inplace
import fx.ops.methods.scalars as scalars
import fx.prims.compare as compare
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.devices import Device, as_device, name_of
from fx.errors import DeviceError, InPlaceError
from fx.graph.staging import memory_steps
from fx.ops.axes import normal_axis
from fx.ops.convert import to_device
from fx.ops.indexing.at import At
from fx.ops.indexing.getting import getitem
from fx.ops.methods.printing import tensor_repr
from fx.ops.operands import argument
from fx.seen import face
from fx.tape import CELL
from fx.tensor import Tensor

# conversion -------------------------------------------------------------------------------------


def to(self: Tensor, *args: Any, **options: Any) -> Tensor:
    """In another dtype, on another device, or as another tensor has them; itself if it is so.

    Args:
        args: a dtype, a device, both, or a tensor; also as ``dtype=`` and ``device=``.
            ``copy=True`` gives a new tensor in any case; ``non_blocking`` and ``memory_format`` are
            accepted and change nothing.

    Raises:
        TypeError: for what is none of these.

    Source: ``torch.Tensor.to``.

    Example:
        >>> import fx
        >>> fx.tensor([1, 2]).to(fx.float64)
        tensor([1., 2.], dtype=fx.float64)
    """
    if len(args) == 1 and not options:  # what mostly leaves it as it is
        (other,) = args
        if type(other) is Device or type(other) is str:
            if other == (name_of(self._a) if type(self) is Tensor else self.device.name):
                return self
        elif isinstance(other, Tensor):
            same = self._dtype is other._dtype and self.device.name == other.device.name
            if same:
                return self
    dtype, device = options.pop("dtype", None), options.pop("device", None)
    copy = options.pop("copy", False)
    for name in ("non_blocking", "memory_format"):
        options.pop(name, None)
    if "other" in options:
        args = (options.pop("other"), *args)
    if options:
        raise TypeError(f"x.to() got unexpected arguments {sorted(options)}")
    for arg in args:
        if isinstance(arg, Tensor):
            dtype, device = arg.dtype, arg.device
        elif isinstance(arg, Device) or (isinstance(arg, str) and _names_device(arg)):
            device = arg
        elif arg is not None and not isinstance(arg, bool):
            dtype = arg
    out = self
    if dtype is not None:
        wanted = dtypes.as_dtype(dtype)
        if out._dtype != wanted:
            out = compare.astype(out, dtype=wanted)
    if device is not None:
        out = to_device(out, device)
    return interop.clone(self) if copy and out is self else out


def _names_device(name: str) -> bool:
    try:
        as_device(name)
    except DeviceError:
        if name.partition(":")[0] in ("cuda", "mps", "xpu", "hpu", "tpu"):
            raise
        return False
    return True


def astype(self: Tensor, dtype: Any, *, copy: bool = True, device: Any = None) -> Tensor:
    """In another dtype; with ``copy=False`` itself where it has it.

    Example:
        >>> import fx
        >>> fx.tensor([1.7, -1.7]).astype(fx.int64)
        tensor([ 1, -1])
    """
    if not isinstance(self, Tensor):
        self = argument("astype", self)
    wanted = dtypes.as_dtype(dtype)
    out = self if self._dtype == wanted and not copy else compare.astype(self, dtype=wanted)
    return out if device is None else to_device(out, device)


def to_device_method(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """On another device (the Array API's name)."""
    return to_device(self, device)


def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """On the CPU; itself if it is there."""
    return to_device(self, "cpu")


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """In another dtype; without an argument PyTorch's name of the type, ``"fx.FloatTensor"``."""
    if isinstance(dtype, str):  # "torch.LongTensor"
        kind = dtype.rpartition(".")[2].removesuffix("Tensor")
        dtype = next((d for d, word in _TYPE_NAMES.items() if word == kind), dtype)
    if dtype is not None:
        return to(self, dtype)
    return f"{face()}.{_TYPE_NAMES.get(self._dtype.name, self._dtype.name.capitalize())}Tensor"


_TYPE_NAMES = {
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}
_CASTS = {
    "float": dtypes.float32,
    "double": dtypes.float64,
    "half": dtypes.float16,
    "bfloat16": dtypes.bfloat16,
    "int": dtypes.int32,
    "long": dtypes.int64,
    "short": dtypes.int16,
    "char": dtypes.int8,
    "byte": dtypes.uint8,
    "bool": dtypes.bool_,
    "cfloat": dtypes.complex64,
    "cdouble": dtypes.complex128,
}


def _cast(name: str, dtype: Any) -> Callable[..., Tensor]:
    def method(self: Tensor, memory_format: Any = None) -> Tensor:
        return self if self._dtype == dtype else compare.astype(self, dtype=dtype)

    method.__doc__ = f"In {dtype.name}; itself if it has that dtype."
    method.__name__ = method.__qualname__ = name
    return method


# layout -----------------------------------------------------------------------------------------


def is_contiguous(self: Tensor, memory_format: Any = None) -> bool:
    """Whether the elements lie in memory in the order of the axes. No operation asks for it."""
    if self.level == CELL:
        self = self.read()
    if type(self) is not Tensor or not isinstance(self._a, np.ndarray):
        return memory_steps(self) is None
    return bool(self._a.flags.c_contiguous)


def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """The same values in the order of the axes; itself if they are."""
    if type(self) is Tensor and type(array := self._a) is np.ndarray:
        if array.flags.c_contiguous:
            return self
    elif is_contiguous(self):
        return self
    flat = shape_prims.reshaped(self, (numel(self),))  # this one has to move the elements
    return shape_prims.reshaped(flat, self._shape)


def stride(self: Tensor, dim: int | None = None) -> Any:
    """How many elements lie between neighbours along each axis, or along one."""
    if type(self) is Tensor and isinstance(self._a, np.ndarray):
        steps = steps_of_ones(self._shape, [s // self.itemsize for s in self._a.strides])
    elif (told := memory_steps(self)) is not None:
        steps = told
    else:
        steps, step = (), 1
        for n in reversed(self._shape):
            steps, step = (step, *steps), step * n
    return steps if dim is None else steps[normal_axis("stride", dim, self._shape)]


def steps_of_ones(shape: tuple[int, ...], steps: Sequence[int]) -> tuple[int, ...]:
    """The same steps, but where ``x[None]`` has none: there PyTorch tells those of a whole axis."""
    found = [*steps]
    for i in reversed(range(len(found) if 0 in found else 0)):
        if shape[i] == 1 and not found[i]:
            found[i] = 1 if i == len(found) - 1 else shape[i + 1] * found[i + 1]
    return tuple(found)


def data_ptr(self: Tensor) -> int:
    """The address of the first element."""
    return interop.readable(compare.stop_gradient(self), "x.data_ptr()").ctypes.data


# what it is -------------------------------------------------------------------------------------


def dim(self: Tensor) -> int:
    """The number of axes."""
    return self._a.ndim if type(self) is Tensor else len(self._shape)


def block_until_ready(self: Tensor) -> Tensor:
    """Itself: what a function gives is there when it returns."""
    return self


def numel(self: Tensor) -> int:
    """The number of elements."""
    return prod(self._a.shape if type(self) is Tensor else self._shape)


def element_size(self: Tensor) -> int:
    """The number of bytes of one element."""
    return self._dtype.itemsize


def is_floating_point(self: Tensor) -> bool:
    """Whether the dtype is real and floating."""
    return self._dtype in dtypes.FLOATING


def is_complex(self: Tensor) -> bool:
    """Whether the dtype is complex."""
    return self._dtype in dtypes.COMPLEX


def is_signed(self: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return self._dtype != dtypes.bool_ and self._dtype not in dtypes.UNSIGNED


def get_device(self: Tensor) -> int:
    """The number of the device: -1, since these devices are not numbered."""
    return -1


def __array_namespace__(self: Tensor, *, api_version: str | None = None) -> Any:
    """The module with the Array API's functions.

    Raises:
        ValueError: for a version that fx does not follow.
    """
    from fx._namespace import check_version

    check_version(api_version)
    return sys.modules["fx"]  # of which this is a part


# new tensors like this one ----------------------------------------------------------------------


def _new_like(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def method(self: Tensor, *args: Any, **options: Any) -> Tensor:
        for name, value in (("dtype", self._dtype), ("device", self.device)):
            if options.get(name) is None:
                options[name] = value
        return function(*args, **options)

    method.__doc__ = f"``fx.{function.__name__}`` with the dtype and device of this tensor."
    method.__name__ = f"new_{function.__name__}"
    return method


def _new_of_shape(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same, where PyTorch's argument is called ``size``."""

    def like(*size: Any, **options: Any) -> Tensor:
        if "size" in options:
            size = (options.pop("size"), *size)
        return function(*size, **options)

    like.__name__ = function.__name__
    return _new_like(like)


# attributes -------------------------------------------------------------------------------------


def _data(self: Tensor) -> Tensor:
    """The values without their history."""
    return compare.stop_gradient(self)


def _refuse_data(self: Tensor, value: Any) -> None:
    raise InPlaceError("x.data = v would change x, and tensors never change; write x = v.detach()")


def attach() -> None:
    """Put the methods on Tensor."""
    for function in (
        to, astype, cpu, is_contiguous, contiguous, stride, data_ptr, dim, numel, element_size,
        is_floating_point, is_complex, is_signed, get_device, __array_namespace__,
        interop.numpy, interop.__array__, interop.__copy__, interop.__deepcopy__, interop.clone,
        dlpack.__dlpack__, dlpack.__dlpack_device__,
        scalars.item, scalars.tolist, scalars.__bool__, scalars.__int__, scalars.__float__,
        scalars.__complex__, scalars.__index__, scalars.__len__, scalars.__iter__,
        scalars.__contains__, scalars.__format__,
    ):  # fmt: skip
        setattr(Tensor, function.__name__, function)
    for name, method in {
        "__getitem__": getitem,
        "__repr__": tensor_repr,
        "to_device": to_device_method,
        "type": type_,
        "copy": interop.clone,
        "ndimension": dim,
        "nelement": numel,
        "block_until_ready": block_until_ready,
        "new_tensor": _new_like(interop.tensor),
        "new_full": _new_of_shape(creation.full),
        "new_zeros": _new_of_shape(creation.zeros),
        "new_ones": _new_of_shape(creation.ones),
        "new_empty": _new_of_shape(creation.empty),
        "at": property(At, doc="Updated copies: ``x.at[index].set(v)``, ``.add``, ``.max`` ..."),
        "data": property(_data, _refuse_data, doc="The values without their history."),
        "is_cuda": property(lambda self: False, doc="Always False."),
        "is_meta": property(lambda self: self.device.name == "meta", doc="Whether it is on meta."),
        **{name: _cast(name, dtype) for name, dtype in _CASTS.items()},
    }.items():
        setattr(Tensor, name, method)
    inplace.attach()
