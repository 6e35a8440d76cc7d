"""Guards on methods: those of the user's classes that are reached stay what they are."""

from __future__ import annotations

from functools import cached_property, partial, partialmethod, singledispatchmethod
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any
from weakref import ref

from fx.transforms.jitting.guards.code import Place, Writer
from fx.transforms.jitting.guards.holders import called
from fx.transforms.jitting.guards.reads import Reads, origin, origin_of_module, reads_of
from fx.transforms.jitting.remembered import weakly

MAKERS = ("__init__", "__new__", "__post_init__", "__attrs_post_init__")
"""What makes an object of a class."""
ASKED = ("__getattr__", "__getattribute__", "__setattr__")
"""What is asked of the objects of a class besides what they hold."""
_UNCALLED = frozenset((
    "__init__", "__new__", "__repr__", "__str__", "__del__", "__reduce__", "__reduce_ex__",
    "__getstate__", "__setstate__", "__init_subclass__", "__class_getitem__", "__dir__",
    "__post_init__", "__attrs_post_init__", "__copy__", "__deepcopy__", "__format__",
))  # fmt: skip


class Methods:
    """The part of a walk that knows methods."""

    writer: Writer
    names: Any
    slots: dict[Any, Any]
    classes: dict[type, Place]
    methods_found: dict[Any, Place]

    if TYPE_CHECKING:

        def function(self, f: FunctionType, place: Place) -> None: ...
        def value(self, x: Any, place: Place, reads: Reads, depth: int) -> None: ...

    def methods(self, cls: type, read: Reads) -> Reads:
        """What the methods that are reached read of an instance, together with ``read``."""
        found = Reads()
        found.merge(read)
        todo = list(read.parts)
        done: set[str] = set()
        supers: set[str] = set()
        users = [base for base in cls.__mro__ if origin_of_module(base.__module__) == "user"]
        for base in users:
            self._bases(base)
            todo += [n for n in vars(base) if n[:2] == "__" == n[-2:] and n not in _UNCALLED]
            todo += vars(base) if read.any else ()
        while todo:
            name = todo.pop()
            if name in done:
                continue
            done.add(name)
            self._resolves(cls, name, name in supers)
            for base in users:
                for f, has_self in _functions(vars(base).get(name)):
                    filename = f.__code__.co_filename
                    if origin(filename) != "user":
                        continue
                    if filename == "<string>" and "__dataclass_fields__" in vars(base):
                        continue  # a method that dataclass has written
                    self.function(f, self._method(base, name, f))
                    reads = reads_of(f.__code__)
                    todo += [n for n in reads.supers if n not in supers]
                    done -= reads.supers - supers
                    supers |= reads.supers
                    if has_self and f.__code__.co_argcount:
                        own = reads.variables.get(f.__code__.co_varnames[0])
                        if own is not None:
                            found.merge(own)
                            todo += own.parts
            if not todo and found.whole:
                todo += [n for base in users for n in vars(base) if n in self.names]
                todo = [n for n in todo if n not in done]
        return found

    def _bases(self, cls: type) -> None:
        """Guard what a class is derived from: a program may assign to that."""
        bases = cls.__bases__
        if bases != (object,) and ("bases", cls) not in self.slots:
            self.slots["bases", cls] = None
            k = self.writer.name("k", bases)
            self.writer.require(self.class_place(cls), f"{{}}.__bases__ is {k}", "the same bases")

    def _method(self, cls: type, name: str, f: FunctionType) -> Place:
        """Where a method is found."""
        found = self.methods_found.get((cls, name, f))
        if found is None:
            if vars(cls).get(name) is f:
                found = self.class_place(cls).below(f"{{}}.{name}", f"method|{f.__qualname__}")
            else:
                found = Place(None, f"{self.writer.weak(f)}()", f"method|{f.__qualname__}")
            self.methods_found[cls, name, f] = found
        return found

    def class_place(self, cls: type) -> Place:
        """A class, wherever it is found."""
        found = self.classes.get(cls)
        if found is None:
            step = f"{self.writer.weak(cls)}()"
            found = self.classes[cls] = Place(None, step, f"class|{cls.__qualname__}")
        return found

    def _resolves(self, cls: type, name: str, supers: bool) -> None:
        """Guard which method a name stands for: in a class, and in those that ``super()`` asks."""
        if name in MAKERS and hasattr(cls, name):
            self._stands(cls, name)  # also where it is object's, and the class may get its own
        if name[:2] == "__" == name[-2:] and name != "__call__" and name not in MAKERS:
            return  # those that are used are guarded together
        bases = [b for b in cls.__mro__ if origin_of_module(b.__module__) == "user"]
        holders = [b for b in bases if name in vars(b)]
        raw = vars(holders[0])[name] if holders else None
        if isinstance(raw, singledispatchmethod) and ("registry", id(raw)) not in self.slots:
            self.slots["registry", id(raw)] = None
            step = f"{{}}.__dict__[{name!r}].dispatcher.registry"
            below = self.class_place(holders[0]).below(step, f"the registry of|{name}")
            self.value(raw.dispatcher.registry, below, Reads(whole=True), 0)
        if not _functions(raw):
            return
        self._stands(cls, name)
        if not supers:
            return
        for base in cls.__mro__[1 : cls.__mro__.index(holders[-1]) + 1]:
            if name in vars(base):
                self._stands(base, name)
            elif base in bases and ("absent", base, name) not in self.slots:
                self.slots["absent", base, name] = None
                condition = f"{name!r} not in {{}}.__dict__"
                self.writer.require(self.class_place(base), condition, f"without {name}")

    def _stands(self, cls: type, name: str) -> None:
        """Guard which method of a class a name stands for."""
        if ("method", cls, name) in self.slots:
            return
        self.slots["method", cls, name] = None
        found = getattr(cls, name, None)
        place = self.class_place(cls)
        below = place.below(f"{{}}.{name}", f"method|{cls.__qualname__}.{name}")
        if isinstance(found, MethodType):
            self.writer.identity(below.below("{}.__func__", below.name), found.__func__)
        elif isinstance(found, property):
            self.writer.identity(below.below("{}.fget", below.name), found.fget)
        elif found is getattr(cls, name, None):  # no new object each time
            self.writer.identity(below, found)

    def asks(self, cls: type, name: str) -> bool:
        """Whether the user's ``__getattr__`` gives an attribute, as long as the class does not."""
        bases = [b for b in cls.__mro__ if "__getattr__" in vars(b)]
        if not bases or origin_of_module(bases[0].__module__) != "user":
            return bool(bases)
        self.writer.require(
            self.class_place(cls), f"not hasattr({{}}, {name!r})", f"without {name}"
        )
        self.special_methods(cls)
        return True

    def descriptor(self, cls: type, name: str, place: Place, depth: int) -> None:
        """What an attribute of a class reads that is computed by an object of the user's."""
        base = next(b for b in cls.__mro__ if name in vars(b))
        raw = vars(base)[name]
        if origin_of_module(type(raw).__module__) == "user":
            step = f"{{}}.__dict__[{name!r}]"
            below = self.class_place(base).below(step, f"{place.name}.{name}")
            self.value(raw, below, called(), depth + 1)
            self.special_methods(type(raw))

    def special_methods(self, cls: type) -> None:
        """Guard the operators of a class: which methods with ``__names__`` it has."""
        if origin_of_module(cls.__module__) != "user":
            return
        self.writer.scope["same_special"] = same_special
        k = self.writer.name("k", special_of(cls))
        place = self.class_place(cls)
        self.writer.require(place, f"same_special({{}}, {k})", f"the operators of {cls.__name__}")


def special_of(cls: type) -> list[tuple[ref[type], list[str], list[tuple[str, Any]]]]:
    """For a class and those above it that are the user's: its names, and its special methods."""
    found = []
    for base in cls.__mro__:
        if origin_of_module(base.__module__) == "user":
            names = [n for n in vars(base) if n[:2] == "__" == n[-2:] and _acts(base, n)]
            methods = [(n, weakly(vars(base)[n])) for n in names]
            found.append((ref(base), [*vars(base)], methods))
    return found


def same_special(cls: Any, was: list[tuple[ref[type], list[str], list[tuple[str, Any]]]]) -> bool:
    """Whether the methods with special names are those that they were."""
    for holder, names, methods in was:
        base = holder()
        if base is None or base not in cls.__mro__:
            return False
        held = base.__dict__
        if [*held] != names:
            return False
        for name, method in methods:
            if held[name] is not method():
                return False
    return True


def _acts(cls: type, name: str) -> bool:
    value = vars(cls)[name]
    return isinstance(value, _METHODS) or (name == "__hash__" and value is None)


_METHODS = (
    FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, staticmethod,
    classmethod, property,
)  # fmt: skip


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
