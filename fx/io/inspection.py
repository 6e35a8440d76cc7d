"""Bounds on what a pickle builds: keys whose hash costs little, and trees that can be walked."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import numpy as np

from fx.devices import Device

DEPTH = 500  # what every recursive function of Python can walk
_KEY_PARTS = 64
_KEYS = frozenset((str, bytes, float, bool, type(None), complex, frozenset, Device))
_MAPPINGS = frozenset((dict, OrderedDict, Counter, defaultdict))
_SEQUENCES = frozenset((list, tuple, deque))
_CONTAINERS = _MAPPINGS | _SEQUENCES


def check_key(key: Any) -> None:
    """Refuse a key of which hash or comparison may take long: hashes of tuples are not kept.

    Raises:
        ValueError: naming what is wrong with it.
    """
    todo, parts = [key], 0
    while todo:
        part = todo.pop()
        parts += 1
        kind = type(part)
        if kind is tuple:
            if parts + len(todo) + len(part) > _KEY_PARTS:
                raise ValueError(f"a key of more than {_KEY_PARTS} parts")
            todo.extend(part)
        elif kind is int:
            if part.bit_length() > 64:  # larger ones can be chosen to have one hash
                raise ValueError("an integer of more than 64 bits as a key")
        elif kind not in _KEYS and not isinstance(part, np.generic | np.dtype):
            raise ValueError(f"a {kind.__name__} as a key")


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
