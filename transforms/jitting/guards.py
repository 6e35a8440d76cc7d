"""Guards: what a jitted function reads of Python's state, and whether that is as it was.

Parameters, buffers, optimizer slots and the numbers of an optimizer are inputs of a program, so
their values are not guarded; tensors that closures, globals and containers hold are found anew in
each call. Everything else that the function reads through names is compared: by value where it is
a plain value or a container of these, attribute by attribute where it is an object of the user's,
by identity otherwise. The comparisons are one generated function without loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from types import MethodType
from typing import Any

from fx.transforms.jitting.guards_code import MISSING, Place, shorten
from fx.transforms.jitting.guards_reads import Reads, reads_of
from fx.transforms.jitting.guards_settings import Settings
from fx.transforms.jitting.guards_walk import Walk
from fx.versions import changes

_PASSES = 5


class Guards:
    """The Python values that a function reads, as they were.

    Attributes:
        hold: ``(function, objects) -> bool``: whether everything is as it was.
        reusable: False where the function reads a value of a transform that is running, so that
            what is staged for it serves no other call.
        death: is told when an object dies that the function reads.
        truncated: whether something that it reads was too large to be looked at.
        handles: whether the function, or what it calls, handles errors.
    """

    __slots__ = (
        "_settings", "_tensors", "_writer", "death", "handles", "hold", "reusable", "truncated",
    )  # fmt: skip

    def __init__(self, walk: Walk) -> None:
        self._writer = walk.writer
        self._settings: Settings = walk.settings
        self._tensors = list(walk.tensors.values())
        self.reusable = walk.reusable
        self.death = walk.writer.death
        self.truncated = walk.truncated
        self.handles = walk.handles
        self.hold: Callable[[Any, Sequence[Any]], bool] = walk.writer.hold()

    def renew(self) -> None:
        """Take the state that optimizers have begun meanwhile for what was there before."""
        self._settings.renew()

    def why(self, function: Callable[..., Any], objects: Sequence[Any] = ()) -> str:
        """What has changed, from what to what; "" if nothing has."""
        found = self._writer.changed()(function, objects)
        if found is None:
            return ""
        number, now = found
        name, was = self._writer.checks[number]
        if name == "settings":
            told = self._settings.changed()
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
    function: Callable[..., Any], objects: Sequence[Any] = (), args: Sequence[Any] = ()
) -> Guards:
    """The guards of a function.

    Args:
        function: what is jitted.
        objects: the leaves of its arguments that are neither tensors nor numbers.
        args: its positional arguments, by which the parameters of ``objects`` are known.
    """
    walk: Walk | None = None
    size = None
    for _ in range(_PASSES):
        walk = Walk(walk)
        _start(walk, function, objects, args)
        if walk.size() == size:
            break
        size = walk.size()
    assert walk is not None
    if walk.settings:
        _add_settings(walk)
    return Guards(walk)


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
