"""Guards on containers: lists, dicts, sets and arrays are compared by what they hold."""

from __future__ import annotations

from array import array
from collections import deque
from marshal import dumps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from fx import limits
from fx.numbers import Numbers
from fx.staged_number import is_dynamic
from fx.transforms.jitting.guards.code import PLAIN, Place, Writer, same_array, same_set
from fx.transforms.jitting.guards.reads import Reads

_FEW = 4  # items that are compared one by one


class Containers:
    """The part of a walk that knows containers."""

    writer: Writer
    cut: dict[int, str]

    if TYPE_CHECKING:

        def value(
            self, x: Any, place: Place, reads: Reads, depth: int, given: bool = False
        ) -> None: ...
        def leave(self, x: Any, place: Place, what: str) -> None: ...

    def array(self, x: np.ndarray, place: Place) -> None:
        if x.nbytes > limits.GUARD_BYTES or x.dtype.hasobject:
            self.leave(x, place, f"an array of {x.nbytes:,} bytes")
            self.writer.identity(place, x)
            return
        self.writer.scope["same_array"] = same_array
        k = self.writer.name("k", x.copy())
        self.writer.require(place, f"same_array({{}}, {k})", "an array of other values")

    def bytes_(self, x: Any, place: Place) -> None:
        """A container of numbers as bytes: ``bytearray``, ``array.array``, ``memoryview``."""
        self.writer.kind(place, x)
        content = x.tobytes() if isinstance(x, array | memoryview) else bytes(x)
        if len(content) > limits.GUARD_BYTES:
            self.leave(x, place, f"{len(content):,} bytes")
            return
        self.writer.scope.update(bytes=bytes, str=str)
        whole = "bytes({0})" if isinstance(x, bytearray) else "({0}.tobytes())"
        condition = f"{whole} == {self.writer.name('k', content)}"
        if not isinstance(x, bytearray):
            code = "typecode" if isinstance(x, array) else "format"
            condition += f" and {{0}}.{code} == {getattr(x, code)!r}"
        self.writer.require(place, condition, "other bytes")

    def _at_once(self, x: Any, place: Place) -> bool:
        """Compare a container that holds plain values alone, however deep; whether it does."""
        count = leaves_of(x)
        if count is None:
            return False
        if count > limits.GUARD_PLAIN:
            self.writer.require(place, f"len({{}}) == {len(x)}", f"of length {len(x)}", "len({})")
            self.leave(x, place, f"more than {limits.GUARD_PLAIN:,} values")
            return True
        write = self.writer
        write.scope["dumps"] = dumps
        k = write.name("k", dumps(x, 2))
        write.require(place, f"dumps({{}}, 2) == {k}", shortened(x))
        return True

    def sequence(self, x: Any, place: Place, depth: int) -> None:
        write, n = self.writer, len(x)
        write.kind(place, x)
        write.require(place, f"len({{}}) == {n}", f"of length {n}", "len({})")
        few = n <= _FEW and is_plain(x)
        if not few and type(x) is not deque and self._at_once(x, place):
            return
        if isinstance(x, deque):
            most = "without a bound" if x.maxlen is None else f"of {x.maxlen} at most"
            write.require(place, f"{{}}.maxlen == {x.maxlen}", most)
        if n > limits.GUARD_ITEMS:
            self.leave(x, place, f"{n:,} objects")
            return
        for i, item in enumerate(x):
            below = place.below(f"{{}}[{i}]", f"{place.name}[{i}]")
            self.value(item, below, Reads(whole=True), depth + 1)

    def set(self, x: Any, place: Place) -> None:
        write = self.writer
        write.kind(place, x)
        if len(x) <= limits.GUARD_PLAIN and is_plain(
            [i for i in x if not isinstance(i, np.generic)]
        ):
            exact = {type(item) for item in x} <= {str, bytes}
            k = write.name("k", frozenset(x))
            write.scope["same_set"] = same_set
            condition = f"{{}} == {k}" if exact else f"same_set({{}}, {k})"
            write.require(place, condition, shortened(x))
        else:
            self.leave(
                x, place, f"{len(x):,} objects" if len(x) > limits.GUARD_ITEMS else "objects"
            )
            write.require(place, f"len({{}}) == {len(x)}", f"of length {len(x)}", "len({})")

    def mapping(self, x: Any, place: Place, depth: int) -> None:
        write, n = self.writer, len(x)
        write.kind(place, x)
        write.require(place, f"len({{}}) == {n}", f"of length {n}", "len({})")
        counts = any(self.touched.is_counted(x, key, x[key]) for key in x if type(key) in PLAIN)
        if n > _FEW and type(x) is dict and not counts and self._at_once(x, place):
            return
        if n > limits.GUARD_ITEMS:
            self.leave(x, place, f"{n:,} objects")
            return
        keys = tuple(x)
        if n and is_plain(keys):
            k = write.name("k", keys)
            exact = all(type(key) is str for key in keys)
            condition = f"tuple({{}}) == {k}" if exact else f"same(tuple({{}}), {k})"
            write.require(place, condition, f"with the keys {shortened(keys)}")
        write.scope["item"] = dict.__getitem__
        plain = type(x) in (dict, MappingProxyType)
        for key in keys:
            value = x[key] if type(x) is MappingProxyType else dict.__getitem__(x, key)
            if isinstance(x, Numbers) and is_dynamic(value):
                continue
            k = repr(key) if type(key) in (str, int) and "{" not in repr(key) else None
            k = k or write.name("k", key)
            step = f"{{}}[{k}]" if plain else f"item({{}}, {k})"
            below = place.below(step, f"{place.name}[{shortened(key)}]")
            if counts and type(key) in PLAIN and self.touched.is_counted(x, key, value):
                write.kind(below, value)
                continue
            self.value(value, below, Reads(whole=True), depth + 1)


def is_plain(items: Any) -> bool:
    """Whether a container holds nothing but immutable values."""
    return all(type(x) in PLAIN or (type(x) in (tuple, frozenset) and is_plain(x)) for x in items)


_MARSHALLED = frozenset((bool, int, float, complex, str, type(None)))


def leaves_of(x: Any) -> int | None:
    """How many values lists, tuples and dicts hold; None if some are no plain ones.

    ``marshal`` writes such a container as bytes that tell 1 from True and 0.0 from -0.0. What is
    of ``bytes`` is left out, since it writes whatever has a buffer in the same way.
    """
    count = 0
    todo, held = [(x, 0)], 0
    while todo:
        x, depth = todo.pop()
        kind = type(x)
        if kind in _MARSHALLED:
            count += 1
            continue
        held += 1
        if depth > 500 or held > limits.GUARD_PLAIN:  # a cycle, for one
            return None
        if kind is list or kind is tuple:
            if len(x) > 64 and {*map(type, x)} <= _MARSHALLED:
                count += len(x)
            else:
                todo += [(y, depth + 1) for y in x]
        elif kind is dict:
            if not {*map(type, x)} <= _MARSHALLED:
                return None
            count += 1 + len(x)
            todo += [(y, depth + 1) for y in x.values()]
        else:
            return None
    return count


def shortened(x: Any) -> str:
    """A short repr of plain values."""
    if isinstance(x, list | tuple | dict | set | frozenset) and len(x) > 64:
        return f"a {type(x).__name__} of length {len(x)}"
    text = repr(x)
    return text if len(text) <= 60 else f"{text[:57]}..."
