"""Messages in the user's words: the function that was called, and lines that run in that script.

A message is written once, in fx's words. When it is shown, the frame of the user that it went
through tells what was called there (``x.permute`` where fx says ``permute_dims``), and whether that
module has ``fx`` or ``fx.torch`` at hand, and under which name.
"""

from __future__ import annotations

import dis
import re
import sys
from types import FrameType, ModuleType, TracebackType
from typing import Any

from fx.frames import is_internal

_LINE = re.compile(r"\bfx\.(\w+)")
_HEAD = re.compile(r"^(\w+)(?=:| takes | got | along )")
_LOADS = ("LOAD_METHOD", "LOAD_ATTR", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_FAST", "LOAD_DEREF")
# what is called, and what those functions that do its work call themselves
_WORK = {
    "amax": "max", "amin": "min", "aminmax": "min max", "cat": "concat", "concatenate": "concat",
    "clamp": "clip", "clamp_min": "clip", "clamp_max": "clip", "div": "divide",
    "expand": "broadcast_to", "expand_as": "broadcast_to", "index_reduce": "scatter_reduce",
    "movedim": "moveaxis", "mul": "multiply", "permute": "permute_dims", "sub": "subtract",
    "swapdims": "swapaxes", "take_along_dim": "take_along_axis", "unbind": "unstack",
    "softmax": "softmax", "unsqueeze": "expand_dims", "count_nonzero": "sum", "msort": "sort",
    "true_divide": "divide", "repeat": "tile", "repeat_interleave": "repeat",
    "split_with_sizes": "split", "row_stack": "vstack", "hstack": "concat", "vstack": "concat",
}  # fmt: skip


def in_users_words(text: str, trace: TracebackType | None) -> str:
    """A message as the innermost frame of the user in ``trace`` would put it."""
    found = None
    while trace is not None:
        if not is_internal(trace.tb_frame.f_code.co_filename):
            found = trace
        trace = trace.tb_next
    if found is None or "fx.torch" not in sys.modules:
        return text
    head = _HEAD.match(text)
    if head is not None:
        name = called(found)
        if name is not None and head[1] in _WORK.get(name, "").split():
            text = name + text[head.end() :]
    face = _face(found.tb_frame) if "fx." in text else None
    return (
        text
        if face is None
        else _LINE.sub(lambda m: _line(face, m), text).replace(f".astype({face}.", f".to({face}.")
    )


def _face(frame: FrameType) -> str | None:
    """The name of ``fx.torch`` in a frame's module; None where that one says ``fx`` itself."""
    names: dict[str, Any] = {**frame.f_globals, **frame.f_locals}
    torch = None
    for name, value in names.items():
        if isinstance(value, ModuleType):
            if value.__name__ == "fx":
                return None
            if value.__name__ == "fx.torch":
                torch = name
    from fx.writing.who import writes

    return torch or ("torch" if writes(frame) else None)


def _line(face: str, found: re.Match[str]) -> str:
    """``fx.full_like`` as ``torch.full_like``; as it is where torch has nothing of that name."""
    torch, name = sys.modules["fx.torch"], found[1]
    if name == "jit":  # torch.jit is another thing
        return f"{face}.compile"
    if hasattr(torch, name):
        return f"{face}.{name}"
    return f"{face}.func.{name}" if hasattr(torch.func, name) else found[0]


def called(trace: TracebackType) -> str | None:
    """The name of the function that a frame is calling, as its code has it."""
    code, last = trace.tb_frame.f_code, trace.tb_lasti
    listed = list(dis.get_instructions(code))
    call = max((i for i in listed if i.offset <= last), key=lambda i: i.offset, default=None)
    where = call.positions if call is not None and call.opname.startswith("CALL") else None
    if where is None or where.lineno is None:
        return None
    found, longest = None, -1
    for i in listed:
        p = i.positions
        if i.offset >= last or i.opname not in _LOADS or p is None:
            continue
        starts = (p.lineno, p.col_offset) == (where.lineno, where.col_offset)
        if starts and (length := (p.end_lineno or 0) * 10_000 + (p.end_col_offset or 0)) > longest:
            found, longest = i.argval, length
    return found if isinstance(found, str) else None
