"""Paths to the leaves of pytrees: tuples of keys that say how each container is entered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import optree

from fx.slotted import slotted


@slotted(frozen=True)
class DictKey:
    """The key of a dictionary; printed ``['key']``."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"


@slotted(frozen=True)
class SequenceKey:
    """The index of a list, tuple or deque; printed ``[0]``."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"


@slotted(frozen=True)
class GetAttrKey:
    """The field of a named tuple, dataclass or module; printed ``.name``."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"


@slotted(frozen=True)
class FlattenedIndexKey:
    """The number of a child of a node that names none; printed ``[<flat index 0>]``."""

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"


_DICTS = (optree.PyTreeKind.DICT, optree.PyTreeKind.ORDEREDDICT, optree.PyTreeKind.DEFAULTDICT)
_SEQUENCES = (optree.PyTreeKind.TUPLE, optree.PyTreeKind.LIST, optree.PyTreeKind.DEQUE)
_NAMED = (optree.PyTreeKind.NAMEDTUPLE, optree.PyTreeKind.STRUCTSEQUENCE)


def path_of(accessor: optree.PyTreeAccessor) -> tuple[Any, ...]:
    """optree's accessor as keys."""
    return tuple([_key(entry) for entry in accessor])


def _key(entry: Any) -> Any:
    given = entry.entry
    if entry.kind in _DICTS:
        return DictKey(given)
    if entry.kind in _SEQUENCES:
        return SequenceKey(given)
    if entry.kind in _NAMED:
        return GetAttrKey(entry.field)
    if isinstance(given, int):
        return FlattenedIndexKey(given)
    return GetAttrKey(given) if isinstance(given, str) else given


def keystr(keys: Iterable[Any], *, simple: bool = False, separator: str = "") -> str:
    """A path as text.

    Args:
        keys: as ``fx.tree.flatten_with_path`` gives them.
        simple: only the keys' values, without brackets and dots.
        separator: stands between the keys.

    Example:
        >>> import fx
        >>> paths = [path for path, _ in fx.tree.leaves_with_path({"layers": [{"w": 1}, {"w": 2}]})]
        >>> fx.tree_util.keystr(paths[1])
        "['layers'][1]['w']"
        >>> fx.tree_util.keystr(paths[1], simple=True, separator="/")
        'layers/1/w'
    """
    return separator.join([_simple(key) if simple else str(key) for key in keys])


def _simple(key: Any) -> str:
    if isinstance(key, SequenceKey):
        return str(key.idx)
    if isinstance(key, GetAttrKey):
        return key.name
    return str(key.key if isinstance(key, DictKey | FlattenedIndexKey) else key)
