"""Guards on Modules and optimizers: their settings, the code of the user's, what these hold."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

from fx.holding import Part, holding_of
from fx.transforms.jitting.guards.classes import extends_kind, is_descriptor
from fx.transforms.jitting.guards.code import PLAIN, Place, Writer
from fx.transforms.jitting.guards.reads import Reads, origin_of_module
from fx.transforms.jitting.guards.settings import Settings
from fx.transforms.jitting.guards.touched import Touched
from fx.transforms.jitting.watching.kinds import is_mark
from fx.versions import Hooks


class Holders:
    """The part of a walk that knows what holds cells: Modules and optimizers."""

    writer: Writer
    settings: Settings
    seen: dict[int, Place]
    alive: list[Any]
    filters: dict[type, frozenset[str] | None]
    names: set[str]
    anything: bool
    opaque: dict[int, str]
    touched: Touched
    reads: dict[Any, Reads]

    if TYPE_CHECKING:

        def value(
            self, x: Any, place: Place, reads: Reads, depth: int, given: bool = False
        ) -> None: ...
        def function(self, f: FunctionType, place: Place) -> None: ...
        def attributes_of(
            self, f: FunctionType, place: Place, reads: Reads, depth: int
        ) -> None: ...
        def methods(self, cls: type, read: Reads) -> Reads: ...
        def special_methods(self, cls: type) -> None: ...
        def asks(self, cls: type, name: str) -> bool: ...
        def descriptor(self, cls: type, name: str, place: Place, depth: int) -> None: ...
        def class_place(self, cls: type) -> Place: ...
        def used(self, x: Any) -> bool: ...
        def found_anew(self, x: Any, place: Place) -> None: ...
        def array(self, x: Any, place: Place) -> None: ...
        def read(self, key: Any, reads: Reads) -> Reads: ...
        def sequence(self, x: Any, place: Place, depth: int) -> None: ...
        def set(self, x: Any, place: Place) -> None: ...
        def mapping(self, x: dict[Any, Any], place: Place, depth: int) -> None: ...
        def hooks(self, hooks: Any, place: Place) -> None: ...
        def cell_hooks(self, x: Any, place: Place) -> None: ...
        def _chosen(self, reads: Reads, held: Any) -> list[str]: ...
        def _part(self, x: Any, reads: Reads, name: str) -> Reads: ...

    def _holder(self, x: Any, place: Place, reads: Reads, depth: int, given: bool) -> None:
        """A Module or an optimizer: its settings, the code of the user's, and what these hold."""
        if not given:
            self.writer.identity(place, x)
        filters: dict[type, frozenset[str] | None] = {}
        inner: list[tuple[Any, Place, Reads]] = []
        found: set[int] = set()
        todo: list[tuple[Any, Place, Reads]] = [(x, place, reads)]
        while todo:
            one, here, read = todo.pop()
            if id(one) in found:
                continue
            found.add(id(one))
            self.alive.append(one)
            self.seen.setdefault(id(one), here)
            cls = type(one)
            holding: Any = holding_of(cls)
            for part in holding.inner(one):
                below = read.parts.get(part.path[-1]) or Reads()
                todo.append((part.value, self._found_at(part, one, here), below))
            for part in holding.cells(one):
                at = self._found_at(part, one, here)
                self.cell_hooks(part.value, at)
                self.marks(part.value, at, depth)
            for part in holding.tensors(one):
                self.value(part.value, self._found_at(part, one, here), Reads(), 0)
            for name, held in one.__dict__.items():
                if isinstance(held, Hooks):
                    self.hooks(held, here.below(f"{{}}.__dict__[{name!r}]", here.name))
            for i, hooks in enumerate(holding.around):
                around = self.writer.name("k", holding.around)
                self.hooks(hooks, Place(None, f"{around}[{i}]", "a hook"))
            if origin_of_module(cls.__module__) != "user":
                filters[cls] = None  # of what it holds besides, what was seen to be read
                inner.append((one, here, self.read(("object", id(one)), read or Reads())))
                continue
            read = Reads() if read is None else read
            read.of(holding.method)
            read = self.methods(cls, self.read(("object", id(one)), read))
            self.read(("object", id(one)), read)
            names = frozenset(read.parts) | (self.names if read.whole else frozenset())
            if extends_kind(cls) or (read.whole and self.anything) or filters.get(cls, "") is None:
                filters[cls] = None  # whatever it holds, and whatever is added
            else:
                filters[cls] = names | (filters.get(cls) or frozenset())
            inner.append((one, here, read))
        self.settings.add(x, place.name, filters)
        for one, here, read in inner:
            own, cls = one.__dict__, type(one)
            internal = holding_of(cls).internal  # type: ignore[union-attr]
            above = {n: v for b in reversed(cls.__mro__[:-1]) for n, v in vars(b).items()}
            kept = {n for held in map(own.get, internal) if isinstance(held, dict) for n in held}
            for name in read.parts:
                if name not in own and name not in kept and not hasattr(cls, name):
                    self.asks(cls, name)
            for name in self._chosen(read, {**above, **own}):
                if name in internal or type(own.get(name)) is Hooks:
                    continue
                if name in own:
                    value, step = own[name], f"{{}}.__dict__[{name!r}]"
                    if type(value) in PLAIN:
                        continue
                    if self.touched.is_renewed(one, name):
                        self.found_anew(value, here.below(step, f"{here.name}.{name}"))
                        continue
                elif name not in above or name == "training":
                    continue
                elif is_descriptor(above[name]):
                    self.descriptor(cls, name, here, depth)
                    continue
                else:
                    value, step = above[name], f"{{}}.{name}"
                below = self._part(one, read, name)
                self.value(value, here.below(step, f"{here.name}.{name}"), below, depth + 1)

    def _found_at(self, part: Part, x: Any, place: Place) -> Place:
        """The place of a part of an object."""
        step, held = f"{{}}.{part.path[0]}", getattr(x, part.path[0])
        for key in part.path[1:]:
            k = self.writer.name("k", key)
            plain = type(held).__getitem__ in (dict.__getitem__, list.__getitem__)
            step = f"{step}[{k}]" if plain else f"dict.__getitem__({step}, {k})"
            held = dict.__getitem__(held, key) if isinstance(held, dict) else held[key]
        return place.below(step, f"{place.name}{part.name}")

    def marks(self, x: Any, place: Place, depth: int) -> None:
        """The attributes of the user's that were read of a tensor."""
        reads = self.reads.get(("object", id(x)))
        if reads is None or not type(x).__dictoffset__:
            return
        own = x.__dict__
        if reads.any:
            self.writer.attributes(place, own)
        for name in reads.parts:
            if name not in own and name != "__dict__":
                self.writer.require(place, f"{name!r} not in {{}}.__dict__", f"without {name}")
        above = {n: v for b in type(x).__mro__ for n, v in vars(b).items() if is_mark(type(x), n)}
        for name in self._chosen(reads, {**above, **own}):
            value = own[name] if name in own else above[name]
            if not is_descriptor(value):
                self.value(value, attribute(place, name), self._part(x, reads, name), depth + 1)


def reads_any(reads: Reads, walk: Any) -> bool:
    """Whether attributes may be read under names that are not in the code."""
    return reads.any or "__dict__" in reads.parts or (reads.whole and walk.anything)


def called() -> Reads:
    reads = Reads()
    reads.called = True
    return reads


def attribute(place: Place, name: str) -> Place:
    return place.below(f"{{}}.{name}", f"{place.name}.{name}")
