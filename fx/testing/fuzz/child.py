"""The process in which programs run: it tells each program before it runs it.

It says ``{"ready": true}`` and reads orders, one JSON object a line. It answers each with lines of
JSON: ``{"program": …}`` if it was to make one, then ``{"found": null}`` or ``{"found": kind,
"message": text}``, of which the kind is empty if the program says nothing.
"""

from __future__ import annotations

import ctypes
import json
import linecache
import os
import resource
import signal
import sys
import traceback
import types
from typing import Any

import fx
from fx.testing.fuzz.generator import make
from fx.testing.fuzz.outcomes import Found, Invalid
from fx.testing.fuzz.program import Program, from_data

MOST_MEMORY = 4 << 30  # bytes: of programs that ask for too much, as "ab" * 2**33


def run(program: Program) -> tuple[str, str] | None:
    """What is wrong with a program: the kind of it, and the words; None if nothing is.

    Raises:
        Invalid: if it says nothing.
    """
    source = program.source()
    filename = f"<program of {program.generator}>"
    linecache.cache[filename] = len(source), None, source.splitlines(True), filename
    fx.set_grad_enabled(True)  # what a program before has left is that one's finding
    module: Any = types.ModuleType("found")
    sys.modules["found"] = module  # where dataclasses look their module up
    try:
        exec(compile(source, filename, "exec"), vars(module))
        module.test_found()
    except (SyntaxError, NameError) as error:
        raise Invalid(f"{type(error).__name__}: {error}") from error
    except Invalid:
        raise
    except Found as error:
        return "differs", str(error)
    except Exception as error:
        lines = traceback.format_exception(error)[-6:]
        return type(error).__name__, "".join(lines)
    return None


def main() -> None:
    """Serve orders until there are no more, or nobody is there to give them."""
    if sys.platform == "linux":  # also out of a program that never ends
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what programs print is no answer
    for name, lines in json.loads(sys.argv[1] if len(sys.argv) > 1 else "{}").items():
        exec(compile(lines, name, "exec"), {})  # a fault that a test plants
    print(json.dumps({"ready": True}), file=out, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if "program" in order:
            program = from_data(order["program"])
        else:
            program = make(order["generator"], order["seed"], order["index"])
            print(json.dumps({"program": program.as_data()}), file=out, flush=True)
        try:
            found = run(program) or (None, None)
        except Invalid as error:
            found = "", str(error)
        answer = {"found": found[0], "message": found[1]}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
