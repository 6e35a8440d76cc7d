"""Guards: what a jitted function reads of Python's state, and whether that is as it was.

Parameters, buffers, optimizer slots and the numbers of an optimizer are inputs of a program, so
their values are not guarded; tensors that closures, globals and containers hold are found anew in
each call. Everything else that the function reads through names is compared: by value where it is
a plain value or a container of these, attribute by attribute where it is an object of the user's,
by identity otherwise. The comparisons are one generated function without loops.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FunctionType, MethodType, ModuleType
from typing import Any

from fx.levels import Tracer
from fx.transforms.jitting.guards.code import MISSING, PLAIN, Place, shorten
from fx.transforms.jitting.guards.reads import Reads, origin, origin_of_module, reads_of
from fx.transforms.jitting.guards.settings import Settings
from fx.transforms.jitting.guards.touched import Asked, Touched
from fx.transforms.jitting.guards.walk import VALUES, Walk
from fx.transforms.jitting.program import GiveUp
from fx.transforms.jitting.recording.reach import Reach
from fx.versions import changes

_PASSES = 5


class Guards:
    """The Python values that a function reads, as they were.

    Attributes:
        hold: ``(function, objects) -> bool``: whether everything is as it was.
        reusable: False where the function reads a value of a transform that is running, so that
            what is staged for it serves no other call.
        death: is told when an object dies that the function reads.
        tensors: by their ids, those that are found anew in each call.
        opaque: objects whose state cannot be compared, by their ids: what they are.
        handles: whether the function, or what it calls, handles errors.
        free: whether all of it is found from the function that is called and its arguments.
        touched: what the function was seen to read when it was staged.
        looked_at: objects that are guarded, by their ids, each with the attributes that are.
        reached: what it reaches, as it was; None once it was staged.
    """

    __slots__ = (
        "_places", "_tensors", "_writer", "death", "free", "handles", "hold", "looked_at", "opaque",
        "reached", "reusable", "settings", "touched",
    )  # fmt: skip

    def __init__(self, walk: Walk, tensors: list[Place] | None = None) -> None:
        self._writer = walk.writer
        self.settings: Settings = walk.settings
        self._tensors = list(walk.tensors.values()) if tensors is None else tensors
        self.reusable = walk.reusable
        self.death = walk.writer.death
        self.opaque = walk.opaque
        self.free = walk.free
        self.touched = Touched()
        self.looked_at = {
            key: frozenset(read.parts) if (read := walk.reads.get(("object", key))) else frozenset()
            for key in walk.seen
        }
        self.handles = walk.handles
        self._places: dict[int, Place] = {}
        self.reached: Reach | None = None
        self.hold: Callable[[Any, Sequence[Any]], bool] = walk.writer.hold()

    def renew(self, touched: Touched) -> None:
        """Take the state that optimizers have begun meanwhile for what was there before."""
        self.settings.renew(touched)

    def why(self, function: Callable[..., Any], objects: Sequence[Any] = ()) -> str:
        """What has changed, from what to what; "" if nothing has."""
        found = self._writer.changed()(function, objects)
        if found is None:
            return ""
        number, now = found
        name, was = self._writer.checks[number]
        if name == "settings":
            told = self.settings.changed()
            if told is None:
                return ""
            return f"{_named(told[0])} changed from {_shown(told[1])} to {_shown(told[2])}"
        now = shorten(now)
        if not was or now == was:
            return f"{_named(name)} changed"
        return f"{_named(name)} changed from {was} to {now}"

    def finders(self, function: Callable[..., Any], objects: Sequence[Any]) -> dict[int, Finder]:
        """What gets the tensors anew that the function reads through names, by their ids now."""
        found = [Finder(place, self._writer.scope) for place in self._tensors]
        return {id(find(function, objects)): find for find in found}

    def finder(self, x: Any) -> Finder | None:
        """What gets an object anew that the function reads through names."""
        place = self._places.get(id(x))
        return None if place is None else Finder(place, self._writer.scope)

    def look_around(self, walk: Walk) -> None:
        """Note what the function reaches, before it is staged."""
        seen = self._places = walk.seen
        self.reached = Reach(
            walk.alive,
            lambda x, part: _named(f"{seen[id(x)].name}{part}") if id(x) in seen else shorten(x),
        )

    def forget_places(self) -> None:
        """The function was staged: what it reads is told apart by ids no more."""
        self._places, self.reached = {}, None

    def names(self) -> list[str]:
        """What is guarded, for people."""
        found = [_named(name) for name, was in self._writer.checks if was and name != "settings"]
        return list(dict.fromkeys(found))


class Finder:
    """Gets a tensor anew: ``finder(function, objects)``.

    Attributes:
        name: where it is found, for people.
        key: the same as an expression.
    """

    __slots__ = ("_get", "key", "name")

    def __init__(self, place: Place, scope: dict[str, Any]) -> None:
        self.name = _named(place.name)
        self.key = place.expression()
        code = f"lambda F, O: {self.key}"
        self._get = eval(compile(code, "<guards>", "eval"), scope)

    def __call__(self, function: Any, objects: Sequence[Any]) -> Any:
        try:
            return self._get(function, objects)
        except (LookupError, AttributeError, TypeError, ValueError):
            return None


def _named(name: str) -> str:
    kind, _, path = name.partition("|")
    return f"{kind} `{path}`" if path else kind


def _shown(x: Any) -> str:
    return x if x in ("missing", "gone", "an object") else shorten(x) if x is not MISSING else ""


def watch(
    function: Callable[..., Any],
    objects: Sequence[Any] = (),
    args: Sequence[Any] = (),
    touched: Touched | None = None,
) -> Guards:
    """The guards of a function.

    Args:
        function: what is jitted.
        objects: the leaves of its arguments that are neither tensors nor numbers.
        args: its positional arguments, by which the parameters of ``objects`` are known.
        touched: what it was seen to read when it was staged before.
    """
    walk = _walked(function, objects, args, touched or Touched(), None)
    guards = Guards(walk)
    guards.look_around(walk)
    return guards


def widen(
    guards: Guards,
    function: Callable[..., Any],
    objects: Sequence[Any],
    args: Sequence[Any],
    touched: Touched,
    changing: Callable[[str], GiveUp],
) -> Guards:
    """The guards of a function that has been staged: also on what it was seen to read.

    Args:
        changing: what becomes of a function that changes what it was not known to read.

    Raises:
        GiveUp: if something that it read cannot be compared.
    """
    inputs = guards.finders(function, objects)
    before, this = guards.touched, touched
    touched = Touched()
    for known in (before, this):  # other branches were staged before
        touched.merge(known, held=True)
    walk = _walked(function, objects, args, touched, frozenset(inputs))
    for found, why in ((walk.cut, "too large"), (walk.opaque, "of a kind that shows no state")):
        for key, what in found.items():
            if key in this.ids or (walk.full and found is walk.cut):
                raise GiveUp(f"it reads {what}, which is {why} to be compared in each call")
    for key, name in this.written:
        names = this.names.get(key, ())
        if key not in walk.seen or (name is not None and name not in names):
            continue
        if (key, name) in touched.counters:
            continue
        before = guards.looked_at.get(key)
        if before is None or (name is not None and name not in before):
            raise changing(f"what it reads: {_named(walk.seen[key].name)}")
    wider = Guards(walk, list(guards._tensors))
    wider.touched = touched
    return wider


def _walked(
    function: Any,
    objects: Sequence[Any],
    args: Sequence[Any],
    touched: Touched,
    inputs: frozenset[int] | None,
) -> Walk:
    walk: Walk | None = None
    size = None
    for _ in range(_PASSES):
        walk = Walk(walk, touched, inputs)
        _start(walk, function, objects, args)
        _reached(walk)
        if walk.size() == size:
            break
        size = walk.size()
    assert walk is not None
    if walk.settings:
        _add_settings(walk)
    return walk


def _reached(walk: Walk) -> None:
    """Guard what the function was seen to come to in other ways than by its own names."""
    touched, write = walk.touched, walk.writer
    for key, held in list(touched.functions.items()):
        f = held()
        if f is None or ("function", key) in walk.slots or f.__code__ in touched.made:
            continue
        if origin(f.__code__.co_filename) == "user":
            walk.free = False
            place = Place(None, f"{write.weak(f)}()", f"function|{f.__qualname__}")
            write.require(place, f"{{}}.__code__ is {write.name('k', f.__code__)}", f.__name__)
            walk.function(f, place)
        else:
            _of_library(walk, f)
    for key, held in list(touched.owners.items()):
        x = held()
        if x is None or key in walk.seen or ("shared", key) in walk.slots:
            continue
        walk.free = False
        if isinstance(x, ModuleType):
            write.scope["modules"] = sys.modules
            known = sys.modules.get(x.__name__) is x
            step = f"modules[{x.__name__!r}]" if known else f"{write.weak(x)}()"
            walk.value(x, Place(None, step, f"module|{x.__name__}"), Reads(), 0)
        elif isinstance(x, type):
            if origin_of_module(x.__module__) == "user" and x.__qualname__ not in touched.classes:
                walk.value(x, walk.class_place(x), Reads(), 0, given=True)
        elif isinstance(x, FunctionType):
            if x.__code__ not in touched.made:
                place = Place(None, f"{write.weak(x)}()", f"function|{x.__qualname__}")
                walk.attributes_of(x, place, Reads(), 0)
        else:  # what a cache gave
            kind = type(x).__qualname__
            walk.value(x, Place(None, f"{write.weak(x)}()", f"a cached {kind}|"), Reads(), 0, True)
    for x in touched.kept.values():
        if id(x) not in walk.seen:
            walk.free = False
            place = Place(None, write.name("k", x), f"a cached {type(x).__name__}|")
            walk.value(x, place, Reads(), 0, given=True)
    for asked in touched.asked.values():
        _asked(walk, asked)
    for held in list(touched.special.values()):
        cls = held()
        if cls is not None and cls.__qualname__ not in touched.classes:
            walk.special_methods(cls)
    for key, names in touched.spaces.items():
        space = walk.namespaces.get(key)
        if space is None:
            module = sys.modules.get(names.get("__name__", ""))
            if module is None or vars(module) is not names:
                continue  # made inside, as the names that are given to eval
            write.scope["modules"] = sys.modules
            space = Place(None, f"modules[{module.__name__!r}].__dict__", f"{module.__name__}|")
            walk.namespaces[key] = space
        for name in touched.names.get(key, ()):
            walk.global_(names, space, name, Reads(), names.get("__builtins__", {}))


def _asked(walk: Walk, asked: Asked) -> None:
    """What a call gives that guards make again."""
    found, name = asked(), asked.function.__name__
    if isinstance(found, Tracer):
        asked.function.cache_clear()
        raise GiveUp(f"{name}(), which keeps its results, is called for the first time")
    place = Place(None, f"{walk.writer.name('k', asked)}()", f"what {name}() gives|")
    if type(found) in PLAIN or isinstance(found, (tuple, *VALUES)):
        walk.writer.plain(place, found)
    else:
        walk.writer.identity(place, found)
        if id(found) not in walk.seen and not isinstance(found, type | ModuleType):
            walk.value(found, place, Reads(), 0, given=True)


def _of_library(walk: Walk, f: FunctionType) -> None:
    """The objects that a function of a library knows by a global name, as ``os.environ``."""
    module = sys.modules.get(f.__globals__.get("__name__", ""))
    if module is None or vars(module) is not f.__globals__:
        return
    for name in reads_of(f.__code__).globals:
        x = f.__globals__.get(name)
        if id(x) in walk.touched.names and not isinstance(x, ModuleType | type | FunctionType):
            walk.writer.scope["modules"] = sys.modules
            step = f"modules[{module.__name__!r}].{name}"
            walk.value(x, Place(None, step, f"{module.__name__}.{name}|"), Reads(), 0)


def _start(walk: Walk, function: Any, objects: Sequence[Any], args: Sequence[Any]) -> None:
    called = Reads()
    called.called = True
    walk.value(function, Place(None, "F", "|"), called, 0, given=True)
    f = function.__func__ if isinstance(function, MethodType) else function
    f = getattr(f, "__wrapped__", f)
    code = getattr(f, "__code__", None)
    shift = isinstance(function, MethodType)
    for i, x in enumerate(objects):
        if isinstance(x, str | bytes | bool | int | float | complex | type(None)):
            continue
        reads, name = Reads(whole=True), "argument"
        for j, arg in enumerate(args):
            if arg is x and code is not None and j + shift < code.co_argcount:
                name = code.co_varnames[j + shift]
                reads = reads_of(code).variables.get(name) or Reads()
        with suppress(TypeError):
            walk.writer.weak(x)
        walk.value(x, Place(None, f"O[{i}]", f"attribute|{name}"), reads, 0, given=True)


def _add_settings(walk: Walk) -> None:
    """Look at Modules and optimizers if any setting has changed since."""
    write = walk.writer
    write.scope.update(changes=changes, settings=walk.settings)
    code = "if not (changes.count == settings.seen or settings.same()): return"
    write.lines.append((code, "None", len(write.checks)))
    write.checks.append(("settings", "settings"))
