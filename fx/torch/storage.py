"""The memory of a tensor as PyTorch's scripts ask for it: its address, its size, a view's offset.

Values are written through tensors alone: what would write into the memory itself says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fx.tape import CELL
from fx.tensor import Tensor
from fx.torch._types import strided
from fx.writing.layouts import layout as lying
from fx.writing.layouts import owner_of

__all__ = ["TypedStorage", "UntypedStorage"]


class UntypedStorage:
    """The bytes that a tensor and its views lie in.

    Example:
        >>> import fx.torch as torch
        >>> x = torch.zeros(3, 4)
        >>> x[1].untyped_storage().nbytes(), x[1].storage_offset()
        (48, 4)
    """

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return int(_memory(self._tensor).ctypes.data)

    def nbytes(self) -> int:
        """The number of bytes."""
        return int(_length(self._tensor) * self._tensor.element_size())

    def size(self) -> int:
        """The number of bytes."""
        return self.nbytes()

    def __len__(self) -> int:
        return self.nbytes()

    def element_size(self) -> int:
        """1: the number of bytes of a byte."""
        return 1

    @property
    def device(self) -> Any:
        """Where it is."""
        return self._tensor.device

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and self.data_ptr() == other.data_ptr()

    def __hash__(self) -> int:
        return hash(self.data_ptr())

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"a storage here has no {name!r}: values are read and written through tensors; write "
            f"x.flatten(), x.copy_(y) or x.resize_(n)"
        )

    def __repr__(self) -> str:
        return f"[torch.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"


class TypedStorage(UntypedStorage):
    """The elements that a tensor and its views lie in."""

    @property
    def dtype(self) -> Any:
        """The dtype of the elements."""
        return self._tensor.dtype

    def size(self) -> int:
        """The number of elements."""
        return _length(self._tensor)

    def __len__(self) -> int:
        return self.size()

    def element_size(self) -> int:
        """The number of bytes of an element."""
        return self._tensor.element_size()

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return UntypedStorage(self._tensor)

    def __repr__(self) -> str:
        return f"[torch.storage.TypedStorage(dtype={self.dtype}) of size {self.size()}]"


def is_storage(obj: Any) -> bool:
    """Whether an object is the memory of a tensor."""
    return isinstance(obj, UntypedStorage)


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The bytes that it and its views lie in."""
    return UntypedStorage(self)


def storage(self: Tensor) -> TypedStorage:
    """The elements that it and its views lie in."""
    return TypedStorage(self)


def storage_offset(self: Tensor) -> int:
    """How many elements of its memory lie before its first one."""
    array, whole = _placed(self)
    return 0 if array is None else _apart(array, whole)


def _apart(array: Any, whole: Any) -> int:
    """The elements before the first one, wherever axes run backwards."""
    back = sum(min(s, 0) * (n - 1) for s, n in zip(array.strides, array.shape))
    return int(array.ctypes.data + back - whole.ctypes.data) // array.itemsize


def _placed(x: Any) -> tuple[Any, Any]:
    """An array that lies in its memory as a tensor does in its own, and that; None if all is."""
    record = getattr(x, "_view", None)
    if record is not None and record.family is not None:
        at = lying(record.family, record.path)
        return at, owner_of(at)
    held = x.read() if x.level == CELL else x
    if type(held) is not Tensor or type(held._a) is not np.ndarray:
        return None, None  # what is staged lies nowhere yet
    return held._a, owner_of(held._a)


def _length(x: Any) -> int:
    array, whole = _placed(x)
    return int(x.numel() if array is None else whole.nbytes // array.itemsize)


def _memory(x: Any) -> Any:
    """The array that owns the memory of a tensor."""
    record = getattr(x, "_view", None)
    held = x.read() if x.level == CELL else x
    if record is not None and record.family is not None:
        family = record.family
        cell = family.cell
        if cell is None and family.of_user:
            cell = family.root()
        held = held if cell is None else cell.read()
        if cell is None and family.array is not None:
            return owner_of(family.array)
    if type(held) is not Tensor or type(held._a) is not np.ndarray:
        raise RuntimeError(f"{x.spec!r} has no memory that can be told; ask for it outside of jit")
    return owner_of(held._a)


def install() -> None:
    """Put the methods on Tensor."""
    Tensor.untyped_storage, Tensor.storage = untyped_storage, storage  # type: ignore[attr-defined]
    Tensor.storage_offset = storage_offset
    Tensor.layout = property(lambda self: strided, doc="``torch.strided``, the one there is.")  # type: ignore[attr-defined]
