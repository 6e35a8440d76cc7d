"""``torch.multiprocessing``: Python's own; tensors travel by value. ``spawn`` watches ranks."""

from __future__ import annotations

import os
import pickle
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing import *  # noqa: F403
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from time import monotonic
from typing import Any
from warnings import warn

_PATIENCE = 30.0  # seconds from SIGTERM to SIGKILL without a grace period


class ProcessException(Exception):
    """A process of ``spawn`` failed: ``error_index`` is its number, ``error_pid`` its id."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """It raised; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """It ended with ``exit_code``, or by a signal (a negative code, and ``signal_name``)."""

    def __init__(
        self,
        msg: str,
        error_index: int,
        error_pid: int,
        exit_code: int,
        signal_name: str | None = None,
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> Any:
        told = (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)
        return type(self), told


class ProcessContext:
    """The processes that ``start_processes(join=False)`` has started."""

    def __init__(self, processes: Sequence[BaseProcess], error_files: Sequence[str]) -> None:
        self.processes = processes
        self.error_files = error_files
        self.sentinels = {process.sentinel: k for k, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Their ids, by number."""
        return [int(process.pid or 0) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until one ends, at most ``timeout`` seconds; whether all have ended.

        When one fails, the others are ended: after ``grace_period`` seconds (none: at once) by
        SIGTERM, and once more as long after that (none: 30) by SIGKILL.

        Raises:
            ProcessRaisedException: if one raised.
            ProcessExitedException: if one ended otherwise with another code than 0.
        """
        if not self.sentinels:
            return True
        for ready in connection.wait(self.sentinels.keys(), timeout):
            index = self.sentinels.pop(ready)  # type: ignore[call-overload]
            process = self.processes[index]
            process.join()
            if process.exitcode != 0:
                self._end(grace_period)
                raise self._failure(index)
        return not self.sentinels

    def _end(self, grace: float | None) -> None:
        if grace is not None:
            self._join_all(grace)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._join_all(_PATIENCE if grace is None else grace)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()

    def _join_all(self, seconds: float) -> None:
        end = monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, end - monotonic()))

    def _failure(self, index: int) -> ProcessException:
        code = self.processes[index].exitcode or 0
        pid = self.pids()[index]
        with suppress(FileNotFoundError), open(self.error_files[index], "rb") as file:
            text = pickle.load(file)
            os.unlink(self.error_files[index])
            head = f"\n\n-- Process {index} terminated with the following error:\n"
            return ProcessRaisedException(head + text, index, pid)
        if code >= 0:
            said = f"process {index} terminated with exit code {code}"
            return ProcessExitedException(said, index, pid, code)
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        said = f"process {index} terminated with signal {name}"
        return ProcessExitedException(said, index, pid, code, name)


class SpawnContext(ProcessContext):
    """The old name of ``ProcessContext``."""


def start_processes(
    fn: Callable[..., object],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run ``fn(i, *args)`` in ``nprocs`` processes, i from 0; when one fails, end the others.

    Args:
        fn: a function at the top of a module, so that a new interpreter finds it.
        args: what it takes besides its number.
        nprocs: how many processes.
        join: wait until all have ended; else their ``ProcessContext`` is given.
        daemon: whether they are daemons, which end with this process and may start none.
        start_method: ``"spawn"``, ``"fork"`` or ``"forkserver"``.

    Raises:
        ProcessRaisedException: if one raised.
        ProcessExitedException: if one ended otherwise with another code than 0.

    Example:
        >>> import fx.torch.multiprocessing as mp
        >>> context = mp.start_processes(divmod, (2,), nprocs=2, join=False, start_method="fork")
        >>> while not context.join():
        ...     pass
    """
    context = get_context(start_method)
    processes: list[BaseProcess] = []
    files: list[str] = []
    for index in range(nprocs):
        handle, name = tempfile.mkstemp(prefix="fx-error-", suffix=".pickle")
        os.close(handle)
        os.unlink(name)  # it is there only when the process has raised
        process = context.Process(target=_run, args=(fn, index, args, name), daemon=daemon)
        process.start()
        processes.append(process)
        files.append(name)
    started = ProcessContext(processes, files)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., object],
    args: tuple[Any, ...] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """``start_processes`` with new interpreters; see there. Warns of another ``start_method``."""
    if start_method != "spawn":
        warn(
            f"spawn starts new interpreters whatever start_method says (got {start_method!r}); "
            f"write start_processes(..., start_method={start_method!r})",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, "spawn")


def _run(fn: Callable[..., object], index: int, args: tuple[Any, ...], error_file: str) -> None:
    from fx.distributed.launch.worker import die_with

    die_with(os.getppid(), signal.SIGINT)
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent's end
    except Exception:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


_strategy = "file_descriptor"


def get_all_sharing_strategies() -> set[str]:
    """PyTorch's names of them; tensors travel by value with either."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """The one that was set last."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Only the answer of ``get_sharing_strategy`` changes: tensors travel by value.

    Raises:
        ValueError: if PyTorch has no such strategy.
    """
    global _strategy
    if new_strategy not in get_all_sharing_strategies():
        raise ValueError(
            f"set_sharing_strategy takes 'file_system' or 'file_descriptor', got {new_strategy!r}"
        )
    _strategy = new_strategy
