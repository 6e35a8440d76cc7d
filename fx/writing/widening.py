"""Widening: a family that lies in a larger memory becomes one of views of that."""

from __future__ import annotations

import numpy as np

from fx.gradients import rest, woken
from fx.writing.layouts import owner_of
from fx.writing.paths import Path, steps
from fx.writing.records import _GONE, Family, view_of


def widen(family: Family) -> None:
    """Before the first write: let what is cut of a larger memory, or expanded, be views of that."""
    array = family.array
    if family.of_user or type(array) is not np.ndarray or array.base is None:
        return
    owner = owner_of(array)
    if owner.dtype != array.dtype or not owner.flags.c_contiguous:
        return
    if owner.size <= array.size and not family.repeated:
        return
    flat = owner.reshape(-1)
    path = steps(flat, array)
    if path is not None:
        lead(family, path, flat.size)
        family.array = flat


def lead(family: Family, path: Path, size: int) -> None:
    """Let all members be views of a memory in which a family's first lies where a path leads."""
    root = family.root()
    waiting = None
    if root is not None:
        waiting = woken(root)
        family.add(root)
        family.root = _GONE
    for member in family.alive():
        record = view_of(member)
        record.path, record.at = (*path, *record.path), record.at + len(path)
        record.source = record.value = None
    family.shape, family.strides = (size,), None
    if waiting is not None:
        rest(root, waiting)
