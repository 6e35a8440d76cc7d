"""Reading: how objects are used by the instructions that run while a function is watched."""

from __future__ import annotations

import sys
from decimal import Decimal, getcontext
from functools import lru_cache
from types import CodeType, FrameType, FunctionType
from typing import Any, NoReturn
from weakref import ref

from fx import limits
from fx.holding import base_of, holding_of
from fx.staged_number import StagedNumber, own_value
from fx.transforms.jitting.guards.classes import held_by
from fx.transforms.jitting.guards.code import PLAIN
from fx.transforms.jitting.guards.reads import origin, origin_of_module
from fx.transforms.jitting.guards.touched import Asked, Touched
from fx.transforms.jitting.program import GiveUp
from fx.transforms.jitting.watching.impure import (
    LOCKS,
    QUIET,
    is_imported,
    is_of_numpy,
    numpy_settings,
)
from fx.transforms.jitting.watching.kinds import (
    CONTAINER,
    CONTAINERS,
    IGNORED,
    INSTANCE,
    MARKED,
    OPAQUE,
    OWNER,
    is_mark,
    kind_of,
    slots_of,
)
from fx.transforms.jitting.watching.operands import are_replaced, function_of, operands, replace

PUTTERS = frozenset(("append", "extend"))  # of lists
HARMLESS = frozenset(("write", "writelines", "flush", "acquire", "release", "locked", "isatty"))
_COMPARING = frozenset(("COMPARE_OP", "CONTAINS_OP", "IS_OP", "BINARY_SUBSCR"))
_WRITTEN = ("<frozen importlib", "<frozen runpy", "<__array_function__", "<guards")


class Reading:
    """The instructions that read and store.

    Args:
        opaque: by id, objects from outside whose state nobody can compare, with what they are.
    """

    def __init__(self, opaque: dict[int, str]) -> None:
        self.touched = Touched()
        self.opaque = opaque
        self.kinds: dict[type, int] = {}
        self.entered: set[int] = set()  # containers that were looked into
        self.given: set[tuple[int, str]] = set()  # attributes that got a value and were not deleted

    def give_up(self, frame: FrameType, why: str) -> NoReturn:
        """Stop, before the instruction has run: the function runs as it is."""
        at = frame
        while whose(at.f_code.co_filename) != "user" and at.f_back is not None:
            at = at.f_back
        self.touched.why = self.touched.why or (
            f"{why} ({at.f_code.co_filename}:{at.f_lineno}), "
            f"which no compiled code can do again; do that outside, and pass the result"
        )
        raise GiveUp(self.touched.why)

    def attribute(self, frame: FrameType, name: str, count: int) -> None:
        x = operands(frame, 1)[0]
        self.read(frame, x, name)

    def read(self, frame: FrameType, x: Any, name: str) -> None:
        """An attribute of an object is read."""
        kind = self.kind(x)
        if kind == IGNORED:
            return
        touched = self.touched
        key = id(x)
        if kind == MARKED:
            if is_mark(type(x), name):
                touched.ids.add(key)
                touched.names.setdefault(key, set()).add(name)
                if name == "__dict__":
                    touched.whole.add(key)
            return
        if type(x) is list and name in PUTTERS:
            return
        if kind == OPAQUE and name in HARMLESS:
            self.locks(frame, x)
            return
        touched.ids.add(key)
        if key in self.opaque:
            self.unknown(frame, x)
        elif kind in (INSTANCE, OWNER):
            if (key, name) not in self.given:
                touched.names.setdefault(key, set()).add(name)
            if name == "__dict__":
                touched.whole.add(key)
            if kind == OWNER:
                touched.owners[key] = ref(x)

    def unknown(self, frame: FrameType, x: Any) -> None:
        """An object is used whose state nobody can compare."""
        self.give_up(frame, f"it uses {self.opaque[id(x)]}, whose state cannot be compared")

    def locks(self, frame: FrameType, x: Any) -> None:
        """A lock keeps other threads away from the user's code; compiled code holds none."""
        if isinstance(x, LOCKS) and whose_frame(frame) == "user":
            self.give_up(frame, "it takes, or asks for, a lock")

    def store(self, frame: FrameType, name: str, count: int) -> None:
        x = operands(frame, 1)[0]
        self.marks(frame, x, name)
        if self.kind(x) in (INSTANCE, OWNER):
            place = id(x), name
            self.touched.written.add(place)
            if name not in self.touched.names.get(id(x), ()) and _keeps(type(x), name):
                self.given.add(place)
                self.touched.renewed.add(place)

    def delete(self, frame: FrameType, name: str, count: int) -> None:
        x = operands(frame, 1)[0]
        self.marks(frame, x, name)
        if self.kind(x) in (INSTANCE, OWNER):
            self.touched.written.add((id(x), name))
            self.given.discard((id(x), name))
            self.touched.names.setdefault(id(x), set()).add(name)

    def marks(self, frame: FrameType, x: Any, name: str) -> None:
        """An attribute gets a value or goes: of tensors those of fx alone are followed."""
        if self.kind(x) == MARKED and is_mark(type(x), name):
            self.give_up(frame, f"it changes the attribute {name!r} of a tensor")

    def store_global(self, frame: FrameType, name: str, count: int) -> None:
        self.touched.written.add((id(frame.f_globals), name))

    def store_variable(self, frame: FrameType, name: str, count: int) -> None:
        """A variable of an enclosing function gets a value."""
        names = frame.f_code.co_freevars
        f = function_of(frame) if name in names else None
        if type(f) is FunctionType and f.__closure__ is not None:
            cell = f.__closure__[names.index(name)]
            self.touched.written.add((id(cell), "cell_contents"))

    def use(self, frame: FrameType, name: str, count: int) -> None:
        """Objects are used through their special methods, or as containers."""
        values = operands(frame, count)
        text = name == "BINARY_OP" and type(values[0]) in (str, bytes)
        if text and type(values[1]) is StagedNumber and are_replaced():
            # NumPy's count as mappings in `text % x`, what stands for them does not
            replace(frame, 1, values[1].known(own_value))
        if name == "BEFORE_WITH":
            self.locks(frame, values[0])
        if any(x is sys.modules for x in values) and whose_frame(frame) == "user":
            self.of_modules(frame, values)
            return
        if name == "BINARY_SUBSCR" or name == "GET_ITER" or name == "FOR_ITER":
            if self.of_namespace(frame, values):
                return
            self.touched.ids.add(id(values[0]))
            if type(values[0]) in CONTAINERS:
                values = values[1:]
        if name == "IS_OP" and not any(self.kind(x) == IGNORED for x in values):
            self.touched.identity.update(map(id, values))
        put = name == "STORE_SUBSCR" and type(values[1]) is dict
        if put:
            self.refuse_namespace(frame, values[1])
            self.puts(values[1])
            if type(values[2]) in (str, int, tuple):
                self.touched.keys.setdefault(id(values[1]), {})[values[2]] = None
        for x in (values[0], values[2]) if put else values:
            self.used(frame, x, name in _COMPARING)
        if name in ("STORE_SUBSCR", "DELETE_SUBSCR"):
            self.touched.written.add((id(values[1 if count == 3 else 0]), None))

    def refuse_namespace(self, frame: FrameType, x: Any) -> None:
        if type(x) is dict and "__builtins__" in x:
            self.give_up(frame, "it stores into a dict that holds the names of a module")

    def puts(self, x: Any) -> None:
        """Something is put into a container, which is not looked at for that."""
        self.touched.stored.add(id(x))
        self.touched.written.add((id(x), None))

    def of_namespace(self, frame: FrameType, values: list[Any]) -> bool:
        """Whether the first of some values is a namespace, of which a name is read: the second."""
        names = values[0]
        if type(names) is not dict or "__builtins__" not in names:
            return False
        if len(values) < 2 or type(values[1]) is not str:
            self.give_up(frame, "it reads all names of a module")
        self.space(names, values[1])
        return True

    def of_modules(self, frame: FrameType, values: list[Any]) -> None:
        """``sys.modules`` is used: which module a name stands for is asked again."""
        names = [x for x in values if type(x) is str]
        if not names:
            self.give_up(frame, "it uses sys.modules as a whole")
        found = sys.modules.get(names[0])
        self.asks(is_imported, names[:1])
        if found is not None:
            self.asks(sys.modules.get, names[:1])

    def used(self, frame: FrameType, x: Any, compares: bool = True) -> None:
        """An object is used as a whole, but not its attributes under their names."""
        if is_of_numpy(x):
            self.asks(numpy_settings, [])
        kind = self.kind(x)
        if kind == IGNORED:
            return
        key = id(x)
        self.touched.ids.add(key)
        if isinstance(x, Decimal):
            self.asks(precision, [])
        if key in self.opaque:
            self.unknown(frame, x)
        elif kind == INSTANCE and holding_of(type(x)) is None:  # which is guarded by identity
            cls = type(x)
            self.touched.special[id(cls)] = ref(cls)
            if compares and cls.__eq__ is object.__eq__:
                self.touched.identity.add(key)
        elif kind == CONTAINER:
            self.entered_by(frame, x)
        elif kind == OWNER and origin_of_module(type(x).__module__) == "user":
            self.touched.special[id(type(x))] = ref(type(x))
            self.touched.owners[key] = ref(x)

    def asks(self, f: Any, args: list[Any]) -> None:
        """Something is asked that the guards ask again in each call."""
        self.touched.asked[id(f), *map(_known_by, args)] = Asked(f, args)

    def entered_by(self, frame: FrameType, x: Any) -> None:
        """A container is compared, shown or given away: so is what it holds."""
        todo = [x]
        while todo:
            x = todo.pop()
            self.touched.ids.add(id(x))
            if id(x) in self.entered or len(x) > limits.GUARD_GIVEN:
                continue
            self.entered.add(id(x))
            for item in x.values() if isinstance(x, dict) else x:
                if is_of_numpy(item):
                    self.asks(numpy_settings, [])
                kind = self.kind(item)
                if kind == CONTAINER:
                    todo.append(item)
                elif kind == INSTANCE:
                    self.used(frame, item)

    def load_name(self, frame: FrameType, name: str, count: int) -> None:
        """A name is read in a class body or in code of ``eval``."""
        self.space(frame.f_globals, name)

    def space(self, names: dict[str, Any], name: str) -> None:
        self.touched.spaces[id(names)] = names
        self.touched.names.setdefault(id(names), set()).add(name)

    def made(self, frame: FrameType, name: str, count: int) -> None:
        code = operands(frame, 1)[0]
        if type(code) is CodeType:
            self.touched.made.add(code)

    def match(self, frame: FrameType, name: str, count: int) -> None:
        subject, cls, names = operands(frame, 3)
        if self.kind(cls) == OWNER:
            self.read(frame, cls, "__match_args__")
        if isinstance(subject, cls):
            for attribute in (*getattr(cls, "__match_args__", ()), *names):
                self.read(frame, subject, attribute)

    def passed(self, frame: FrameType, x: Any) -> None:
        """Anything may be read of an object, and of what it holds."""
        todo, seen = [x], {id(x)}
        while todo:
            x = todo.pop()
            kind = self.kind(x)
            if kind == IGNORED:
                continue
            self.touched.ids.add(id(x))
            below: list[Any] = []
            if kind == OWNER:
                self.touched.whole.add(id(x))
                self.touched.owners[id(x)] = ref(x)
                continue
            if kind in (INSTANCE, MARKED):
                self.touched.whole.add(id(x))
            if kind == INSTANCE:
                self.touched.special[id(type(x))] = ref(type(x))
                self.touched.identity.add(id(x)) if type(x).__eq__ is object.__eq__ else None
                below += held_by(x).values()
                below += [getattr(x, n, None) for n in slots_of(type(x))]
            if isinstance(x, dict):
                below += dict.values(x)
            elif isinstance(x, list | tuple | set | frozenset):
                below += x
            if id(x) in self.opaque:
                self.unknown(frame, x)
            for y in below:
                if id(y) not in seen:
                    seen.add(id(y))
                    todo.append(y)
            if len(seen) > limits.GUARD_GIVEN:
                self.give_up(
                    frame, f"it gives an object with more than {limits.GUARD_GIVEN} others away"
                )

    def kind(self, x: Any) -> int:
        """How objects of a type are read."""
        cls = type(x)
        found = self.kinds.get(cls)
        if found is None:
            found = self.kinds[cls] = kind_of(cls)
        return found


def precision() -> tuple[int, str]:
    """What arithmetic of decimals does."""
    context = getcontext()
    return context.prec, context.rounding


def _known_by(x: Any) -> Any:
    return repr(x) if type(x) in PLAIN else id(x)


def _keeps(cls: type, name: str) -> bool:
    """Whether objects of a class keep what is stored as an attribute in their ``__dict__``."""
    plain = cls.__setattr__ is (base_of(cls) or object).__setattr__
    return plain and cls.__getattribute__ is object.__getattribute__ and not hasattr(cls, name)


@lru_cache(maxsize=4096)
def whose(filename: str) -> str:
    """Whether a file's code is looked into: ``"user"``, ``"library"``, or ``"no"``."""
    found = origin(filename)
    if found == "fx" or filename.startswith(_WRITTEN):
        return "no"
    if found == "library":
        filename = filename.removeprefix("<frozen ").removesuffix(">").removesuffix(".py")
        parts = filename.replace("\\", "/").split("/")
        if any(part in QUIET for part in parts[-4:]):
            return "no"
    return found


def whose_frame(frame: FrameType) -> str:
    """The same of a frame: methods that classes generate belong to the class's module."""
    filename = frame.f_code.co_filename
    if filename == "<string>":
        name = frame.f_globals.get("__name__", "")
        if name.startswith("namedtuple_"):
            return "library"
        if origin_of_module(name) == "fx":
            return "no"
    return whose(filename)


def is_user(f: Any) -> bool:
    """Whether a function is Python code of the user's."""
    return type(f) is FunctionType and whose(f.__code__.co_filename) == "user"


def name_of_call(f: Any) -> str:
    return f"{getattr(f, '__module__', None) or type(f.__self__).__name__}.{f.__name__}()"
