"""Old names of tensors by dtype (``torch.LongTensor``), ``torch.Size``, ``torch.dtype``."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

from fx import dtypes
from fx.ops.torch_attributes import constructed
from fx.tensor import Tensor


class _OfDtype(type):
    """A class that stands for the tensors of one dtype."""

    dtype: Any

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        return constructed(cls.dtype, args, device)

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Tensor) and x.dtype == cls.dtype

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


def _of(name: str, dtype: Any) -> Any:
    doc = f"The tensors of dtype {dtype.name}: call it with sizes or values."
    return _OfDtype(name, (), {"dtype": dtype, "__doc__": doc, "__module__": __name__})


FloatTensor = _of("FloatTensor", dtypes.float32)
DoubleTensor = _of("DoubleTensor", dtypes.float64)
HalfTensor = _of("HalfTensor", dtypes.float16)
BFloat16Tensor = _of("BFloat16Tensor", dtypes.bfloat16)
LongTensor = _of("LongTensor", dtypes.int64)
IntTensor = _of("IntTensor", dtypes.int32)
ShortTensor = _of("ShortTensor", dtypes.int16)
CharTensor = _of("CharTensor", dtypes.int8)
ByteTensor = _of("ByteTensor", dtypes.uint8)
BoolTensor = _of("BoolTensor", dtypes.bool_)
TYPES = (
    FloatTensor, DoubleTensor, HalfTensor, BFloat16Tensor, LongTensor, IntTensor, ShortTensor,
    CharTensor, ByteTensor, BoolTensor,
)  # fmt: skip


class _Tuples(type):
    """Every shape is a ``Size``: shapes of fx are plain tuples."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, tuple) and all(isinstance(n, int) for n in x)


class Size(tuple, metaclass=_Tuples):
    """Sizes of axes: a tuple.

    Example:
        >>> import fx.torch as torch
        >>> torch.Size([2, 3]).numel()
        6
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[int] = ()) -> Any:
        """Sizes from any sequence of ints."""
        return tuple.__new__(cls, sizes)

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return prod(self)

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"


dtype = np.dtype


class _Named:
    """A constant that is only a name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"


class layout(_Named):
    """How elements lie in memory; there is one way."""


class memory_format(_Named):
    """Which axis moves fastest; fx chooses by itself, so these change nothing."""


strided = layout("strided")
contiguous_format = memory_format("contiguous_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")
preserve_format = memory_format("preserve_format")
