"""safetensors files, through the library of that name: tensors by name, and text about them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from fx import dtypes
from fx.errors import DTypeError, FileFormatError
from fx.io.archive import descriptor
from fx.io.arrays import Place, array_of, tensor_of
from fx.io.storages import placement
from fx.tensor import Tensor


def save_file(
    tensors: Mapping[str, Any], filename: Any, metadata: Mapping[str, str] | None = None
) -> None:
    """Write tensors to a safetensors file.

    Args:
        tensors: by name, of any dtype but complex128.
        filename: the path.
        metadata: text about them.

    Raises:
        DTypeError: for something else than a dict of tensors.

    Example:
        >>> import fx, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "x.safetensors")
        >>> fx.io.safetensors.save_file({"w": fx.ones(2)}, path, {"made by": "fx"})
        >>> fx.io.safetensors.load_file(path)
        {'w': tensor([1., 1.])}
        >>> fx.io.safetensors.load_metadata(path)
        {'made by': 'fx'}
    """
    from safetensors import serialize_file

    arrays, specs = _specs(tensors)
    _guarded("save", serialize_file, specs, os.fspath(filename), metadata=_text(metadata))
    del arrays  # the specs hold addresses only


def save(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a safetensors file."""
    from safetensors import serialize

    arrays, specs = _specs(tensors)
    out = bytes(_guarded("save", serialize, specs, metadata=_text(metadata)))
    del arrays
    return out


def load_file(filename: Any, device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors of a safetensors file by name.

    Args:
        filename: the path.
        device: where they are to live.

    Raises:
        FileFormatError: if the file is damaged.
    """
    with open(filename, "rb") as file:
        return read(file, os.fspath(filename), placement(device))


def load(data: bytes, device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors of the bytes of a safetensors file."""
    return _tensors_of_bytes(data, "<bytes>", placement(device))


def load_metadata(filename: Any) -> dict[str, str]:
    """The text that a safetensors file holds about its tensors.

    Raises:
        FileFormatError: if the file is damaged.
    """
    from safetensors import safe_open

    with _guarded(os.fspath(filename), safe_open, filename, "np") as file:
        return file.metadata() or {}


def read(file: Any, what: str, place: Place) -> dict[str, Tensor]:
    """The tensors of a file that begins where it stands."""
    from safetensors import safe_open

    if descriptor(file) is None or not isinstance(file.name, str) or file.tell():
        return _tensors_of_bytes(file.read(), what, place)
    with _guarded(what, safe_open, file.name, "np") as opened:
        arrays = _guarded(what, opened.get_tensors)
        return {name: _tensor(name, array, what, place) for name, array in arrays.items()}


def _tensors_of_bytes(data: bytes, what: str, place: Place) -> dict[str, Tensor]:
    from safetensors import deserialize

    out = {}
    for name, entry in _guarded(what, deserialize, data):
        dtype = _DTYPES.get(entry["dtype"])
        if dtype is None:
            raise FileFormatError(
                f"{what} holds {name!r} of dtype {entry['dtype']}, which is none of fx"
            )
        memory = np.frombuffer(entry["data"], np.uint8)
        shape = tuple(entry["shape"])
        out[name] = tensor_of(memory, dtype, shape, False, f"{what}: {name!r}", place)
    return out


def _tensor(name: str, array: np.ndarray, what: str, place: Place) -> Tensor:
    if array.dtype not in dtypes.ALL:
        raise FileFormatError(
            f"{what} holds {name!r} of dtype {array.dtype.name}, which is none of fx"
        )
    memory = array.reshape(-1).view(np.uint8)
    return tensor_of(memory, array.dtype, array.shape, False, f"{what}: {name!r}", place)


def _specs(tensors: Any) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Arrays, and where the library finds them."""
    from safetensors import TensorSpec

    if not isinstance(tensors, Mapping) or any(not isinstance(name, str) for name in tensors):
        raise DTypeError(
            f"a safetensors file holds a dict of tensors by name, got {type(tensors).__name__}; "
            f"write model.state_dict(), or a .pt file for nested containers"
        )
    arrays = {}
    for name, value in tensors.items():
        array = np.require(array_of(value, f"save: {name!r}"), requirements="C")
        if array.dtype == dtypes.complex128:
            raise DTypeError(
                f"save: {name!r} is complex128, which safetensors files cannot hold; write "
                f"x.astype(fx.complex64), or a .pt file"
            )
        arrays[name] = array
    specs = {
        name: TensorSpec(
            dtype=array.dtype.name,
            shape=array.shape,
            data_ptr=array.__array_interface__["data"][0],
            data_len=array.nbytes,
        )
        for name, array in arrays.items()
    }
    return list(arrays.values()), specs


def _text(metadata: Mapping[str, str] | None) -> dict[str, str] | None:
    if metadata is None:
        return None
    if any(not isinstance(part, str) for pair in metadata.items() for part in pair):
        raise DTypeError("the metadata of a safetensors file is text by name; write str(value)")
    return dict(metadata)


def _guarded(what: str, function: Any, *args: Any, **kwargs: Any) -> Any:
    """A call of the library, whose errors become fx's."""
    from safetensors import SafetensorError

    try:
        return function(*args, **kwargs)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FileFormatError(f"{what}: {error}") from None


_DTYPES = {
    "BOOL": dtypes.bool_,
    "U8": dtypes.uint8,
    "I8": dtypes.int8,
    "U16": dtypes.uint16,
    "I16": dtypes.int16,
    "U32": dtypes.uint32,
    "I32": dtypes.int32,
    "U64": dtypes.uint64,
    "I64": dtypes.int64,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "F32": dtypes.float32,
    "F64": dtypes.float64,
    "C64": dtypes.complex64,
}
