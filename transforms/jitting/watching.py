"""Watching: what a function reads while it is staged, instruction by instruction.

Byte code tells which names a function may read (``guards_reads.py``); what it has read, it tells
when it runs. So while a function is staged each instruction of its Python code is looked at before
it runs, together with what it works on: attributes are read of this object, this list is walked
over, this function in C is called. The code of libraries that is run on the way is looked at too,
fx's own is not. A later call costs nothing for that.

What is found is kept by the ids of objects: those that come from outside live as long as the
staging lasts, and others are met by no guard.
"""

from __future__ import annotations

import builtins
import dis
import gc
import operator
import os
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from threading import get_ident
from types import (
    BuiltinMethodType,
    CodeType,
    FrameType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any
from weakref import ref

from fx import limits
from fx.frames import is_internal
from fx.transforms.jitting.guards_reads import origin
from fx.transforms.jitting.impure import (
    GENERATORS,
    QUIET,
    generator_of,
    is_maker,
    moment_of,
    state_of,
)
from fx.transforms.jitting.instructions import imports_of, instructions, is_dropped
from fx.transforms.jitting.kinds import (
    CONTAINER,
    CONTAINERS,
    IGNORED,
    INSTANCE,
    OPAQUE,
    OWNER,
    kind_of,
    slots_of,
)
from fx.transforms.jitting.operands import NOTHING, are_known, function_of, operands
from fx.transforms.jitting.program import GiveUp
from fx.transforms.jitting.touched import Touched

_COMPARING = frozenset(("COMPARE_OP", "CONTAINS_OP", "IS_OP", "BINARY_SUBSCR"))
_WRITERS = frozenset((
    "append", "extend", "insert", "pop", "popitem", "remove", "clear", "update", "setdefault",
    "add", "discard", "sort", "reverse", "appendleft", "extendleft", "popleft", "rotate",
    "__setitem__", "__delitem__", "move_to_end", "fill", "put", "resize", "itemset",
))  # fmt: skip
_HARMLESS = frozenset(("write", "writelines", "flush", "acquire", "release", "locked", "isatty"))
_UNREAD = frozenset(("isinstance", "issubclass", "callable", "print", "append", "super"))
_UNREAD_CALLS = frozenset(map(id, (isinstance, type, id, callable, hash, repr, str)))
_SPECIAL = frozenset((  # modules of functions in C that use objects by special methods alone
    "builtins", "math", "cmath", "_operator", "_functools", "itertools", "_collections", "_bisect",
    "_heapq", "numpy", "_abc", "_thread", "_statistics", "_random",
))  # fmt: skip
_READERS = (operator.attrgetter, operator.methodcaller)
_BY_NAME = (getattr, hasattr, vars, dir)
_ENVIRONMENT = type(os.environ).__getitem__.__code__
_BLINDING = (eval, exec, globals, locals, vars, next)
_ASIDE = frozenset(("__del__",))  # code that runs by the way
_WRITTEN = ("<frozen importlib", "<frozen runpy", "<attrs", "<__array_function__", "<guards")
_CACHE = type(lru_cache(len))
_AT = dis.opname
_build_class = builtins.__build_class__
_CALLABLE_FIRST = sys.version_info >= (3, 13)


class Watching:
    """A block in which a function is staged, and what it reads is found out.

    Args:
        opaque: by id, objects from outside whose state nobody can compare, with what they are.
    """

    def __init__(self, opaque: dict[int, str]) -> None:
        self.touched = Touched()
        self.opaque = opaque
        self.kinds: dict[type, int] = {}
        self.restore: dict[int, Callable[[], None]] = {}  # of random generators
        self.chained: dict[FrameType, Any] = {}
        self.awaited: FrameType | None = None  # which gets what a cache gives
        self.entered: set[int] = set()  # containers that were looked into
        self.making = False  # whether a random generator is being made
        self.own: list[Any] = []  # the random generators that were made

    def __enter__(self) -> Touched:
        self.before = sys.gettrace()
        self.active = are_known()
        self.collecting = False
        self.thread = get_ident()
        if self.active:
            gc.callbacks.append(self._has_collected)  # first: a collection may start here
            gc.callbacks.insert(0, self._collects)
            sys.settrace(self._called)
        else:
            self.touched.blind = True
            self.before = sys.getprofile()
            sys.setprofile(self._profiled)
        return self.touched

    def _collects(self, phase: str, info: Any) -> None:
        """Callbacks of the garbage collector run wherever Python is, and are no part of it."""
        if phase == "start" and get_ident() == self.thread:
            self.collecting = True

    def _has_collected(self, phase: str, info: Any) -> None:
        if phase == "stop" and get_ident() == self.thread:
            self.collecting = False

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self.active:
            if sys.gettrace() != self._called:
                self.touched.why = self.touched.why or "it sets a tracer, or takes one away"
            if sys.gettrace() in (None, self._called):
                sys.settrace(self.before)
            gc.callbacks.remove(self._collects)
            gc.callbacks.remove(self._has_collected)
        else:
            sys.setprofile(self.before)
        if self.touched.why:
            for back in self.restore.values():
                back()
            raise GiveUp(self.touched.why) from None

    # events --------------------------------------------------------------------------------------

    def _profiled(self, frame: FrameType, event: str, arg: Any) -> None:
        """All that is seen where the interpreter's frames are not known: who is called."""
        code = frame.f_code
        if event == "call" and code not in self.touched.made:
            if _whose(code.co_filename) == "user":
                self.touched.made.update(c for c in code.co_consts if type(c) is CodeType)
                if imports_of(code):
                    self.give_up(frame, f"it imports {imports_of(code)[0]}")
                for f in gc.get_referrers(code):
                    if type(f) is FunctionType and f.__code__ is code:
                        self.touched.functions[id(f)] = ref(f)
            elif code is _ENVIRONMENT and frame.f_back is not None:
                self.give_up(frame, "it reads the environment")
        if event != "c_call":
            return
        caller: FrameType | None = frame
        while caller is not None and _whose(caller.f_code.co_filename) == "library":
            caller = caller.f_back
        if caller is None or _whose(caller.f_code.co_filename) != "user":
            return
        generator, why = generator_of(arg), moment_of(arg, [], True)
        if generator is not None:
            self.draws(frame, generator, arg.__name__)
        elif why is not None:
            self.give_up(frame, f"it asks {why} by {_name(arg)}")
        elif arg in _BLINDING or arg.__name__ == "__import__":
            self.give_up(frame, f"it may read anything by {_name(arg)}")

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        whose = _whose(code.co_filename)
        follow = None
        if self.before is not None:
            follow = self.before(frame, event, arg)
        if whose == "no" or self.collecting or code.co_name in _ASIDE:
            return follow
        if whose == "library" or code.co_name == "<module>":  # called by code that is watched
            caller = frame.f_back
            if caller is None or not caller.f_trace_opcodes:
                return follow
        if code not in self.touched.made:
            f = function_of(frame)
            if type(f) is FunctionType:
                self.touched.functions[id(f)] = ref(f)
        frame.f_trace_opcodes = True
        if follow is None:
            frame.f_trace_lines = False
            return self._step
        self.chained[frame] = follow
        return self._follow

    def _follow(self, frame: FrameType, event: str, arg: Any) -> Any:
        """The same with another tracer that looks on: a debugger's, or that of a jit around it."""
        follow = self.chained.get(frame)
        if event == "opcode":
            self._step(frame, event, arg)
            if not isinstance(getattr(follow, "__self__", None), Watching):
                return self._follow
        if follow is not None:
            self.chained[frame] = follow(frame, event, arg)
        return self._follow

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            if self.awaited is frame and _AT[frame.f_code.co_code[frame.f_lasti]] != "CALL":
                self.awaited = None
                self.comes_from_cache(operands(frame, 1)[0])
                self.making = False
            found = instructions(frame.f_code).get(frame.f_lasti)
            if found is not None:
                look, what, count = found
                try:
                    getattr(self, look)(frame, what, count)
                except Exception as error:  # of what an object does when it is asked for its class
                    self.give_up(frame, f"what it does cannot be watched, for {error!r} is raised")
        return self._step

    def comes_from_cache(self, x: Any) -> None:
        """What a cache gives is found nowhere else; and a new random generator is its own."""
        if self.making:
            self.own.append(x)
            return
        kind = self.kind(x)
        if kind == INSTANCE:
            try:
                self.touched.owners[id(x)] = ref(x)
            except TypeError:
                self.touched.kept[id(x)] = x
        elif kind == CONTAINER:
            self.touched.kept[id(x)] = x

    def give_up(self, frame: FrameType, why: str) -> None:
        """Stop, before the instruction has run: the function runs as it is."""
        at = frame
        while _whose(at.f_code.co_filename) != "user" and at.f_back is not None:
            at = at.f_back
        self.touched.why = self.touched.why or (
            f"{why} ({at.f_code.co_filename}:{at.f_lineno}), "
            f"which no compiled code can do again; do that outside, and pass the result"
        )
        raise GiveUp(self.touched.why)

    # instructions --------------------------------------------------------------------------------

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
        touched.ids.add(key)
        if key in self.opaque:
            if name not in _HARMLESS:
                self.unknown(frame, x)
        elif kind in (INSTANCE, OWNER):
            touched.names.setdefault(key, set()).add(name)
            if name == "__dict__":
                touched.whole.add(key)
            if kind == OWNER:
                touched.owners[key] = ref(x)

    def unknown(self, frame: FrameType, x: Any) -> None:
        """An object is used whose state nobody can compare."""
        self.give_up(frame, f"it uses {self.opaque[id(x)]}, whose state cannot be compared")

    def store(self, frame: FrameType, name: str, count: int) -> None:
        x = operands(frame, 1)[0]
        if self.kind(x) in (INSTANCE, OWNER):
            self.touched.written.add((id(x), name))

    def use(self, frame: FrameType, name: str, count: int) -> None:
        """Objects are used through their special methods, or as containers."""
        values = operands(frame, count)
        if name == "BINARY_SUBSCR" or name == "GET_ITER" or name == "FOR_ITER":
            if self.of_namespace(frame, values):
                return
            self.touched.ids.add(id(values[0]))
            if type(values[0]) in CONTAINERS:
                values = values[1:]
        if name == "IS_OP" and not any(self.kind(x) == IGNORED for x in values):
            self.touched.identity.update(map(id, values))
        for x in values:
            self.used(frame, x, name in _COMPARING)
        if name in ("STORE_SUBSCR", "DELETE_SUBSCR"):
            self.touched.written.add((id(values[1 if count == 3 else 0]), None))

    def of_namespace(self, frame: FrameType, values: list[Any]) -> bool:
        """Whether the first of some values is a namespace, of which a name is read: the second."""
        names = values[0]
        if type(names) is not dict or "__builtins__" not in names:
            return False
        if len(values) < 2 or type(values[1]) is not str:
            self.give_up(frame, "it reads all names of a module")
        self.space(names, values[1])
        return True

    def used(self, frame: FrameType, x: Any, compares: bool = True) -> None:
        """An object is used as a whole, but not its attributes under their names."""
        kind = self.kind(x)
        if kind == IGNORED:
            return
        key = id(x)
        self.touched.ids.add(key)
        if key in self.opaque:
            self.unknown(frame, x)
        elif kind == INSTANCE and not hasattr(x, "_modules"):  # which is guarded by identity
            cls = type(x)
            self.touched.special[id(cls)] = ref(cls)
            if compares and cls.__eq__ is object.__eq__:
                self.touched.identity.add(key)
        elif kind == CONTAINER:
            self.entered_by(frame, x)

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

    def call(self, frame: FrameType, name: str, count: int) -> None:
        values = operands(frame, count + 2)
        first, second, *args = values
        if _CALLABLE_FIRST:
            first, second = (NOTHING, first) if second is NOTHING else (first, second)
        if first is not NOTHING:  # a function and the object that it is a method of
            args.insert(0, second)
            second = first
        self.calls(frame, second, args, bool(args))

    def call_with(self, frame: FrameType, name: str, count: int) -> None:
        """``f(*args, **kwargs)``."""
        *_, f, args, kwargs = [NOTHING, *operands(frame, 2 + count)][: 3 + count] + (
            [] if count else [{}]
        )
        given = [*args] if isinstance(args, list | tuple) else []
        if isinstance(kwargs, dict):
            given += kwargs.values()
        self.calls(frame, f, given, bool(given))

    def calls(self, frame: FrameType, f: Any, args: list[Any], given: bool) -> None:
        """A function is called."""
        if self.making:
            return
        kind = type(f)
        for x in args[:1] if id(f) not in _UNREAD_CALLS else ():
            if isinstance(x, GENERATORS) and not _is_user(f):
                self.draws(frame, x, getattr(f, "__name__", kind.__name__))
                return
        if kind is FunctionType:
            if is_internal(f.__code__.co_filename):
                self.hand_over(frame, args)
            return
        if kind is partial:
            self.calls(frame, f.func, [*f.args, *args, *f.keywords.values()], True)
            return
        generator = generator_of(f)
        if generator is not None:
            self.draws(frame, generator, f.__name__)
            return
        if kind is MethodType:
            self.calls(frame, f.__func__, [f.__self__, *args], True)
            return
        why = moment_of(f, args, given)
        if why is not None:
            self.give_up(frame, f"it asks {why} by {_name(f)}")
        if is_maker(f):
            self.awaited, self.making = frame, True
            return
        for x in args:  # what may be called from C
            if type(x) in (BuiltinMethodType, MethodType):
                drawn, asked = generator_of(x), moment_of(x, [], False)
                if drawn is not None:
                    self.draws(frame, drawn, x.__name__)
                elif asked is not None:
                    self.give_up(frame, f"it asks {asked} by {_name(x)}")
        if isinstance(f, type) and kind is not type:
            return
        name = getattr(f, "__name__", "")
        if f in _BY_NAME if kind is BuiltinMethodType else False:
            self.by_name(frame, f, args)
            return
        if f is _build_class and args and isinstance(args[0], FunctionType):
            self.touched.classes.add(args[0].__qualname__)
            return
        if name in ("globals", "locals") and kind is BuiltinMethodType:
            return
        if f is type or (name in _UNREAD and kind is not FunctionType):
            if name == "append" and args:
                self.writes(args[0])
            return
        if f is setattr or f is delattr or name in ("__setattr__", "__delattr__"):
            if len(args) > 1 and isinstance(args[1], str):
                self.touched.written.add((id(args[0]), args[1]))
            return
        owner = getattr(f, "__self__", None)
        if owner is not None and not isinstance(owner, ModuleType | type):
            args = [owner, *args]
        if kind is _CACHE:
            self.awaited = frame
        if name in ("get", "__getitem__", "__contains__") and self.of_namespace(frame, args[:2]):
            return
        if name in _WRITERS and args:
            self.writes(args[0])
        if name in _HARMLESS or (f is next and is_dropped(frame)):
            return
        if name == "__getattribute__" and len(args) > 1 and isinstance(args[1], str):
            self.read(frame, args[0], args[1])
            return
        deep = isinstance(f, _READERS) or any(
            isinstance(x, _READERS) or (type(x) is BuiltinMethodType and x in _BY_NAME)
            for x in args
        )
        module = getattr(f, "__module__", None) or getattr(
            getattr(f, "__objclass__", None), "__module__", ""
        )
        top = (module or type(owner).__module__).partition(".")[0]
        known = isinstance(f, type) or top in _SPECIAL or kind.__module__ == "numpy"
        for x in args:
            if type(x) is partial:
                self.calls(frame, x, [], True)
            elif deep or not known:
                self.passed(frame, x)
            else:
                self.used(frame, x)
        if id(f) in self.opaque:
            self.unknown(frame, f)

    def by_name(self, frame: FrameType, f: Any, args: list[Any]) -> None:
        """``getattr`` and its kin."""
        if not args:
            return
        if f in (getattr, hasattr) and len(args) > 1 and type(args[1]) is str:
            self.read(frame, args[0], args[1])
        elif self.kind(args[0]) != IGNORED:
            self.touched.ids.add(id(args[0]))
            self.touched.whole.add(id(args[0]))
            if self.kind(args[0]) == OWNER:
                self.touched.owners[id(args[0])] = ref(args[0])

    def writes(self, x: Any) -> None:
        self.touched.written.add((id(x), None))

    def draws(self, frame: FrameType, generator: Any, name: str) -> None:
        """A random generator of Python or NumPy is used."""
        if any(generator is x for x in self.own):
            return
        kind = type(generator)
        self.restore.setdefault(id(generator), state_of(generator))
        self.give_up(frame, f"it draws from a {kind.__module__}.{kind.__qualname__} by {name}()")

    def hand_over(self, frame: FrameType, args: list[Any]) -> None:
        """Objects are given to a function of fx."""
        for x in args:
            if type(x) is BuiltinMethodType:
                drawn, asked = generator_of(x), moment_of(x, [], False)
                if drawn is not None:
                    self.draws(frame, drawn, x.__name__)
                elif asked is not None:
                    self.give_up(frame, f"it asks {asked} by {_name(x)}")
            elif self.kind(x) in (CONTAINER, OPAQUE):
                self.used(frame, x)
            elif self.kind(x) == INSTANCE and (
                hasattr(type(x), "__dataclass_fields__") or hasattr(type(x), "__attrs_attrs__")
            ):
                self.passed(frame, x)

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
            if kind == INSTANCE:
                self.touched.whole.add(id(x))
                self.touched.identity.add(id(x)) if type(x).__eq__ is object.__eq__ else None
                below += getattr(x, "__dict__", {}).values()
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


@lru_cache(maxsize=4096)
def _whose(filename: str) -> str:
    """Whether a file's code is looked into: ``"user"``, ``"library"``, or ``"no"``."""
    whose = origin(filename)
    if whose == "fx" or filename.startswith(_WRITTEN):
        return "no"
    if whose == "library":
        filename = filename.removeprefix("<frozen ").removesuffix(">").removesuffix(".py")
        parts = filename.replace("\\", "/").split("/")
        if any(part in QUIET for part in parts[-4:]):
            return "no"
    return whose


def _is_user(f: Any) -> bool:
    """Whether a function is Python code of the user's."""
    return type(f) is FunctionType and _whose(f.__code__.co_filename) == "user"


def _name(f: Any) -> str:
    return f"{getattr(f, '__module__', None) or type(f.__self__).__name__}.{f.__name__}()"
