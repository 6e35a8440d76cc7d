"""Guards on objects with attributes: those attributes are compared that the function reads."""

from __future__ import annotations

import re
import sys
from collections import deque
from functools import lru_cache, partial
from inspect import getattr_static
from operator import attrgetter, itemgetter, methodcaller
from struct import Struct
from threading import Lock, RLock
from time import struct_time
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    FrameType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    TracebackType,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from fx.holding import holding_of
from fx.numbers import Number
from fx.seen import TorchDType
from fx.tape import Leaf
from fx.transforms.jitting.guards.classes import (
    all_methods,
    has_foreign_base,
    has_setter,
    held_by,
    is_descriptor,
    is_fx,
    is_namespace,
    is_stateful,
)
from fx.transforms.jitting.guards.code import PLAIN, Place, shorten
from fx.transforms.jitting.guards.holders import Holders, attribute, called, reads_any
from fx.transforms.jitting.guards.methods import ASKED, MAKERS
from fx.transforms.jitting.guards.reads import Reads, origin_of, origin_of_module, reads_of
from fx.transforms.jitting.watching.kinds import shows_state
from fx.versions import Hook

_OWNERS = (ModuleType, type, FunctionType)
_CONSTANT = (  # objects of classes in C that never change, and those that stand for no value
    BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, MethodWrapperType,
    ClassMethodDescriptorType, GetSetDescriptorType, MemberDescriptorType, CodeType, GenericAlias,
    UnionType, CellType, FrameType, TracebackType, np.ufunc, np.dtype, TorchDType,
    np.random.Generator, np.random.RandomState, np.random.BitGenerator, re.Pattern, re.Match,
    Struct, property, staticmethod, classmethod, attrgetter, itemgetter, methodcaller,
    type(Ellipsis),
    type(NotImplemented), type(lru_cache(len)), type(np.mean), type(Lock()), type(RLock()),
    super, struct_time, BaseException, type(sys.flags),
)  # fmt: skip


_NAMES_OF_CLASSES = frozenset(("__name__", "__qualname__"))
_OF_THREADS = frozenset(
    ("threading", "queue", "_queue", "multiprocessing", "concurrent", "asyncio")
)
"""Libraries whose objects are there for others to change meanwhile."""


class Objects(Holders):
    """The part of a walk that knows modules, classes, instances and hooks."""

    def namespace(self, x: ModuleType, place: Place, reads: Reads, depth: int) -> None:
        whose = origin_of(x)
        self.writer.identity(place, x, weak=whose == "user")
        reads = self.read(("object", id(x)), reads)
        held = vars(x)
        if whose == "user":
            for name in self._chosen(reads, held):
                if self.touched.is_counted(held, name, held[name]):
                    self.writer.kind(attribute(place, name), held[name])
                    continue
                self.value(held[name], attribute(place, name), self._part(x, reads, name), 0)
            for name in reads.parts:
                if name not in held:
                    condition = f"{name!r} not in {{}}.__dict__"
                    self.writer.require(place, condition, f"without {name}")
                    if "__getattr__" in held:
                        maker = held["__getattr__"]
                        self.value(maker, attribute(place, "__getattr__"), called(), 0)
            return
        looked_at = set()
        if whose == "library":  # as os.environ
            for name in reads.parts:
                value = held.get(name)
                if self.used(value) and value is not sys.modules and not isinstance(value, _OWNERS):
                    looked_at.add(name)
                    self.value(value, attribute(place, name), self._part(x, reads, name), depth)
        self._names(held, place, [n for n in reads.parts if n in held and n not in looked_at])

    def _names(self, held: dict[str, Any], place: Place, names: list[str]) -> None:
        """What names of a library's module stand for, which a program may have replaced."""
        for name in [n for n in names if type(held[n]) in PLAIN]:
            self.writer.plain(attribute(place, name), held[name])
        names = [n for n in names if type(held[n]) not in PLAIN]
        if names:
            get, k = itemgetter(*names), self.writer.name("k", itemgetter(*names)(held))
            same = "is" if len(names) == 1 else "=="  # which looks first whether they are the same
            condition = f"{self.writer.name('g', get)}({{}}.__dict__) {same} {k}"
            self.writer.require(place, condition, f"with {', '.join(names)} as they were")

    def class_(self, x: type, place: Place, reads: Reads, depth: int) -> None:
        whose = origin_of_module(x.__module__)
        self.writer.identity(place, x, weak=whose == "user")
        if whose != "user":
            return
        reads = self.read(("object", id(x)), reads)
        if reads.called or reads.whole:
            for name in MAKERS:
                reads.of(name)
            users = [b for b in x.__mro__ if origin_of_module(b.__module__) == "user"]
            held = {name for base in users for name in vars(base)}
            if not held.isdisjoint(ASKED):
                self.special_methods(x)
            for name in sorted(held.intersection(self.names)):  # of the objects that it makes
                reads.of(name)
        if has_foreign_base(x):
            reads.merge(all_methods(x))
        reads = self.methods(x, reads)
        for name in reads.parts:
            if not hasattr(x, name):
                self.writer.require(place, f"not hasattr({{}}, {name!r})", f"without {name}")
            elif getattr_static(x, name, reads) is reads:  # which a metaclass gives
                self.writer.scope["getattr_static"] = getattr_static
                condition = f"getattr_static({{}}, {name!r}, None) is None"
                self.writer.require(place, condition, f"without {name}")
            elif name in _NAMES_OF_CLASSES:
                self.writer.plain(attribute(place, name), getattr(x, name))
        above = [*reversed(x.__mro__[:-1])]
        if origin_of_module(type(x).__module__) == "user":
            above = [*reversed([b for b in type(x).__mro__ if not issubclass(type, b)]), *above]
            self.methods(type(x), reads)
            self.special_methods(type(x))
        found = {name: v for base in above for name, v in vars(base).items()}
        for name in self._chosen(reads, found):
            value = found[name]
            if not is_descriptor(value):
                self.value(value, attribute(place, name), self._part(x, reads, name), depth + 1)

    def object_(self, x: Any, place: Place, reads: Reads, depth: int, given: bool) -> None:
        cls = type(x)
        whose = origin_of_module(cls.__module__)
        if holding_of(cls) is not None:
            self._holder(x, place, reads, depth, given)
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
                self.value(f, place.below("{}.__func__", "the method|"), called(), depth + 1)
            below = place.below("{}.__self__", "attribute|self")
            self.value(x.__self__, below, self_reads, depth + 1)
        elif isinstance(x, partial):
            for name in ("func", "args", "keywords"):
                value = getattr(x, name)
                read = called() if name == "func" else Reads(whole=True)
                below = place.below(f"{{}}.{name}", f"{place.name}.{name}")
                self.value(value, below, read, depth + 1)
        elif cls is FunctionType:
            if not given:
                self.writer.identity(place, x, weak=bool(x.__closure__))
            self.function(x, place)
            self.attributes_of(x, place, reads, depth)
        elif is_namespace(cls) or (
            not is_fx(cls)
            and (whose == "user" or (whose == "library" and self.used(x) and _is_shown(cls)))
        ):
            self._instance(x, place, reads, depth, given)
            base = next((b for b in (dict, list, tuple, set, deque) if isinstance(x, b)), None)
            if base is dict:
                self.mapping(x, place, depth)
            elif base is set:
                self.set(x, place)
            elif base is not None:
                self.sequence(x, place, depth)
            elif isinstance(x, np.ndarray):
                self.array(x, place)
            elif not shows_state(cls):
                self.opaque[id(x)] = _called_by(x, place)
        else:
            if not given:
                self.writer.identity(place, x)
            self._callables(x, place, whose, depth)
            if whose == "user":
                self.methods(cls, all_methods(cls))
            if whose == "user" or is_stateful(cls):
                reads = self.read(("object", id(x)), reads)
                for name in self._chosen(reads, held_by(x)):
                    self.value(vars(x)[name], attribute(place, name), Reads(), depth + 1)
            elif whose == "library" and not _is_shown(cls) and not isinstance(x, _CONSTANT):
                self.opaque[id(x)] = _called_by(x, place)

    def _callables(self, x: Any, place: Place, whose: str, depth: int) -> None:
        """The user's functions that an object of a library wraps."""
        wrapped = getattr(x, "__wrapped__", None)
        if isinstance(wrapped, FunctionType):
            below = place.below("{}.__wrapped__", f"the wrapped function|{wrapped.__qualname__}")
            self.value(wrapped, below, called(), depth + 1)
        elif whose == "fx":
            for name, value in list(held_by(x).items()):
                if isinstance(value, FunctionType | MethodType | partial):
                    self.value(value, attribute(place, name), called(), depth + 1)

    def _instance(self, x: Any, place: Place, reads: Reads, depth: int, given: bool) -> None:
        """An object of the user's: those of its attributes that are read."""
        cls = type(x)
        if not given:
            self.writer.kind(place, x)
        if has_foreign_base(cls):
            reads.merge(all_methods(cls))
        reads = self.methods(cls, self.read(("object", id(x)), reads))
        own = held_by(x)
        above = {n: v for base in reversed(cls.__mro__[:-1]) for n, v in vars(base).items()}
        reads.any |= is_namespace(cls) and id(cls) in self.touched.special  # operators in C
        if reads_any(reads, self) and hasattr(x, "__dict__"):
            self.writer.attributes(place, own)
        for name in reads.parts:
            if name in own or name in ("__dict__", "__class__") or self.touched.is_renewed(x, name):
                continue
            if name not in above and not hasattr(cls, name):
                if not self.asks(cls, name):
                    self.writer.require(place, f"not hasattr({{}}, {name!r})", f"without {name}")
                elif hasattr(x, "__dict__"):
                    self.writer.require(place, f"{name!r} not in {{}}.__dict__", f"without {name}")
            elif hasattr(x, "__dict__") and not has_setter(above.get(name)):
                self.writer.require(place, f"{name!r} not in {{}}.__dict__", f"without {name}")
        for name in self._chosen(reads, {**above, **own}):
            raw = above.get(name)
            if isinstance(raw, Number):
                continue
            if name in own:
                value = own[name]
                if self.touched.is_renewed(x, name):
                    self.found_anew(value, attribute(place, name))
                    continue
                if self.touched.is_counted(x, name, value):
                    self.writer.kind(attribute(place, name), value)
                    continue
            elif isinstance(raw, MemberDescriptorType):
                try:
                    value = getattr(x, name)
                except AttributeError:
                    self.writer.require(place, f"not hasattr({{}}, {name!r})", f"without {name}")
                    continue
            elif is_descriptor(raw):
                self.descriptor(cls, name, place, depth)
                if isinstance(raw, property) and origin_of_module(cls.__module__) == "library":
                    value = getattr(x, name, None)  # nobody looks into how it comes to that
                    if type(value) in PLAIN:
                        self.writer.plain(attribute(place, name), value)
                continue
            else:
                value = raw
            self.value(value, attribute(place, name), self._part(x, reads, name), depth + 1)

    # hooks ---------------------------------------------------------------------------------------

    def hooks(self, hooks: Any, place: Place) -> None:
        """What functions that are called besides read; which there are is compared elsewhere."""
        for number, hook in hooks.items():
            step = f"{{}}[{number}]" + (".function" if type(hook) is Hook else "")
            hook = hook.function if type(hook) is Hook else hook
            self.value(hook, place.below(step, f"hook|{shorten(hook)}"), called(), 0)

    def cell_hooks(self, x: Any, place: Place, compared: bool = False) -> None:
        """What the hooks of a cell that requires grad read."""
        if x.leaf is not None:
            self.leaf_hooks(x.leaf, place, "{}.leaf", compared)

    def leaf_hooks(self, leaf: Leaf, place: Place, step: str, compared: bool = True) -> None:
        """What the hooks of a leaf read; that they are the same, if that is not seen elsewhere.

        Args:
            leaf: where the gradient of a tensor or a cell is gathered.
            place: of what has it.
            step: how it is found there.
            compared: whether a program is for these hooks.
        """
        extra, at = leaf.extra, place.below(f"{step}.extra", place.name)
        numbers = () if extra is None else extra.numbers()
        if compared:
            found = at.step.format("{0}")
            none = f"({found} is None or not {found}.numbers())"
            some = f"{found}.numbers() == {numbers}"
            self.writer.require(place, some if numbers else none, "with other hooks")
        if numbers:
            self.hooks(extra.hooks, at.below("{}.hooks", place.name))
            self.hooks(extra.post_hooks, at.below("{}.post_hooks", place.name))

    def _chosen(self, reads: Reads, held: Any) -> list[str]:
        """The attributes among ``held`` that are read."""
        if reads_any(reads, self):
            return [n for n in held if not (n[:2] == "__" == n[-2:])]
        names = self.names if reads.whole else ()
        return [n for n in held if n in reads.parts or n in names]

    def _part(self, x: Any, reads: Reads, name: str) -> Reads:
        return self.read(("part", id(x), name), reads.parts.get(name) or Reads(whole=True))


def _is_shown(cls: type) -> bool:
    return cls.__module__.partition(".")[0] not in _OF_THREADS and shows_state(cls)


def _called_by(x: Any, place: Place) -> str:
    """An object and where it is, for people."""
    kind, _, path = place.name.partition("|")
    cls = type(x)
    return f"a {cls.__module__}.{cls.__qualname__}, {kind} `{path}`"
