"""TensorSpec: what is known about a tensor without running anything.

It is the value that spec rules map, and it is the "array" of a tensor on the ``meta`` device.
"""

from __future__ import annotations

from math import prod
from typing import Any

from fx.dtypes import DType


class TensorSpec:
    """Shape, dtype and device of a tensor.

    Args:
        shape: sizes, a tuple of ints.
        dtype: a dtype object.
        device: the device's name, ``"cpu"`` unless told.

    Example:
        >>> import fx
        >>> fx.TensorSpec((2, 3), fx.float32)
        float32[2,3]
    """

    __slots__ = ("device", "dtype", "shape")
    __array_ufunc__ = None  # NumPy must never take a spec for an array

    def __init__(self, shape: tuple[int, ...], dtype: DType[Any], device: str = "cpu") -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.device = device

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The number of bytes that the elements take."""
        return self.size * self.dtype.itemsize

    def with_(
        self, shape: tuple[int, ...] | None = None, dtype: DType[Any] | None = None
    ) -> TensorSpec:
        """The same spec with another shape or dtype."""
        return TensorSpec(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            self.device,
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TensorSpec)
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.device == other.device
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.device))

    def __repr__(self) -> str:
        where = "" if self.device == "cpu" else f"@{self.device}"
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]{where}"

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"a spec {self!r} holds no values and cannot become an array")
