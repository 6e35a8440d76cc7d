"""Packing: long Python lists as arrays, so that workers that read them do not copy them.

A forked worker shares the parent's memory until one of them writes to it; and reading an element of
a list writes to its reference count. A list of a million strings is copied into each worker, page
by page, as it is read. An array has one reference count, whatever its length.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableSequence
from itertools import accumulate
from typing import Any

import numpy as np

LONG = 5_000  # items from which a list that a dataset holds is packed for forked workers


class _Numbers:
    """Ints, floats or bools, as an array."""

    def __init__(self, values: list[Any], kind: type) -> None:
        self.array = np.array(values, {int: np.int64, float: np.float64, bool: np.bool_}[kind])

    def __getitem__(self, i: int) -> Any:
        return self.array[i].item()


class _Bytes:
    """Byte strings one after the other, and where each begins."""

    def __init__(self, values: list[bytes]) -> None:
        self.data = np.frombuffer(b"".join(values), np.uint8)
        self.starts = np.zeros(len(values) + 1, np.int64)
        self.starts[1:] = list(accumulate(map(len, values)))

    def __getitem__(self, i: int) -> Any:
        return self.data[self.starts[i] : self.starts[i + 1]].tobytes()


class _Strings(_Bytes):
    """Strings, as bytes of UTF-8."""

    def __init__(self, values: list[str]) -> None:
        super().__init__([value.encode("utf-8", "surrogatepass") for value in values])

    def __getitem__(self, i: int) -> str:
        return super().__getitem__(i).decode("utf-8", "surrogatepass")  # type: ignore[no-any-return]


class _Nothing:
    """None, any number of times."""

    def __getitem__(self, i: int) -> None:
        return None


class _Rows:
    """Tuples, lists or dicts of one form: a column for each of their places."""

    def __init__(self, form: Any, columns: list[Any]) -> None:
        self.form, self.columns = form, columns

    def __getitem__(self, i: int) -> Any:
        values = [column[i] for column in self.columns]
        if isinstance(self.form, tuple):
            return dict(zip(self.form, values))
        return tuple(values) if self.form is tuple else values


def _column(values: list[Any]) -> Any:
    """Values of one type as arrays; None if they cannot be."""
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    if kind in (int, float, bool):
        try:
            return _Numbers(values, kind)
        except OverflowError:
            return None
    if kind is str:
        return _Strings(values)
    if kind is bytes:
        return _Bytes(values)
    if kind is type(None):
        return _Nothing()
    if kind is dict:
        form: Any = tuple(values[0])
        if any(tuple(value) != form for value in values):
            return None
        parts = [[value[key] for value in values] for key in form]
    elif kind in (tuple, list):
        form, size = kind, len(values[0])
        if any(len(value) != size for value in values):
            return None
        parts = [[value[i] for value in values] for i in range(size)]
    else:
        return None
    columns = []
    for part in parts:
        column = _column(part)
        if column is None:
            return None
        columns.append(column)
    return _Rows(form, columns)


class PackedList(MutableSequence[Any]):
    """A list whose items are kept in arrays, for datasets that many worker processes read.

    It behaves as the list that it was made from: an item is made when it is asked for, equal to the
    one that was put in. Changing it, or comparing or adding it, makes a list of it first.

    Args:
        values: all of one type: str, bytes, int (of 64 bits), float, bool, or tuples, lists or
            dicts of one form of these.

    Raises:
        TypeError: for other values.

    Example:
        >>> import fx
        >>> names = fx.data.PackedList(["a.png", "b.png"])
        >>> names[1], len(names), names[-2:]
        ('b.png', 2, ['a.png', 'b.png'])
    """

    __slots__ = ("_column", "_list", "_size")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Iterable[Any] = ()) -> None:
        items = list(values)
        column = _column(items) if items else _Nothing()
        if column is None:
            kinds = ", ".join(sorted({type(v).__name__ for v in items}))
            raise TypeError(
                f"PackedList takes str, bytes, int, float, bool, or tuples, lists or dicts of one "
                f"form of these, all of one type; got {kinds}"
            )
        self._column: Any = column
        self._size = len(items)
        self._list: list[Any] | None = None

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return list  # isinstance(x, list) holds, as it did for what a dataset's author wrote

    def __len__(self) -> int:
        return self._size if self._list is None else len(self._list)

    def __getitem__(self, index: Any) -> Any:
        if self._list is not None:
            return self._list[index]
        if isinstance(index, slice):
            return [self._column[i] for i in range(*index.indices(self._size))]
        i = index.__index__()
        if i < 0:
            i += self._size
        if not 0 <= i < self._size:
            raise IndexError("list index out of range")
        return self._column[i]

    def __iter__(self) -> Iterator[Any]:
        if self._list is not None:
            return iter(self._list)
        return map(self._column.__getitem__, range(self._size))

    def _unpacked(self) -> list[Any]:
        if self._list is None:
            self._list = list(self)
            self._column = None
        return self._list

    def __setitem__(self, index: Any, value: Any) -> None:
        self._unpacked()[index] = value

    def __delitem__(self, index: Any) -> None:
        del self._unpacked()[index]

    def insert(self, index: int, value: Any) -> None:
        """Put a value before an index."""
        self._unpacked().insert(index, value)

    def sort(self, **options: Any) -> None:
        """Sort it, as ``list.sort``."""
        self._unpacked().sort(**options)

    def copy(self) -> list[Any]:
        """A list of the items."""
        return list(self)

    def __add__(self, other: Any) -> list[Any]:
        return [*self, *other]

    def __radd__(self, other: Any) -> list[Any]:
        return [*other, *self]

    def __mul__(self, count: int) -> list[Any]:
        return list(self) * count

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list) and list(self) == list(other)

    def __lt__(self, other: Any) -> bool:
        return list(self) < list(other)

    def __gt__(self, other: Any) -> bool:
        return list(self) > list(other)

    def __repr__(self) -> str:
        return repr(list(self))

    def __reduce_ex__(self, protocol: Any) -> Any:  # __reduce__ would be looked up on __class__
        return PackedList._rebuilt, (self._column, self._size, self._list)

    @staticmethod
    def _rebuilt(column: Any, size: int, items: list[Any] | None) -> PackedList:
        out = PackedList()
        out._column, out._size, out._list = column, size, items
        return out


# the lists of datasets --------------------------------------------------------------------------

Packs = dict[tuple[Any, ...], PackedList]  # by the names and numbers that lead to the list


def _lists(dataset: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The long lists that a dataset holds, and the datasets inside it."""
    from fx.data.dataset import Dataset

    held = getattr(dataset, "__dict__", None)
    if not isinstance(dataset, Dataset) or held is None or len(path) > 8:
        return
    for name, value in held.items():
        if isinstance(value, Dataset):
            yield from _lists(value, (*path, name))
        elif name == "datasets" and isinstance(value, list | tuple | dict):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, part in items:
                yield from _lists(part, (*path, name, key))
        elif type(value) is list and len(value) >= LONG:
            yield (*path, name), value


def packs(dataset: Any) -> Packs:
    """The long lists of a dataset that can be packed, in the parent before it forks."""
    out: Packs = {}
    done: dict[int, PackedList | None] = {}
    for path, values in _lists(dataset):
        if id(values) not in done:
            try:
                done[id(values)] = PackedList(values)
            except TypeError:
                done[id(values)] = None
        found = done[id(values)]
        if found is not None:
            out[path] = found
    return out


_kept: list[Any] = []  # lists that are not read any more; to free them would write to every item


def put(packs: Packs, dataset: Any) -> None:
    """Let a dataset hold packed lists instead of its own, in a worker."""
    for path, packed in packs.items():
        owner = dataset
        for step in path[:-1]:
            owner = owner[step] if isinstance(owner, list | tuple | dict) else vars(owner)[step]
        _kept.append(vars(owner)[path[-1]])
        vars(owner)[path[-1]] = packed
