"""``x.at[index].set(v)`` and its family, with the index language of ``x[index]``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fx.prims.elementwise as elementwise
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.config import modes
from fx.errors import DTypeError
from fx.ops.indexing.beyond import beyond
from fx.ops.indexing.getting import getitem
from fx.ops.indexing.language import shown
from fx.ops.indexing.positions import positioned
from fx.ops.indexing.putting import is_basic
from fx.ops.indexing.updating import cast_to, put, updated
from fx.prims.creation import constant_like
from fx.tape import CELL
from fx.tensor import Tensor


class At:
    """``x.at``: index it, and say what shall happen there.

    Example:
        >>> import fx
        >>> x = fx.zeros(4)
        >>> x.at[1:3].set(5.0)
        tensor([0., 5., 5., 0.])
        >>> x.at[[0, 0, 2]].add(1.0)
        tensor([2., 0., 1., 0.])
    """

    __slots__ = ("_x",)

    def __init__(self, x: Tensor) -> None:
        self._x = x

    def __getitem__(self, index: Any) -> Place:
        return Place(self._x, index)

    def __repr__(self) -> str:
        return f"{self._x!r}.at"


class Place:
    """Some elements of a tensor: each method returns a copy of the tensor that differs there.

    Where an index names an element several times, ``set`` keeps the last value, and the others
    combine all of them, one after another.
    """

    __slots__ = ("_index", "_x")

    def __init__(self, x: Tensor, index: Any) -> None:
        self._x = x.read() if x.level == CELL else x
        self._index = index if modes.stage is None else positioned(x, index)

    def get(
        self, *, mode: Any = None, fill_value: Any = None, indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Tensor:  # fmt: skip
        """``x[index]``.

        Args:
            mode: what becomes of integers that are out of range: None raises, "clip" takes the
                nearest, "fill" gives ``fill_value``.
            fill_value: NaN unless told, of integers the one farthest off, of bool True.
            indices_are_sorted, unique_indices: accepted for JAX's sake.

        Example:
            >>> import fx
            >>> fx.tensor([1.0, 2.0]).at[fx.tensor([1, 9])].get(mode="fill", fill_value=0.0)
            tensor([2., 0.])
        """
        if mode is not None:
            return beyond(self._x, self._index, mode, fill_value, getitem, changes=False)
        return getitem(self._x, self._index)

    def set(
        self, value: Any, *, mode: Any = None, indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Tensor:  # fmt: skip
        """With ``value`` there.

        Args:
            value: a number or tensor that broadcasts to the shape of ``x[index]``, of the kind of
                ``x`` or a lower one.
            mode: what becomes of integers that are out of range: None raises, "drop" leaves them
                out, "clip" takes the nearest.
            indices_are_sorted, unique_indices: accepted for JAX's sake.

        Raises:
            ShapeError: if it does not broadcast.
            DTypeError: if its kind is higher, a float for an integer tensor.
            IndexingError: as in ``x[index]``.

        Example:
            >>> import fx
            >>> fx.zeros(2, 2).at[:, 0].set(fx.tensor([1.0, 2.0]))
            tensor([[1., 0.],
                    [2., 0.]])
        """
        x, index = self._x, self._index
        if mode is not None:
            return self._beyond("set", value, mode)
        if type(x) is Tensor and modes.stage is None and is_basic(index):
            value = cast_to(x, value, "set")
            if type(value) is Tensor:
                return put(x, value, index=index)  # type: ignore[no-any-return]
        return updated("set", x, index, value)

    def add(
        self, value: Any, *, mode: Any = None, indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Tensor:  # fmt: skip
        """With ``value`` added there; arguments and errors as in ``set``."""
        if mode is not None:
            return self._beyond("add", value, mode)
        return updated("add", self._x, self._index, value)

    def subtract(
        self, value: Any, *, mode: Any = None, indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Tensor:  # fmt: skip
        """With ``value`` subtracted there; arguments and errors as in ``set``."""
        if mode is not None:
            return self._beyond("subtract", value, mode)
        return updated("add", self._x, self._index, value, of_value=elementwise.negative)

    def multiply(
        self, value: Any, *, mode: Any = None, indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Tensor:  # fmt: skip
        """With what is there multiplied by ``value``; arguments and errors as in ``set``."""
        if mode is not None:
            return self._beyond("multiply", value, mode)
        return updated("mul", self._x, self._index, value)

    def divide(
        self, value: Any, *, mode: Any = None, indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Tensor:  # fmt: skip
        """With what is there divided by ``value``; arguments and errors as in ``set``."""
        if mode is not None:
            return self._beyond("divide", value, mode)
        if self._x.dtype not in dtypes.INEXACT:
            raise DTypeError(
                f"x.at[...].divide: the quotients of {self._x.dtype.name} are no integers; "
                f"write x.astype(fx.float32).at[...].divide(v)"
            )
        return elementwise.divide(self._x, updated("mul", self._ones(), self._index, value))

    def power(
        self, value: Any, *, mode: Any = None, indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Tensor:  # fmt: skip
        """With what is there raised to ``value``; arguments and errors as in ``set``."""
        if mode is not None:
            return self._beyond("power", value, mode)
        return elementwise.power(self._x, updated("mul", self._ones(), self._index, value))

    def min(
        self, value: Any, *, mode: Any = None, indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Tensor:  # fmt: skip
        """With the smaller of what is there and ``value``; arguments and errors as in ``set``."""
        if mode is not None:
            return self._beyond("min", value, mode)
        return updated("min", self._x, self._index, value)

    def max(
        self, value: Any, *, mode: Any = None, indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Tensor:  # fmt: skip
        """With the greater of what is there and ``value``; arguments and errors as in ``set``."""
        if mode is not None:
            return self._beyond("max", value, mode)
        return updated("max", self._x, self._index, value)

    def _beyond(self, name: str, value: Any, mode: Any) -> Tensor:
        def act(x: Tensor, index: Any) -> Tensor:
            return getattr(Place(x, index), name)(value)  # type: ignore[no-any-return]

        return beyond(self._x, self._index, mode, None, act, changes=True)

    def apply(self, function: Callable[[Tensor], Any]) -> Tensor:
        """With ``function(x[index])`` there, which must broadcast to its argument's shape.

        Example:
            >>> import fx
            >>> fx.tensor([1.0, 4.0, 9.0]).at[1:].apply(fx.sqrt)
            tensor([1., 2., 3.])
        """
        return self.set(function(self.get()))

    mul = multiply
    sub = subtract
    div = divide

    def _ones(self) -> Tensor:
        return shape_prims.stretched(constant_like(1, self._x), self._x.shape)

    def __repr__(self) -> str:
        return f"{self._x!r}.at[{shown(self._index)}]"
