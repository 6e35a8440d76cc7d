"""Errors of compiled calls that the function itself may handle, with ``try`` or ``with``.

Python would have raised such an error at another line, where the function goes on in its own way.
So a call that has failed, and has changed nothing, runs again as it is. That is not for what merely
came while it ran, from a signal handler or another thread: the step may have happened by then, and
the exception is for whoever called it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fx.frames import count_as_internal, is_internal, is_of_handler

PLAN, GUARDS = "<plan of ", "<guards>"  # how the file names of generated code begin
count_as_internal(PLAN)
count_as_internal(GUARDS)
_OF_CODE = ("builtins", "fx", "numpy")  # whose errors fx and generated code raise


def may_handle(jitted: Any, error: BaseException, programs: Iterable[Any]) -> bool:
    """Whether one of the programs' functions may handle what a compiled call has raised.

    Results that lie in the memory of arguments leave nothing to run on.
    """
    return (
        isinstance(error, Exception)
        and not jitted.donate_argnums
        and not was_sent(error)
        and any(p.guards.handles for p in programs)
    )


def was_sent(error: Exception) -> bool:
    """Whether an exception has nothing to do with the code that it was raised in.

    A signal handler has raised it, or it is of a class of the user's and no line of the user's has
    raised it, as one that another thread sends; or it came when a step had stored its results.
    """
    if is_of_handler(error):
        return True
    trace, last = error.__traceback__, ""
    while trace is not None:
        frame = trace.tb_frame
        last = frame.f_code.co_filename
        if last.startswith(PLAN) and frame.f_locals.get("list", True) == []:
            return True  # the builtin empties the list when it has stored what came out
        trace = trace.tb_next
    return is_internal(last) and type(error).__module__.partition(".")[0] not in _OF_CODE
