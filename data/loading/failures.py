"""Failures: what went wrong in a worker, on its way to the parent."""

from __future__ import annotations

import pickle
import signal
import traceback
from typing import Any

from fx.data.errors import WorkerError


class NoWorkerError(WorkerError):
    """The system has no thread or process to be a worker."""


class _Text(str):
    """A message that ``KeyError`` shows as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Failure:
    """An exception of a worker, with its traceback as text.

    Args:
        error: what was raised.
        where: ``"in DataLoader worker process 0 (pid 123)"``.
    """

    def __init__(self, error: BaseException, where: str) -> None:
        self.name = type(error).__name__
        self.where = where
        self.trace = "".join(traceback.format_exception(error))
        self.kind = _picklable(type(error))
        self.original = _picklable(error)

    def raised(self) -> BaseException:
        """The exception for the parent: of the same class, where that takes a message."""
        message = f"Caught {self.name} {self.where}.\nOriginal {self.trace}"
        kind: Any = WorkerError if self.kind is None else pickle.loads(self.kind)
        original = None if self.original is None else pickle.loads(self.original)
        if issubclass(kind, StopIteration | GeneratorExit):  # would end a loop silently
            kind = WorkerError
        try:
            error = kind(_Text(message) if issubclass(kind, KeyError) else message)
            if message not in str(error):
                raise TypeError
        except Exception:
            error = WorkerError(message)
        error.__cause__ = original if type(error) is WorkerError else None
        return error  # type: ignore[no-any-return]


def _picklable(value: Any) -> bytes | None:
    """``value`` pickled, if it comes back."""
    try:
        data = pickle.dumps(value)
        pickle.loads(data)
    except Exception:
        return None
    return data


def death(number: int, pid: int, code: int | None, doing: str, last_words: str) -> WorkerError:
    """What is raised for a worker process that has ended by itself."""
    if code is None:
        how = "is gone"
    elif code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = "unknown"
        how = f"was killed by signal {-code} ({name})"
    else:
        how = f"exited with code {code}"
    message = f"DataLoader worker {number} (pid {pid}) exited unexpectedly: it {how} {doing}."
    if code == -signal.SIGKILL:
        message += (
            " The kernel kills so when memory runs out: try fewer workers, smaller batches or a "
            "lower prefetch_factor."
        )
    if code == -signal.SIGBUS:
        message += " Shared memory may be full: see the size of /dev/shm."
    if last_words:
        message += f"\nWhere it was:\n{last_words}"
    return WorkerError(message)


def late(seconds: float, doing: str) -> WorkerError:
    """What is raised for a worker that takes longer than ``timeout``."""
    return WorkerError(
        f"DataLoader timed out after {seconds} seconds {doing}; raise timeout, or give 0 to wait "
        f"for ever"
    )
