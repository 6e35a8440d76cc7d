"""Wrong keywords: what the function that was called takes, added when the error is shown.

Python says ``sum() got an unexpected keyword argument 'dimm'`` and no more. Nothing is checked when
a function is called; the words are looked up when the error has ended the program.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from functools import partial
from inspect import Parameter, signature, unwrap
from types import FrameType, FunctionType, TracebackType
from typing import Any

from fx.frames import is_internal, variables
from fx.wording import called

_UNEXPECTED = re.compile(r"^([\w.<>]+)\(\) got an unexpected keyword argument '(\w+)'$")
_DTYPE = re.compile(r"^'numpy\.dtypes\.(\w+)DType' object is not callable$")
_ROOMS = (
    "fx.torch", "fx", "fx.nn.functional", "fx.nn", "fx.optim", "fx.optim.lr_scheduler", "fx.data",
    "fx.nn.init", "fx.nn.utils", "fx.random",
)  # fmt: skip


def with_right_ones(error: BaseException, trace: TracebackType | None) -> None:
    """Let a ``TypeError`` about a keyword of fx's functions say which ones there are."""
    if type(error) is not TypeError:
        return
    called_dtype = _DTYPE.match(str(error))
    if called_dtype is not None:
        name = called_dtype[1].lower()
        error.args = (
            f"fx.{name} is a dtype and no function; write fx.tensor(x, dtype=fx.{name}) or "
            f"x.astype(fx.{name})",
        )
        return
    found = _UNEXPECTED.match(str(error))
    if found is None:
        return
    frames = []
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    for at in reversed(frames):
        name = called(at)
        if name is None or _is_theirs(at.tb_frame, name):
            continue
        every = [w for f in _of_name(name) if (w := _words(f, found[1], found[2])) is not None]
        if every:
            near = [(get_close_matches(found[2], words, 1), words) for words in every]
            meant, words = next((pair for pair in near if pair[0]), near[0])
            advice = f"did you mean {meant[0]!r}? " if meant else ""
            taken = ", ".join(words) if words else "no keywords"
            error.args = (
                f"{name}() got an unexpected keyword argument {found[2]!r}; {advice}"
                f"it takes {taken}",
            )
            return


def _is_theirs(frame: FrameType, name: str) -> bool:
    """Whether a name stands for a function of the user's own."""
    function = variables(frame).get(name, frame.f_globals.get(name))
    return isinstance(function, FunctionType) and not is_internal(function.__code__.co_filename)


def _of_name(name: str) -> Iterator[Any]:
    """What fx calls by a name."""
    from fx.tensor import Tensor

    method = Tensor.__dict__.get(name)
    if method is not None:
        yield partial(method, None)
    for room in _ROOMS:
        if room in sys.modules:
            yield vars(sys.modules[room]).get(name)


def _words(function: Any, said: str, wrong: str) -> list[str] | None:
    """The keywords of a function or class, if it is the one that Python spoke of."""
    if isinstance(function, type):
        function = function.__init__  # type: ignore[misc]
    elif function is not None:
        function = getattr(function, "work", function)
    named = function.func if isinstance(function, partial) else function
    try:
        listed = signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if said not in (unwrap(named).__qualname__, named.__qualname__):
        return None
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    words = [p.name for p in listed if p.kind in kinds and p.name != "self" and p.name[0] != "_"]
    return None if wrong in words else words
