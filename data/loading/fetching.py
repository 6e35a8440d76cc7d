"""Fetching: indices become a batch, in whichever process or thread it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fx.data._utils.collate import default_collate
from fx.data.loading.seeding import batch_key
from fx.tensor import Tensor


class Job:
    """What every worker of a loader must know.

    Attributes:
        dataset: the samples.
        stream: whether it is an ``IterableDataset``.
        batched: whether samples are collated, or given one by one.
        batch_size: of a stream's batches.
        drop_last: whether a stream's last batch is left out where it is smaller.
        collate_fn: makes a batch of a list of samples, or converts one.
    """

    def __init__(self, loader: Any) -> None:
        self.dataset = loader.dataset
        self.stream: bool = loader.is_stream
        self.batched: bool = loader.batch_sampler is not None
        self.batch_size: int = loader.batch_size or 1
        self.drop_last: bool = loader.drop_last
        self.collate_fn: Callable[[Any], Any] = loader.collate_fn

    def plain(self) -> Callable[[list[int]], Any] | None:
        """The dataset's own way to fetch a batch, where it has one and nothing asks for another."""
        if not self.batched or self.collate_fn is not default_collate:
            return None
        return self.dataset.batch if getattr(self.dataset, "batches", False) else None

    def fetch(self, indices: Any) -> Any:
        """The batch of some indices, or the sample of one."""
        if not self.batched:
            return self.collate_fn(self.dataset[indices])
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.collate_fn(self.dataset.__getitems__(indices))
        dataset = self.dataset
        return self.collate_fn([dataset[i] for i in indices])


class Ended(Exception):
    """A stream has no more batches."""


class Stream:
    """The batches of one iteration of a stream.

    Args:
        job: what is fetched.
        enter: seeds the random numbers with a key.
        base: the key of all batches of this stream.
        resume: where to go on: the number of batches that were seen and, where the dataset keeps a
            state, that; None begins at the beginning. That happens with the first batch.
    """

    def __init__(
        self, job: Job, enter: Callable[[Tensor], None], base: Tensor, resume: Any = None
    ) -> None:
        self.job, self._enter, self._base = job, enter, base
        self._number = 0
        self._source: Iterator[Any] | None = None
        self._ended = False
        self._resume = resume

    def _go_on(self, resume: Any) -> None:
        seen, state = resume["batches"], resume.get("dataset")
        if state is None:
            self._skip(seen)
        elif callable(getattr(self.job.dataset, "load_state_dict", None)):
            self.job.dataset.load_state_dict(state)
            self._number = seen
        else:
            raise TypeError(
                f"{type(self.job.dataset).__name__} gave a state_dict(), so it must have "
                f"load_state_dict(state) to go on from it"
            )

    def _skip(self, batches: int) -> None:
        """Read past what was seen, with the random numbers that were drawn then."""
        for _ in range(batches):
            self._enter_next()
            if not self._samples():
                return

    def _enter_next(self) -> None:
        self._enter(batch_key(self._base, self._number))
        self._number += 1
        if self._source is None:
            self._source = iter(self.job.dataset)

    def _samples(self) -> list[Any]:
        """The samples of a batch; fewer at the end."""
        source: Any = self._source
        samples = []
        for sample in source:
            samples.append(sample)
            if len(samples) == self.job.batch_size:
                break
        return samples

    def next(self) -> Any:
        """The next batch.

        Raises:
            Ended: if there is none.
        """
        if self._ended:
            raise Ended
        if self._resume is not None:
            resume, self._resume = self._resume, None
            self._go_on(resume)
        self._enter_next()
        samples = self._samples()
        self._ended = len(samples) < self.job.batch_size
        if not samples or (self.job.drop_last and self._ended):
            raise Ended
        return self.job.collate_fn(samples if self.job.batched else samples[0])

    def state(self) -> Any:
        """Where the dataset stands, if it says so."""
        ask = getattr(self.job.dataset, "state_dict", None)
        return ask() if callable(ask) else None
