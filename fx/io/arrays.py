"""NumPy's files: ``.npy`` holds one array, ``.npz`` is a zip of them. Pickles are refused."""

from __future__ import annotations

import ast
import io
import os
import struct
from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from fx import dtypes
from fx.devices import Device, backend
from fx.errors import DTypeError, FileFormatError, FxError
from fx.io.archive import ArchiveReader, ArchiveWriter, read_fully
from fx.io.storages import Storage, check_bool
from fx.ops.convert import as_tensor
from fx.ops.making.interop import readable
from fx.spec import TensorSpec
from fx.tensor import Tensor, new_tensor

MAGIC = b"\x93NUMPY"
_HEADER = 10_000  # bytes; longer ones make the parser slow
_MOST_AXES = 64
_CODES = {dtype.str[1:]: dtype for dtype in dtypes.ALL}  # bfloat16 is V2, as in PyTorch
Place = Callable[[Storage, str], Storage]


def array_of(value: Any, what: str) -> np.ndarray:
    """The values of a tensor, an array or numbers as a NumPy array of a dtype that fx has.

    Raises:
        DTypeError: if it is none of these.
    """
    return readable(as_tensor(value, what=what).detach(), what)


# writing ----------------------------------------------------------------------------------------


def write_npy(obj: Any, file: Any) -> None:
    """Write one tensor as ``.npy``."""
    array = array_of(obj, "save")
    file.write(_header(array))
    file.write(_memory(array))


def write_npz(obj: Any, file: Any) -> None:
    """Write a dict of tensors as ``.npz``.

    Raises:
        DTypeError: if it is no such dict.
    """
    if not isinstance(obj, Mapping) or any(not isinstance(key, str) for key in obj):
        raise DTypeError(
            f"save: an .npz file holds a dict of tensors by name, got {type(obj).__name__}; write "
            f"a .pt file, or {{'x': tensor}}"
        )
    arrays = {key: array_of(value, f"save: {key!r}") for key, value in obj.items()}
    archive = ArchiveWriter(file)
    for key, array in arrays.items():
        archive.add(f"{key}.npy", _header(array), _memory(array))
    archive.close()


def _header(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    descr = "<V2" if array.dtype == dtypes.bfloat16 else np.lib.format.dtype_to_descr(array.dtype)
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    header = {"descr": descr, "fortran_order": fortran, "shape": array.shape}
    np.lib.format.write_array_header_1_0(out, header)
    return out.getvalue()


def _memory(array: np.ndarray) -> memoryview:
    """The bytes of an array in its order."""
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        array = array.T
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


# reading ----------------------------------------------------------------------------------------


def read_npy(file: Any, what: str, place: Place) -> Tensor:
    """The tensor of an ``.npy`` file.

    Raises:
        FileFormatError: if it is damaged, or holds something else than numbers.
    """
    here = file.tell()
    end = file.seek(0, os.SEEK_END)
    file.seek(here)
    dtype, shape, fortran, start = parse(file.read(_HEADER + 12), what)
    nbytes = prod(shape) * dtype.itemsize
    if nbytes > end - here - start:
        raise FileFormatError(
            f"{what}: an array of shape {shape} and dtype {dtype.name} has {nbytes} bytes, and the "
            f"file holds {end - here - start}"
        )
    memory = np.empty(nbytes, np.uint8)
    file.seek(here + start)
    if not read_fully(file, memoryview(memory)):
        raise FileFormatError(f"{what} ends too early")
    return tensor_of(memory, dtype, shape, fortran, what, place)


def read_npz(archive: ArchiveReader, place: Place) -> dict[str, Tensor]:
    """The tensors of an ``.npz`` file by name.

    Raises:
        FileFormatError: if it is damaged, or holds something else than numbers.
    """
    out = {}
    for entry in archive.entries:
        what = f"{archive.what}: the record {entry!r}"
        data = archive.array(entry)
        dtype, shape, fortran, start = parse(data[: _HEADER + 12].tobytes(), what)
        nbytes = prod(shape) * dtype.itemsize
        if nbytes != len(data) - start:
            raise FileFormatError(
                f"{what}: an array of shape {shape} and dtype {dtype.name} has {nbytes} bytes, and "
                f"the record {len(data) - start}"
            )
        out[entry[: -len(".npy")]] = tensor_of(data[start:], dtype, shape, fortran, what, place)
    return out


def parse(head: bytes, what: str) -> tuple[np.dtype, tuple[int, ...], bool, int]:
    """Dtype, shape, order and the place of the data, of the beginning of an ``.npy`` file.

    Raises:
        FileFormatError: if it is damaged, or of values that fx does not have.
    """
    try:
        form = {1: "<H", 2: "<I", 3: "<I"}[head[6]]
        start = 8 + struct.calcsize(form)
        size = struct.unpack(form, head[8:start])[0]
        if not head.startswith(MAGIC) or head[7] or size > _HEADER:
            raise ValueError("another version, or longer than it can be")
        header = ast.literal_eval(head[start : start + size].decode().strip())
        code, fortran, shape = header["descr"], header["fortran_order"], header["shape"]
        if len(header) != 3 or type(fortran) is not bool or type(shape) is not tuple:
            raise ValueError("other entries than there are")
        if any(type(n) is not int or n < 0 for n in shape) or len(shape) > _MOST_AXES:
            raise ValueError(f"the shape {shape!r:.80} is none")
    except (
        IndexError, KeyError, MemoryError, RecursionError, SyntaxError, TypeError, ValueError,
        struct.error,
    ) as error:  # fmt: skip
        raise FileFormatError(f"{what}: the header of the array is damaged ({error})") from None
    if isinstance(code, str) and "O" in code:
        raise FileFormatError(
            f"{what} holds Python objects as a pickle, which could run any code; if you trust it, "
            f"write numpy.load(f, allow_pickle=True)"
        )
    dtype = _CODES.get(code[1:]) if isinstance(code, str) and code[:1] in tuple("<>|=") else None
    if dtype is None:
        raise FileFormatError(
            f"{what} holds values of dtype {code!r:.80}, which is none of fx; write numpy.load(f)"
        )
    if code[0] == ">" and dtype.itemsize > 1:
        dtype = dtype.newbyteorder(">")
    return dtype, shape, fortran, start + size


def tensor_of(
    memory: np.ndarray, dtype: np.dtype, shape: tuple[int, ...], fortran: bool, what: str,
    place: Place,
) -> Tensor:  # fmt: skip
    """The tensor of bytes."""
    storage = place(Storage(dtype, memory.size, memory, Device("cpu")), "cpu")
    if storage.device.name == "meta":
        backend("meta")
        return new_tensor(TensorSpec(shape, dtype.newbyteorder("="), "meta"))
    try:
        if memory.ctypes.data % dtype.alignment:
            memory = memory.copy()
        array = memory.view(dtype).reshape(shape, order="F" if fortran else "C")
        if dtype == dtypes.bool_:
            check_bool(array)
    except FxError as error:
        raise FileFormatError(f"{what}: {error}") from None
    except ValueError as error:
        raise FileFormatError(f"{what}: the shape {shape} is none ({error})") from None
    if array.dtype.byteorder == ">":
        array = array.astype(dtype.newbyteorder("="))
    return new_tensor(backend(storage.device.name).from_numpy(array))
