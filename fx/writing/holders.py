"""Holders: whether somebody holds a tensor but who writes into it, a pullback, say.

Python's count of references tells it of a tensor that has a name. What a call has just given has
none; there one reference is somebody else's. So the code that writes is looked at, once.
"""

from __future__ import annotations

import dis
from types import CodeType, FrameType
from typing import NamedTuple

SETS, OPERATES, CALLS = "STORE_SUBSCR", "BINARY_OP", "CALL"
_MOST = 4096
_known: dict[tuple[int, int], tuple[CodeType, str]] = {}  # by the id of a code and a place in it
_VARIABLES = ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF")
# what holds the target of `x[i] = v`; another kind of write can be to what was just computed
_HOLDERS = {
    SETS: (*_VARIABLES, "LOAD_ATTR", "BINARY_SUBSCR"),
    OPERATES: _VARIABLES,
    CALLS: _VARIABLES,
}
_METHODS = ("LOAD_METHOD", "LOAD_ATTR")


def has_name(frame: FrameType, way: str) -> bool:
    """Whether ``x`` in the ``x[i] = v``, ``x += v`` or ``x.add_(v)`` that a frame is at has a name.

    That is a variable, or in ``x[i] = v`` an attribute or an element, too. False where that cannot
    be told.

    Args:
        way: the step of byte code by which it is written, of a call with the number of arguments:
            another refers to ``x`` more or less.
    """
    code = frame.f_code
    key = id(code), frame.f_lasti
    found = _known.get(key)
    if found is None:
        if len(_known) > _MOST:
            _known.clear()
        found = _known[key] = code, _way(code, frame.f_lasti)
    return found[1] == way


class _Step(NamedTuple):
    """A step of byte code."""

    opcode: int
    arg: int | None

    @property
    def opname(self) -> str:
        """Its name."""
        return dis.opname[self.opcode]


def _steps(code: CodeType, place: int) -> list[_Step]:
    """The steps up to a place, which may lie in the cache behind one.

    As ``dis.get_instructions`` gives them, which takes twenty times as long: it looks for lines.
    """
    steps, raw, above = [], code.co_code, 0
    for i in range(0, place + 2, 2):
        opcode, arg = raw[i], raw[i + 1] | above
        above = arg << 8 if opcode == dis.EXTENDED_ARG else 0
        if opcode not in _NO_STEPS:
            steps.append(_Step(opcode, arg if opcode >= dis.HAVE_ARGUMENT else None))
    return steps


_NO_STEPS = frozenset((dis.EXTENDED_ARG, dis.opmap.get("CACHE", -1)))


def _way(code: CodeType, place: int) -> str:
    """The step at a place of a code, if what it writes to has a name; else ""."""
    steps = _steps(code, place)
    holders = _HOLDERS.get(steps[-1].opname)
    if holders is None:
        return ""
    last = steps.pop()
    missing = 1  # on the stack: first i or v, above x
    if last.opname == CALLS:
        missing = last.arg or 0  # the arguments, then the method
        while steps and steps[-1].opname in ("PRECALL", "KW_NAMES"):
            steps.pop()
    elif last.opname == SETS and steps[-1].opname == "SWAP":
        while steps and not _copies_both(steps):  # x[i] += v: x and i were copied at first
            steps.pop()
        del steps[-2:]
    while steps and missing > 0:
        step = steps.pop()
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return ""
        missing -= dis.stack_effect(step.opcode, step.arg)
        if missing < 0:  # one step that loads both
            steps.append(step)
            break
    if last.opname == CALLS and (not steps or steps.pop().opname not in _METHODS):
        return ""
    if not steps or not steps[-1].opname.startswith(holders):
        return ""
    return f"{CALLS}{last.arg}" if last.opname == CALLS else str(last.opname)


def _copies_both(steps: list[_Step]) -> bool:
    return len(steps) > 1 and all(s.opname == "COPY" and s.arg == 2 for s in steps[-2:])
