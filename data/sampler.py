"""Samplers: in which order a loader visits the samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from fx.ops.convert import as_tensor
from fx.random import Generator, choice, next_key, permutation, randint


class Sampler:
    """An iterable of indices: a subclass gives ``__iter__()``, and ``__len__()`` where known."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__(self)")


class SequentialSampler(Sampler):
    """Every index once, in order.

    Example:
        >>> import fx
        >>> list(fx.data.SequentialSampler(range(3)))
        [0, 1, 2]
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Every index once, in a random order that is new in each iteration.

    Args:
        data_source: what has a length.
        replacement: draw each index from all instead.
        num_samples: how many indices; the size of ``data_source`` unless told.
        generator: of the random numbers; None is the current one.

    Raises:
        ValueError: if ``num_samples`` is not positive.

    Example:
        >>> import fx
        >>> sorted(fx.data.RandomSampler(range(3)))
        [0, 1, 2]
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if num_samples is not None and num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer, but got {num_samples}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator

    @property
    def num_samples(self) -> int:
        """How many indices one iteration gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, wanted = len(self.data_source), self.num_samples
        if not n:
            return
        if self.replacement:
            yield from randint(next_key(self.generator, "cpu"), (wanted,), 0, n).tolist()
            return
        while wanted > 0:
            yield from permutation(next_key(self.generator, "cpu"), n).tolist()[:wanted]
            wanted -= n

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Given indices, each once, in a random order.

    Example:
        >>> import fx
        >>> sorted(fx.data.SubsetRandomSampler([4, 2]))
        [2, 4]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        order = permutation(next_key(self.generator, "cpu"), len(self.indices)).tolist()
        return iter([self.indices[i] for i in order])

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Indices drawn with probabilities in proportion to weights.

    Args:
        weights: one an index, none negative.
        num_samples: how many to draw.
        replacement: whether an index may come again.
        generator: of the random numbers; None is the current one.

    Raises:
        ValueError: if ``num_samples`` is not positive.

    Example:
        >>> import fx
        >>> list(fx.data.WeightedRandomSampler([0.0, 1.0], num_samples=3))
        [1, 1, 1]
    """

    def __init__(
        self,
        weights: Any,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if num_samples <= 0:
            raise ValueError(f"num_samples should be a positive integer, but got {num_samples}")
        self.weights = as_tensor(weights, dtype="float64")
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        key = next_key(self.generator, "cpu")
        p = self.weights / self.weights.sum()
        drawn = choice(key, self.weights.shape[0], (self.num_samples,), self.replacement, p)
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """The indices of another sampler, a list of ``batch_size`` of them at a time.

    Args:
        sampler: an iterable of indices.
        batch_size: how many make a batch.
        drop_last: whether a last batch that is smaller is left out.

    Raises:
        ValueError: if ``batch_size`` is not a positive integer.

    Example:
        >>> import fx
        >>> list(fx.data.BatchSampler(range(5), batch_size=2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
