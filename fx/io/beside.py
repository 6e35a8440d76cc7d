"""A thread beside the caller's, for sums of what is read or written; none if there is none."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Beside:
    """Does things in order in a thread of its own, or at once where no thread can be started.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, name)
        self._alone = False

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Let it be done; its result comes later."""
        if not self._alone:
            try:
                return self._pool.submit(function, *args)
            except RuntimeError:  # no thread: the executor has kept the task, and gives it up
                self._alone = True
                self._pool.shutdown(cancel_futures=True)
        done: Future[Any] = Future()
        done.set_result(function(*args))
        return done

    def shutdown(self) -> None:
        """Wait until all is done."""
        self._pool.shutdown()

    def __enter__(self) -> Beside:
        return self

    def __exit__(self, *error: Any) -> None:
        self.shutdown()
