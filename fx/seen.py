"""Dtypes and shapes as a PyTorch script sees them: ``torch.float32``, ``torch.Size([2, 3])``.

fx itself computes with ``numpy.dtype`` and plain tuples. Modules that import ``fx.torch`` get
these objects instead (``fx/torch/_types.py`` decides): equal to what fx has, and taken wherever
that is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

import numpy as np

TORCH: dict[np.dtype, TorchDType] = {}  # by fx's own, filled by fx.dtypes


class TorchDType:
    """A dtype with PyTorch's name and attributes; equal to the one of fx that it stands for.

    NumPy takes it as a dtype, since it has an attribute of that name; what PyTorch's dtypes do not
    have (``name``, ``kind``) is NumPy's.

    Example:
        >>> import fx.torch as torch
        >>> torch.ones(2).dtype, torch.float64.is_floating_point, torch.int8.itemsize
        (torch.float32, True, 1)
    """

    __slots__ = ("_hash", "dtype", "is_complex", "is_floating_point", "is_signed", "itemsize")
    dtype: Any
    is_complex: bool
    is_floating_point: bool
    is_signed: bool
    itemsize: int

    def __init__(self, dtype: np.dtype) -> None:
        put = object.__setattr__
        put(self, "dtype", dtype)
        put(self, "_hash", hash(dtype))
        put(self, "itemsize", dtype.itemsize)
        put(self, "is_complex", dtype.kind == "c")
        put(self, "is_floating_point", dtype.kind == "f" or dtype.name == "bfloat16")
        put(self, "is_signed", dtype.kind not in "bu")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"'torch.dtype' object has no attribute {name!r}")
        return getattr(self.dtype, name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"attributes of {self!r} cannot be set")

    def __eq__(self, other: Any) -> bool:
        if type(other) is TorchDType or other is None:
            return self is other
        return bool(self.dtype == other)

    def __hash__(self) -> int:
        return self._hash  # type: ignore[no-any-return, attr-defined]

    def __repr__(self) -> str:
        return f"torch.{self.dtype.name}"

    def __reduce__(self) -> Any:
        return _of_name, (self.dtype.name,)


TorchDType.__name__ = TorchDType.__qualname__ = "dtype"


def _of_name(name: str) -> TorchDType:
    """What a pickled dtype becomes: the one object of its name."""
    import fx.dtypes

    return TORCH[fx.dtypes.as_dtype(name)]


# what a module reads ----------------------------------------------------------------------------

_READ = ("shape", "dtype")
_watched: list[type] = []
_seen: list[Any] = []  # what puts the decision in front of a property, where fx.torch is loaded


def keep(cls: type) -> None:
    """Give a class ``_shape`` and ``_dtype``: its properties as fx's own hot code reads them."""
    own = [name for name in _READ if type(cls.__dict__.get(name)) is property]
    for name in own:
        setattr(cls, f"_{name}", cls.__dict__[name])
    if own:
        _watched.append(cls)
        _look(cls)


def _look(cls: type) -> None:
    for name in _READ:
        if _seen and f"_{name}" in cls.__dict__:
            setattr(cls, name, _seen[0](name, cls.__dict__[f"_{name}"]))


def watch(decided: Any) -> None:
    """Let ``decided(name, property)`` stand in the place of the properties of all tensors."""
    if not _seen:
        _seen.append(decided)
        for cls in _watched:
            _look(cls)


def face() -> str:
    """What the user's module that is running calls its library, in what is printed there."""
    if _seen:
        from fx.frames import user_frame
        from fx.writing.who import writes

        frame = user_frame(2)
        if frame is None or writes(frame):
            return "torch"
    return "fx"


class _Tuples(type):
    """Every shape is a ``Size``: shapes of fx are plain tuples."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, tuple) and all(isinstance(n, int) for n in x)


class Size(tuple, metaclass=_Tuples):
    """Sizes of axes: a tuple.

    Example:
        >>> import fx.torch as torch
        >>> torch.zeros(2, 3).shape, torch.Size([2, 3]).numel()
        (torch.Size([2, 3]), 6)
    """

    plain: tuple[int, ...]  # the same, which gives an element in a third of the time

    def __new__(cls, sizes: Iterable[int] = ()) -> Any:
        """Sizes from any sequence of ints."""
        made = tuple.__new__(cls, sizes)
        made.plain = tuple(made)
        return made

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return prod(self)

    def __getitem__(self, index: Any) -> Any:
        found = self.plain[index]
        return Size(found) if type(found) is tuple else found

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return Size(other + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        return Size(tuple.__mul__(self, other))

    __rmul__ = __mul__

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def __reduce__(self) -> Any:
        return Size, (tuple(self),)
