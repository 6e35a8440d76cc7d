"""Storages: the memory of tensors in a file, where it is to live, and tensors as views of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from fx import dtypes
from fx.devices import Device, backend, is_known, moved
from fx.errors import DeviceError, FileFormatError
from fx.io.inspection import Allowance
from fx.io.makers import Theirs
from fx.ops.making.interop import with_grad
from fx.seen import Size
from fx.spec import TensorSpec
from fx.tensor import Tensor, new_tensor

STORAGE_DTYPES = {
    "DoubleStorage": dtypes.float64,
    "FloatStorage": dtypes.float32,
    "HalfStorage": dtypes.float16,
    "BFloat16Storage": dtypes.bfloat16,
    "LongStorage": dtypes.int64,
    "IntStorage": dtypes.int32,
    "ShortStorage": dtypes.int16,
    "CharStorage": dtypes.int8,
    "ByteStorage": dtypes.uint8,
    "BoolStorage": dtypes.bool_,
    "ComplexFloatStorage": dtypes.complex64,
    "ComplexDoubleStorage": dtypes.complex128,
}
UNTYPED = dtypes.uint8
_MOST_AXES = 64  # of a NumPy array


class StorageType:
    """What a file calls the class of a storage, as ``torch.FloatStorage``."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype


class Storage:
    """The memory that tensors of a file share; what a ``map_location`` function is given.

    Attributes:
        dtype: of its elements; uint8 where the file gives none.
        device: where its tensors live.
        memory: uint8 (nbytes,); None on ``meta``.
    """

    __slots__ = ("_nbytes", "device", "dtype", "memory")

    def __init__(self, dtype: Any, nbytes: int, memory: np.ndarray | None, device: Device) -> None:
        self.dtype = dtype
        self.memory = memory
        self.device = device
        self._nbytes = nbytes

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._nbytes

    def size(self) -> int:
        """The number of elements."""
        return self._nbytes // self.dtype.itemsize

    def to(self, device: Any) -> Storage:
        """The storage of the same memory whose tensors live on another device."""
        return Storage(self.dtype, self._nbytes, self.memory, _device(str(device)))

    def cpu(self) -> Storage:
        """The storage on the CPU."""
        return self.to("cpu")

    def __repr__(self) -> str:
        return f"<storage of {self._nbytes} bytes, {self.dtype.name}, {self.device}>"


def placement(map_location: Any) -> Callable[[Storage, str], Storage]:
    """The function that says where a storage lives, of what ``map_location`` may be.

    Raises:
        TypeError: for another kind of ``map_location``.
    """
    if map_location is None:
        return _as_tagged
    if isinstance(map_location, str | Device):
        wanted = str(map_location)
        return lambda storage, tag: storage.to(wanted)
    if isinstance(map_location, Mapping):
        table = {str(k): str(v) for k, v in map_location.items()}
        return lambda s, tag: s.to(table[tag]) if tag in table else _as_tagged(s, tag)
    if not callable(map_location):
        raise TypeError(
            f"load: map_location is a device, its name, a dict of names or a function, got "
            f"{type(map_location).__name__}; write map_location='cpu'"
        )

    def chosen(storage: Storage, tag: str) -> Storage:
        try:
            found = map_location(storage, tag)
        except Exception as error:
            raise Theirs(error) from None
        if found is None:
            return _as_tagged(storage, tag)
        if not isinstance(found, Storage):
            raise Theirs(
                TypeError(
                    f"load: the map_location function must return the storage it was given, "
                    f"storage.to(device), or None, and returned {type(found).__name__}"
                )
            )
        return found

    return chosen


def _as_tagged(storage: Storage, tag: str) -> Storage:
    """Where the file says; no package is searched or imported because a file names a device."""
    if not is_known(tag):
        raise _not_here(tag)
    return storage.to(tag)


def _device(name: str) -> Device:
    try:
        return Device(name)
    except DeviceError:
        raise _not_here(name) from None


def _not_here(name: str) -> DeviceError:
    return DeviceError(
        f"load: the file has tensors on {name!r}, a device that is not here; write "
        f"fx.load(f, map_location='cpu')"
    )


class Later:
    """What is still to be done with memory once it has been read from the file."""

    def __init__(self, allowance: Allowance) -> None:
        self.allowance = allowance
        self.steps: list[Callable[[], None]] = []
        self.places: dict[int, tuple[Tensor, str]] = {}  # who goes to which device, by its id
        self._whole: dict[int, tuple[np.ndarray, bool]] = {}

    def check_bool(self, storage: Storage, array: np.ndarray) -> None:
        """See that the array's bytes are 0 and 1, once the storage is filled."""
        self.steps.append(lambda: self._check_bool(storage.memory, array))

    def _check_bool(self, memory: np.ndarray | None, array: np.ndarray) -> None:
        """Look at each storage once: arrays may repeat its bytes, and there may be many of them."""
        if memory is None or not array.size:
            return
        found = self._whole.get(id(memory))
        if found is None:
            found = self._whole[id(memory)] = memory, memory.max() <= 1
        if not found[1]:  # a storage that others share as another dtype: this part of it
            once = array[tuple([slice(None) if s else slice(1) for s in array.strides])]
            self.allowance.spend(once.size)
            check_bool(once)

    def place(self, tensor: Tensor, device: str) -> None:
        """Move what nobody else holds yet to a device."""
        self.places[id(tensor)] = tensor, device

    def finish(self) -> None:
        """Do it."""
        for step in self.steps:
            step()
        self.steps.clear()
        for tensor, device in self.places.values():
            tensor._a = moved(tensor._a, device)
        self.places.clear()


def view(
    storage: Any, offset: Any, size: Any, stride: Any, dtype: Any, metadata: Any, later: Later
) -> Tensor:
    """The tensor of some elements of a storage.

    Args:
        storage: a Storage.
        offset: of the first element, in elements.
        size: the shape.
        stride: of each axis, in elements.
        dtype: of the elements; None is the storage's.
        metadata: ``{"conj": True}`` or ``{"neg": True}`` for values that are to be conjugated or
            negated.
        later: is told what has to wait until the memory is read.

    Raises:
        FileFormatError: if these do not fit together or reach beyond the storage.
    """
    if type(storage) is not Storage:
        raise FileFormatError(f"a tensor of {type(storage).__name__}, which is no storage")
    shape, steps = sizes("size", size), sizes("stride", stride)
    dtype = storage.dtype if dtype is None else dtype
    if len(shape) != len(steps):
        raise FileFormatError(f"a tensor of size {shape} and stride {steps}: they do not fit")
    (offset,) = sizes("offset", (offset,))
    item = dtype.itemsize
    count = prod(shape)
    last = offset + sum((n - 1) * s for n, s in zip(shape, steps)) if count else 0
    if (last + bool(count)) * item > storage.nbytes() or count * item >= 1 << 62:
        raise FileFormatError(
            f"a tensor of size {shape}, stride {steps} and offset {offset} reaches beyond its "
            f"storage of {storage.nbytes()} bytes"
        )
    if storage.device.name == "meta":
        backend("meta")
        return new_tensor(TensorSpec(shape, dtype, "meta"))
    if not count:
        array = np.empty(shape, dtype)
    else:
        bytes_of = [s * item if n > 1 else item for n, s in zip(shape, steps)]
        array = np.ndarray(shape, dtype, storage.memory, offset * item, bytes_of)
    if dtype == dtypes.bool_:
        later.check_bool(storage, array)
    out = new_tensor(_transformed(array, metadata, later))
    if storage.device.name != "cpu":
        later.place(out, storage.device.name)
    return out


def _transformed(array: np.ndarray, metadata: Any, later: Later) -> np.ndarray:
    """Where values are stored conjugated or negated, memory for what they stand for."""
    if metadata is None or metadata == {}:
        return array
    if type(metadata) is not dict or not set(metadata) <= {"conj", "neg"}:
        raise FileFormatError("a tensor with settings that are not known")
    for name, function in (("conj", np.conjugate), ("neg", np.negative)):
        if metadata.get(name) is True:
            later.allowance.spend(array.size * array.itemsize)  # it may repeat the file's bytes
            stored, array = array, np.empty(array.shape, array.dtype)
            later.steps.append(lambda f=function, x=stored, out=array: f(x, out=out))
    return array


def check_bool(array: np.ndarray) -> None:
    """Refuse bytes that are neither False nor True.

    Raises:
        FileFormatError: if there are any.
    """
    if array.size and array.view(np.uint8).max() > 1:
        raise FileFormatError("the file holds a bool tensor with bytes that are neither 0 nor 1")


def sizes(name: str, values: Any) -> tuple[int, ...]:
    """The sizes, strides or offset of a tensor in a file, of which none is taken on trust.

    Raises:
        FileFormatError: if they are no integers of 63 bits, or too many.
    """
    if type(values) not in (tuple, list, Size) or len(values) > _MOST_AXES:
        raise FileFormatError(
            f"a tensor with a {name} that is no tuple of up to {_MOST_AXES} integers"
        )
    if any(type(v) is not int or not 0 <= v < 1 << 63 for v in values):
        raise FileFormatError(f"a tensor with a {name} that is no tuple of integers from 0 on")
    return tuple(values)


def leaf(x: Tensor, requires_grad: Any) -> Tensor:
    """``x``, requiring grad if the file says so."""
    return with_grad(x, "load") if requires_grad is True else x
