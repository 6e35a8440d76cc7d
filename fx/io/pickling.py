"""Pickles in PyTorch's words: tensors as views of storages that stand beside the pickle."""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any, ClassVar

import numpy as np

from fx import dtypes
from fx.devices import Device, backend
from fx.handles import Handle
from fx.io.storages import STORAGE_DTYPES
from fx.levels import Tracer
from fx.nn.parameter import Buffer, Parameter
from fx.numbers import Numbers
from fx.seen import Size as Sizes
from fx.seen import TorchDType
from fx.spec import TensorSpec
from fx.staged_number import StagedNumber
from fx.state import Cell
from fx.tensor import Size, Tensor

PROTOCOL = 2  # the one that PyTorch's restricted reader knows


class Name:
    """A name of PyTorch's: written as it is, whether PyTorch is installed or not."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name


_TYPES = {dtype: Name("torch", name) for name, dtype in STORAGE_DTYPES.items()}
_DTYPES = {dtype: Name("torch", dtype.name) for dtype in dtypes.ALL}
_UNTYPED = Name("torch.storage", "UntypedStorage")
_TENSOR = Name("torch._utils", "_rebuild_tensor_v2")
_TENSOR_OF_DTYPE = Name("torch._utils", "_rebuild_tensor_v3")
_META = Name("torch._utils", "_rebuild_meta_tensor_no_storage")
_PARAMETER = Name("torch._utils", "_rebuild_parameter")
_DEVICE = Name("torch", "device")
_SIZE = Name("torch", "Size")
_ENCODE = Name("_codecs", "encode")
_PLAIN = frozenset((
    OrderedDict, Counter, defaultdict, deque, set, frozenset, complex, bytes, bytearray, np.ndarray,
))  # fmt: skip


class View:
    """An array of the pickle: where it begins and ends in memory, and how it is laid out there.

    Its storage, and its offset in that, are known when all arrays are.
    """

    __slots__ = ("array", "end", "key", "numel", "offset", "start")

    def __init__(self, array: np.ndarray) -> None:
        if array.size and not _fits(array):
            array = np.ascontiguousarray(array)
        self.array = array
        self.start = array.__array_interface__["data"][0]
        self.end = self.start + _span(array)
        self.key = 0
        self.numel = 0
        self.offset = 0


def _fits(array: np.ndarray) -> bool:
    """Whether the array's strides are such as PyTorch knows."""
    item = array.itemsize
    return all(s >= 0 and s % item == 0 for n, s in zip(array.shape, array.strides) if n > 1)


def _span(array: np.ndarray) -> int:
    if not array.size:
        return 0
    return array.itemsize + sum((n - 1) * s for n, s in zip(array.shape, array.strides) if n > 1)


class Pickled:
    """A pickle and the memory of its storages.

    Attributes:
        data: the pickle.
        storages: for each storage, in the order of their keys, its bytes as memory.
        types: the dtype of each.
    """

    def __init__(self, value: Any) -> None:
        pickler = _Pickler()
        pickler.dump(value)
        self.storages: list[np.ndarray] = []
        self.types: list[Any] = []
        for views in _together(pickler.views):
            self._add(views)
        parts = [part if isinstance(part, bytes) else part() for part in pickler.parts]
        self.data = b"".join(parts)

    def _add(self, views: list[View]) -> None:
        """Make storages of views that share memory: one, unless most of it would be gaps."""
        start, end = views[0].start, max(v.end for v in views)
        item = views[0].array.itemsize
        used = sum(v.array.nbytes for v in views)
        if end - start > 2 * used or any((v.start - start) % item for v in views):
            for v in views:
                self._store([v], np.ascontiguousarray(v.array).reshape(-1), None)
            return
        first = views[0].array
        count = (end - start) // item
        if first.flags.c_contiguous and first.size == count:
            memory = first.reshape(-1)
        else:
            memory = np.lib.stride_tricks.as_strided(first, (count,), (item,))
        self._store(views, memory, start)

    def _store(self, views: list[View], memory: np.ndarray, start: int | None) -> None:
        for v in views:
            v.key, v.numel = len(self.storages), memory.size
            if start is None:
                v.array = memory.reshape(v.array.shape)
            else:
                v.offset = (v.start - start) // memory.itemsize
        self.storages.append(memory.view(np.uint8))
        self.types.append(views[0].array.dtype)


def _together(views: list[View]) -> list[list[View]]:
    """Views in groups that share memory and dtype, in the order in which they were met."""
    order = {id(v): i for i, v in enumerate(views)}
    groups: list[list[View]] = []
    by_dtype: dict[Any, list[View]] = {}
    for v in views:
        by_dtype.setdefault(v.array.dtype, []).append(v)
    for listed in by_dtype.values():
        end = -1
        for v in sorted(listed, key=lambda v: (v.start, -v.end)):
            if v.start < end and v.end > v.start:
                groups[-1].append(v)
            else:
                groups.append([v])
            end = max(end, v.end) if v.end > v.start else end
    return sorted(groups, key=lambda group: min(order[id(v)] for v in group))


class _Pickler(pickle._Pickler):  # type: ignore[name-defined, misc]
    """Pickles tensors in PyTorch's words, and all else as Python does."""

    dispatch: ClassVar[dict[Any, Any]] = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def __init__(self) -> None:
        self.parts: list[Any] = []  # bytes, or a function that gives them when storages are known
        self.views: list[View] = []
        self.within = 0  # objects that are being written and are no plain data
        self._views_of: dict[tuple[Any, ...], View] = {}
        super().__init__(self, PROTOCOL)

    def write(self, data: Any) -> None:
        """Take a part of the pickle."""
        self.parts.append(data)

    def save(self, obj: Any, save_persistent_id: bool = True) -> Any:
        """As Python does; a tensor that is read through something else is one of its values."""
        kind = type(obj)
        if kind not in self.dispatch and (
            issubclass(kind, Handle) or (issubclass(kind, Tensor) and kind.written)
        ):
            self.dispatch[kind] = _Pickler.save_read
        return super().save(obj, save_persistent_id)

    def save_reduce(self, func: Any, args: Any, *rest: Any, obj: Any = None, **named: Any) -> None:
        """As Python does, knowing whether this is inside an object that PyTorch cannot read."""
        plain = type(obj) in _PLAIN or isinstance(obj, np.generic | _NumpyDtype)
        self.within += not plain
        super().save_reduce(func, args, *rest, obj=obj, **named)
        self.within -= not plain

    # words --------------------------------------------------------------------------------------

    def save_name(self, obj: Name) -> None:
        self.write(f"c{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    def save_dtype(self, obj: Any) -> None:
        name = _DTYPES.get(obj)
        if name is None:
            self.save_reduce(*obj.__reduce__(), obj=obj)
        else:
            self.save(name)

    def save_sizes(self, obj: Sizes) -> None:
        self.save(_SIZE)
        self.save((tuple(obj),))
        self.write(pickle.REDUCE)
        self.memoize(obj)

    def save_device(self, obj: Device) -> None:
        self.save(_DEVICE)
        self.save((obj.name,))
        self.write(pickle.REDUCE)
        self.memoize(obj)

    def save_bytes(self, obj: bytes) -> None:
        self.save(_ENCODE)
        self.save((obj.decode("latin1"), "latin1"))
        self.write(pickle.REDUCE)
        self.memoize(obj)

    def save_array(self, obj: np.ndarray) -> None:
        if obj.dtype.hasobject:
            self.save_reduce(*obj.__reduce__(), obj=obj)
            return
        make, args, (version, shape, dtype, fortran, data) = obj.__reduce__()
        state = (version, shape, _NumpyDtype(dtype), fortran, data)
        self.save_reduce(make, args, state, obj=obj)

    def save_scalar(self, obj: np.generic) -> None:
        make, (dtype, *data) = obj.__reduce__()
        self.save_reduce(make, (_NumpyDtype(dtype), *data), obj=obj)

    def save_numpy_dtype(self, obj: _NumpyDtype) -> None:
        self.save_reduce(*obj.dtype.__reduce__(), obj=obj)

    def save_numbers(self, obj: Numbers) -> None:
        if self.within:
            self.save_reduce(*obj.__reduce__(), obj=obj)
        else:
            self.save_dict(obj)

    # tensors ------------------------------------------------------------------------------------

    def save_cell(self, obj: Cell) -> None:
        if self.within:
            self.save_reduce(*obj.__reduce__(), obj=obj)
        elif type(obj) is Parameter:
            self.save(_PARAMETER)
            self.write(pickle.MARK)
            self._save_value(obj.read(), False)
            self.save(obj.leaf is not None)
            self._no_hooks()
            self.write(pickle.TUPLE + pickle.REDUCE)
            self.memoize(obj)
        else:
            self._save_value(obj.read(), obj.leaf is not None)
            self.memoize(obj)

    def save_tensor(self, obj: Tensor) -> None:
        self._save_value(obj, obj._node is not None)
        self.memoize(obj)

    def save_read(self, obj: Any) -> None:
        self._save_value(obj.read(), obj._node is not None)
        self.memoize(obj)

    def _save_value(self, x: Tensor, requires_grad: bool) -> None:
        if isinstance(x, Tracer):
            x.__reduce__()  # says why it cannot be kept
        array = x._a
        if isinstance(array, TensorSpec):
            self.save(_META)
            self.write(pickle.MARK)
            self.save(_DTYPES[array.dtype])
            self.save(array.shape)
            self.save(_contiguous(array.shape))
            self.save(requires_grad)
            self.write(pickle.TUPLE + pickle.REDUCE)
            return
        view = self._view(backend(x.device.name).to_numpy(array))
        dtype = view.array.dtype
        known = _TYPES.get(dtype)
        self.save(_TENSOR if known else _TENSOR_OF_DTYPE)
        self.write(pickle.MARK + pickle.MARK)
        self.save("storage")
        self.save(known or _UNTYPED)
        self.write(lambda: _text(str(view.key)))
        self.save("cpu")
        self.write(lambda: _integer(view.numel * (1 if known else dtype.itemsize)))
        self.write(pickle.TUPLE + pickle.BINPERSID)
        self.write(lambda: _integer(view.offset))
        self.save(tuple(view.array.shape))
        self.write(lambda: b"(" + b"".join(map(_integer, _strides(view.array))) + pickle.TUPLE)
        self.save(requires_grad)
        self._no_hooks()
        if not known:
            self.save(_DTYPES[dtype])
        self.write(pickle.TUPLE + pickle.REDUCE)

    def _view(self, array: np.ndarray) -> View:
        where = array.__array_interface__["data"][0], array.shape, array.strides, array.dtype
        found = self._views_of.get(where)
        if found is None:
            found = self._views_of[where] = View(array)
            self.views.append(found)
        return found

    def _no_hooks(self) -> None:
        self.save(_ORDERED)
        self.write(pickle.EMPTY_TUPLE + pickle.REDUCE)


_ORDERED = Name("collections", "OrderedDict")


class _NumpyDtype:
    """The dtype of a NumPy array, as NumPy and not PyTorch calls it."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype


_Pickler.dispatch |= {
    Name: _Pickler.save_name,
    Device: _Pickler.save_device,
    bytes: _Pickler.save_bytes,
    np.ndarray: _Pickler.save_array,
    _NumpyDtype: _Pickler.save_numpy_dtype,
    Numbers: _Pickler.save_numbers,
    Size: lambda self, obj: self.save(int(obj)),
    Sizes: _Pickler.save_sizes,
    TorchDType: lambda self, obj: self.save_dtype(obj.dtype),
    StagedNumber: lambda self, obj: self.save(obj.known(lambda x: x)),
    Tensor: _Pickler.save_tensor,
    **dict.fromkeys((Cell, Parameter, Buffer), _Pickler.save_cell),
    **{type(dtype): _Pickler.save_dtype for dtype in dtypes.ALL},
    **{dtype.type: _Pickler.save_scalar for dtype in dtypes.ALL},
}


def _strides(array: np.ndarray) -> tuple[int, ...]:
    if not array.size:
        return _contiguous(array.shape)
    return tuple([s // array.itemsize if n > 1 else 1 for n, s in zip(array.shape, array.strides)])


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    steps = [1]
    for n in shape[:0:-1]:
        steps.append(steps[-1] * max(n, 1))
    return tuple(reversed(steps)) if shape else ()


def _integer(value: int) -> bytes:
    if value < 1 << 31:
        return pickle.BININT + struct.pack("<i", value)
    data = pickle.encode_long(value)
    return pickle.LONG1 + bytes([len(data)]) + data


def _text(value: str) -> bytes:
    return pickle.BINUNICODE + struct.pack("<I", len(value)) + value.encode()
