"""A worker process: it reads tasks from its connection and answers with batches."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import pickle
import signal
import socket
import threading
import time
from queue import SimpleQueue
from typing import Any

from fx.config import default_dtype, modes, set_default_dtype
from fx.data._utils.collate import memory
from fx.data._utils.worker import WorkerInfo, here
from fx.data.loading import packing
from fx.data.loading.failures import Failure
from fx.data.loading.fetching import Ended, Job, Stream
from fx.data.loading.seeding import (
    STREAMS,
    ProcessRandom,
    batch_key,
    fold_in,
    generator_of,
    key_of,
)
from fx.data.loading.slots import Ring
from fx.data.loading.transfer import packed
from fx.random import using


class Setup:
    """What a worker process is started with."""

    def __init__(
        self,
        job: Job,
        number: int,
        count: int,
        init: Any,
        start: list[int],
        device: str | None,
        packs: packing.Packs,
    ) -> None:
        self.job = job
        self.number, self.count = number, count
        self.init = init
        self.start = start
        self.device = device
        self.dtype = default_dtype()
        self.packs = packs
        self.parent = os.getpid()


class _Link:
    """The connection to the parent; a thread reads it, so that nobody ever waits to write to us."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.tasks: SimpleQueue[Any] = SimpleQueue()
        self.stopped = False
        threading.Thread(target=self._read, name="fx-data-reader", daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                task = pickle.loads(self.connection.recv_bytes())
                self.stopped = task is None
                self.tasks.put(task)
                if self.stopped:
                    time.sleep(LEAVE)  # the parent ends us before; if it died, we do it ourselves
                    os._exit(1)
        except (EOFError, OSError):  # the parent is gone: nobody wants what we are doing
            os._exit(1)

    def send(self, message: Any, descriptors: list[int]) -> None:
        """Answer; the descriptors follow the message."""
        self.connection.send_bytes(pickle.dumps(message, 5))
        if descriptors:
            with socket.socket(fileno=os.dup(self.connection.fileno())) as channel:
                for at in range(0, len(descriptors), DESCRIPTORS):
                    socket.send_fds(channel, [b"f"], descriptors[at : at + DESCRIPTORS])
            for fd in descriptors:
                os.close(fd)


LEAVE = 10.0  # seconds to come to an end
DESCRIPTORS = 64  # that travel at once; the kernel takes 253


def main(connection: Any, setup: Setup) -> None:
    """Run a worker until the parent says stop, or is gone."""
    # the parent is interrupted too, and stops us; a SIGTERM of our own ends us at once
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    gc.freeze()  # a collection would write to, and so copy, every page of what the parent holds
    link = _Link(connection)
    words = os.memfd_create("fx-data-last-words") if hasattr(os, "memfd_create") else None
    if words is not None:
        faulthandler.enable(words)
        link.send(("words",), [os.dup(words)])
    with contextlib.suppress(ConnectionError):  # the parent has hung up: it wants no more
        _Worker(link, setup).run()


class _Worker:
    def __init__(self, link: _Link, setup: Setup) -> None:
        import fx

        fx.set_num_threads(1)
        self.link, self.setup, self.job = link, setup, setup.job
        self.ring = Ring()
        memory.allocate = self.ring.allocate
        modes.device = setup.device
        set_default_dtype(setup.dtype)
        packing.put(setup.packs, self.job.dataset)
        generator = generator_of(key_of(setup.start))
        self.info = WorkerInfo(
            setup.number, setup.count, self.job.dataset, "multiprocessing", generator
        )
        here.info = self.info
        self.random = ProcessRandom(self.info)
        self.where = f"in DataLoader worker process {setup.number} (pid {os.getpid()})"
        self.plain = self.job.plain()
        self.base: Any = None
        self.stream: Stream | None = None

    def run(self) -> None:
        with using(self.random.generator):
            self._run()

    def _run(self) -> None:
        try:
            self.random.start(key_of(self.setup.start))
            if self.setup.init is not None:
                self.setup.init(self.setup.number)
            self.random.started()
        except Exception as error:
            self._answer("broken", None, pickle.dumps(Failure(error, self.where)))
            return
        while not self.link.stopped:
            task = self.link.tasks.get()
            if task is not None:
                self._do(*task)

    def _do(self, kind: str, number: Any, content: Any, released: list[int]) -> None:
        self.ring.begin(released)
        try:
            if kind == "epoch":
                self._epoch(*content)
                return
            answer, batch, state = "batch", self._fetch(number, content), None
            if self.stream is not None:
                state = self.stream.state()
            message = packed((batch, state), self.ring)
            del batch
        except Ended:
            answer, message = "ended", b""
        except Exception as error:
            answer, message = "failed", pickle.dumps(Failure(error, self.where))
        self._answer(answer, number, message)

    def _epoch(self, key: list[int], resume: Any) -> None:
        self.base = key_of(key)
        if self.job.stream:
            base = fold_in(self.base, STREAMS + self.setup.number)
            self.stream = Stream(self.job, self.random.enter, base, resume)

    def _fetch(self, number: int, indices: Any) -> Any:
        if self.stream is not None:
            return self.stream.next()
        if self.plain is not None:
            return self.plain(indices)
        self.random.enter(batch_key(self.base, number[1]))
        return self.job.fetch(indices)

    def _answer(self, kind: str, number: Any, message: bytes) -> None:
        new, closed = self.ring.sent()
        header = kind, number, message, [n for n, _ in new], closed
        self.link.send(header, [fd for _, fd in new])
