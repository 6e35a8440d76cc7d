"""Frames: which of them are a user's, and how the others are kept out of a traceback.

``FX_TRACEBACK=full`` shows every frame.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from inspect import CO_OPTIMIZED
from os.path import dirname, sep
from types import CodeType, FrameType, TracebackType
from typing import Any

HOME = dirname(__file__) + sep
_homes: tuple[str, ...] = (HOME,)  # and the files of backends from elsewhere
_USERS = (HOME + "examples" + sep,)  # files below HOME that are a user's code


def is_internal(filename: str) -> bool:
    """Whether a file belongs to fx itself (its examples count as a user's code)."""
    found = known.get(filename)
    if found is None:
        found = filename.startswith(_homes) and not filename.startswith(_USERS)
        known[filename] = found
    return found


known: dict[str, bool] = {}  # what was found of files: asked in every call that may write


def count_as_internal(place: str) -> None:
    """Let a file, or all below a folder, belong to fx: a backend runs in its place."""
    global _homes
    _homes = (*_homes, place)
    known.clear()


def user_frame(depth: int = 1) -> FrameType | None:
    """The innermost running frame that is not fx's own."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and is_internal(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def variables(frame: FrameType) -> dict[str, Any]:
    """The variables of a running frame.

    The interpreter fills a dict with those of a function and keeps it with the frame, and so what
    they hold beyond ``del``; it is emptied here, unless somebody has it too (``locals()``) or a
    debugger may be looking at it.
    """
    names = frame.f_locals
    if not frame.f_code.co_flags & CO_OPTIMIZED:  # a module or class: its own dict
        return names
    found = dict(names)
    held_by_frame = sys.version_info < (3, 13) and sys.getrefcount(names) == 3
    if held_by_frame and sys.gettrace() is None:
        names.clear()
    return found


def user_line(depth: int = 2) -> str:
    """``file:line`` of the innermost running frame that is not fx's own."""
    frame = user_frame(depth)
    return "<unknown>" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def shows_all() -> bool:
    """Whether the user asked for fx's own frames too."""
    return os.environ.get("FX_TRACEBACK") == "full"


def users_only(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without fx's own frames; the whole one where nothing else would be left."""
    if shows_all():
        return trace
    kept = []
    at = trace
    while at is not None:
        if not is_internal(at.tb_frame.f_code.co_filename):
            kept.append(at)
        at = at.tb_next
    if not kept:
        return trace
    out: TracebackType | None = None
    for tb in reversed(kept):
        out = TracebackType(out, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)
    return out


def _passes_through_fx(trace: TracebackType | None) -> bool:
    while trace is not None:
        if is_internal(trace.tb_frame.f_code.co_filename):
            return True
        trace = trace.tb_next
    return False


def install(advise: Callable[[Any, Any], None]) -> None:
    """Let uncaught errors that come out of fx show the user's frames; earlier hooks go on.

    ``advise(error, trace)`` may let a ``TypeError`` say more.
    """
    before, before_thread = sys.excepthook, threading.excepthook

    def hook(kind: Any, error: Any, trace: Any) -> None:
        if kind is TypeError:
            with suppress(Exception):  # the error that is shown comes first
                advise(error, trace)
        if _passes_through_fx(trace):
            trace = users_only(trace)
            error = error.with_traceback(trace)
        before(kind, error, trace)

    def thread_hook(args: Any) -> None:
        if _passes_through_fx(args.exc_traceback):
            trace = users_only(args.exc_traceback)
            error = args.exc_value.with_traceback(trace)
            args = threading.ExceptHookArgs((args.exc_type, error, trace, args.thread))
        before_thread(args)

    sys.excepthook, threading.excepthook = hook, thread_hook


def is_of_handler(error: BaseException) -> bool:
    """Whether an error was raised by the handler of a signal, and is about no code that ran."""
    trace, codes = error.__traceback__, set()
    while trace is not None:
        codes.add(trace.tb_frame.f_code)
        trace = trace.tb_next
    return not codes.isdisjoint(_codes_of_handlers())


def _codes_of_handlers() -> set[CodeType]:
    found = set()
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        for f in (handler, vars(type(handler)).get("__call__")):
            code = getattr(getattr(f, "__func__", f), "__code__", None)
            if isinstance(code, CodeType):
                found.add(code)
    return found
