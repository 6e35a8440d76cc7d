"""The walk that finds what a function reads of Python's state, and has it guarded.

It starts at the function and the objects among its arguments, and follows closures, globals,
defaults, methods and attributes into the user's own code. Code and objects of libraries are looked
at by identity alone.
"""

from __future__ import annotations

from argparse import Namespace
from collections import OrderedDict, defaultdict, deque
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cached_property, partial, partialmethod
from pathlib import PurePath
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from fx.graph.named import Named, node_of
from fx.numbers import Number, Numbers, StagedNumber
from fx.state import Cell
from fx.tensor import Tensor
from fx.transforms.jitting.guards_code import PLAIN, Place, Writer
from fx.transforms.jitting.guards_containers import Containers, is_plain
from fx.transforms.jitting.guards_reads import (
    CodeReads,
    Reads,
    origin,
    origin_of,
    origin_of_module,
    reads_of,
)
from fx.transforms.jitting.guards_settings import Settings

MOST_CHECKS = 4096
_DEEPEST = 12
_VALUES = (range, slice, Decimal, Fraction, date, time, timedelta, PurePath, np.generic, np.dtype)
_NAMESPACES = (SimpleNamespace, Namespace)
_UNCALLED = frozenset((
    "__init__", "__new__", "__repr__", "__str__", "__del__", "__reduce__", "__reduce_ex__",
    "__getstate__", "__setstate__", "__init_subclass__", "__class_getitem__", "__dir__",
    "__post_init__", "__attrs_post_init__", "__copy__", "__deepcopy__", "__format__",
))  # fmt: skip


class Walk(Containers):
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
        self.seen: dict[int, Place] = {}
        self.slots: dict[Any, None] = {}
        self.alive: list[Any] = []
        self.namespaces: dict[int, Place] = {}
        self.filters: dict[type, frozenset[str] | None] = {}
        self.reads: dict[Any, Reads] = {} if known is None else known.reads
        self.names: set[str] = set() if known is None else known.names
        self.anything = False if known is None else known.anything

    def size(self) -> Any:
        """A measure of how much is known to be read."""
        return len(self.names), self.anything, sum(map(_size, self.reads.values()))

    def _read(self, key: Any, reads: Reads) -> Reads:
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
                    read = self._read(("cell", id(cell)), read or Reads(whole=True))
                    self.value(value, cells.below(step, f"closure variable|{name}"), read, 0)
        wrapped = getattr(f, "__wrapped__", None)
        if wrapped is not None and whose != "user":
            below = place.below("{}.__wrapped__", f"the wrapped function|{code.co_name}")
            self.value(wrapped, below, _called(), 0)
        if reads is None:
            return
        self.names |= reads.names
        self.anything |= reads.anything
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
                read = self._read(slot, read)
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
                    k = self.writer.weak(f)
                    self.function(f, Place(None, f"{k}()", f"{f.__qualname__}|"))
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

    # values -------------------------------------------------------------------------------------

    def value(self, x: Any, place: Place, reads: Reads, depth: int, given: bool = False) -> None:
        """Guard what is at a place; ``given``: the object itself is known to be the same."""
        write = self.writer
        if depth > _DEEPEST or len(write.checks) > MOST_CHECKS:
            self.truncated = True
            return
        kind = type(x)
        if kind in PLAIN:
            write.plain(place, x)
            return
        if kind in (tuple, frozenset) and is_plain(x):
            write.plain(place, x)
            return
        if kind is FunctionType and ("shared", id(x)) not in self.slots and not given:
            if origin(x.__code__.co_filename) == "user":
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
            self._namespace(x, place, reads, depth)
        elif isinstance(x, type):
            self._class(x, place, reads, depth)
        elif isinstance(x, Enum):
            write.identity(place, x)
        elif isinstance(x, _VALUES):
            k = write.name("k", x)
            write.require(place, f"{{0}} is {k} or same({{0}}, {k})", repr(x))
        elif kind is np.ndarray:
            self.array(x, place)
        elif kind in (list, tuple, deque):
            self.sequence(x, place, depth)
        elif kind in (set, frozenset):
            self.set(x, place)
        elif isinstance(x, dict) and kind in (dict, Numbers, OrderedDict, defaultdict):
            self.mapping(x, place, depth)
        else:
            self._object(x, place, reads, depth, given)

    def _tensor(self, x: Any, place: Place, given: bool) -> None:
        if isinstance(x, Cell):
            if not given:
                self.writer.identity(place, x)
            condition = f"({{}}.leaf is None) is {x.leaf is None}"
            self.writer.require(place, condition, "a cell that requires grad, or not")
            return
        self.tensors[id(x)] = place
        if type(x) is Tensor or type(x) is Named:
            self.writer.scope.update(Tensor=Tensor, Named=Named, node_of=node_of)
            condition = "(type({0}) is Tensor or type({0}) is Named) and "
            condition += f"(node_of({{0}}) is None) is {node_of(x) is None}"
        else:
            condition = f"type({{0}}) is {self.writer.name('k', type(x))}"
        self.writer.require(place, condition, "a tensor")

    # objects with attributes --------------------------------------------------------------------

    def _namespace(self, x: ModuleType, place: Place, reads: Reads, depth: int) -> None:
        whose = origin_of(x)
        self.writer.identity(place, x, weak=whose == "user")
        if whose == "user":
            for name in self._chosen(reads, vars(x)):
                self.value(vars(x)[name], _attribute(place, name), self._part(x, reads, name), 0)

    def _class(self, x: type, place: Place, reads: Reads, depth: int) -> None:
        whose = origin_of_module(x.__module__)
        self.writer.identity(place, x, weak=whose == "user")
        if whose != "user":
            return
        reads = self._read(("object", id(x)), reads)
        if reads.called or reads.whole:
            for name in ("__init__", "__new__", "__post_init__", "__attrs_post_init__"):
                reads.of(name)
        reads = self.methods(x, reads)
        found = {name: v for base in reversed(x.__mro__[:-1]) for name, v in vars(base).items()}
        for name in self._chosen(reads, found):
            value = found[name]
            if not _is_descriptor(value):
                self.value(value, _attribute(place, name), self._part(x, reads, name), depth + 1)

    def _object(self, x: Any, place: Place, reads: Reads, depth: int, given: bool) -> None:
        from fx.nn.module import Module
        from fx.optim.optimizer import Optimizer

        cls = type(x)
        whose = origin_of_module(cls.__module__)
        if isinstance(x, Module):
            self._module(x, place, reads, depth, given)
        elif isinstance(x, Optimizer):
            if not given:
                self.writer.identity(place, x)
            self.settings.add(x, place.name, self.filters)
            for i, group in enumerate(x.param_groups):
                for key, value in dict.items(group):
                    if isinstance(value, Tensor):
                        step = f"dict.__getitem__({{}}.param_groups[{i}], {key!r})"
                        self.value(value, place.below(step, f"{place.name}[{key}]"), Reads(), 0)
        elif cls is MethodType:
            f = x.__func__
            self_reads = Reads(whole=True)
            if isinstance(f, FunctionType):
                self.function(f, place.below("{}.__func__", f"{f.__qualname__}|"))
                found = reads_of(f.__code__).variables.get(f.__code__.co_varnames[0])
                self_reads = found or Reads()
                k = self.writer.name("k", f.__code__)
                self.writer.require(place, f"{{}}.__func__.__code__ is {k}", f.__qualname__)
            else:
                self.value(f, place.below("{}.__func__", "the method|"), _called(), depth + 1)
            below = place.below("{}.__self__", "attribute|self")
            self.value(x.__self__, below, self_reads, depth + 1)
        elif isinstance(x, partial):
            for name in ("func", "args", "keywords"):
                value = getattr(x, name)
                read = _called() if name == "func" else Reads(whole=True)
                below = place.below(f"{{}}.{name}", f"{place.name}.{name}")
                self.value(value, below, read, depth + 1)
        elif cls is FunctionType:
            if not given:
                self.writer.identity(place, x, weak=bool(x.__closure__))
            self.function(x, place)
        elif cls in _NAMESPACES or (whose == "user" and not _is_fx(cls)):
            self._instance(x, place, reads, depth, given)
            base = next((b for b in (dict, list, tuple, set, deque) if isinstance(x, b)), None)
            if base is dict:
                self.mapping(x, place, depth)
            elif base is set:
                self.set(x, place)
            elif base is not None:
                self.sequence(x, place, depth)
        else:
            if not given:
                self.writer.identity(place, x)
            self._callables(x, place, whose, depth)

    def _callables(self, x: Any, place: Place, whose: str, depth: int) -> None:
        """The user's functions that an object of a library wraps."""
        wrapped = getattr(x, "__wrapped__", None)
        if isinstance(wrapped, FunctionType):
            below = place.below("{}.__wrapped__", f"the wrapped function|{wrapped.__qualname__}")
            self.value(wrapped, below, _called(), depth + 1)
        elif whose == "fx":
            for name, value in list(getattr(x, "__dict__", {}).items()):
                if isinstance(value, FunctionType | MethodType | partial):
                    self.value(value, _attribute(place, name), _called(), depth + 1)

    def _instance(self, x: Any, place: Place, reads: Reads, depth: int, given: bool) -> None:
        """An object of the user's: those of its attributes that are read."""
        cls = type(x)
        if not given:
            self.writer.kind(place, x)
        reads = self.methods(cls, self._read(("object", id(x)), reads))
        own = getattr(x, "__dict__", {})
        above = {n: v for base in reversed(cls.__mro__[:-1]) for n, v in vars(base).items()}
        if self.anything and reads.whole and hasattr(x, "__dict__"):
            condition = f"len({{}}.__dict__) == {len(own)}"
            self.writer.require(place, condition, f"with {len(own)} attributes")
        for name in self._chosen(reads, {**above, **own}):
            raw = above.get(name)
            if isinstance(raw, Number):
                continue
            if name in own:
                value = own[name]
            elif isinstance(raw, MemberDescriptorType):
                try:
                    value = getattr(x, name)
                except AttributeError:
                    continue
            elif _is_descriptor(raw):
                continue
            else:
                value = raw
            self.value(value, _attribute(place, name), self._part(x, reads, name), depth + 1)

    def _module(self, x: Any, place: Place, reads: Reads, depth: int, given: bool) -> None:
        """A Module: its settings, the code of the user's layers, and what these hold."""
        if not given:
            self.writer.identity(place, x)
        filters: dict[type, frozenset[str] | None] = {}
        inner: list[tuple[Any, Place, Reads]] = []
        found: set[int] = set()
        todo: list[tuple[Any, Place, Reads]] = [(x, place, reads)]
        while todo:
            module, here, read = todo.pop()
            if id(module) in found:
                continue
            found.add(id(module))
            self.alive.append(module)
            self.seen.setdefault(id(module), here)
            for name, below in module._modules.items():
                if below is not None:
                    step = f"{{}}._modules[{self.writer.name('k', name)}]"
                    part = read.parts.get(name) or Reads()
                    todo.append((below, here.below(step, f"{here.name}.{name}"), part))
            cls = type(module)
            if origin_of_module(cls.__module__) != "user":
                filters[cls] = None
                continue
            read = Reads() if read is None else read
            read.of("forward")
            read = self.methods(cls, self._read(("object", id(module)), read))
            names = frozenset(self._chosen(read, module.__dict__))
            if _extends_layer(cls):
                filters[cls] = None
            else:
                filters[cls] = names | (filters.get(cls) or frozenset())
            inner.append((module, here, read))
        self.settings.add(x, place.name, filters)
        for module, here, read in inner:
            own = module.__dict__
            above = {n: v for b in reversed(type(module).__mro__[:-1]) for n, v in vars(b).items()}
            for name in self._chosen(read, {**above, **own}):
                if name in own:
                    value, step = own[name], f"{{}}.__dict__[{name!r}]"
                    if type(value) in PLAIN or (name[:1] == "_" and name in _INTERNAL):
                        continue
                elif name not in above or _is_descriptor(above[name]) or name in _INTERNAL:
                    continue
                else:
                    value, step = above[name], f"{{}}.{name}"
                part = self._part(module, read, name)
                self.value(value, here.below(step, f"{here.name}.{name}"), part, depth + 1)

    def _chosen(self, reads: Reads, held: Any) -> list[str]:
        """The attributes among ``held`` that are read."""
        if reads.whole and self.anything:
            return [n for n in held if not (n[:2] == "__" == n[-2:])]
        names = self.names if reads.whole else ()
        return [n for n in held if n in reads.parts or n in names]

    def _part(self, x: Any, reads: Reads, name: str) -> Reads:
        return self._read(("part", id(x), name), reads.parts.get(name) or Reads(whole=True))


_INTERNAL = frozenset((
    "_parameters", "_buffers", "_modules", "_ties", "_non_persistent_buffers_set", "training",
))  # fmt: skip


def _called() -> Reads:
    reads = Reads()
    reads.called = True
    return reads


def _attribute(place: Place, name: str) -> Place:
    return place.below(f"{{}}.{name}", f"{place.name}.{name}")


def _size(reads: Reads) -> int:
    return 1 + reads.whole + reads.called + sum(map(_size, reads.parts.values()))


def _is_fx(cls: type) -> bool:
    return any(origin_of_module(base.__module__) == "fx" for base in cls.__mro__)


def _extends_layer(cls: type) -> bool:
    from fx.nn.module import Module

    own = {base for base in cls.__mro__ if origin_of_module(base.__module__) == "fx"}
    return not own <= set(Module.__mro__)


def _is_descriptor(x: Any) -> bool:
    if isinstance(x, FunctionType | staticmethod | classmethod | property):
        return True
    return hasattr(type(x), "__get__") and not isinstance(x, type)


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
