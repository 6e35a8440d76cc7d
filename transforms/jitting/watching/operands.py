"""Operands: what the instruction that a traced frame is about to run works on.

Python shows a tracer the local variables of a frame, and not its stack of values. That stack lies
in the interpreter's own frame, whose layout is that of a version: it is read there, once a probe
has shown that the layout is the one known here. Where it is not, nothing is read.
"""

from __future__ import annotations

import sys
from ctypes import c_int, c_void_p, py_object, pythonapi
from dis import opname
from functools import lru_cache
from types import FrameType
from typing import Any

_FRAME = 24  # in a frame object: the interpreter's frame
_FUNCTION = {(3, 11): 0, (3, 12): 16, (3, 13): 16}.get(sys.version_info[:2])
_TOP = 64  # in the interpreter's frame: how many values are in use
_VALUES = 72  # the same: local variables, then the stack


class Missing:
    """What is on the stack in the place of a value that is left out."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING = Missing()


def operands(frame: FrameType, count: int) -> list[Any]:
    """The topmost ``count`` values on the stack of a traced frame, the last one on top."""
    inner: Any = c_void_p.from_address(id(frame) + _FRAME).value
    at = inner + _VALUES + 8 * (c_int.from_address(inner + _TOP).value - count)
    found: list[Any] = []
    for place in range(at, at + 8 * count, 8):
        try:
            found.append(py_object.from_address(place).value)
        except ValueError:  # no object
            found.append(NOTHING)
    return found


def replace(frame: FrameType, top: int, value: Any) -> None:
    """Put ``value`` on the stack of a traced frame, for the one at ``top``; 1 is the last."""
    inner: Any = c_void_p.from_address(id(frame) + _FRAME).value
    at = inner + _VALUES + 8 * (c_int.from_address(inner + _TOP).value - top)
    before = c_void_p.from_address(at).value
    pythonapi.Py_IncRef(py_object(value))
    c_void_p.from_address(at).value = id(value)
    pythonapi.Py_DecRef(c_void_p(before))


def function_of(frame: FrameType) -> Any:
    """The function that a frame runs."""
    inner: Any = c_void_p.from_address(id(frame) + _FRAME).value
    return py_object.from_address(inner + _FUNCTION).value


@lru_cache(maxsize=1)
def are_known() -> bool:
    """Whether this interpreter's frames have the layout that is known here."""
    if sys.implementation.name != "cpython" or _FUNCTION is None or sys.maxsize < 2**32:
        return False
    left, right = object(), object()
    seen: list[bool] = []

    def look(frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is not probe.__code__:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode":
            inner: Any = c_void_p.from_address(id(frame) + _FRAME).value
            top = c_int.from_address(inner + _TOP).value
            if 4 <= top <= 6:  # two local variables, and as many values as were loaded
                at = inner + _VALUES + 8 * (top - 2)
                pair = [c_void_p.from_address(at + 8 * i).value for i in (0, 1)]
                held = c_void_p.from_address(inner + _FUNCTION).value
                seen.append(pair == [id(left), id(right)] and held == id(probe))
        return look

    def probe(a: Any, b: Any) -> bool:
        return a is b

    before = sys.gettrace()
    sys.settrace(look)
    try:
        probe(left, right)
    finally:
        sys.settrace(before)
    return any(seen)


@lru_cache(maxsize=1)
def are_replaced() -> bool:
    """Whether a function that is about to be called can be replaced on the stack."""
    if not are_known():
        return False

    def look(frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is not probe.__code__:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        if event == "opcode" and opname[frame.f_code.co_code[frame.f_lasti]] in ("PRECALL", "CALL"):
            for top in (2, 3):  # one argument, then the function and nothing, in either order
                if operands(frame, top)[0] is abs:
                    replace(frame, top, float)
        return look

    def probe(f: Any) -> Any:
        return f(-1)

    before = sys.gettrace()
    sys.settrace(look)
    try:
        found = probe(abs)
    finally:
        sys.settrace(before)
    return type(found) is float
