"""Threads: the independent chunks of one kernel call, on the cores that are free.

The calling thread takes chunks itself; a worker that wakes in time takes some from it, one that
does not (another process holds its core) costs nothing but the chunk it had begun. Where no worker
can be started, there are fewer, or none. What the chunks
are never depends on the number of threads, and so the bits of a result do not either.

After a fork the child has no workers and runs serially.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from operator import index
from queue import SimpleQueue

Chunk = Callable[[int], None]


class _Task:
    __slots__ = ("_chunk", "_done", "_left", "_lock", "_places", "error")

    def __init__(self, chunk: Chunk, count: int) -> None:
        self._chunk = chunk
        self._places = iter(range(count))  # next() on it is atomic
        self._left = count
        self._lock = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()
        self.error: BaseException | None = None

    def work(self) -> None:
        """Take chunks until none is left."""
        for i in self._places:
            try:
                if self.error is None:
                    self._chunk(i)
            except BaseException as error:
                self.error = error
            with self._lock:
                self._left -= 1
                last = self._left == 0
            if last:
                self._done.release()

    def wait(self) -> None:
        """Wait for the chunks that others have begun."""
        self._done.acquire()


def _wanted() -> int:
    """How many threads to use unless told: what the environment says, or the cores that we have."""
    for name in ("FX_NUM_THREADS", "OMP_NUM_THREADS"):
        first = os.environ.get(name, "").split(",")[0].strip()
        if first.isdigit() and int(first) > 0:
            return int(first)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Pool:
    """The workers of this process, started when first needed."""

    def __init__(self) -> None:
        self.queue: SimpleQueue[_Task] = SimpleQueue()
        self.workers = 0
        self.most = _wanted() - 1
        self._lock = threading.Lock()

    def start(self, wanted: int) -> int:
        """Have up to ``wanted`` workers; how many there are."""
        wanted = min(wanted, self.most)
        if self.workers < wanted:
            with self._lock:
                while self.workers < wanted:
                    name = f"fx-worker-{self.workers}"
                    worker = threading.Thread(
                        target=_serve, args=(self.queue,), name=name, daemon=True
                    )
                    if not started(worker):
                        return self.workers
                    self.workers += 1
        return wanted


def started(thread: threading.Thread) -> bool:
    """Start a thread; False where the system has no more of them, which is no fault of a task."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


def _serve(queue: SimpleQueue[_Task]) -> None:
    while True:
        queue.get().work()


_pool = _Pool()
_listeners: list[Callable[[int], None]] = []


def _after_fork() -> None:
    global _pool
    _pool = _Pool()
    _pool.most = 0


def get_num_threads() -> int:
    """The number of threads that one operation may use, the calling one among them.

    Example:
        >>> import fx
        >>> fx.get_num_threads() >= 1
        True
    """
    return _pool.most + 1


def set_num_threads(count: int) -> None:
    """Let one operation use up to ``count`` threads; what it computes has the same bits with any.

    At first that is ``FX_NUM_THREADS`` or ``OMP_NUM_THREADS`` of the environment, or the number of
    cores that the process may use; and 1 in a forked child, until this function says otherwise.

    Args:
        count: at least 1.

    Raises:
        ValueError: if ``count`` is less than 1.
        TypeError: if it is no integer.

    Example:
        >>> import fx
        >>> before = fx.get_num_threads()
        >>> fx.set_num_threads(1)
        >>> fx.get_num_threads()
        1
        >>> fx.set_num_threads(before)
    """
    try:
        wanted = index(count)
    except TypeError:
        raise TypeError(
            f"set_num_threads takes an int, got {type(count).__name__}; write fx.set_num_threads(2)"
        ) from None
    if wanted < 1:
        raise ValueError(
            f"set_num_threads takes at least 1, got {wanted}; write fx.set_num_threads(1)"
        )
    _pool.most = wanted - 1
    for listener in _listeners:
        listener(wanted)


def on_change(listener: Callable[[int], None]) -> None:
    """Call ``listener(count)`` whenever the number of threads is set."""
    _listeners.append(listener)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def run_chunks(chunk: Chunk, count: int, threads: int) -> None:
    """Call ``chunk(0)`` to ``chunk(count - 1)`` on up to ``threads`` threads, this one among them.

    The chunks must be independent and give up the GIL where they take long. The first error is
    raised here, once no chunk runs any more.
    """
    pool = _pool
    helpers = pool.start(min(threads, count) - 1)
    if helpers < 1:
        for i in range(count):
            chunk(i)
        return
    task = _Task(chunk, count)
    for _ in range(helpers):
        pool.queue.put(task)
    task.work()
    task.wait()
    if task.error is not None:
        raise task.error
