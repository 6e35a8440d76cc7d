"""What a code object reads: which names, and which attributes of what they stand for.

``self.rate * cfg.SCALE`` reads ``rate`` of ``self`` and ``SCALE`` of ``cfg``. Knowing that much, a
guard on an object need not look at all that it holds: a counter beside ``rate`` may change.
"""

from __future__ import annotations

import dis
import sys
from functools import cache, lru_cache
from os.path import realpath, sep
from types import CodeType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from fx.frames import is_internal

_LOOKS_AT_ALL = frozenset(
    ("getattr", "hasattr", "vars", "dir", "eval", "exec", "asdict", "astuple")
)


class Reads:
    """What is read of one object.

    Attributes:
        parts: the attributes that are looked at, and what is read of those.
        whole: whether it is also passed on, so that anything may be read of it.
        called: whether it is called.
        any: whether it is known that attributes are read whose names are not in the code.
    """

    __slots__ = ("any", "called", "parts", "whole")

    def __init__(self, whole: bool = False) -> None:
        self.parts: dict[str, Reads] = {}
        self.whole = whole
        self.called = False
        self.any = False

    def of(self, name: str) -> Reads:
        """What is read of an attribute."""
        found = self.parts.get(name)
        if found is None:
            found = self.parts[name] = Reads()
        return found

    def merge(self, other: Reads) -> None:
        """Read what another one reads too."""
        self.whole |= other.whole
        self.called |= other.called
        self.any |= other.any
        for name, part in other.parts.items():
            self.of(name).merge(part)


class CodeReads:
    """What a function reads, the functions that it defines included.

    Attributes:
        globals: by name.
        variables: by name: parameters, other local variables, and those of enclosing functions.
        names: every attribute that is read of anything.
        anything: whether it may read attributes whose names are not in the code.
        supers: the methods that are looked up in base classes.
        handles: whether it has code for errors, in which it may go on.
    """

    __slots__ = ("anything", "globals", "handles", "names", "supers", "variables")

    def __init__(self) -> None:
        self.globals: dict[str, Reads] = {}
        self.variables: dict[str, Reads] = {}
        self.names: set[str] = set()
        self.anything = False
        self.supers: set[str] = set()
        self.handles = False

    def _add(self, code: CodeType) -> None:
        self.handles |= bool(code.co_exceptiontable)
        place: Reads | None = None  # of the object on top of the stack
        called = False  # whether the object that is loaded next is called
        above = False  # whether the attribute that is read next may be one of base classes
        for at in dis.get_instructions(code):
            op, name = at.opname, at.argval
            if op in ("EXTENDED_ARG", "CACHE", "RESUME"):
                continue
            if op in ("LOAD_ATTR", "LOAD_METHOD"):
                self.names.add(name)
                self.anything |= name == "__dict__"
                if above and place is None:
                    self.supers.add(name)
                    above = False
                if place is not None:
                    place = place.of(name)
                    if op == "LOAD_METHOD" or "NULL" in at.argrepr:
                        place.called = True
                        place = None
                continue
            if op == "LOAD_SUPER_ATTR":
                self.supers.add(name)
            if place is not None:
                if op == "COPY":  # of what is changed in place: the attribute comes next
                    continue
                if op not in ("STORE_ATTR", "DELETE_ATTR"):
                    if called:
                        place.called = True
                    else:
                        place.whole = True
                place, called = None, False
            if op == "PUSH_NULL":
                called = True
            elif op in ("LOAD_GLOBAL", "LOAD_NAME"):
                place = self.globals.setdefault(name, Reads())
                called = called or "NULL" in at.argrepr
                if name in _LOOKS_AT_ALL:
                    self.anything = True
                above = above or name == "super"
            elif op.startswith(("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF")):
                several = name if isinstance(name, tuple) else (name,)
                for variable in several[:-1]:
                    self.variables.setdefault(variable, Reads()).whole = True
                place = self.variables.setdefault(several[-1], Reads())
            else:
                called = False
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self._add(constant)


_known: WeakKeyDictionary[CodeType, CodeReads] = WeakKeyDictionary()


def reads_of(code: CodeType) -> CodeReads:
    """What a code object reads."""
    found = _known.get(code)
    if found is None:
        found = CodeReads()
        found._add(code)
        _known[code] = found
    return found


# whose code it is -------------------------------------------------------------------------------


@cache
def _libraries() -> tuple[str, ...]:
    import sysconfig  # which reads the interpreter's Makefile

    paths = sysconfig.get_paths()
    found = {paths[k] for k in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple({p.rstrip(sep) + sep for path in found for p in (path, realpath(path))})


# written as a user would write it: Python state beside cells, which a step changes and which counts
_AS_A_USERS = ("fx.examples", "fx.amp.scaler", "fx.torch.distributions", "fx.data.")
_AS_A_USERS_FILES = (
    sep.join(("fx", "amp", "scaler.py")),
    sep.join(("fx", "torch", "distributions", "")),
    sep.join(("fx", "data", "")),
)


@lru_cache(maxsize=4096)
def origin(filename: str) -> str:
    """``"fx"``, ``"library"`` or ``"user"``: whose a file is."""
    if is_internal(filename) and not any(part in filename for part in _AS_A_USERS_FILES):
        return "fx"
    if filename.startswith((*_libraries(), "<frozen", "<attrs", "<__array_function__")):
        return "library"
    return "user"


def origin_of_module(name: Any) -> str:
    """The same of a module's name."""
    if not isinstance(name, str):
        return "user"
    top = name.partition(".")[0]
    if top == "fx":
        return "user" if name.startswith(_AS_A_USERS) else "fx"
    if top == "builtins" or (top in sys.stdlib_module_names and top != "__main__"):
        return "library"
    module = sys.modules.get(name) or sys.modules.get(top)
    return origin_of(module) if module is not None else "user"


def origin_of(module: ModuleType) -> str:
    """The same of a module."""
    file = vars(module).get("__file__")  # a module may make up what it does not have
    if not isinstance(file, str):
        spec = vars(module).get("__spec__")
        return "library" if getattr(spec, "origin", None) in ("built-in", "frozen") else "user"
    return origin(file)
