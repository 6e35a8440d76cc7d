"""What a rank does before its script runs and after it ends; a new interpreter runs this file.

A rank leads a process group of its own, so that all it started ends with it, and the kernel kills
it when the launcher dies. What ends it goes into its error file (torchrun's format): the launcher
looks there, as an exit may hang behind threads that wait for other ranks.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import json
import os
import runpy
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from io import TextIOWrapper
from types import ModuleType
from typing import Any

STACKS = signal.SIGRTMIN + 5  # at this signal a rank writes its stacks into FX_RUN_STACKS
_DEATHSIG = 1  # PR_SET_PDEATHSIG
_OTHER_SERVERS = ("PMI_", "PMI2_", "PMIX_", "HYDI_", "MPI_LOCAL")


def die_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Let the kernel send this process a signal when the one that forked it dies."""
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_DEATHSIG, number)
    except (AttributeError, OSError):  # no Linux
        return
    if os.getppid() != parent:  # it died a moment ago
        os._exit(1)


def become_rank(parent: int, environment: dict[str, str], streams: dict[int, int]) -> None:
    """The first things in the new process: group, death signal, streams (fd: of fd), variables."""
    os.setpgid(0, 0)
    die_with(parent)
    signal.set_wakeup_fd(-1)
    for number in range(1, signal.NSIG):
        if callable(signal.getsignal(number)) and number != signal.SIGINT:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for to, of in streams.items():
        os.dup2(of, to)
    if "PMI_ID" in environment:  # else MPI would ask the server of who started the launcher
        for name in [n for n in os.environ if n.startswith(_OTHER_SERVERS)]:
            del os.environ[name]
    os.environ.update(environment)


def run(script: str, arguments: list[str], module: bool) -> int:
    """Run a script as ``python`` would; its exit code. What it raises is printed and recorded."""
    sys.argv = [script, *arguments]
    return guarded(lambda: _run_module(script) if module else _run_file(script))


def guarded(body: Callable[[], None]) -> int:
    """The exit code of what a rank runs. What it raises is printed and recorded."""
    _watch_stacks()
    try:
        body()
    except SystemExit as end:
        return _code_of(end)
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and _is_ours(trace.tb_frame.f_code.co_filename):
            trace = trace.tb_next
        error = error.with_traceback(trace)
        record(error)
        sys.excepthook(type(error), error, trace)
        return 128 + signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    return 0


def leave(code: int) -> None:
    """End the process as an interpreter ends: threads, ``atexit``, buffers."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):  # closed, or a pipe without a reader
                code = code or 120
        os._exit(code & 0xFF)


def record(error: BaseException) -> None:
    """Write an exception into the rank's error file, where there is one."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not path:
        return
    text = "".join(traceback.format_exception(error))
    extra = {"py_callstack": text, "timestamp": str(int(time.time())), "at": time.monotonic()}
    message = {"message": f"{type(error).__name__}: {error}", "extraInfo": extra}
    try:
        with open(path + ".part", "w") as file:
            json.dump({"message": message}, file)
        os.replace(path + ".part", path)
    except OSError as reason:
        print(f"fx.run: the error file cannot be written: {reason}", file=sys.stderr)


def renew() -> None:
    """What a forked rank must not share with its siblings: seeds, and the number of threads."""
    import fx

    fx.random.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    fx.set_num_threads(int(os.environ["FX_NUM_THREADS"]))
    for fd, name in enumerate(("stdout", "stderr"), 1):
        setattr(sys, name, _stream(fd, getattr(sys, name)))


def _stream(fd: int, like: Any) -> TextIOWrapper:
    raw = open(fd, "wb", closefd=False)  # noqa: SIM115
    return TextIOWrapper(raw, encoding=like.encoding, errors=like.errors, line_buffering=True)


def _watch_stacks() -> None:
    path = os.environ.get("FX_RUN_STACKS")
    if path:
        faulthandler.enable()
        faulthandler.register(STACKS, file=open(path, "w"), all_threads=True)  # noqa: SIM115


def _run_module(name: str) -> None:
    sys.path[0] = os.getcwd()
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _run_file(script: str) -> None:
    path = os.path.abspath(script)
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    main = ModuleType("__main__")
    main.__file__ = path
    main.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = main
    sys.path[0] = os.path.dirname(path)
    exec(code, main.__dict__)


def _is_ours(filename: str) -> bool:
    here = os.path.dirname(filename) == os.path.dirname(__file__)
    return here or filename == runpy.__file__ or filename.startswith("<frozen runpy")


def _code_of(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    kind, script, *rest = sys.argv[1:]
    leave(run(script, rest, kind == "module"))
