"""Iterators: the batches of one epoch, fetched here or by workers."""

from __future__ import annotations

import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from fx import forking
from fx.data.errors import WorkerError
from fx.data.loading.failures import Failure, late
from fx.data.loading.fetching import Ended, Job, Stream
from fx.data.loading.position import Order, Position
from fx.data.loading.seeding import BATCHES, STREAMS, batch_key, fold_in, generator_of, key_of
from fx.errors import StateError
from fx.random import using


class Batches:
    """An iterator over the batches of an epoch.

    Args:
        loader: whose epoch it is.
        position: where it begins; it is kept up to date.
        resumed: whether the epoch has begun elsewhere.
    """

    def __init__(self, loader: Any, position: Position, resumed: bool) -> None:
        # a dataset may ask the iterator that asks it
        self._lock = forking.lasting(threading.RLock())
        self._position = position
        self._job = Job(loader)
        self._length = loader.__len__
        self._said: int | None = loader.said_length if self._job.stream else None
        self._given = 0
        key = key_of(position.key)
        self._base = fold_in(key, BATCHES)
        workers = max(1, loader.num_workers)
        if not self._job.stream:
            self._order = Order(loader, position, resumed)
        elif not resumed:
            position.streams = [{"batches": 0, "dataset": None, "ended": False}] * workers
        elif len(position.streams) != workers:
            raise StateError(
                f"DataLoader.load_state_dict: the state is of {len(position.streams)} workers, "
                f"each with a stream of its own, and this loader has {workers}; give num_workers="
                f"{len(position.streams)}"
            )

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Any:
        with self._lock:  # several threads may ask: each gets batches that no other gets
            return self._next()

    def _next(self) -> Any:
        """The next batch; one thread at a time comes here."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self._length()  # type: ignore[no-any-return]

    def _ended(self) -> None:
        self._position.done = True
        self.close()

    def _streamed(self, number: int, state: Any) -> None:
        """A batch of a worker's stream was given out."""
        streams = self._position.streams
        count = streams[number]["batches"] + 1
        streams[number] = {"batches": count, "dataset": state, "ended": False}
        self._given += 1
        if self._said is not None and self._given > self._said:
            warnings.warn(
                f"Length of IterableDataset {self._job.dataset} was reported to be {self._said} "
                f"(when accessing len(dataloader)), but {self._given} samples have been fetched. "
                f"With several workers, let each iterate a part of its own: see get_worker_info().",
                stacklevel=4,
            )

    def close(self) -> None:
        """Fetch nothing more."""


class Here(Batches):
    """Batches that are fetched when they are asked for, in the thread that asks."""

    def __init__(self, loader: Any, position: Position, resumed: bool) -> None:
        super().__init__(loader, position, resumed)
        self._plain = self._job.plain()
        self._closed = False
        if self._job.stream:
            base = fold_in(key_of(position.key), STREAMS)
            self._generator = generator_of(base)
            resume = position.streams[0] if resumed else None
            self._stream = Stream(self._job, self._generator.set_state, base, resume)

    def _next(self) -> Any:
        if self._closed:
            raise StopIteration
        if self._job.stream:
            return self._next_of_stream()
        try:
            number, indices, state = next(self._order)
        except StopIteration:
            self._ended()
            raise
        try:
            batch = self._fetched(number, indices)
        except Exception as error:  # the batch is lost, and the next one is due
            self._position.given(number, state)
            if isinstance(error, StopIteration):
                raise _not_the_end(error) from error
            raise
        self._position.given(number, state)
        return batch

    def _fetched(self, number: int, indices: Any) -> Any:
        if self._plain is not None:
            return self._plain(indices)
        with using(generator_of(batch_key(self._base, number))):
            return self._job.fetch(indices)

    def _next_of_stream(self) -> Any:
        try:
            with using(self._generator):
                batch = self._stream.next()
                state = self._stream.state()
        except Ended:
            self._ended()
            raise StopIteration from None
        self._streamed(0, state)
        return batch

    def close(self) -> None:
        """Fetch nothing more."""
        self._closed = True


class Ahead(Batches):
    """Batches that workers fetch ahead of time.

    Args:
        workers: gives the workers for an epoch with a key; it is called once nothing else can fail.
    """

    def __init__(
        self, loader: Any, position: Position, resumed: bool, workers: Callable[[list[int]], Any]
    ) -> None:
        super().__init__(loader, position, resumed)
        self._pool = pool = workers(position.key)
        lasting = loader.persistent_workers
        self._end = None if lasting else weakref.finalize(self, pool.close)
        self._timeout = loader.timeout
        self._in_order = loader.in_order
        self._room = max(1, loader.prefetch_factor)  # tasks that a worker has at a time
        self._count = loader.num_workers
        self._asked = [0] * self._count  # tasks of each worker without an answer
        self._states: dict[int, Any] = {}  # of the sampler, after each task
        self._ready: dict[int, Any] = {}  # answers by number
        self._streams: list[deque[Any]] = [deque() for _ in range(self._count)]  # and by worker
        self._fetched = 0  # answers that wait to be asked for
        self._due = position.batches
        self._more = True  # whether the sampler has more
        self._broken = False
        streams = position.streams if resumed else [None] * self._count
        self._active = [i for i, s in enumerate(streams) if s is None or not s["ended"]]
        self._numbers = [0] * self._count
        base = position.key if self._job.stream else self._base._a.tolist()
        self._turn = pool.begin(base, streams or [None] * self._count)
        self._fill()

    # asking -------------------------------------------------------------------------------------

    def _fill(self) -> None:
        """Give the workers what to do, as far ahead as they are told to work."""
        if self._job.stream:
            for worker in self._active:
                while self._asked[worker] + len(self._streams[worker]) < self._room:
                    self._ask(worker, self._numbers[worker], None)
                    self._numbers[worker] += 1
            return
        while self._more and sum(self._asked) + len(self._ready) < self._room * self._count:
            worker = min(range(self._count), key=self._asked.__getitem__)
            try:
                number, indices, self._states[number] = next(self._order)
            except StopIteration:
                self._more = False
                return
            self._ask(worker, number, indices)

    def _ask(self, worker: int, number: int, indices: Any) -> None:
        self._pool.send(worker, (self._turn, number), indices)
        self._asked[worker] += 1

    # hearing ------------------------------------------------------------------------------------

    def _hear(self, waited: float, worker: int | None) -> None:
        """Wait for answers, ``waited`` seconds having passed."""
        left = None if not self._timeout else max(0.0, self._timeout - waited)
        answers = self._pool.receive(left)
        if not answers and self._timeout and waited >= self._timeout:
            busy = worker if worker is not None else self._busiest()
            doing = f"waiting for {self._pool.name(busy)} {self._pool.doing(busy)}"
            raise late(self._timeout, doing)
        for number, kind, task, content in answers:
            if kind == "broken":
                raise _error(content)
            self._asked[number] -= 1
            if self._job.stream:
                self._streams[number].append((kind, content))
            else:
                self._ready[task[1]] = kind, content

    def _busiest(self) -> int:
        return max(range(self._count), key=self._asked.__getitem__)

    def _next(self) -> Any:
        if self._broken or self._position.done:
            raise StopIteration
        if self._pool.turn != self._turn:
            raise RuntimeError(
                "DataLoader: another loop over a loader with persistent_workers has begun and "
                "taken its workers; end one loop before the next, or make a second loader"
            )
        try:
            kind, content = self._next_of_stream() if self._job.stream else self._next_in_order()
        except StopIteration:
            self._ended()
            raise
        except BaseException:  # a dead worker, a timeout, an interrupt in the middle of a message
            self._broken = True
            self._pool.close()
            raise
        if kind == "failed":
            raise _error(content)
        return content[0]

    def _next_in_order(self) -> tuple[str, Any]:
        start = time.monotonic()
        while True:
            if not self._more and not self._ready and not any(self._asked):
                raise StopIteration
            number = self._due
            if not self._in_order and self._ready:
                number = next(iter(self._ready))
            if number in self._ready:
                break
            if number in self._position.ahead:
                self._due += 1
                continue
            self._hear(time.monotonic() - start, None)
        answer = self._ready.pop(number)
        self._fill()
        self._position.given(number, self._states.pop(number))
        self._due = self._position.batches
        return answer  # type: ignore[no-any-return]

    def _next_of_stream(self) -> tuple[str, Any]:
        start = time.monotonic()
        while self._active:
            worker = self._worker_due()
            if not self._streams[worker]:
                self._hear(time.monotonic() - start, worker)
                continue
            kind, content = self._streams[worker].popleft()
            after = [i for i in self._active if i > worker]
            self._position.turn = after[0] if after else self._active[0]
            if kind == "ended":
                self._active.remove(worker)
                self._position.streams[worker] = {**self._position.streams[worker], "ended": True}
                continue
            self._fill()
            self._streamed(worker, content[1] if kind == "batch" else None)
            return kind, content
        raise StopIteration

    def _worker_due(self) -> int:
        """The worker whose stream is next: they take turns; out of order, whoever has a batch."""
        if not self._in_order:
            for worker in self._active:
                if self._streams[worker]:
                    return worker
        turn = self._position.turn
        return next((i for i in self._active if i >= turn), self._active[0])

    def close(self) -> None:
        """Fetch nothing more; the workers end unless they are persistent."""
        self._broken = True
        if self._end is not None:
            self._end()


def _error(content: Any) -> BaseException:
    if isinstance(content, bytes):
        import pickle

        failure: Failure = pickle.loads(content)
        return failure.raised()
    return _not_the_end(content) if isinstance(content, StopIteration) else content


def _not_the_end(error: StopIteration) -> WorkerError:
    """What stands for a StopIteration of a dataset or collate_fn, which would end the loop."""
    return WorkerError(f"DataLoader: StopIteration was raised while a batch was fetched: {error}")
