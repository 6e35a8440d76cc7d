"""Instructions: which of a code object are looked at before they run, and with how many values."""

from __future__ import annotations

import dis
import sys
from types import CodeType, FrameType
from typing import Any

from fx.transforms.jitting.remembered import remembered

# what an instruction works on: how many values, of those that are looked at
_COUNTS = {
    "BINARY_SUBSCR": 2, "BINARY_SLICE": 3, "STORE_SLICE": 4, "BINARY_OP": 2, "COMPARE_OP": 2,
    "CONTAINS_OP": 2, "IS_OP": 2, "UNARY_NEGATIVE": 1, "UNARY_INVERT": 1, "UNARY_POSITIVE": 1,
    "UNARY_NOT": 1, "GET_ITER": 1, "FOR_ITER": 1, "UNPACK_SEQUENCE": 1, "UNPACK_EX": 1,
    "FORMAT_VALUE": 2, "FORMAT_SIMPLE": 1, "FORMAT_WITH_SPEC": 2, "CONVERT_VALUE": 1,
    "LIST_EXTEND": 1, "SET_UPDATE": 1, "DICT_UPDATE": 1, "DICT_MERGE": 1, "MATCH_KEYS": 2,
    "MATCH_MAPPING": 1, "MATCH_SEQUENCE": 1, "GET_LEN": 1, "TO_BOOL": 1, "BEFORE_WITH": 1,
    "GET_YIELD_FROM_ITER": 1, "SEND": 2, "STORE_SUBSCR": 3, "DELETE_SUBSCR": 2,
    "JUMP_IF_TRUE_OR_POP": 1, "JUMP_IF_FALSE_OR_POP": 1,
}  # fmt: skip
_CALL = "PRECALL" if sys.version_info < (3, 12) else "CALL"


@remembered
def instructions(code: CodeType) -> dict[int, tuple[str, str, int]]:
    """By the offset of an instruction: what looks at it, with what, and how many values."""
    found: dict[int, tuple[str, str, int]] = {}
    extended: list[int] = []
    for at in dis.get_instructions(code):
        if at.opname == "EXTENDED_ARG":
            extended.append(at.offset)
            continue
        entry = _entry(at.opname, at.argval, at.arg or 0)
        if entry is not None:
            for offset in (*extended, at.offset):
                found[offset] = entry
        extended = []
    return found


def _entry(op: str, value: Any, arg: int) -> tuple[str, str, int] | None:
    if op in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"):
        return "attribute", value, 1
    if op in ("STORE_ATTR", "DELETE_ATTR"):
        return "store" if op == "STORE_ATTR" else "delete", value, 1
    if op == "STORE_GLOBAL":
        return "store_global", value, 0
    if op == "STORE_DEREF":
        return "store_variable", value, 0
    if op in ("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
        return "load_name", value, 0
    if op == "MAKE_FUNCTION":
        return "made", "", 1
    if op == "MATCH_CLASS":
        return "match", "", 3
    if op == _CALL:
        return "call", "", arg
    if op == "CALL_FUNCTION_EX":
        return "call_with", "", arg & 1
    if op == "FORMAT_VALUE":
        return "use", op, 2 if arg & 4 else 1
    count = _COUNTS.get(op)
    if count is None:
        if "JUMP" in op and ("TRUE" in op or "FALSE" in op):
            return "use", op, 1
        return None
    return "use", op, count


def is_dropped(frame: FrameType) -> bool:
    """Whether nobody looks at the result of the call that a frame is about to make."""
    return frame.f_lasti in _dropping(frame.f_code)


def is_named(frame: FrameType) -> bool:
    """Whether some arguments of the call that a frame is about to make are given by name."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return dis.opname[code[at]] == "CALL_FUNCTION_EX" or dis.opname[code[at - 2]] == "KW_NAMES"


@remembered
def _dropping(code: CodeType) -> frozenset[int]:
    """Where a code object calls something and drops what that gives."""
    listed = [at for at in dis.get_instructions(code) if at.opname != "EXTENDED_ARG"]
    calls = ("CALL", "PRECALL")
    found = set()
    for at, after, third in zip(listed, listed[1:], [*listed[2:], listed[-1]]):
        if at.opname in calls:
            then = third if after.opname in calls else after
            if then.opname == "POP_TOP":
                found.add(at.offset)
    return frozenset(found)
