"""Which worker of a loader runs this code."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np

from fx.random import Generator


class WorkerRandom:
    """Random numbers of a batch that no other thread draws from.

    Attributes:
        random_generator: a ``random.Random``.
        numpy_generator: a ``numpy.random.Generator``.
        torch_generator: an ``fx.Generator``; PyTorch's name for it.
    """

    __slots__ = ("numpy_generator", "random_generator", "torch_generator")

    def __init__(self, seed: int, generator: Generator) -> None:
        self.random_generator = random.Random(seed)
        self.numpy_generator = np.random.default_rng(seed)
        self.torch_generator = generator


class WorkerInfo:
    """What ``get_worker_info`` tells inside a worker.

    Attributes:
        id: the number of the worker, from 0.
        num_workers: how many there are.
        seed: a number below 2 ** 64 of the batch that is being fetched (before the first, of the
            worker); it follows from the loader's generator.
        dataset: the worker's copy of the dataset; in threads, the dataset itself.
        rng: random numbers that start from ``seed``, for ``random``, NumPy and fx.
        worker_method: ``"multiprocessing"`` or ``"thread"``.
    """

    __slots__ = ("_rng", "dataset", "generator", "id", "num_workers", "seed", "worker_method")

    def __init__(
        self, id: int, num_workers: int, dataset: Any, worker_method: str, generator: Generator
    ) -> None:
        self.id = id
        self.num_workers = num_workers
        self.dataset = dataset
        self.worker_method = worker_method
        self.generator = generator
        self.reseed(0)

    def reseed(self, seed: int) -> None:
        """A batch with another seed begins."""
        self.seed = seed
        self._rng: WorkerRandom | None = None

    @property
    def rng(self) -> WorkerRandom:
        """Random numbers that start from ``seed``."""
        if self._rng is None:
            self._rng = WorkerRandom(self.seed, self.generator)
        return self._rng

    def __repr__(self) -> str:
        return f"WorkerInfo(id={self.id}, num_workers={self.num_workers}, seed={self.seed})"


class _Here(threading.local):
    info: WorkerInfo | None = None


here = _Here()


def get_worker_info() -> WorkerInfo | None:
    """The loader's worker that runs this: its number, how many there are, seed and dataset.

    None outside of workers.

    Example:
        >>> import fx
        >>> fx.data.get_worker_info() is None
        True
    """
    return here.info
