"""``torch.distributed.elastic.multiprocessing.errors``: how a failure reaches who started a rank.

``python -m fx.run`` hears of every exception that ends a rank, with its traceback. Other launchers
look into the file that ``TORCHELASTIC_ERROR_FILE`` names, which ``record`` writes in their format.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import socket
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import wraps
from typing import Any

from fx.distributed.launch.worker import record as _write

_NONE = "<N/A>"


class ErrorHandler:
    """Writes what a function raises into the file of this process, where a launcher gave one.

    Example:
        >>> import json, os, tempfile
        >>> handler = get_error_handler()
        >>> os.environ["TORCHELASTIC_ERROR_FILE"] = os.path.join(tempfile.mkdtemp(), "error.json")
        >>> handler.record_exception(ValueError("the batch is empty"))
        >>> path = os.environ.pop("TORCHELASTIC_ERROR_FILE")
        >>> json.load(open(path))["message"]["message"]
        'ValueError: the batch is empty'
    """

    def initialize(self) -> None:
        """Let the stacks be printed when the process crashes."""
        with suppress(Exception):  # stderr may have no file
            faulthandler.enable(all_threads=True)

    def record_exception(self, e: BaseException) -> None:
        """Write an exception, its traceback and the time."""
        _write(e)

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Write what another process left in its file.

        Args:
            rootcause_error_file: of the process that failed first.
            error_code: its exit code, which is noted where it is not 0.
        """
        with open(rootcause_error_file) as file:
            found = json.load(file)
        if error_code and isinstance(found.get("message"), dict):
            found["message"]["errorCode"] = error_code
        path = os.environ.get("TORCHELASTIC_ERROR_FILE")
        if path:
            with open(path, "w") as file:
                json.dump(found, file)


def get_error_handler() -> ErrorHandler:
    """A handler of this process."""
    return ErrorHandler()


@dataclass
class ProcessFailure:
    """A process that failed: ``message`` and ``timestamp`` are those of its error file.

    Args:
        local_rank: its number on this host.
        pid: its id.
        exitcode: negative where a signal ended it.
        error_file: what it wrote; where there is none, the message tells the signal.

    Example:
        >>> failure = ProcessFailure(local_rank=1, pid=42, exitcode=-9, error_file="none")
        >>> failure.message, failure.signal_name()
        ('Signal 9 (SIGKILL) received by PID 42', 'SIGKILL')
    """

    local_rank: int
    pid: int
    exitcode: int
    error_file: str
    error_file_data: dict[str, Any] = field(init=False)
    message: Any = field(init=False)
    timestamp: int = field(init=False)

    def __post_init__(self) -> None:
        self.error_file_data, self.message = {"message": "<NONE>"}, ""
        self.timestamp = int(time.time())
        if os.path.isfile(self.error_file):
            with open(self.error_file) as file:
                self.error_file_data = json.load(file)
            self.message = said = self.error_file_data["message"]
            at = self.error_file_data if isinstance(said, str) else said["extraInfo"]
            self.timestamp = int(at.get("timestamp", 0))
        else:
            self.error_file = _NONE
        if not self.message and self.exitcode < 0:
            self.message = (
                f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
            )
        elif not self.message:
            self.message = "it left no error file: decorate its main function with @record"

    def signal_name(self) -> str:
        """The signal that ended it, ``"<N/A>"`` where none did."""
        try:
            return signal.Signals(-self.exitcode).name if self.exitcode < 0 else _NONE
        except ValueError:
            return _NONE

    def timestamp_isoformat(self) -> str:
        """When it failed: ``YYYY-MM-DD_HH:MM:SS``."""
        return datetime.fromtimestamp(self.timestamp).isoformat(sep="_")


class ChildFailedError(Exception):
    """Processes failed, of which the first is the cause.

    Args:
        name: what was started.
        failures: those that failed, by rank.

    Example:
        >>> failures = {0: ProcessFailure(0, 41, -15, "none"), 1: ProcessFailure(1, 42, 1, "none")}
        >>> failures[1].timestamp -= 5
        >>> rank, failure = ChildFailedError("train.py", failures).get_first_failure()
        >>> rank, failure.exitcode
        (1, 1)
    """

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        if not failures:
            raise ValueError("ChildFailedError: failures are empty; say which rank failed")
        self.name, self.failures = name, failures
        super().__init__(self.format_msg())

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """The rank that failed first, and how."""
        rank = min(self.failures, key=lambda r: self.failures[r].timestamp)
        return rank, self.failures[rank]

    def format_msg(self, boarder_delim: str = "=", section_delim: str = "-") -> str:
        """All failures, the first one last."""
        root, _ = self.get_first_failure()
        told = {rank: _told(i, rank, f) for i, (rank, f) in enumerate(self.failures.items())}
        others = "\n".join(text for rank, text in told.items() if rank != root)
        title = f"{self.name} FAILED"
        width = min(60, max(map(len, "\n".join([title, *told.values()]).split("\n"))))
        border, section = boarder_delim * width, section_delim * width
        return (
            f"\n{border}\n{title}\n{section}\nFailures:\n{others or '  <NO_OTHER_FAILURES>'}\n"
            f"{section}\nRoot Cause (first observed failure):\n{told[root]}\n{border}"
        )


def _told(index: int, rank: int, failure: ProcessFailure) -> str:
    said, name = failure.message, failure.signal_name()
    if isinstance(said, dict):
        said = said.get("extraInfo", {}).get("py_callstack", said.get("message", _NONE))
    text = said.replace("\n", "\n  ")
    return (
        f"[{index}]:\n  time      : {failure.timestamp_isoformat()}\n"
        f"  host      : {socket.getfqdn()}\n"
        f"  rank      : {rank} (local_rank: {failure.local_rank})\n"
        f"  exitcode  : {failure.exitcode} (pid: {failure.pid})"
        f"{'' if name == _NONE else f' ({name})'}\n"
        f"  error_file: {failure.error_file}\n  traceback : {text}"
    )


def record(fn: Callable[..., Any], error_handler: Any = None) -> Callable[..., Any]:
    """The function, of which the error file of this process has what it raises.

    Args:
        fn: a script's entry. ``sys.exit(0)`` in it returns None.
        error_handler: an ``ErrorHandler``, or what has its ``initialize()`` and
            ``record_exception(error)``.

    Example:
        >>> from fx.torch.distributed.elastic.multiprocessing.errors import record
        >>> @record
        ... def main():
        ...     return 3
        >>> main()
        3
    """
    handler = error_handler or get_error_handler()

    @wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as end:
            if end.code == 0:
                return None
            raise
        except ChildFailedError as error:
            _, failure = error.get_first_failure()
            if failure.error_file == _NONE:
                warnings.warn(f"rank {failure.local_rank}: {failure.message}", stacklevel=2)
            else:
                handler.dump_error_file(failure.error_file, failure.exitcode)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return called
