"""Watching: what a function reads while it is staged, instruction by instruction.

Byte code tells which names a function may read (``guards/reads.py``); what it has read, it tells
when it runs. So while a function is staged each instruction of its Python code is looked at before
it runs, together with what it works on: attributes are read of this object, this list is walked
over, this function in C is called. The code of libraries that is run on the way is looked at too,
fx's own is not. A later call costs nothing for that.

What is found is kept by the ids of objects: those that come from outside live as long as the
staging lasts, and others are met by no guard.
"""

from __future__ import annotations

import dis
import gc
import sys
from threading import get_ident
from types import FrameType, FunctionType
from typing import Any
from weakref import ref

from fx.frames import is_of_handler
from fx.transforms.jitting.guards.touched import Touched
from fx.transforms.jitting.program import Again, GiveUp
from fx.transforms.jitting.watching.calls import Calling
from fx.transforms.jitting.watching.instructions import instructions
from fx.transforms.jitting.watching.kinds import CONTAINER, INSTANCE
from fx.transforms.jitting.watching.operands import are_known, are_replaced, function_of, operands
from fx.transforms.jitting.watching.reads import whose_frame

_ASIDE = frozenset(("__del__",))  # code that runs by the way
_AT = dis.opname


class Watching(Calling):
    """A block in which a function is staged, and what it reads is found out.

    Args:
        opaque: by id, objects from outside whose state nobody can compare, with what they are.
        recording: of the function.
    """

    def __init__(self, opaque: dict[int, str], recording: Any) -> None:
        super().__init__(opaque, recording)
        self.chained: dict[FrameType, Any] = {}
        self.before: Any = None

    def __enter__(self) -> Touched:
        self.before = sys.gettrace()
        if not are_known():
            version = ".".join(map(str, sys.version_info[:3]))
            raise GiveUp(
                f"functions are compiled on CPython 3.11, where fx can see what they read, and "
                f"this is {sys.implementation.name} {version}"
            )
        are_replaced()  # which is found out where nothing is traced
        self.collecting = False
        self.thread = get_ident()
        gc.callbacks.append(self._has_collected)  # first: a collection may start here
        gc.callbacks.insert(0, self._collects)
        sys.settrace(self._called)
        return self.touched

    def _collects(self, phase: str, info: Any) -> None:
        """Callbacks of the garbage collector run wherever Python is, and are no part of it."""
        if phase == "start" and get_ident() == self.thread:
            self.collecting = True

    def _has_collected(self, phase: str, info: Any) -> None:
        if phase == "stop" and get_ident() == self.thread:
            self.collecting = False

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        kept = sys.gettrace() == self._called
        self.close()
        if isinstance(error, Exception) and is_of_handler(error):
            return  # Python takes the tracer away where it is that which was hit
        if isinstance(error, KeyboardInterrupt):
            return
        if not kept:
            known = self.recording.call.jitted.touched
            if not known.untraced:  # what a signal's handler raised may have been swallowed
                known.untraced = True
                raise Again from None
            self.touched.why = self.touched.why or "it sets a tracer, or takes one away"
        if self.touched.why:
            raise GiveUp(self.touched.why) from None

    def close(self) -> None:
        """Look at nothing any more; also where the block was hit as it began or ended."""
        if sys.gettrace() in (None, self._called):
            sys.settrace(self.before)
        for callback in (self._collects, self._has_collected):
            if callback in gc.callbacks:
                gc.callbacks.remove(callback)

    # events --------------------------------------------------------------------------------------

    def _called(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        kind = whose_frame(frame)
        follow = None
        if self.before is not None:
            follow = self.before(frame, event, arg)
        if kind == "no" or self.collecting or code.co_name in _ASIDE:
            return follow
        if kind == "library" or code.co_name == "<module>":  # called by code that is watched
            caller = frame.f_back
            if caller is None or not caller.f_trace_opcodes:
                return follow
        if code not in self.touched.made:
            f = function_of(frame)
            if type(f) is FunctionType:
                self.touched.functions[id(f)] = ref(f)
        frame.f_trace_opcodes = True
        if follow is None:
            frame.f_trace_lines = False
            return self._step
        self.chained[frame] = follow
        return self._follow

    def _follow(self, frame: FrameType, event: str, arg: Any) -> Any:
        """The same with another tracer that looks on: a debugger's, or that of a jit around it."""
        follow = self.chained.get(frame)
        if event == "opcode":
            self._step(frame, event, arg)
            if not isinstance(getattr(follow, "__self__", None), Watching):
                return self._follow
        if follow is not None:
            self.chained[frame] = follow(frame, event, arg)
        return self._follow

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            if self.awaited is frame and _AT[frame.f_code.co_code[frame.f_lasti]] != "CALL":
                self.awaited = None
                self.comes_from_cache(operands(frame, 1)[0])
                self.making = False
            found = instructions(frame.f_code).get(frame.f_lasti)
            if found is not None:
                look, what, count = found
                try:
                    getattr(self, look)(frame, what, count)
                except Exception as error:  # of what an object does when it is asked for its class
                    if is_of_handler(error):
                        raise
                    self.give_up(frame, f"what it does cannot be watched, for {error!r} is raised")
        return self._step

    def comes_from_cache(self, x: Any) -> None:
        """What a cache gives is found nowhere else; and a new random generator is its own."""
        if self.making:
            self.own.append(x)
            return
        kind = self.kind(x)
        if kind == INSTANCE:
            try:
                self.touched.owners[id(x)] = ref(x)
            except TypeError:
                self.touched.kept[id(x)] = x
        elif kind == CONTAINER:
            self.touched.kept[id(x)] = x
