"""The walk that finds what a function reads of Python's state, and has it guarded.

It starts at the function and the objects among its arguments, and follows closures, globals,
defaults, methods and attributes into the user's own code. Code and objects of libraries are looked
at by identity alone.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from enum import Enum
from functools import cached_property, partial, partialmethod
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from fx import limits
from fx.graph.named import Named, node_of
from fx.handles import Data
from fx.numbers import Numbers, StagedNumber
from fx.state import Cell
from fx.tensor import Tensor
from fx.transforms.jitting.guards_code import PLAIN, Place, Writer
from fx.transforms.jitting.guards_containers import Containers, is_plain
from fx.transforms.jitting.guards_objects import Objects, called
from fx.transforms.jitting.guards_reads import (
    CodeReads,
    Reads,
    origin,
    origin_of_module,
    reads_of,
)
from fx.transforms.jitting.guards_settings import Settings
from fx.versions import Watched, WatchedList

_VALUES = (range, slice, np.generic, np.dtype)
_VALUE_MODULES = frozenset(
    ("datetime", "decimal", "fractions", "pathlib", "pathlib._local", "uuid")
)
_UNCALLED = frozenset((
    "__init__", "__new__", "__repr__", "__str__", "__del__", "__reduce__", "__reduce_ex__",
    "__getstate__", "__setstate__", "__init_subclass__", "__class_getitem__", "__dir__",
    "__post_init__", "__attrs_post_init__", "__copy__", "__deepcopy__", "__format__",
))  # fmt: skip


class Walk(Containers, Objects):
    """One walk.

    Args:
        known: what an earlier walk found to be read, by object and by slot, so that this one knows
            it from the beginning; None for the first.
    """

    def __init__(self, known: Walk | None) -> None:
        self.writer = Writer()
        self.settings = Settings()
        self.tensors: dict[int, Place] = {}
        self.truncated = False  # whether something was too large to be looked at
        self.reusable = True  # False where a value is of a transform that is running
        self.handles = False  # whether code that is reached handles errors
        self.seen: dict[int, Place] = {}
        self.slots: dict[Any, None] = {}
        self.methods_found: dict[Any, Place] = {}
        self.alive: list[Any] = []
        self.namespaces: dict[int, Place] = {}
        self.filters: dict[type, frozenset[str] | None] = {}
        self.reads: dict[Any, Reads] = {} if known is None else known.reads
        self.names: set[str] = set() if known is None else known.names
        self.anything = False if known is None else known.anything

    def size(self) -> Any:
        """A measure of how much is known to be read."""
        return len(self.names), self.anything, sum(map(_size, self.reads.values()))

    def read(self, key: Any, reads: Reads) -> Reads:
        """All that is known to be read of a slot or an object, ``reads`` among it."""
        found = self.reads.setdefault(key, Reads())
        found.merge(reads)
        return found

    # functions ----------------------------------------------------------------------------------

    def function(self, f: FunctionType, place: Place) -> None:
        """What a function reads."""
        if ("function", id(f)) in self.slots:
            return
        self.slots["function", id(f)] = None
        self.alive.append(f)
        code = f.__code__
        whose = origin(code.co_filename)
        reads = reads_of(code) if whose == "user" else None
        if f.__closure__ and whose != "library":
            cells = place.below("{}.__closure__", f"{code.co_name}|")
            for i, (name, cell) in enumerate(zip(code.co_freevars, f.__closure__)):
                try:
                    value = cell.cell_contents
                except ValueError:  # a variable of an enclosing function that is not bound yet
                    continue
                if name != "__class__" and ("cell", id(cell)) not in self.slots:
                    self.slots["cell", id(cell)] = None
                    step = f"{{}}[{i}].cell_contents"
                    read = reads.variables.get(name) if reads else None
                    read = self.read(("cell", id(cell)), read or Reads(whole=True))
                    self.value(value, cells.below(step, f"closure variable|{name}"), read, 0)
        wrapped = getattr(f, "__wrapped__", None)
        if wrapped is not None and whose != "user":
            below = place.below("{}.__wrapped__", f"the wrapped function|{code.co_name}")
            self.value(wrapped, below, called(), 0)
        if reads is None:
            return
        self.names |= reads.names
        self.anything |= reads.anything
        self.handles |= reads.handles
        self._globals(f, reads, place)
        first = code.co_argcount - len(f.__defaults__ or ())
        for i, value in enumerate(f.__defaults__ or ()):
            name = code.co_varnames[first + i]
            below = place.below(f"{{}}.__defaults__[{i}]", f"default argument|{name}")
            self.value(value, below, reads.variables.get(name, Reads()), 0)
        for name, value in (f.__kwdefaults__ or {}).items():
            below = place.below(f"{{}}.__kwdefaults__[{name!r}]", f"default argument|{name}")
            self.value(value, below, reads.variables.get(name, Reads()), 0)

    def _globals(self, f: FunctionType, reads: CodeReads, place: Place) -> None:
        names = f.__globals__
        space = self.namespaces.get(id(names))
        if space is None:
            space = place.below("{}.__globals__", f"{f.__name__}|")
            self.namespaces[id(names)] = space
        for name, read in reads.globals.items():
            slot = ("global", id(names), name)
            if name in names:
                read = self.read(slot, read)
                if slot not in self.slots:
                    self.slots[slot] = None
                    below = space.below(f"{{}}[{name!r}]", f"global|{name}")
                    self.value(names[name], below, read, 0)

    def methods(self, cls: type, read: Reads) -> Reads:
        """What the methods that are reached read of an instance, together with ``read``."""
        found = Reads()
        found.merge(read)
        todo = list(read.parts)
        done: set[str] = set()
        users = [base for base in cls.__mro__ if origin_of_module(base.__module__) == "user"]
        for base in users:
            todo += [n for n in vars(base) if n[:2] == "__" == n[-2:] and n not in _UNCALLED]
        while todo:
            name = todo.pop()
            if name in done:
                continue
            done.add(name)
            for base in users:
                for f, has_self in _functions(vars(base).get(name)):
                    filename = f.__code__.co_filename
                    if origin(filename) != "user":
                        continue
                    if filename == "<string>" and "__dataclass_fields__" in vars(base):
                        continue  # a method that dataclass has written
                    self.function(f, self._method(base, name, f))
                    reads = reads_of(f.__code__)
                    todo += reads.supers
                    if has_self and f.__code__.co_argcount:
                        own = reads.variables.get(f.__code__.co_varnames[0])
                        if own is not None:
                            found.merge(own)
                            todo += own.parts
            if not todo and found.whole:
                todo += [n for base in users for n in vars(base) if n in self.names]
                todo = [n for n in todo if n not in done]
        return found

    def _method(self, cls: type, name: str, f: FunctionType) -> Place:
        """Where a method is found; that it is the same one is guarded."""
        found = self.methods_found.get((cls, name, f))
        if found is None:
            if vars(cls).get(name) is f and (name[:2] != "__" or name == "__call__"):
                owner = Place(None, f"{self.writer.weak(cls)}()", f"class|{cls.__qualname__}")
                found = owner.below(f"{{}}.{name}", f"method|{f.__qualname__}")
                self.writer.identity(found, f)
            else:
                found = Place(None, f"{self.writer.weak(f)}()", f"method|{f.__qualname__}")
            self.methods_found[cls, name, f] = found
        return found

    # values -------------------------------------------------------------------------------------

    def value(self, x: Any, place: Place, reads: Reads, depth: int, given: bool = False) -> None:
        """Guard what is at a place; ``given``: the object itself is known to be the same."""
        write = self.writer
        if depth > limits.GUARD_DEPTH or len(write.checks) > limits.GUARD_CHECKS:
            self.truncated = True
            return
        kind = type(x)
        if kind in PLAIN:
            write.plain(place, x)
            return
        if kind in (tuple, frozenset) and is_plain(x):
            write.plain(place, x)
            return
        fresh = kind is FunctionType and ("shared", id(x)) not in self.slots and not given
        if fresh and origin(x.__code__.co_filename) == "user":
            self.slots["shared", id(x)] = None
            k = write.name("k", x.__code__)
            write.require(place, f"{{}}.__code__ is {k}", x.__qualname__)
            self.function(x, place)
            return
        before = self.seen.get(id(x))
        if before is not None and not given:
            first = write.variable(before)
            write.require(place, f"{{}} is {first}", "the same object")
            return
        self.alive.append(x)
        self.seen[id(x)] = place
        if isinstance(x, Tensor):
            self._tensor(x, place, given)
        elif isinstance(x, StagedNumber):
            self.reusable = False
        elif isinstance(x, ModuleType):
            self.namespace(x, place, reads, depth)
        elif isinstance(x, type):
            self.class_(x, place, reads, depth)
        elif isinstance(x, Enum):
            write.identity(place, x)
        elif isinstance(x, _VALUES) or type(x).__module__ in _VALUE_MODULES:
            k = write.name("k", x)
            write.require(place, f"{{0}} is {k} or same({{0}}, {k})", repr(x))
        elif kind is np.ndarray:
            self.array(x, place)
        elif kind in (list, tuple, deque) or isinstance(x, WatchedList):
            self.sequence(x, place, depth)
        elif kind in (set, frozenset):
            self.set(x, place)
        elif kind in (dict, OrderedDict, defaultdict) or isinstance(x, Numbers | Watched):
            self.mapping(x, place, depth)
        else:
            self.object_(x, place, reads, depth, given)

    def _tensor(self, x: Any, place: Place, given: bool) -> None:
        if isinstance(x, Cell):
            if not given:
                self.writer.identity(place, x)
            condition = f"({{}}.leaf is None) is {x.leaf is None}"
            self.writer.require(place, condition, "a cell that requires grad, or not")
            self.cell_hooks(x, place, compared=True)
            if isinstance(x, Data):  # whose cell may have gone its own way
                condition = f"({{}}.owner is None) is {x.owner is None}"
                self.writer.require(place, condition, "a handle")
            return
        self.tensors[id(x)] = place
        if type(x) is Tensor or type(x) is Named:
            self.writer.scope.update(Tensor=Tensor, Named=Named, node_of=node_of)
            condition = "(type({0}) is Tensor or type({0}) is Named) and "
            condition += f"(node_of({{0}}) is None) is {node_of(x) is None}"
        else:
            condition = f"type({{0}}) is {self.writer.name('k', type(x))}"
        self.writer.require(place, condition, "a tensor")


def _size(reads: Reads) -> int:
    return 1 + reads.whole + reads.called + sum(map(_size, reads.parts.values()))


def _functions(raw: Any) -> list[tuple[FunctionType, bool]]:
    """The functions behind an entry of a class, each with whether it gets the instance."""
    if isinstance(raw, FunctionType):
        inner = getattr(raw, "__wrapped__", None)
        return [(raw, True), *(_functions(inner) if inner is not None else [])]
    if isinstance(raw, staticmethod):
        return [(f, False) for f, _ in _functions(raw.__func__)]
    if isinstance(raw, classmethod):
        return [(f, False) for f, _ in _functions(raw.__func__)]
    if isinstance(raw, property):
        return _functions(raw.fget)
    if isinstance(raw, cached_property):
        return _functions(raw.func)
    if isinstance(raw, partial | partialmethod):
        return _functions(raw.func)
    inner = getattr(raw, "__wrapped__", None)
    if inner is not None and not isinstance(raw, type):
        return _functions(inner)
    return []
