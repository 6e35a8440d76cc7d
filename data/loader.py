"""DataLoader: batches of a dataset, fetched in this thread or ahead of time by worker threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from itertools import count
from typing import Any, NamedTuple

from fx.config import modes
from fx.data.collate import default_collate, default_convert
from fx.data.dataset import IterableDataset
from fx.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from fx.random import Generator, fold_in, next_key, using
from fx.tensor import Tensor


class WorkerInfo(NamedTuple):
    """What ``get_worker_info`` tells inside a worker."""

    id: int
    num_workers: int
    dataset: Any


class _Worker(threading.local):
    info: WorkerInfo | None = None


_worker = _Worker()


def get_worker_info() -> WorkerInfo | None:
    """The number of the loader's worker that runs this, how many there are, and their dataset.

    None in the main thread.
    """
    return _worker.info


class DataLoader:
    """Batches of a dataset, as ``torch.utils.data.DataLoader``.

    Random numbers that a dataset draws from fx come from a generator of the batch, which follows
    from ``generator`` (or the current one) and the number of the batch: seeded runs give the same
    batches with any number of workers.

    Args:
        dataset: has ``__getitem__`` and ``__len__``, or is an ``IterableDataset``.
        batch_size: how many samples make a batch; None gives single samples.
        shuffle: whether the order is random, and new in each iteration.
        sampler: an iterable of indices, instead of ``shuffle``.
        batch_sampler: an iterable of lists of indices, instead of batch_size, shuffle, sampler and
            drop_last.
        num_workers: how many threads fetch batches ahead; 0 fetches them when they are asked for.
            Batches keep their order, and an exception is raised where its batch was due.
        collate_fn: makes a batch of a list of samples; ``default_collate`` unless told.
        pin_memory, multiprocessing_context, persistent_workers, pin_memory_device: accepted for
            PyTorch's sake; workers are threads and share the memory.
        drop_last: whether a last batch that is smaller is left out.
        timeout: seconds to wait for a worker's batch; 0 waits for ever.
        worker_init_fn: called with its number in each worker first.
        generator: of the random numbers; None is the current one.
        prefetch_factor: how many batches a worker fetches ahead, 2 unless told.
        in_order: whether batches keep their order; False gives each as soon as it is there.

    Raises:
        ValueError: for arguments that exclude each other or are out of range.

    Example:
        >>> import fx
        >>> data = fx.data.TensorDataset(fx.arange(10), fx.arange(10) % 2)
        >>> loader = fx.data.DataLoader(data, batch_size=4)
        >>> [x.shape for x, y in loader]
        [(4,), (4,), (2,)]
        >>> x, y = next(iter(loader))
        >>> x
        tensor([0, 1, 2, 3])
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if prefetch_factor is not None and (num_workers == 0 or prefetch_factor < 1):
            raise ValueError(
                "prefetch_factor must be at least 1 and needs workers; write num_workers=2"
            )
        stream = isinstance(dataset, IterableDataset)
        if stream and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError(
                "an IterableDataset gives its samples in its own order: leave out shuffle, sampler "
                "and batch_sampler"
            )
        if stream and num_workers:
            raise ValueError(
                "a stream has no order that workers could share; write num_workers=0 for an "
                "IterableDataset"
            )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, "
                    "sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables batching: leave out drop_last")
        if not stream and sampler is None and batch_sampler is None:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else None
            sampler = sampler or SequentialSampler(dataset)
        if not stream and batch_size is not None:
            batch_sampler = BatchSampler(sampler or (), batch_size, drop_last)
        elif stream and batch_size is not None:
            BatchSampler((), batch_size, drop_last)  # refuses a bad batch_size
        self.dataset = dataset
        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.num_workers = num_workers
        self.collate_fn = collate_fn or default_collate
        self.pin_memory = pin_memory
        self.drop_last = drop_last
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.generator = generator
        self.prefetch_factor = prefetch_factor
        self.in_order = in_order

    def __len__(self) -> int:
        if isinstance(self.dataset, IterableDataset):
            n = len(self.dataset)
            if self.batch_size is None:
                return n
            return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        source: Any = self.sampler if self.batch_sampler is None else self.batch_sampler
        return len(source)

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            return self._stream()
        tasks: Any = self.sampler if self.batch_sampler is None else self.batch_sampler
        return self._ahead(tasks) if self.num_workers else self._now(tasks)

    # fetching -----------------------------------------------------------------------------------

    def _plain_batch(self) -> Callable[[list[int]], Any] | None:
        """The dataset's own way to fetch a batch, where it has one and nothing asks for another."""
        if self.batch_sampler is None or self.collate_fn is not default_collate:
            return None
        return self.dataset.batch if getattr(self.dataset, "batches", False) else None

    def _fetch(self, indices: Any) -> Any:
        if self.batch_sampler is None:
            return self._single(self.dataset[indices])
        return self.collate_fn([self.dataset[i] for i in indices])

    def _single(self, sample: Any) -> Any:
        collates = self.collate_fn is not default_collate
        return self.collate_fn(sample) if collates else default_convert(sample)

    def _now(self, tasks: Iterable[Any]) -> Iterator[Any]:
        plain = self._plain_batch()
        if plain is not None:
            yield from map(plain, tasks)
            return
        key = None
        for number, indices in enumerate(tasks):
            if key is None:  # after the sampler has drawn its own
                key = next_key(self.generator, "cpu")
            with using(_generator_of(key, number)):
                batch = self._fetch(indices)
            yield batch

    def _stream(self) -> Iterator[Any]:
        if self.batch_size is None:
            for sample in self.dataset:
                yield self._single(sample)
            return
        samples: list[Any] = []
        for sample in self.dataset:
            samples.append(sample)
            if len(samples) == self.batch_size:
                yield self.collate_fn(samples)
                samples = []
        if samples and not self.drop_last:
            yield self.collate_fn(samples)

    # workers ------------------------------------------------------------------------------------

    def _ahead(self, tasks: Iterable[Any]) -> Iterator[Any]:
        plain = self._plain_batch()
        device, numbers = modes.device, count()

        def begin() -> None:
            _worker.info = WorkerInfo(next(numbers), self.num_workers, self.dataset)
            modes.device = device  # a `with fx.device(...)` around the loop holds for workers too
            if self.worker_init_fn is not None:
                self.worker_init_fn(_worker.info.id)

        def fetch(key: Tensor, number: int, indices: Any) -> Any:
            with using(_generator_of(key, number)):
                return self._fetch(indices)

        room = self.num_workers * (self.prefetch_factor or 2)
        pool = ThreadPoolExecutor(self.num_workers, "fx-data", begin)
        pending: deque[Future[Any]] = deque()
        key = None
        try:
            for number, indices in enumerate(tasks):
                if plain is not None:
                    pending.append(pool.submit(plain, indices))
                else:
                    key = next_key(self.generator, "cpu") if key is None else key
                    pending.append(pool.submit(fetch, key, number, indices))
                if len(pending) >= room:
                    yield self._result(pending)
            while pending:
                yield self._result(pending)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _result(self, pending: deque[Future[Any]]) -> Any:
        """The batch that is due."""
        due = pending[0]
        if not self.in_order:
            due = next((f for f in pending if f.done()), due)
        try:
            batch = due.result(self.timeout or None)
        except FutureTimeoutError:
            if due.done():  # the dataset's own exception
                raise
            raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds") from None
        pending.remove(due)
        return batch


def _generator_of(key: Tensor, number: int) -> Generator:
    """The generator of a batch: the same whichever thread fetches it."""
    generator = Generator("cpu")
    generator.set_state(fold_in(key, number))
    return generator
