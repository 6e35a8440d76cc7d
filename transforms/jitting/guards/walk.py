"""The walk that finds what a function reads of Python's state, and has it guarded.

It starts at the function and the objects among its arguments, and follows closures, globals,
defaults, methods and attributes into the user's own code. Code and objects of libraries are looked
at by identity alone.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, defaultdict, deque
from enum import Enum
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any

import numpy as np

from fx import limits
from fx.graph.named import Named, node_of
from fx.handles import Data
from fx.numbers import Numbers
from fx.seen import TorchDType
from fx.staged_number import StagedNumber
from fx.state import Cell
from fx.tape import Leaf
from fx.tensor import Tensor
from fx.transforms.jitting.guards.code import PLAIN, Place, Writer
from fx.transforms.jitting.guards.containers import Containers, is_plain
from fx.transforms.jitting.guards.holders import attribute, called
from fx.transforms.jitting.guards.methods import Methods
from fx.transforms.jitting.guards.objects import Objects
from fx.transforms.jitting.guards.reads import (
    CodeReads,
    Reads,
    origin,
    origin_of_module,
    reads_of,
)
from fx.transforms.jitting.guards.settings import Settings
from fx.transforms.jitting.guards.touched import Touched
from fx.transforms.jitting.watching.kinds import holds_others
from fx.versions import Watched, WatchedList

VALUES = (range, slice, np.generic, np.dtype, TorchDType)
_VALUE_MODULES = frozenset(
    ("datetime", "decimal", "fractions", "pathlib", "pathlib._local", "uuid")
)


# what a member of an enumeration keeps, and the attribute that reads it
_READ_BY = {"_value_": "value", "_name_": "name"}


class Walk(Containers, Objects, Methods):
    """One walk.

    Args:
        known: what an earlier walk found to be read, by object and by slot, so that this one knows
            it from the beginning; None for the first.
        touched: what was read while the function was staged.
        inputs: the tensors that are inputs, by their ids; None if all are.

    Attributes:
        cut: what was not looked at, by the ids of objects: what it is, in words.
        opaque: objects whose state cannot be seen, by their ids: what they are, in words.
    """

    def __init__(
        self, known: Walk | None, touched: Touched, inputs: frozenset[int] | None = None
    ) -> None:
        self.writer = Writer()
        self.settings = Settings(touched)
        self.touched = touched
        self.inputs = inputs
        self.tensors: dict[int, Place] = {}
        self.cut: dict[int, str] = {}
        self.opaque: dict[int, str] = {}
        self.free = True  # whether nothing is found but from the function and its arguments
        self.full = False  # whether there is more to compare than any guard may
        self.reusable = True  # False where a value is of a transform that is running
        self.handles = False  # whether code that is reached handles errors
        self.seen: dict[int, Place] = {}
        self.slots: dict[Any, None] = {}
        self.methods_found: dict[Any, Place] = {}
        self.classes: dict[type, Place] = {}
        self.alive: list[Any] = []
        self.namespaces: dict[int, Place] = {}
        self.filters: dict[type, frozenset[str] | None] = {}
        self.reads: dict[Any, Reads] = {} if known is None else known.reads
        self.names: set[str] = set() if known is None else known.names
        self.anything = known is not None and known.anything
        if known is None:
            for key, names in touched.names.items():
                reads = self.reads.setdefault(("object", key), Reads())
                for name in names:
                    reads.of(name)
            for key in touched.whole:
                self.reads.setdefault(("object", key), Reads()).any = True

    def used(self, x: Any) -> bool:
        """Whether an object is known to be read."""
        return id(x) in self.touched.ids

    def leave(self, x: Any, place: Place, what: str) -> None:
        """Do not look at an object, or at all that it holds."""
        kind, _, path = place.name.partition("|")
        self.cut[id(x)] = f"{kind} `{path}`, {what}" if path else f"{kind}, {what}"

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
                    self.writer.scope["is_unbound"] = is_unbound
                    self.writer.require(cells, f"is_unbound({{}}[{i}])", f"without `{name}`")
                    continue
                if name != "__class__" and ("cell", id(cell)) not in self.slots:
                    self.slots["cell", id(cell)] = None
                    step = f"{{}}[{i}].cell_contents"
                    if self.touched.is_counted(cell, "cell_contents", value):
                        k = self.writer.name("k", cell)
                        self.writer.require(cells, f"{{}}[{i}] is {k}", "the same variable")
                        self.writer.kind(cells.below(step, f"closure variable|{name}"), value)
                        continue
                    read = reads.variables.get(name) if reads else None
                    read = self.read(("cell", id(cell)), read or Reads(whole=True))
                    self.value(value, cells.below(step, f"closure variable|{name}"), read, 0)
        wrapped = getattr(f, "__wrapped__", None)
        if wrapped is not None and whose != "user":
            below = place.below("{}.__wrapped__", f"the wrapped function|{code.co_name}")
            self.value(wrapped, below, called(), 0)
            if isinstance(registry := getattr(f, "registry", None), MappingProxyType):
                below = place.below("{}.registry", f"the registry of|{code.co_name}")
                self.value(registry, below, Reads(whole=True), 0)  # of functools.singledispatch
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
            self.global_(names, space, name, read, f.__builtins__)

    def global_(
        self, names: dict[str, Any], space: Place, name: str, read: Reads, builtins: dict[str, Any]
    ) -> None:
        """What a name stands for in a namespace; or among the builtins, as long as it does."""
        slot = ("global", id(names), name)
        if name in names:
            read = self.read(slot, read)
        if slot in self.slots:
            return
        self.slots[slot] = None
        if name in names and self.touched.is_counted(names, name, names[name]):
            self.writer.require(space, f"{{}} is {self.writer.name('k', names)}", "the same names")
            self.writer.kind(space.below(f"{{}}[{name!r}]", f"global|{name}"), names[name])
            return
        if name in names:
            self.value(names[name], space.below(f"{{}}[{name!r}]", f"global|{name}"), read, 0)
            return
        self.writer.require(space, f"{name!r} not in {{}}", f"without the global `{name}`")
        self.writer.scope["builtins"] = builtins
        built = Place(None, "builtins", f"builtin|{name}")
        if name in builtins:
            k = self.writer.name("k", builtins[name])
            self.writer.require(built, f"{{}}[{name!r}] is {k}", f"the builtin `{name}`")
        else:
            self.writer.require(built, f"{name!r} not in {{}}", "missing")

    def attributes_of(self, f: FunctionType, place: Place, reads: Reads, depth: int) -> None:
        """What is read of a function besides its code."""
        reads = self.read(("object", id(f)), reads)
        own = vars(f)
        if reads.any:
            self.writer.attributes(place, own)
        for name in dict.fromkeys((*reads.parts, *self._chosen(reads, own))):
            if name in own:
                below = place.below(f"{{}}.{name}", f"{place.name}.{name}")
                self.value(own[name], below, reads.parts.get(name) or Reads(whole=True), depth + 1)
            elif not hasattr(f, name):
                self.writer.require(place, f"not hasattr({{}}, {name!r})", f"without {name}")
            elif type(value := getattr(f, name)) in (*PLAIN, tuple, dict) and name != "__dict__":
                self.value(value, place.below(f"{{}}.{name}", f"{place.name}.{name}"), Reads(), 0)

    # values -------------------------------------------------------------------------------------

    def value(self, x: Any, place: Place, reads: Reads, depth: int, given: bool = False) -> None:
        """Guard what is at a place; ``given``: the object itself is known to be the same."""
        write = self.writer
        kind = type(x)
        if len(write.checks) > limits.GUARD_USED_CHECKS:
            self.leave(x, place, "among too many things that it reads")
            self.full = True
            return
        if kind in PLAIN:
            write.plain(place, x)
            return
        if kind in (tuple, frozenset) and len(x) <= limits.GUARD_ITEMS and is_plain(x):
            write.plain(place, x)
            return
        deep = depth > limits.GUARD_DEPTH or len(write.checks) > limits.GUARD_CHECKS
        if deep and (depth > limits.GUARD_USED_DEPTH or not self.used(x)) and holds_others(kind):
            self.leave(x, place, "too deep in what it reads")
            return
        fresh = kind is FunctionType and ("shared", id(x)) not in self.slots and not given
        if fresh and origin(x.__code__.co_filename) == "user":
            self.slots["shared", id(x)] = None
            if id(x) in self.touched.identity:
                write.identity(place, x)
            k = write.name("k", x.__code__)
            write.require(place, f"{{}}.__code__ is {k}", x.__qualname__)
            self.function(x, place)
            self.attributes_of(x, place, reads, depth)
            return
        before = self.seen.get(id(x))
        if before is not None and not given:
            first = write.variable(before)
            write.require(place, f"{{}} is {first}", "the same object")
            return
        self.alive.append(x)
        self.seen[id(x)] = place
        if self.touched.is_unread(x):
            write.kind(place, x)
            return
        if id(x) in self.touched.identity and not given:
            write.identity(place, x)
        if isinstance(x, Tensor):
            self._tensor(x, place, given)
            self.marks(x, place, depth)
        elif isinstance(x, StagedNumber):
            self.reusable = False
        elif isinstance(x, ModuleType):
            self.namespace(x, place, reads, depth)
        elif isinstance(x, type):
            self.class_(x, place, reads, depth)
        elif isinstance(x, Enum):
            write.identity(place, x)
            self.member(x, place, reads, depth)
        elif isinstance(x, VALUES) or type(x).__module__ in _VALUE_MODULES:
            k = write.name("k", x)
            write.require(place, f"{{0}} is {k} or same({{0}}, {k})", repr(x))
        elif kind is np.ndarray:
            self.array(x, place)
        elif kind in (list, tuple, deque) or isinstance(x, WatchedList):
            self.sequence(x, place, depth)
        elif kind in (set, frozenset):
            self.set(x, place)
        elif kind in (dict, OrderedDict, defaultdict, MappingProxyType) or isinstance(
            x, Numbers | Watched
        ):
            self.mapping(x, place, depth)
            if kind is defaultdict:
                below = place.below("{}.default_factory", f"{place.name}.default_factory")
                self.value(x.default_factory, below, called(), depth + 1)
        elif kind in (bytearray, array, memoryview):
            self.bytes_(x, place)
        else:
            self.object_(x, place, reads, depth, given)

    def member(self, x: Enum, place: Place, reads: Reads, depth: int) -> None:
        """A member of an enumeration: its methods, and what its value and its attributes hold."""
        if origin_of_module(type(x).__module__) != "user":
            return
        reads = self.methods(type(x), self.read(("object", id(x)), reads))
        for name, value in vars(x).items():
            held = name == "_value_" and type(value) not in PLAIN
            if held or name in reads.parts or _READ_BY.get(name) in reads.parts:
                self.value(value, attribute(place, name), self._part(x, reads, name), depth + 1)

    def found_anew(self, x: Any, place: Place) -> None:
        """What gets a value before it is read: where it is, for a branch that reads it."""
        if isinstance(x, Tensor) and not isinstance(x, Cell) and not x.written:
            self.tensors.setdefault(id(x), place)

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
        if x.written:
            self._written(x, place)
            return
        self.tensors[id(x)] = place
        if self.inputs is not None and id(x) not in self.inputs:
            self.writer.identity(place, x)  # a constant of what was staged
        if type(x) is Tensor or type(x) is Named:
            self.writer.scope.update(Tensor=Tensor, Named=Named, node_of=node_of)
            condition = "(type({0}) is Tensor or type({0}) is Named) and "
            condition += f"(node_of({{0}}) is None) is {node_of(x) is None}"
        else:
            condition = f"type({{0}}) is {self.writer.name('k', type(x))}"
        self.writer.require(place, condition, "a tensor")
        if type(node_of(x)) is Leaf:
            self.writer.scope.update(node_of=node_of)
            self.leaf_hooks(node_of(x), place, "node_of({})")

    def _written(self, x: Any, place: Place) -> None:
        """A written tensor: which elements of which cell it shows; the values are inputs."""
        record, write = x._noted, self.writer
        cell = record.family.cell
        same = f"type({{0}}) is {write.name('k', type(x))}"
        held = f"{{0}}._noted.family.cell is {write.weak(cell)}()"
        shown = f"{{0}}._noted.path is {write.name('k', record.path)}"
        write.require(place, f"{same} and {held} and {shown}", "a tensor that is written")
        leaf = f"({{0}}._noted.leaf is None) is {record.leaf is None}"
        if isinstance(cell, Cell):
            leaf += f" and ({{0}}._noted.family.cell.leaf is None) is {cell.leaf is None}"
            if cell.leaf is None:  # and no history that another call would have to go on from
                none = getattr(cell.value, "_node", None) is None
                node = 'getattr({0}._noted.family.cell.value, "_node", None)'
                leaf += f" and ({node} is None) is {none}"
        write.require(place, leaf, "a tensor that requires grad, or not")
        if record.leaf is not None:
            self.leaf_hooks(record.leaf, place, "{}._noted.leaf")
        if isinstance(cell, Cell):
            self.cell_hooks(cell, place.below("{}._noted.family.cell", place.name), compared=True)
        if isinstance(cell, Cell) and not record.family.of_user:
            from fx.writing.host import is_shared

            shared = f"{write.name('k', is_shared)}({{0}}._noted.family.cell) is {is_shared(cell)}"
            write.require(place, shared, "a tensor that shares its memory with NumPy, or not")


def is_unbound(cell: Any) -> bool:
    """Whether the variable of a closure has no value yet."""
    try:
        cell.cell_contents  # noqa: B018 - to see whether there is one
    except ValueError:
        return True
    return False


def _size(reads: Reads) -> int:
    return 1 + reads.whole + reads.called + reads.any + sum(map(_size, reads.parts.values()))
