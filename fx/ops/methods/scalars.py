"""What Python asks of a tensor: one number, a truth value, a length, a list, membership."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy import ndarray

from fx.config import modes
from fx.devices import backend
from fx.dtypes import bfloat16, bool_, float32, is_integral
from fx.errors import DTypeError, ShapeError
from fx.levels import live
from fx.tensor import Tensor


def _values(x: Tensor) -> Any:
    """The values as a NumPy array whose ``item`` and ``tolist`` give Python's own numbers."""
    array = backend(x.device.name).to_numpy(x._a)
    return array.astype(float32) if array.dtype == bfloat16 else array


def item(self: Tensor) -> Any:
    """The one element as a Python number.

    In a function under ``jit`` it is computed with, stored and returned in each call; only what
    Python asks about it (``if``, ``f"{...}"``) is a question.

    Raises:
        ShapeError: unless there is exactly one element.
        BatchedValueError: inside ``vmap``, where there is one value a lane.

    Example:
        >>> import fx
        >>> fx.tensor([[2.5]]).item()
        2.5
    """
    if not live and type(self) is Tensor:  # nothing is staged
        array = self._a
        if type(array) is ndarray and array.size == 1 and array.dtype.kind in "biufc":
            return array.item()
    stage = modes.stage
    found = None if stage is None else stage.number_of(self)
    return _number(self) if found is None else found


def _number(self: Tensor) -> Any:
    if type(self) is Tensor and type(self._a) is ndarray and self._a.dtype.kind in "biufc":
        array = self._a
    else:
        array = _values(self)
    if array.size != 1:
        raise ShapeError(
            f"a tensor of shape {self.shape} with {array.size} elements is not one number; "
            f"reduce it (x.sum().item()), choose an element (x[0].item()), or write x.tolist()"
        )
    return array.item()


def tolist(self: Tensor) -> Any:
    """The values as nested lists of Python numbers; one number where there is no axis.

    Example:
        >>> import fx
        >>> fx.tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
    """
    return _values(self).tolist()


def __bool__(self: Tensor) -> bool:
    if modes.stage is not None and self._dtype != bool_ and self.size == 1:
        self = self != 0  # what a compiled program assumes is the answer, not the number
    array = self._a
    if self.size != 1:
        raise ShapeError(
            f"the truth value of a tensor of shape {self.shape} is ambiguous; "
            f"write x.any(), x.all(), or fx.where(x, a, b) to choose element by element"
        )
    return bool(array if not self.ndim and self.device.name == "cpu" else _number(self))


def __int__(self: Tensor) -> int:
    return int(_number(self))


def __float__(self: Tensor) -> float:
    return float(_number(self))


def __complex__(self: Tensor) -> complex:
    return complex(_number(self))


def __index__(self: Tensor) -> int:
    if not is_integral(self._dtype):
        raise DTypeError(
            f"only an integer tensor can be an index, got {self.dtype.name}; "
            f"write x.astype(fx.int64)"
        )
    return _number(self)  # type: ignore[no-any-return]


def __len__(self: Tensor) -> int:
    shape = self._shape
    if not shape:
        raise TypeError("a tensor of shape () has no length; x.numel() counts its elements")
    return shape[0]


def __iter__(self: Tensor) -> Iterator[Tensor]:
    """The slices along the first axis."""
    shape = self._shape
    if not shape:
        raise TypeError("a tensor of shape () cannot be iterated over; write x.item()")
    return map(self.__getitem__, range(shape[0]))


def __contains__(self: Tensor, value: Any) -> bool:
    """Whether any element equals ``value``."""
    hits = self == value
    return bool(_values(hits).any()) if isinstance(hits, Tensor) else False


def __format__(self: Tensor, spec: str) -> str:
    """Format the number of a 0-d tensor, ``f"{loss:.3f}"``; without a spec, any tensor."""
    if not spec:
        plain = type(self) is Tensor or getattr(self, "transform", None) == "jit"
        number = plain and not self.ndim and self.device.name == "cpu"
        return format(item(self)) if number else str(self)
    if self.ndim:
        raise TypeError(
            f"a tensor of shape {self.shape} does not take the format {spec!r}; "
            f"format one number, f'{{x.mean().item():{spec}}}', or see fx.set_printoptions"
        )
    return format(item(self), spec)
