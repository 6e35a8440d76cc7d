"""Worker processes, seen from the parent: how they are started, heard, missed and ended."""

from __future__ import annotations

import contextlib
import errno
import multiprocessing
import os
import pickle
import socket
import time
import warnings
from multiprocessing import connection as connections
from typing import Any

from fx.config import modes
from fx.data.loading import child, packing
from fx.data.loading.failures import NoWorkerError, death
from fx.data.loading.fetching import Job
from fx.data.loading.seeding import STARTS, fold_in, key_of, words
from fx.data.loading.slots import Views
from fx.data.loading.transfer import unpacked

PATIENCE = 2.0  # seconds for workers to come to an end before they are terminated

# (worker, kind, task, content); kind is "batch", "ended", "failed" or "broken"
Answer = tuple[int, str, Any, Any]


class _Worker:
    """One process and what connects us with it."""

    def __init__(self, number: int, context: Any, setup: child.Setup) -> None:
        self.number = number
        self.connection, theirs = context.Pipe(duplex=True)
        _ends.add(self.connection)
        self.views = Views()
        self.doing: dict[Any, Any] = {}  # tasks without an answer, and their indices
        self.words: int | None = None  # the file that a crashing worker writes its stack to
        self.process = context.Process(
            target=child.main, args=(theirs, setup), name=f"fx-data-{number}", daemon=True
        )
        try:
            with warnings.catch_warnings():  # our own thread pools are safe in a forked child
                warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
                self.process.start()
        except BaseException:
            self._disconnect()
            raise
        finally:
            theirs.close()
        self.pid = self.process.pid
        self.life = self.process.sentinel  # readable when the process has ended
        self.owns_life = False
        if hasattr(os, "pidfd_open"):  # the sentinel is held open by what a worker itself forks
            with contextlib.suppress(OSError):
                self.life, self.owns_life = os.pidfd_open(self.pid), True

    def send(self, message: Any) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # its end is noticed later
            self.connection.send_bytes(pickle.dumps(message, 5))

    def descriptors(self, count: int) -> list[int]:
        """Descriptors that follow a message."""
        out: list[int] = []
        with socket.socket(fileno=os.dup(self.connection.fileno())) as channel:
            while len(out) < count:
                wanted = min(count - len(out), child.DESCRIPTORS)
                data, some, _, _ = socket.recv_fds(channel, 1, wanted)
                if not data:
                    raise EOFError
                out += some
        return out

    def read(self) -> tuple[str, Any, Any] | None:
        """One answer; None for a message that is none.

        Raises:
            EOFError: if the worker has closed the connection.
        """
        try:
            kind, *rest = pickle.loads(self.connection.recv_bytes())
            if kind == "words":
                (self.words,) = self.descriptors(1)
                return None
            task, message, new, closed = rest
            for number in closed:
                self.views.forget(number)
            for number, fd in zip(new, self.descriptors(len(new))):
                self.views.add(number, fd)
        except ConnectionResetError:
            raise EOFError from None
        self.doing.pop(task, None)
        content = unpacked(message, self.views) if kind == "batch" else message
        return kind, task, content

    def last_words(self) -> str:
        """The stack that a worker wrote when a fatal signal came."""
        if self.words is None:
            return ""
        return os.pread(self.words, 20_000, 0).decode(errors="replace").strip()

    def close(self) -> None:
        """Let go of everything but the batches that are still looked at."""
        self._disconnect()
        if self.owns_life:
            os.close(self.life)
            self.owns_life = False
        if self.words is not None:
            os.close(self.words)
            self.words = None

    def _disconnect(self) -> None:
        _ends.discard(self.connection)
        self.connection.close()


class Processes:
    """The worker processes of a loader.

    Args:
        job: what they fetch.
        count: how many.
        context: of ``multiprocessing``.
        init: ``worker_init_fn``.
        key: of the epoch, from which their first random numbers follow.
    """

    def __init__(self, job: Job, count: int, context: Any, init: Any, key: list[int]) -> None:
        self.workers: list[_Worker] = []
        self.turn = 0
        self._owner = os.getpid()
        self.closed = False
        context = context_of(context)
        start = fold_in(key_of(key), STARTS)
        forks = context.get_start_method() == "fork"
        packs = packing.packs(job.dataset) if forks else {}
        try:
            for number in range(count):
                own = words(fold_in(start, number))
                setup = child.Setup(job, number, count, init, own, modes.device, packs)
                self.workers.append(_Worker(number, context, setup))
        except BaseException as error:
            self.close()
            if isinstance(error, OSError) and error.errno in (errno.EAGAIN, errno.ENOMEM):
                raise NoWorkerError(f"no process can be started for a worker: {error}") from error
            raise

    def begin(self, key: list[int], resumes: list[Any]) -> int:
        """An epoch begins; answers to what was asked before it are dropped."""
        self.turn += 1
        for worker, resume in zip(self.workers, resumes):
            worker.send(("epoch", None, (key, resume), worker.views.given_back()))
        return self.turn

    def send(self, number: int, task: Any, indices: Any) -> None:
        """Give a task to a worker."""
        worker = self.workers[number]
        worker.doing[task] = indices
        worker.send(("fetch", task, indices, worker.views.given_back()))

    def receive(self, timeout: float | None) -> list[Answer]:
        """The answers that are there, as soon as there is one; none after ``timeout`` seconds.

        Raises:
            WorkerError: if a worker has died.
        """
        sources: dict[Any, _Worker] = {}
        for worker in self.workers:
            sources[worker.connection] = sources[worker.life] = worker
        ready = connections.wait(list(sources), timeout)
        answers: list[Answer] = []
        dead = None
        for worker in {sources[source].number: sources[source] for source in ready}.values():
            ended = worker.life in ready
            try:
                while worker.connection.poll():
                    answer = worker.read()
                    if answer is not None and answer[0] == "broken":
                        ended = False
                    if answer is not None and (answer[1] is None or answer[1][0] == self.turn):
                        answers.append((worker.number, *answer))
                    if not ended:
                        break
            except EOFError:
                ended = True
            if ended:
                dead = worker
        if dead is not None and not any(answer[1] == "broken" for answer in answers):
            raise self._death(dead)
        return answers

    def _death(self, worker: _Worker) -> Exception:
        worker.process.join(PATIENCE)
        code = worker.process.exitcode
        return death(
            worker.number, worker.pid, code, self.doing(worker.number), worker.last_words()
        )

    def doing(self, number: int) -> str:
        """What a worker is at, in words."""
        tasks = self.workers[number].doing
        if not tasks:
            return "while it had nothing to do"
        (_, batch), indices = next(iter(tasks.items()))
        which = "" if indices is None else f" (indices {_short(indices)})"
        return f"while it fetched batch {batch}{which}"

    def name(self, number: int) -> str:
        """What messages call a worker."""
        return f"worker {number} (pid {self.workers[number].pid})"

    def close(self) -> None:
        """End the processes; batches that were given out stay valid."""
        if self.closed or os.getpid() != self._owner:
            return
        self.closed = True
        for worker in self.workers:
            with contextlib.suppress(OSError, ValueError):
                worker.send(None)
            worker.close()
        deadline = time.monotonic() + PATIENCE
        for end in ("terminate", "kill", None):
            for worker in self.workers:
                worker.process.join(max(0.0, deadline - time.monotonic()))
            left = [worker for worker in self.workers if worker.process.is_alive()]
            if not left or end is None:
                break
            for worker in left:
                getattr(worker.process, end)()
            deadline = time.monotonic() + PATIENCE


def _short(indices: Any) -> str:
    text = str(indices)
    return text if len(text) < 60 else f"{text[:56]} ..."


_ends: set[Any] = set()  # our ends of all connections


def _after_fork() -> None:
    """A forked child holds none of them, or a worker would not notice that its parent is gone."""
    for end in _ends:
        end.close()
    _ends.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def context_of(wanted: Any) -> Any:
    """The ``multiprocessing`` context to use: fork on Linux, unless told."""
    if wanted is not None:
        return wanted
    methods = multiprocessing.get_all_start_methods()
    import sys

    fork = sys.platform == "linux" and "fork" in methods
    return multiprocessing.get_context("fork" if fork else None)
