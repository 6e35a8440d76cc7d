"""Who writes: the module that says ``x[i] = v`` or ``x += v`` decides whether that changes x.

A module that imports ``fx.torch``, or a function that does, writes as in PyTorch. One that imports
``fx`` alone is functional: there ``x += v`` binds a name. A helper that imports neither does what
its caller does.
"""

from __future__ import annotations

import sys
from types import FrameType, FunctionType, ModuleType
from typing import Any

from fx.frames import is_internal, user_frame, variables

_MOST = 512
_verdicts: dict[int, tuple[dict[str, Any], int, bool | None]] = {}
_writers: dict[int, dict[str, Any]] = {}  # the names of modules that write, by their ids
_latest: Any = None  # the one of these that was asked for last: it writes again


def writes(frame: FrameType) -> bool:
    """Whether the code of a frame writes into tensors."""
    global _latest
    space = frame.f_globals
    if space is _latest:
        return True
    if _writers.get(id(space)) is space:
        _latest = space
        return True
    if is_internal(frame.f_code.co_filename):
        return False  # fx's own code binds names
    at: FrameType | None = frame
    while at is not None:
        space = at.f_globals
        known = _verdicts.get(id(space))
        if known is None or known[0] is not space or known[1] != len(space):
            known = _look(space, at)
        if known[2]:
            return True
        if _holds(at):
            return True
        if known[2] is not None:
            return False
        at = at.f_back
    return True  # nobody imports anything of fx: the face that takes writes was loaded


def imports_face(space: dict[str, Any]) -> bool:
    """Whether the module of these names was found to import ``fx.torch`` itself."""
    return _writers.get(id(space)) is space


def may_write(function: Any) -> bool:
    """Whether a function, or who calls it, belongs to code that writes."""
    function = getattr(function, "__func__", function)
    space = getattr(function, "__globals__", None)
    if space is None:  # an object that is called
        space = vars(sys.modules.get(type(function).__module__, sys))
    frame = user_frame(2)
    return _verdict(space) is True or (frame is not None and writes(frame))


_codes: dict[Any, bool] = {}


def _holds(frame: FrameType) -> bool:
    """Whether a function has the face in a variable of its own: ``def main(): import fx.torch``."""
    code = frame.f_code
    found = _codes.get(code)
    if found is None:
        if len(_codes) > _MOST:
            _codes.clear()
        names = variables(frame)
        found = _codes[code] = names is not frame.f_globals and any(
            isinstance(v, ModuleType) and _is_face(v.__name__) for v in names.values()
        )
    return found


def _is_face(home: str) -> bool:
    return home == "fx.torch" or home.startswith("fx.torch.")


def _look(space: dict[str, Any], frame: FrameType) -> tuple[dict[str, Any], int, bool | None]:
    verdict = None
    if not is_internal(frame.f_code.co_filename):
        verdict = _verdict(space)
    if len(_verdicts) > _MOST:
        _verdicts.clear()
        _writers.clear()
    if verdict:
        _writers[id(space)] = space
    known = _verdicts[id(space)] = (space, len(space), verdict)
    return known


def _verdict(space: dict[str, Any]) -> bool | None:
    functional = None
    for value in tuple(space.values()):
        if isinstance(value, ModuleType):
            home = value.__name__
        elif isinstance(value, FunctionType | type):
            home = value.__module__ or ""
        else:
            continue
        if _is_face(home):
            return True
        if home == "fx" or home.startswith(_FUNCTIONAL):
            functional = False
    return functional


# what only functional code takes from there; layers, optimizers and tensors are of both faces
_FUNCTIONAL = ("fx.transforms", "fx.ops", "fx.random", "fx.tree")


def writing() -> bool:
    """Whether the caller of the caller writes."""
    return writes(sys._getframe(2))
