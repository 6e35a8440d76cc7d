"""Samplers: in which order a loader visits the samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

from fx.errors import ShapeError
from fx.ops.convert import as_tensor
from fx.random import Generator, choice, fold_in, next_key, permutation, randint

T = TypeVar("T", covariant=True)


class Sampler(Generic[T]):
    """An iterable of indices: a subclass gives ``__iter__()``, and ``__len__()`` where known.

    Within a loader the current generator (``fx.randperm(n)``) is one of the epoch's own: what a
    sampler draws from it follows from the loader's generator, and is drawn again when the loader
    resumes. A sampler with ``state_dict()`` and ``load_state_dict(state)`` is asked for its state
    after each batch instead, and must go on from a loaded state in its next iteration.

    Example:
        >>> import fx
        >>> class Backwards(fx.data.Sampler):
        ...     def __init__(self, data_source):
        ...         self.data_source = data_source
        ...
        ...     def __iter__(self):
        ...         return iter(range(len(self.data_source) - 1, -1, -1))
        >>> list(fx.data.DataLoader(range(3), sampler=Backwards(range(3)), batch_size=None))
        [2, 1, 0]
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__(self)")


def _positive(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


_MANY = 1 << 16  # indices that are drawn at once, with replacement


class SequentialSampler(Sampler[int]):
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


class RandomSampler(Sampler[int]):
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
        if not isinstance(replacement, bool):
            raise TypeError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        if num_samples is not None:
            _positive("num_samples", num_samples)
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator

    @property
    def num_samples(self) -> int:
        """How many indices one iteration gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        # the keys of one iteration follow from one draw, made when it begins
        return self._drawn(next_key(self.generator, "cpu"))

    def _drawn(self, key: Any) -> Iterator[int]:
        n, wanted, turn = len(self.data_source), self.num_samples, 0
        if not n:
            return
        while wanted > 0:
            here = fold_in(key, turn)
            if self.replacement:
                some = randint(here, (min(wanted, _MANY),), 0, n)
            else:
                some = permutation(here, n)
            yield from some.tolist()[:wanted]
            wanted -= some.shape[0]
            turn += 1

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
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


class WeightedRandomSampler(Sampler[int]):
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
        _positive("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        self.weights = as_tensor(weights, dtype="float64")
        if self.weights.ndim != 1:
            raise ShapeError(
                f"weights should be a 1d sequence but given weights have shape {self.weights.shape}"
            )
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


class BatchSampler(Sampler[list[int]]):
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
        _positive("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        if not (hasattr(sampler, "__iter__") or hasattr(sampler, "__getitem__")):
            raise TypeError(
                f"BatchSampler: sampler must be a Sampler or another iterable of indices, got "
                f"{type(sampler).__name__}; write SequentialSampler(dataset)"
            )
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
