"""Calling: what a call that is about to be made reads, changes, draws or asks the moment for."""

from __future__ import annotations

import builtins
import operator
import sys
from abc import ABCMeta, get_cache_token
from collections.abc import Sequence
from decimal import getcontext
from functools import lru_cache, partial
from types import BuiltinMethodType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple
from weakref import ref

from fx.frames import is_internal
from fx.random.generator import seed as fresh_seed
from fx.staged_number import StagedNumber
from fx.tensor import Tensor
from fx.transforms.jitting.guards.code import PLAIN
from fx.transforms.jitting.program import GiveUp
from fx.transforms.jitting.recording.draws import holds_staged, is_pure
from fx.transforms.jitting.recording.host import kind_of
from fx.transforms.jitting.watching.impure import (
    DRAWN_FROM,
    GENERATORS,
    asks_which_thread,
    generator_of,
    is_asked,
    is_clock,
    is_maker,
    is_of_numpy,
    moment_of,
    numpy_settings,
    tells_setting,
)
from fx.transforms.jitting.watching.instructions import is_dropped, is_named
from fx.transforms.jitting.watching.kinds import CONTAINER, IGNORED, INSTANCE, OPAQUE, OWNER
from fx.transforms.jitting.watching.operands import NOTHING, are_replaced, operands, replace
from fx.transforms.jitting.watching.reads import (
    HARMLESS,
    PUTTERS,
    Reading,
    is_user,
    name_of_call,
    precision,
    whose_frame,
)

_WRITERS = frozenset((
    "append", "extend", "insert", "pop", "popitem", "remove", "clear", "update", "setdefault",
    "add", "discard", "sort", "reverse", "appendleft", "extendleft", "popleft", "rotate",
    "__setitem__", "__delitem__", "move_to_end", "fill", "put", "resize", "itemset",
))  # fmt: skip
_UNREAD = frozenset(("callable", "print", "append", "super"))
_UNREAD_CALLS = frozenset(map(id, (isinstance, type, id, callable, hash, repr, str)))
_SPECIAL = frozenset((  # modules of functions in C that use objects by special methods alone
    "builtins", "math", "cmath", "_operator", "_functools", "itertools", "_collections", "_bisect",
    "_heapq", "numpy", "_abc", "_thread", "_statistics", "_random",
))  # fmt: skip
_SHOWN = (Tensor, list, tuple, dict, set, frozenset)
_READERS = (operator.attrgetter, operator.methodcaller)
_BY_NAME = (getattr, hasattr, vars, dir)
_OF_CLASSES = (isinstance, issubclass)
_CACHE = type(lru_cache(len))
_build_class = builtins.__build_class__
_CALLABLE_FIRST = sys.version_info >= (3, 13)


def reads_fields(name: str, args: list[Any]) -> bool:
    """Whether a text is formatted that may name attributes or items of what is shown."""
    return name in ("format", "format_map") and type(args[0]) is str and "{" in args[0]


class Site(NamedTuple):
    """Where a function that is about to be called lies on the stack: how far from its top."""

    top: int
    function: Any


class StandIn(partial[Any]):
    """What is called in the place of a function that gives something else each time."""


class Calling(Reading):
    """The instructions that call."""

    def __init__(self, opaque: dict[int, str], recording: Any) -> None:
        super().__init__(opaque)
        self.recording = recording
        self.awaited: FrameType | None = None  # which gets what a cache gives
        self.making = False  # whether a random generator is being made
        self.own: list[Any] = []  # the random generators that were made

    def call(self, frame: FrameType, name: str, count: int) -> None:
        values = operands(frame, count + 2)
        first, second, *args = values
        top = count + 1 if first is NOTHING else count + 2
        if _CALLABLE_FIRST:
            first, second = (NOTHING, first) if second is NOTHING else (first, second)
            top = count + 2
        if first is not NOTHING:  # a function and the object that it is a method of
            args.insert(0, second)
            second = first
        self.calls(frame, second, args, bool(args), Site(top, second))

    def call_with(self, frame: FrameType, name: str, count: int) -> None:
        """``f(*args, **kwargs)``."""
        *_, f, args, kwargs = [NOTHING, *operands(frame, 2 + count)][: 3 + count] + (
            [] if count else [{}]
        )
        given = [*args] if isinstance(args, list | tuple) else []
        if isinstance(kwargs, dict):
            given += kwargs.values()
        top = 2 + count
        site = Site(top, f) if operands(frame, top)[0] is f else None
        self.calls(frame, f, given, bool(given), site)

    def calls(
        self, frame: FrameType, f: Any, args: list[Any], given: bool, site: Site | None = None
    ) -> None:
        """A function is called.

        Args:
            frame: by which.
            f: the function.
            args: the positional arguments, and the values of the others.
            given: whether there are any.
            site: where the function can be replaced.
        """
        if self.making:
            return
        kind = type(f)
        if kind is StandIn:  # of a function inside of this one
            return
        for x in args[:1] if id(f) not in _UNREAD_CALLS else ():
            if isinstance(x, GENERATORS) and not is_user(f):
                self.draws(frame, x, getattr(f, "__name__", kind.__name__), f, args, site)
                return
        if is_of_numpy(f):
            self.asks(numpy_settings, [])
        if f is print:
            self.shown(args)
        table = self.recording.program.table
        hosted = table.draws or table.items or self.recording.counters
        drawn = hosted and any(holds_staged(x) for x in args)
        if drawn and site is not None and is_pure(f):
            self.replace(frame, site, self.recording.applied, site.function)
            return
        if f is type and len(args) == 1 and type(args[0]) is StagedNumber and site is not None:
            self.replace(frame, site, kind_of)
            return
        if kind is FunctionType:
            if is_internal(f.__code__.co_filename):
                self.asks_fx(frame, f, given)
                self.hand_over(frame, args)
            elif is_asked(f):
                self.asks(f, args)
            elif asks_which_thread(f) and whose_frame(frame) == "user":
                self.give_up(frame, f"it asks in which thread it runs, by {name_of_call(f)}")
            return
        if kind is partial:
            self.calls(frame, f.func, [*f.args, *args, *f.keywords.values()], True, site)
            return
        generator = generator_of(f)
        if generator is not None:
            self.draws(frame, generator, f.__name__, f, args, site)
            return
        if kind is MethodType:
            self.calls(frame, f.__func__, [f.__self__, *args], True)
            return
        why = moment_of(f, args, given)
        if why is not None:
            if site is not None and is_clock(f) and not any(type(x) is partial for x in args):
                self.replace(frame, site, self.recording.draw, site.function, None, f.__name__)
                return
            self.give_up(frame, f"it asks {why} by {name_of_call(f)}")
        if is_maker(f):
            self.awaited, self.making = frame, True
            return
        for x in args:  # what may be called from C
            if type(x) in (BuiltinMethodType, MethodType):
                drawn, asked = generator_of(x), moment_of(x, [], False)
                if drawn is not None:
                    self.draws(frame, drawn, x.__name__)
                elif asked is not None:
                    self.give_up(frame, f"it asks {asked} by {name_of_call(x)}")
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
        if f in _OF_CLASSES if kind is BuiltinMethodType else False:
            self.asks_class(frame, args)
            return
        if is_asked(f):
            if f.__module__ != "_thread" or whose_frame(frame) == "user":  # elsewhere it is a key
                self.asks(f, args)
            return
        if f is getcontext:
            self.asks(precision, [])
            return
        if f is type or (name in _UNREAD and kind is not FunctionType):
            if name == "append" and args:
                self.writes(args[0])
                self.puts(args[0]) if type(args[0]) is list else self.used(frame, args[0])
            return
        if f is setattr or f is delattr or name in ("__setattr__", "__delattr__"):
            if len(args) > 1 and isinstance(args[1], str):
                self.marks(frame, args[0], args[1])
                self.touched.written.add((id(args[0]), args[1]))
            return
        owner = getattr(f, "__self__", None)
        if owner is not None and not isinstance(owner, ModuleType | type):
            args = [owner, *args]
        if any(x is sys.modules for x in args) and whose_frame(frame) == "user":
            self.of_modules(frame, args if name in ("get", "__contains__") else [])
            return
        if kind is _CACHE:
            self.awaited = frame
            self.asks_cache(frame, f, args)
        if name in ("get", "__getitem__", "__contains__") and self.of_namespace(frame, args[:2]):
            return
        if name in PUTTERS and args and type(args[0]) is list:
            self.puts(args[0])
            args = args[1:]
        elif name in _WRITERS and args:
            self.refuse_namespace(frame, args[0])
            self.writes(args[0])
        if name in HARMLESS or (f is next and is_dropped(frame)):
            return
        if name == "__getattribute__" and len(args) > 1 and isinstance(args[1], str):
            self.read(frame, args[0], args[1])
            return
        deep = (
            isinstance(f, _READERS)
            or reads_fields(name, args)
            or any(
                isinstance(x, _READERS) or (type(x) is BuiltinMethodType and x in _BY_NAME)
                for x in args
            )
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

    def asks_fx(self, frame: FrameType, f: FunctionType, given: bool) -> None:
        """The user calls a function of fx: some tell how the process is set."""
        if whose_frame(frame) != "user":
            return
        if f is fresh_seed:
            self.give_up(frame, "it asks randomness of the operating system by fx.seed()")
        if tells_setting(f, given):
            self.asks(f, [])

    def shown(self, args: list[Any]) -> None:
        """Something is printed; what no text is made of is refused before a part of it is there."""
        try:
            repr([x for x in args if isinstance(x, _SHOWN)])
        except GiveUp as error:
            self.touched.why = self.touched.why or str(error)
            raise

    def asks_class(self, frame: FrameType, args: list[Any]) -> None:
        """``isinstance`` and ``issubclass``: of abstract classes and protocols it is found out."""
        todo = args[1:2]
        while todo:
            cls = todo.pop()
            if isinstance(cls, tuple):
                todo += cls
            elif getattr(cls, "_is_runtime_protocol", False):
                for base in cls.__mro__:
                    if getattr(base, "_is_protocol", False):
                        for name in (*vars(base), *vars(base).get("__annotations__", ())):
                            if not name.startswith(("__", "_abc_", "_is_")) or name == "__call__":
                                self.read(frame, args[0], name)
            elif isinstance(cls, ABCMeta):
                self.asks(get_cache_token, [])

    def asks_cache(self, frame: FrameType, f: Any, args: list[Any]) -> None:
        """A function of the user's that keeps its results: which one it gives now."""
        if not is_user(getattr(f, "__wrapped__", None)):
            return
        if is_named(frame):
            self.give_up(
                frame, f"it gives arguments by name to {f.__name__}(), which keeps results"
            )
        if all(type(x) in PLAIN or self.kind(x) in (INSTANCE, OWNER) for x in args):
            self.asks(f, args)

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
            elif f is dir:
                self.used(frame, args[0], False)

    def writes(self, x: Any) -> None:
        self.touched.written.add((id(x), None))

    def draws(
        self,
        frame: FrameType,
        generator: Any,
        name: str,
        f: Any = None,
        args: Sequence[Any] = (),
        site: Site | None = None,
    ) -> None:
        """A random generator of Python or NumPy is used."""
        if any(generator is x for x in self.own):
            return
        kind = type(generator)
        which = f"{kind.__module__}.{kind.__qualname__}"
        ours = isinstance(f, FunctionType) and is_internal(f.__code__.co_filename)
        if site is None or ours or kind not in DRAWN_FROM:
            self.give_up(frame, f"it draws from a {which} by {name}()")
        self.touched.identity.add(id(generator))
        self.touched.ids.add(id(generator))
        for x in args:
            if x is not generator:
                self.used(frame, x)
        draw = self.recording.draw
        if name == "shuffle":
            if not (len(args) and type(args[-1]) is list):
                self.give_up(frame, "it shuffles what is no list")
            draw = self.recording.shuffle
        self.replace(frame, site, draw, site.function, generator, name)

    def replace(self, frame: FrameType, site: Site, *by: Any) -> None:
        """Let the frame call another function in the place of one."""
        if not are_replaced():
            self.give_up(frame, f"it calls {getattr(site.function, '__name__', 'a function')}()")
        replace(frame, site.top, StandIn(*by))

    def hand_over(self, frame: FrameType, args: list[Any]) -> None:
        """Objects are given to a function of fx."""
        for x in args:
            if type(x) is BuiltinMethodType:
                drawn, asked = generator_of(x), moment_of(x, [], False)
                if drawn is not None:
                    self.draws(frame, drawn, x.__name__)
                elif asked is not None:
                    self.give_up(frame, f"it asks {asked} by {name_of_call(x)}")
            elif self.kind(x) in (CONTAINER, OPAQUE):
                self.used(frame, x)
            elif self.kind(x) == INSTANCE and (
                hasattr(type(x), "__dataclass_fields__") or hasattr(type(x), "__attrs_attrs__")
            ):
                self.passed(frame, x)
