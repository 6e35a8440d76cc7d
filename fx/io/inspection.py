"""Bounds on what a file builds: memory, keys whose hash costs little, trees that can be walked."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import numpy as np

from fx.devices import Device
from fx.errors import FileFormatError

DEPTH = 500  # what every recursive function of Python can walk
_KEY_PARTS = 64
_KEYS = frozenset((float, bool, type(None), complex, Device))
_MAPPINGS = frozenset((dict, OrderedDict, Counter, defaultdict))
_SEQUENCES = frozenset((list, tuple, deque))
_CONTAINERS = _MAPPINGS | _SEQUENCES
_FREE = 64 << 20  # bytes that a file may always take
_TIMES = 256  # and how many times its own size besides: an empty set is one byte in a pickle
LONG = 1000  # characters from which comparing two texts is work that counts
ENTRY = 100  # bytes of an entry of a dict or set, with the room that is kept for more


class Allowance:
    """The bytes that reading one file may still make or walk over.

    Whatever a file makes out of less than it takes (records that expand, copies of what it holds
    once, empty containers) is counted here, by all who read the file.

    Args:
        size: of the file.
    """

    __slots__ = ("left", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.left = _FREE + _TIMES * size

    def spend(self, nbytes: int) -> None:
        """Count bytes, before they are made.

        Raises:
            FileFormatError: if the file asks for more than there are.
        """
        self.left -= nbytes
        if self.left < 0:
            raise FileFormatError(
                f"what the file of {self.size} bytes holds would expand to more than {_TIMES} "
                f"times its size; if you trust it, unpack it and save it anew"
            )


def weight(value: Any) -> int:
    """What a copy of a container, text or bytes takes: an upper bound in bytes."""
    kind = type(value)
    if kind in (bytes, bytearray):
        return len(value)
    if kind is str:
        return 4 * len(value)
    if kind in _CONTAINERS or kind in (set, frozenset):
        return ENTRY * len(value)
    return 0


def check_key(key: Any) -> int:
    """Refuse a key of which hash or comparison may take long: hashes of tuples are not kept.

    Returns:
        the bytes that comparing it walks over, where those are many.

    Raises:
        ValueError: naming what is wrong with it.
    """
    long = 0
    todo, parts = [key], 0
    while todo:
        part = todo.pop()
        parts += 1
        kind = type(part)
        if kind is tuple or kind is frozenset:
            if parts + len(todo) + len(part) > _KEY_PARTS:
                raise ValueError(f"a key of more than {_KEY_PARTS} parts")
            todo.extend(part)
        elif kind is str or kind is bytes:
            long += len(part) if len(part) > LONG else 0
        elif kind is int:
            if part.bit_length() > 64:  # larger ones can be chosen to have one hash
                raise ValueError("an integer of more than 64 bits as a key")
        elif kind not in _KEYS and not isinstance(part, np.generic | np.dtype):
            raise ValueError(f"a {kind.__name__} as a key")
    return long


def check_size(root: Any, nbytes: int) -> None:
    """Refuse a tree that is deep, endless, or small in the file and huge to whoever walks it.

    Args:
        root: containers and leaves; parts may be shared.
        nbytes: how long its pickle is.

    Raises:
        ValueError: naming what is wrong with it.
    """
    most = max(10_000_000, 100 * nbytes)
    known: dict[int, tuple[int, int]] = {}  # size and depth of containers that are walked
    nest: list[list[Any]] = []  # container, its children still to see, size, depth
    opened: set[int] = set()

    def enter(container: Any) -> None:
        opened.add(id(container))
        if type(container) in _MAPPINGS:
            children = list(container.values())
            children += getattr(container, "__dict__", {}).values()
        else:
            children = container
        inner = [c for c in children if type(c) in _CONTAINERS]
        nest.append([container, inner, 1 + len(children), 1])

    if type(root) in _CONTAINERS:
        enter(root)
    while nest:
        frame = nest[-1]
        container, inner, size, depth = frame
        if size > most or depth > DEPTH or len(nest) > 2 * DEPTH:
            raise ValueError(
                f"containers nested more than {DEPTH} deep"
                if size <= most
                else "containers that refer to each other until they have millions of members"
            )
        if not inner:
            nest.pop()
            opened.discard(id(container))
            known[id(container)] = size, depth
            if nest:
                nest[-1][2] += size
                nest[-1][3] = max(nest[-1][3], depth + 1)
            continue
        child = inner.pop()
        if id(child) in opened:
            raise ValueError("a container that holds itself")
        found = known.get(id(child))
        if found is None:
            enter(child)
        else:
            frame[2] += found[0]
            frame[3] = max(depth, found[1] + 1)
