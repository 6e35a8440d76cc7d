"""Datasets: what a loader reads its samples from."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import fx.prims.indexing as indexing
from fx.errors import ShapeError
from fx.ops.convert import as_tensor
from fx.random import Generator, next_key, permutation
from fx.tensor import Tensor


class Dataset:
    """Samples by index: a subclass gives ``__getitem__(index)`` and ``__len__()``.

    Example:
        >>> import fx
        >>> class Squares(fx.data.Dataset):
        ...     def __getitem__(self, index):
        ...         return index * index
        ...
        ...     def __len__(self):
        ...         return 10
        >>> next(iter(fx.data.DataLoader(Squares(), batch_size=4)))
        tensor([0, 1, 4, 9])
    """

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__(self, index)")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Samples in a stream: a subclass gives ``__iter__()``."""

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__(self)")


class TensorDataset(Dataset):
    """Samples that are the rows of tensors.

    A loader fetches a batch of them with one ``take`` a tensor instead of stacking single samples.

    Args:
        *tensors: of one first size.

    Raises:
        ShapeError: if the first sizes differ.

    Example:
        >>> import fx
        >>> data = fx.data.TensorDataset(fx.tensor([[1.0], [2.0]]), fx.tensor([0, 1]))
        >>> data[1]
        (tensor([2.]), tensor(1))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Any) -> None:
        if not tensors:
            raise ShapeError("TensorDataset takes at least one tensor")
        self.tensors = tuple([as_tensor(t) for t in tensors])
        if any(t.shape[:1] != self.tensors[0].shape[:1] or not t.ndim for t in self.tensors):
            shapes = ", ".join(str(t.shape) for t in self.tensors)
            raise ShapeError(f"TensorDataset: size mismatch between tensors of shapes {shapes}")

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([t[index] for t in self.tensors])

    def __len__(self) -> int:
        return self.tensors[0].shape[0]

    @property
    def batches(self) -> bool:
        """Whether ``batch`` gives what collating single samples would."""
        return type(self).__getitem__ is TensorDataset.__getitem__

    def batch(self, indices: Sequence[int]) -> list[Tensor]:
        """The samples of ``indices``, collated."""
        idx = as_tensor(list(indices), dtype="int64")
        return [indexing.take(t, idx, axis=0) for t in self.tensors]


class Subset(Dataset):
    """Some samples of a dataset.

    Args:
        dataset: where they are.
        indices: which they are.

    Example:
        >>> import fx
        >>> fx.data.Subset(range(10), [2, 4])[1]
        4
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def batches(self) -> bool:
        """Whether the dataset fetches batches by itself."""
        own = type(self).__getitem__ is Subset.__getitem__
        return own and getattr(self.dataset, "batches", False)

    def batch(self, indices: Sequence[int]) -> list[Tensor]:
        """The samples of ``indices``, collated."""
        return self.dataset.batch([self.indices[i] for i in indices])


class ConcatDataset(Dataset):
    """The samples of several datasets, one after the other.

    Raises:
        ValueError: if there is no dataset.

    Example:
        >>> import fx
        >>> fx.data.ConcatDataset([range(3), range(5)])[4]
        1
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("datasets should not be an empty iterable")
        self.cumulative_sizes = list(accumulate(len(d) for d in self.datasets))

    def __getitem__(self, index: int) -> Any:
        size = len(self)
        if not -size <= index < size:
            raise IndexError(f"index {index} is out of range for {size} samples")
        index %= size
        i = bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[i - 1] if i else 0
        return self.datasets[i][index - before]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset]:
    """Cut a dataset at random into parts that do not overlap.

    Args:
        dataset: what to cut.
        lengths: how many samples each part gets, or fractions that add up to 1; what rounding
            leaves over goes to the first parts, one each.
        generator: of the random numbers; None is the current one.

    Raises:
        ValueError: if the lengths do not add up to the size of the dataset.

    Example:
        >>> import fx
        >>> parts = fx.data.random_split(range(10), [0.75, 0.25])
        >>> [len(part) for part in parts]
        [8, 2]
    """
    n = len(dataset)
    sizes = list(lengths)
    if math.isclose(sum(sizes), 1):
        if any(not 0 <= s <= 1 for s in sizes):
            raise ValueError(f"random_split: fractions must lie in [0, 1], got {sizes}")
        sizes = [math.floor(n * s) for s in sizes]
        for i in range(n - sum(sizes)):
            sizes[i % len(sizes)] += 1
    if sum(sizes) != n:
        raise ValueError(
            f"random_split: the lengths {list(lengths)} must add up to {n}, the size of the "
            f"dataset, or to 1 if they are fractions"
        )
    order = permutation(next_key(generator, "cpu"), n).tolist()
    ends = list(accumulate(int(s) for s in sizes))
    return [
        Subset(dataset, order[end - int(size) : end]) for end, size in zip(ends, sizes, strict=True)
    ]
