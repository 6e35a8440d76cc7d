"""Guards on containers: lists, dicts, sets and arrays are compared by what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fx import limits
from fx.numbers import Numbers, is_dynamic
from fx.transforms.jitting.guards_code import PLAIN, Place, Writer, same_array
from fx.transforms.jitting.guards_reads import Reads


class Containers:
    """The part of a walk that knows containers."""

    writer: Writer
    truncated: bool

    if TYPE_CHECKING:

        def value(
            self, x: Any, place: Place, reads: Reads, depth: int, given: bool = False
        ) -> None: ...

    def array(self, x: np.ndarray, place: Place) -> None:
        if x.nbytes > limits.GUARD_BYTES or x.dtype.hasobject:
            self.truncated = True
            self.writer.identity(place, x)
            return
        self.writer.scope["same_array"] = same_array
        k = self.writer.name("k", x.copy())
        self.writer.require(place, f"same_array({{}}, {k})", "an array of other values")

    def sequence(self, x: Any, place: Place, depth: int) -> None:
        write, n = self.writer, len(x)
        write.kind(place, x)
        write.require(place, f"len({{}}) == {n}", f"of length {n}", "len({})")
        if is_plain(x):
            if n > limits.GUARD_PLAIN:
                self.truncated = True
            elif n > 4:
                write.scope["same_items"] = same_items
                k = write.name("k", (list(x), [*map(type, x)]))
                write.require(place, f"same_items({{}}, {k})", shortened(x))
                return
        elif n > limits.GUARD_ITEMS:
            self.truncated = True
        if n > limits.GUARD_ITEMS:
            return
        for i, item in enumerate(x):
            below = place.below(f"{{}}[{i}]", f"{place.name}[{i}]")
            self.value(item, below, Reads(whole=True), depth + 1)

    def set(self, x: Any, place: Place) -> None:
        write = self.writer
        write.kind(place, x)
        if len(x) <= limits.GUARD_PLAIN and is_plain(x):
            write.require(place, f"{{}} == {write.name('k', frozenset(x))}", shortened(x))
        else:
            self.truncated = True
            write.require(place, f"len({{}}) == {len(x)}", f"of length {len(x)}", "len({})")

    def mapping(self, x: dict[Any, Any], place: Place, depth: int) -> None:
        write, n = self.writer, len(x)
        write.kind(place, x)
        write.require(place, f"len({{}}) == {n}", f"of length {n}", "len({})")
        if n > limits.GUARD_ITEMS:
            self.truncated = True
            return
        keys = tuple(x)
        if n and is_plain(keys):
            k = write.name("k", keys)
            write.require(place, f"tuple({{}}) == {k}", f"with the keys {shortened(keys)}")
        write.scope["item"] = dict.__getitem__
        for key in keys:
            value = dict.__getitem__(x, key)
            if isinstance(x, Numbers) and is_dynamic(value):
                continue
            k = repr(key) if type(key) in (str, int) and "{" not in repr(key) else None
            k = k or write.name("k", key)
            step = f"{{}}[{k}]" if type(x) is dict else f"item({{}}, {k})"
            below = place.below(step, f"{place.name}[{shortened(key)}]")
            self.value(value, below, Reads(whole=True), depth + 1)


def is_plain(items: Any) -> bool:
    """Whether a container holds nothing but immutable values."""
    return all(type(x) in PLAIN or (type(x) in (tuple, frozenset) and is_plain(x)) for x in items)


def same_items(now: Any, was: tuple[list[Any], list[type]]) -> bool:
    """Whether a sequence holds the same plain values of the same types."""
    items = list(now)
    return items == was[0] and [*map(type, items)] == was[1]


def shortened(x: Any) -> str:
    """A short repr of plain values."""
    text = repr(x)
    return text if len(text) <= 60 else f"{text[:57]}..."
