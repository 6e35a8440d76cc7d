"""The code of guards: a function of straight-line comparisons, and one that tells which fails.

A ``Place`` is a Python expression that finds an object anew in each call, from the function that is
called (``F``) and the objects among its arguments (``O``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np

from fx.transforms.jitting.handled import GUARDS, was_sent

PLAIN = (bool, int, float, complex, str, bytes, type(None))
MISSING = object()  # what cannot be read any more


class Place:
    """Where an object is found.

    Args:
        parent: where its owner is; None for the root.
        step: the expression, with ``{}`` for the owner.
        name: what messages call it.
    """

    __slots__ = ("name", "parent", "step", "variable")

    def __init__(self, parent: Place | None, step: str, name: str) -> None:
        self.parent = parent
        self.step = step
        self.name = name
        self.variable: str | None = None  # of the generated function that holds it

    def below(self, step: str, name: str) -> Place:
        """A place in the object that is here."""
        return Place(self, step, name)

    def expression(self) -> str:
        """The whole expression."""
        return self.step if self.parent is None else self.step.format(self.parent.expression())


class Death:
    """Is told when an object that is guarded by identity dies.

    Attributes:
        dead: whether one has died.
        then: what to do then.
    """

    __slots__ = ("dead", "then")

    def __init__(self) -> None:
        self.dead = False
        self.then: Callable[[], None] | None = None

    def note(self, reference: Any) -> None:
        """An object has died."""
        self.dead = True
        if self.then is not None:
            self.then()


class Writer:
    """Writes the generated functions."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, int]] = []  # indented code, the value's, number of check
        self.scope: dict[str, Any] = {"same": same, "tuple": tuple, "type": type, "len": len}
        self.checks: list[tuple[str, str]] = []  # name, what it was
        self.count = 0
        self.death = Death()

    def weak(self, value: Any) -> str:
        """A name for a weak reference to an object, without which nothing here can hold.

        Raises:
            TypeError: if there are none to such objects.
        """
        return self.name("w", ref(value, self.death.note))

    def name(self, prefix: str, value: Any) -> str:
        """A name for an object that the code refers to."""
        self.count += 1
        name = f"{prefix}{self.count}"
        self.scope[name] = value
        return name

    def variable(self, place: Place) -> str:
        """The variable that holds what is at a place."""
        if place.variable is None:
            if place.parent is None:
                place.variable = place.step
            else:
                owner = self.variable(place.parent)
                self.count += 1
                place.variable = f"v{self.count}"
                code = f"{place.variable} = {place.step.format(owner)}"
                self.lines.append((code, "MISSING", len(self.checks)))
                self.checks.append((place.name, ""))
        return place.variable

    def require(self, place: Place, condition: str, was: str, shown: str = "") -> None:
        """Check ``condition``, in which ``{}`` is the variable of the place.

        Args:
            place: of the object.
            condition: True if everything is as it was.
            was: what it was, for messages.
            shown: an expression of what it is now, if that is not the object itself.
        """
        v = self.variable(place)
        self.lines.append(
            (f"if not ({condition.format(v)}): return", shown.format(v) or v, len(self.checks))
        )
        self.checks.append((place.name, was))

    def hold(self) -> Callable[[Any, Any], bool]:
        """``(F, O) -> bool``: whether everything is as it was."""
        body = [f"{code} False" if code.endswith("return") else code for code, _, _ in self.lines]
        return self._function("hold", body, "False", "True")

    def changed(self) -> Callable[[Any, Any], Any]:
        """``(F, O)``: the number of the check that fails, and what is there now; or None."""
        body = []
        for code, now, number in self.lines:
            body.append(f"at = {number}")
            body.append(f"{code} {number}, {now}" if code.endswith("return") else code)
        return self._function("changed", body, "at, MISSING", "None")

    def _function(self, name: str, body: list[str], failed: str, done: str) -> Any:
        if not body:
            lines = [f"def {name}(F, O): return {done}"]
        else:
            lines = [f"def {name}(F, O):", "    try:"]
            lines += [f"        {line}" for line in body]
            lines += ["    except Exception as error:", "        if sent(error): raise"]
            lines += [f"        return {failed}", f"    return {done}"]
        self.scope.update(sent=was_sent)
        self.scope["MISSING"] = MISSING
        exec(compile("\n".join(lines), GUARDS, "exec"), self.scope)
        return self.scope[name]

    # kinds of checks -----------------------------------------------------------------------------

    def plain(self, place: Place, value: Any) -> None:
        """An immutable value: the same one, or an equal one of the same type."""
        if value is None or value is True or value is False:
            self.require(place, f"{{}} is {value}", repr(value))
            return
        k = self.name("k", value)
        self.require(place, f"{{0}} is {k} or same({{0}}, {k})", shorten(value))

    def identity(self, place: Place, value: Any, weak: bool = True) -> None:
        """The same object; it is not kept alive if ``weak``."""
        if weak:
            try:
                k = f"{self.weak(value)}()"
            except TypeError:
                k = self.name("k", value)
        else:
            k = self.name("k", value)
        self.require(place, f"{{}} is {k}", shorten(value))

    def attributes(self, place: Place, own: dict[str, Any]) -> None:
        """Require that an object has those attributes, in that order."""
        k = self.name("k", tuple(own))
        self.require(place, f"(*{{}}.__dict__,) == {k}", f"with the attributes {', '.join(own)}")

    def kind(self, place: Place, value: Any) -> None:
        """An object of the same type."""
        cls = type(value)
        k = self.name("k", cls) if cls.__module__ == "builtins" else f"{self.weak(cls)}()"
        self.require(place, f"type({{}}) is {k}", cls.__name__, "type({})")


def same(now: Any, was: Any) -> bool:
    """Whether two immutable values are equal, NaN to NaN, 0.0 not to -0.0, 1 not to True."""
    kind = type(was)
    if type(now) is not kind:
        return False
    if kind is float or kind is complex:
        return repr(now) == repr(was)
    if kind is tuple or kind is list:
        return len(now) == len(was) and all(map(same, now, was))
    if kind is frozenset or kind is set:
        return same_set(now, was)
    if isinstance(was, np.generic):
        return bool(now.dtype == was.dtype and now.tobytes() == was.tobytes())
    if kind is str or kind is int or kind is bytes:
        return bool(now == was)
    return bool(now == was) and repr(now) == repr(was)  # a Decimal, a time of a zone


def same_set(now: Any, was: Any) -> bool:
    """Whether a set holds the same plain values, 1 not being True."""
    return bool(now == was) and {*map(_exactly, now)} == {*map(_exactly, was)}


def _exactly(x: Any) -> Any:
    if type(x) in (tuple, frozenset):
        return type(x), (tuple if type(x) is tuple else frozenset)(map(_exactly, x))
    return type(x), repr(x)


def same_array(now: Any, was: Any) -> bool:
    """Whether an array holds what it held, bit by bit."""
    if type(now) is not type(was) or now.dtype != was.dtype or now.shape != was.shape:
        return False
    if now.nbytes > 4096 and now.flags.c_contiguous and was.flags.c_contiguous:
        return bool(np.array_equal(_bits(now), _bits(was)))
    return bool(now.tobytes() == was.tobytes())


def _bits(x: Any) -> Any:
    flat = np.asarray(x).reshape(-1)
    return flat.view(np.uint64 if flat.nbytes % 8 == 0 and flat.itemsize % 8 == 0 else np.uint8)


def shorten(value: Any) -> str:
    """A short repr, of plain values and containers; the type of other objects."""
    if value is MISSING:
        return "what cannot be read"
    if isinstance(value, type):
        return value.__name__
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if isinstance(name, str) and callable(value):
        return name
    if isinstance(value, (*PLAIN, list, tuple, dict, set, frozenset, np.generic)):
        text = repr(value)
        return text if len(text) <= 60 else f"{text[:57]}..."
    return f"a {type(value).__name__}"
