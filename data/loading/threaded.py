"""Worker threads: they share the dataset, and hand batches over as they are."""

from __future__ import annotations

import os
import threading
from queue import Empty, SimpleQueue
from typing import Any

from fx.backends.cpu.threads import started
from fx.config import modes
from fx.data._utils.worker import WorkerInfo, here
from fx.data.loading.failures import NoWorkerError
from fx.data.loading.fetching import Ended, Job, Stream
from fx.data.loading.seeding import (
    STARTS,
    STREAMS,
    ThreadRandom,
    batch_key,
    fold_in,
    generator_of,
    key_of,
)
from fx.random import using


class Threads:
    """The worker threads of a loader; the arguments are those of ``Processes``."""

    def __init__(self, job: Job, count: int, context: Any, init: Any, key: list[int]) -> None:
        self.turn = 0
        self.closed = False
        self.job, self.count, self.init = job, count, init
        self.device = modes.device  # a `with fx.device(...)` around the loop holds for workers too
        self.tasks: list[SimpleQueue[Any]] = [SimpleQueue() for _ in range(count)]
        self.answers: SimpleQueue[Any] = SimpleQueue()
        self.pid = os.getpid()
        start = fold_in(key_of(key), STARTS)
        for number in range(count):
            arguments = (self, number, fold_in(start, number))
            thread = threading.Thread(
                target=_serve, args=arguments, name=f"fx-data-{number}", daemon=True
            )
            if not started(thread):
                self.close()
                raise NoWorkerError(f"no thread can be started for worker {number}")

    def begin(self, key: list[int], resumes: list[Any]) -> int:
        """An epoch begins; answers to what was asked before it are dropped."""
        self.turn += 1
        for tasks, resume in zip(self.tasks, resumes):
            tasks.put(("epoch", (self.turn, -1), (key, resume)))
        return self.turn

    def send(self, number: int, task: Any, indices: Any) -> None:
        """Give a task to a worker."""
        self.tasks[number].put(("fetch", task, indices))

    def receive(self, timeout: float | None) -> list[Any]:
        """The answers that are there, as soon as there is one; none after ``timeout`` seconds."""
        answers: list[Any] = []
        try:
            answers.append(self.answers.get(timeout=timeout))
            while True:
                answers.append(self.answers.get_nowait())
        except Empty:
            return [a for a in answers if a[2] is None or a[2][0] == self.turn]

    def doing(self, number: int) -> str:
        """What a worker is at, in words."""
        return "while it fetched a batch"

    def name(self, number: int) -> str:
        """What messages call a worker."""
        return f"worker thread {number}"

    def close(self) -> None:
        """Let the threads end with what they are at."""
        self.closed = True
        for tasks in self.tasks:
            tasks.put(None)


def _serve(pool: Threads, number: int, start: Any) -> None:
    """What a worker thread does."""
    job, tasks = pool.job, pool.tasks[number]
    here.info = WorkerInfo(number, pool.count, job.dataset, "thread", generator_of(start))
    modes.device = pool.device
    rng = ThreadRandom(here.info)
    plain = job.plain()
    base: Any = None
    stream: Stream | None = None
    with using(rng.generator):
        try:
            rng.start(start)
            if pool.init is not None:
                pool.init(number)
        except Exception as error:
            pool.answers.put((number, "broken", None, error))
            return
        while True:
            task = tasks.get()
            if pool.closed or task is None:
                return
            kind, name, content = task
            if name[0] != pool.turn:
                continue
            try:
                if kind == "epoch":
                    base = key_of(content[0])
                    if job.stream:
                        own = fold_in(base, STREAMS + number)
                        stream = Stream(job, rng.enter, own, content[1])
                    continue
                state = None
                if stream is not None:
                    batch = stream.next()
                    if pool.count == 1:  # several iterate one dataset: its state is not theirs
                        state = stream.state()
                elif plain is not None:
                    batch = plain(content)
                else:
                    rng.enter(batch_key(base, name[1]))
                    batch = job.fetch(content)
                pool.answers.put((number, "batch", name, (batch, state)))
                del batch
            except Ended:
                pool.answers.put((number, "ended", name, None))
            except BaseException as error:
                pool.answers.put((number, "failed", name, error))
