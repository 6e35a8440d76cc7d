"""Random numbers of a loader: every batch has a key of its own, whoever fetches it.

An epoch draws one key from the loader's generator. The order of the samples follows from child 0 of
that key, batch n of a dataset from child n of child 1, batch n of worker w's stream from child n of
child 2 + w, and what a worker draws before its first batch from a child of the last number. So the
numbers do not depend on how many workers there are, nor on which of them fetches a batch.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from fx.random import Generator, fold_in
from fx.tensor import Tensor, new_tensor

ORDER, BATCHES, STREAMS, STARTS = 0, 1, 2, 0xFFFFFFFF


def words(key: Tensor) -> list[int]:
    """A key as plain ints."""
    return key._a.tolist()  # type: ignore[no-any-return]


def key_of(numbers: list[int]) -> Tensor:
    """The key that ``words`` gave as ints."""
    return new_tensor(np.array(numbers, np.uint32))


def generator_of(key: Tensor) -> Generator:
    """A generator that starts from a key."""
    generator = Generator("cpu")
    generator.set_state(key)
    return generator


def _mixed(key: Tensor) -> np.ndarray:
    """Words that differ between keys that are related, which a seed must."""
    from fx.random import bits

    return bits(key, (4,))._a  # type: ignore[no-any-return]


class ProcessRandom:
    """The random numbers of a worker process: fx, NumPy's global ones and ``random``.

    Each is seeded for every batch, unless ``worker_init_fn`` has seeded it: what the user seeds is
    the user's.
    """

    def __init__(self, info: Any) -> None:
        self.info = info
        self.generator: Generator = info.generator
        self.fx = self.numpy = self.python = True
        self._states: Any = None

    def start(self, key: Tensor) -> None:
        """Seed everything, and remember how it stands before ``worker_init_fn`` runs."""
        self.enter(key)
        np.random.random(), random.random()  # the first draw after seeding makes a block of words
        self._states = self._now()

    def started(self) -> None:
        """``worker_init_fn`` has run: what it changed is left alone from now on."""
        now = self._now()
        # drawing some numbers moves on within the block of words; seeding changes it
        self.fx, self.numpy, self.python = [a == b for a, b in zip(now, self._states)]
        self._states = None

    def _now(self) -> list[Any]:
        block: Any = np.random.get_state()[1]
        return [self.generator.seeded, block.tobytes(), random.getstate()[1][:-1]]

    def enter(self, key: Tensor) -> None:
        """A batch begins."""
        seeds = _mixed(key)
        self.info.reseed(int(seeds[0]) | int(seeds[1]) << 32)
        if self.fx:
            self.generator.set_state(key)
        if self.numpy:
            np.random.seed(seeds)
        if self.python:
            random.seed(seeds.tobytes())


class ThreadRandom:
    """The random numbers of a worker thread: fx's alone, the others belong to all threads."""

    def __init__(self, info: Any) -> None:
        self.info = info
        self.generator: Generator = info.generator

    def start(self, key: Tensor) -> None:
        """Seed fx."""
        self.enter(key)

    def started(self) -> None:
        """``worker_init_fn`` has run."""

    def enter(self, key: Tensor) -> None:
        """A batch begins."""
        seeds = _mixed(key)
        self.info.reseed(int(seeds[0]) | int(seeds[1]) << 32)
        self.generator.set_state(key)


def batch_key(base: Tensor, number: int) -> Tensor:
    """The key of a batch, from that of all batches."""
    return fold_in(base, number)
