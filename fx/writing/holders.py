"""Holders: whether somebody holds a tensor but who writes into it, a pullback, say.

Python's count of references tells it of a tensor that has a name. What a call has just given has
none; there one reference is somebody else's. So the code that writes is looked at, once.
"""

from __future__ import annotations

import dis
from types import CodeType, FrameType
from typing import Any

_MOST = 4096
_known: dict[tuple[int, int], tuple[CodeType, bool]] = {}  # by the id of a code and a place in it
_VARIABLES = ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF")
# what holds the target of `x[i] = v`; another kind of write can be to what was just computed
_HOLDERS = {"STORE_SUBSCR": (*_VARIABLES, "LOAD_ATTR", "BINARY_SUBSCR"), "BINARY_OP": _VARIABLES}


def has_name(frame: FrameType) -> bool:
    """Whether ``x`` in the ``x[i] = v`` or ``x += v`` that a frame is at has a name.

    That is a variable, or in ``x[i] = v`` an attribute or an element, too. False where that cannot
    be told.
    """
    code = frame.f_code
    key = id(code), frame.f_lasti
    found = _known.get(key)
    if found is None:
        if len(_known) > _MOST:
            _known.clear()
        found = _known[key] = code, _has_name(code, frame.f_lasti)
    return found[1]


def _has_name(code: CodeType, place: int) -> bool:
    steps: list[Any] = []
    for step in dis.get_instructions(code):
        if step.opname != "EXTENDED_ARG":
            steps.append(step)
        if step.offset >= place:
            break
    holders = _HOLDERS.get(steps[-1].opname) if steps[-1].offset == place else None
    if holders is None:
        return False
    if steps.pop().opname == "STORE_SUBSCR" and steps[-1].opname == "SWAP":
        while steps and not _copies_both(steps):  # x[i] += v: x and i were copied at first
            steps.pop()
        del steps[-2:]
    missing = 1  # on the stack: first i or v, above x
    while steps and missing > 0:
        step = steps.pop()
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return False
        missing -= dis.stack_effect(step.opcode, step.arg)
        if missing < 0:  # one step that loads both
            return step.opname.startswith(holders)
    return bool(steps) and steps[-1].opname.startswith(holders)


def _copies_both(steps: list[Any]) -> bool:
    return len(steps) > 1 and all(s.opname == "COPY" and s.arg == 2 for s in steps[-2:])
