"""DataLoader: batches of a dataset, fetched here or ahead of time by workers."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from math import ceil
from multiprocessing.context import BaseContext
from typing import Any, Generic, TypeVar

from fx.config import modes
from fx.data._utils.collate import default_collate, default_convert
from fx.data._utils.worker import get_worker_info
from fx.data.dataset import IterableDataset
from fx.data.errors import WorkerError
from fx.data.loading.failures import NoWorkerError
from fx.data.loading.fetching import Job
from fx.data.loading.iterators import Ahead, Batches, Here
from fx.data.loading.position import VERSION, Position, begun
from fx.data.loading.seeding import key_of, words
from fx.data.sampler import BatchSampler, RandomSampler, SequentialSampler
from fx.errors import StateError
from fx.random import Generator
from fx.transaction import whole

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

T = TypeVar("T", covariant=True)


class DataLoader(Generic[T]):
    """Batches of a dataset, as ``torch.utils.data.DataLoader``.

    Random numbers follow from ``generator`` (or the current one), the epoch and the number of the
    batch, also those that a dataset draws from fx, from NumPy's global functions and from
    ``random`` in a worker process: a seeded run gives the same batches with any number of workers.
    What ``worker_init_fn`` seeds itself is left alone. ``get_worker_info().seed`` seeds other
    sources, ``get_worker_info().rng.numpy_generator`` is one.

    Arrays of a batch travel from worker processes through shared memory, without a copy; see
    ``fx/data/README.md``.

    Args:
        dataset: has ``__getitem__`` and ``__len__``, or is an ``IterableDataset``.
        batch_size: how many samples make a batch; None gives single samples.
        shuffle: whether the order is random, and new in each epoch.
        sampler: an iterable of indices, instead of ``shuffle``.
        batch_sampler: an iterable of lists of indices, instead of batch_size, shuffle, sampler and
            drop_last.
        num_workers: how many workers fetch batches ahead; 0 fetches them when they are asked for.
            Batches keep their order, and an exception is raised where its batch was due.
        collate_fn: makes a batch of a list of samples; ``default_collate`` unless told.
        pin_memory, pin_memory_device: accepted for PyTorch's sake; there is nothing to pin on a
            CPU.
        drop_last: whether a last batch that is smaller is left out.
        timeout: seconds to wait for a worker's batch; 0 waits for ever. A worker that dies is
            reported at once in any case.
        worker_init_fn: called with its number in each worker first.
        multiprocessing_context: ``"fork"`` (the default on Linux), ``"spawn"``, ``"forkserver"`` or
            a context of ``multiprocessing``.
        generator: of the random numbers; None is the current one.
        prefetch_factor: how many batches a worker fetches ahead, 2 unless told.
        persistent_workers: whether workers live on from epoch to epoch.
        in_order: whether batches keep their order; False gives each as soon as it is there.
        worker_type: ``"process"``, or ``"thread"`` for datasets that spend their time outside of
            Python (array data): threads start at once and share everything.

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

    _fixed = False

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
        worker_type: str = "process",
    ) -> None:
        if num_workers < 0:
            raise ValueError(
                "num_workers option should be non-negative; use num_workers=0 to disable "
                "multiprocessing."
            )
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing. let "
                "num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
            )
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        if worker_type not in ("process", "thread"):
            raise ValueError(
                f"worker_type option should be 'process' or 'thread', got {worker_type!r}"
            )
        self.dataset = dataset
        self.is_stream = isinstance(dataset, IterableDataset)
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.worker_type = worker_type
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        if self.is_stream:
            for name, value in (
                ("shuffle", shuffle or None),
                ("sampler", sampler),
                ("batch_sampler", batch_sampler),
            ):
                if value is not None:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but "
                        f"got {name}={value}; a stream gives its samples in its own order"
                    )
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, "
                    "sampler, and drop_last"
                )
            if not hasattr(batch_sampler, "__iter__"):
                raise TypeError(
                    f"DataLoader: batch_sampler must be an iterable of lists of indices, got "
                    f"{batch_sampler!r:.60}; for a number write batch_size="
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None:
            if self.is_stream:
                sampler = _Endless()
            else:  # an order of its own draws from the epoch's key, and so from `generator`
                sampler = RandomSampler(dataset) if shuffle else SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.collate_fn = collate_fn
        self.persistent_workers = persistent_workers
        self.epochs = 0
        self.said_length: int | None = None  # of a stream, once somebody asked
        self._pool: Any = None
        self._position: Position | None = None
        self._resume: dict[str, Any] | None = None
        self._fixed = True
        self.check_worker_number_rationality()

    def __setattr__(self, name: str, value: Any) -> None:
        if self._fixed and name in _FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How worker processes are started: a context of ``multiprocessing``, or None."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if self.num_workers == 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading "
                    f"(num_workers > 0), but got num_workers={self.num_workers}"
                )
            if isinstance(context, str):
                methods = multiprocessing.get_all_start_methods()
                if context not in methods:
                    raise ValueError(
                        "multiprocessing_context option should specify a valid start method in "
                        f"{methods!r}, but got multiprocessing_context={context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, BaseContext):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or a string "
                    f"specifying the start method, but got multiprocessing_context={context}"
                )
        self._context = context

    @property
    def index_sampler(self) -> Any:
        """What says which samples make the next batch."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __len__(self) -> int:
        if not self.is_stream:
            return len(self.index_sampler)
        n = len(self.dataset)
        if self.batch_size is not None:
            n = n // self.batch_size if self.drop_last else ceil(n / self.batch_size)
        self.said_length = n
        return n

    def __iter__(self) -> Iterator[T]:
        position, resumed = begun(self, self._resume)
        batches: Batches
        if self.num_workers == 0:
            batches = Here(self, position, resumed)
        else:
            try:
                batches = Ahead(self, position, resumed, self._workers)
            except NoWorkerError as error:
                batches = self._without_workers(error, position, resumed)
        self._resume = None
        self.epochs, self._position = position.epoch, position
        return batches

    def _without_workers(self, error: Exception, position: Position, resumed: bool) -> Batches:
        """The same batches, fetched here."""
        if self.is_stream and self.num_workers > 1:
            raise WorkerError(
                f"DataLoader: {error}; each of {self.num_workers} workers has a stream of its own, "
                f"so that fewer give other batches; write num_workers=0"
            ) from error
        warnings.warn(
            f"DataLoader: {error}; batches are fetched by the loop itself, as with num_workers=0",
            RuntimeWarning,
            stacklevel=3,
        )
        return Here(self, position, resumed)

    def _workers(self, key: list[int]) -> Any:
        """The workers of an epoch: new ones, or those that have stayed."""
        if self._pool is not None and not self._pool.closed:
            return self._pool
        if self.worker_type == "thread":
            from fx.data.loading.threaded import Threads as Workers
        else:
            from fx.data.loading.processes import Processes as Workers  # type: ignore[assignment]
        pool = Workers(Job(self), self.num_workers, self._context, self.worker_init_fn, key)
        if self.persistent_workers:
            import weakref

            self._pool = pool
            weakref.finalize(self, pool.close)
        return pool

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more worker processes than cores that the process may use."""
        if self.worker_type == "thread" or not self.num_workers:
            return
        known = hasattr(os, "sched_getaffinity")
        cores = len(os.sched_getaffinity(0)) if known else os.cpu_count()
        if cores is not None and self.num_workers > cores:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our "
                f"suggested max number of worker in current system is {cores}, which is smaller "
                f"than what this DataLoader is going to create. Please be aware that excessive "
                f"worker creation might get DataLoader running slow or even freeze, lower the "
                f"worker number to avoid potential slowness/freeze if necessary.",
                stacklevel=3,
            )

    # where a loop stands ------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Where the newest loop over this loader stands: small, plain data.

        A loader that loads it gives, in its next loop, the batches that this one has not given out
        yet, whatever workers have fetched ahead; also the random numbers are the same. Between
        epochs it says only that. With ``generator=None`` the order of later epochs comes from the
        current generator, whose state is ``fx.get_rng_state()``; a generator of the loader's own
        is part of the state.

        Example:
            >>> import fx
            >>> loader = fx.data.DataLoader(range(6), batch_size=2, shuffle=True)
            >>> batches = iter(loader)
            >>> first, state = next(batches), loader.state_dict()
            >>> other = fx.data.DataLoader(range(6), batch_size=2, shuffle=True)
            >>> other.load_state_dict(state)
            >>> [b.tolist() for b in other] == [b.tolist() for b in batches]
            True
        """
        if self._resume is not None:
            return dict(self._resume)
        if self._position is None:
            state: dict[str, Any] = {"epoch": self.epochs, "key": None, "batches": 0}
        else:
            state = self._position.state()
        state["version"] = VERSION
        state["batch_size"] = self.batch_size
        if self.generator is not None:
            state["generator"] = words(self.generator.get_state())
        return state

    @whole
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Let the next loop go on where the state was taken.

        The number of workers may be another one, except for streams.

        Args:
            state_dict: what ``state_dict`` gave.

        Raises:
            StateError: if it is no such state, or of a loader with another batch_size; the loop
                itself refuses a state that does not fit the samplers.
        """
        try:
            version, size = state_dict["version"], state_dict["batch_size"]
            if version != VERSION:
                raise StateError(
                    f"DataLoader.load_state_dict: the state is of version {version}, this fx reads "
                    f"version {VERSION}"
                )
            Position.of(state_dict)
            position = {**state_dict}
        except (KeyError, TypeError, AttributeError) as error:
            raise StateError(
                f"DataLoader.load_state_dict takes what state_dict() gave, got "
                f"{type(state_dict).__name__} without a usable {error}"
            ) from None
        if size != self.batch_size:
            raise StateError(
                f"DataLoader.load_state_dict: the state is of batch_size={size}, and this loader "
                f"has batch_size={self.batch_size}"
            )
        if self.generator is not None and "generator" in state_dict:
            self.generator.set_state(key_of(state_dict["generator"]))
        modes.transaction.set(self, "_resume", position)
        modes.transaction.set(self, "epochs", position["epoch"])


_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _DatasetKind:
    """Whether a dataset is read by index or as a stream; PyTorch's numbers."""

    Map = 0
    Iterable = 1


class _Endless:
    """What stands for the sampler of a stream."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None
