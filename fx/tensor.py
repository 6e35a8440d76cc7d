"""Tensor: an immutable value. Operators and methods are attached by ``fx.ops``.

A tensor has two slots: ``_a``, the backend's array, and ``_node``, the tape node that computed it
(None when nothing needs its gradient, a ``Leaf`` when it requires grad itself). Tracers of running
transforms are subclasses, so that ``type(x) is Tensor`` is the one test on the fast path.
"""

from __future__ import annotations

from functools import partial
from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar

from fx import seen
from fx.devices import Device, device_of_array
from fx.dtypes import DType
from fx.spec import TensorSpec

PLAIN = -1  # the level of a tensor that belongs to no transform


class Size(int):
    """``x.size``: the number of elements (the Array API) that can be called (PyTorch's shape)."""

    shape: tuple[int, ...]
    seen: seen.Size  # the shape as PyTorch's scripts see it

    def __call__(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]


class Tensor:
    """An immutable array with a dtype, a device and, where recorded, its place on the tape.

    Make one with ``fx.tensor``, ``fx.asarray``, ``fx.from_numpy`` or a creation function.

    Example:
        >>> import fx
        >>> x = fx.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> (x @ x).sum()
        tensor(54.)
    """

    __slots__ = ("__weakref__", "_a", "_node", "_noted")
    __array_priority__ = 1000
    level: ClassVar[int] = PLAIN
    written: ClassVar[bool] = False  # whether it is read through what it shares (fx.writing)

    _a: Any
    _node: Any
    _noted: Any  # how it shares elements with others, where a program may write (fx.writing)

    if TYPE_CHECKING:  # attached by fx.ops

        @property
        def _shape(self) -> tuple[int, ...]: ...
        @property
        def _dtype(self) -> DType[Any]: ...
        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def dtype(self) -> DType[Any]: ...
        def __getattr__(self, name: str) -> Any: ...
        def __add__(self, other: Any) -> Tensor: ...
        def __mul__(self, other: Any) -> Tensor: ...
        def __getitem__(self, index: Any) -> Tensor: ...

    def __init_subclass__(cls) -> None:
        seen.keep(cls)

    if not TYPE_CHECKING:  # read in C: `x._shape` and `x._dtype` are asked for in every operation
        shape = property(attrgetter("_a.shape"), doc="The sizes of the axes.")
        dtype = property(attrgetter("_a.dtype"), doc="The dtype of the elements.")

    @property
    def device(self) -> Device:
        """Where the elements live."""
        found = device_of_array[type(array := self._a)]
        device = _new(Device)  # the name is known to be one
        device.name = found if type(found) is str else found(array)
        device._saved = ()
        return device

    @property
    def spec(self) -> TensorSpec:
        """Shape, dtype and device together."""
        return TensorSpec(self._shape, self._dtype, self.device.name)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._a.ndim if type(self) is Tensor else len(self._shape)

    @property
    def size(self) -> Size:
        """The number of elements; ``x.size()`` and ``x.size(0)`` give sizes as in PyTorch."""
        return _sizes[self._a.shape if type(self) is Tensor else self._shape]

    @property
    def itemsize(self) -> int:
        """The number of bytes of one element."""
        return self._dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The number of bytes of all elements."""
        return prod(self._shape) * self._dtype.itemsize

    def __hash__(self) -> int:
        return id(self)


seen.keep(Tensor)


class _Sizes(dict[tuple[int, ...], Size]):
    """The ``Size`` of each shape, made once."""

    def __missing__(self, shape: tuple[int, ...]) -> Size:
        if len(self) >= _MOST_SIZES:
            self.clear()
        shape = tuple([int(n) for n in shape])
        made = Size(prod(shape))
        made.shape, made.seen = shape, seen.Size(shape)
        self[shape] = made
        return made


_MOST_SIZES = 4096
_sizes = _Sizes()


def new_tensor(array: Any) -> Tensor:
    """Wrap a backend's array (or a spec, on ``meta``) without a copy and without a node."""
    tensor = _blank()
    tensor._a = array
    tensor._node = tensor._noted = None
    return tensor


def bare(x: Tensor) -> Tensor:
    """The value of a plain tensor alone, without its node."""
    return new_tensor(x._a)


_new = object.__new__
_blank = partial(_new, Tensor)  # its maker fills all slots: asking for an empty one takes 0.2 µs
