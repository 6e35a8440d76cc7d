"""Datasets: what a loader reads its samples from."""

from __future__ import annotations

import math
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

import numpy as np

import fx.prims.indexing as indexing
from fx.data._utils.collate import output
from fx.data.errors import DatasetError
from fx.ops.convert import as_tensor
from fx.random import Generator, next_key, permutation
from fx.tensor import Tensor, new_tensor

T = TypeVar("T", covariant=True)


class Dataset(Generic[T]):
    """Samples by index: a subclass gives ``__getitem__(index)`` and ``__len__()``.

    A loader asks for the samples of a batch at once where a subclass has
    ``__getitems__(indices)``, which gives a list of samples.

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

    def __add__(self, other: Dataset[Any]) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T]):
    """Samples in a stream: a subclass gives ``__iter__()``.

    Each worker of a loader iterates a copy of its own; ``get_worker_info()`` says which part is
    its. With ``state_dict()`` and ``load_state_dict(state)`` a subclass says where it stands, and a
    loader that resumes in the middle of an epoch goes on from there; without them it reads past the
    samples that were seen.

    Example:
        >>> import fx
        >>> class Count(fx.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(5))
        >>> list(fx.data.DataLoader(Count(), batch_size=2))
        [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__(self)")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples that are the rows of tensors.

    A loader fetches a batch of them with one ``take`` a tensor instead of stacking single samples.

    Args:
        *tensors: of one first size.

    Raises:
        DatasetError: if the first sizes differ.

    Example:
        >>> import fx
        >>> data = fx.data.TensorDataset(fx.tensor([[1.0], [2.0]]), fx.tensor([0, 1]))
        >>> data[1]
        (tensor([2.]), tensor(1))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Any) -> None:
        if not tensors:
            raise DatasetError("TensorDataset takes at least one tensor")
        self.tensors = tuple([as_tensor(t) for t in tensors])
        if any(t.shape[:1] != self.tensors[0].shape[:1] or not t.ndim for t in self.tensors):
            shapes = ", ".join(str(t.shape) for t in self.tensors)
            raise DatasetError(f"TensorDataset: size mismatch between tensors of shapes {shapes}")

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
        idx = np.asarray(indices, dtype=np.int64)
        return [_rows(t, idx) for t in self.tensors]


def _rows(x: Tensor, indices: np.ndarray) -> Tensor:
    """Rows of ``x`` in new memory, a worker's shared memory where one asks for the batch."""
    if type(x) is Tensor and type(x._a) is np.ndarray and x._node is None:
        array = x._a
        out = output((len(indices), *array.shape[1:]), array.dtype)
        size = len(array)
        if len(indices) and not (-size <= indices.min() and indices.max() < size):
            raise IndexError(
                f"TensorDataset: indices from {indices.min()} to {indices.max()} for {size} samples"
            )
        # the mode lets NumPy write into `out` directly; the indices are known to fit
        return new_tensor(np.take(array, indices, axis=0, out=out, mode="wrap"))
    return indexing.take(x, as_tensor(indices), axis=0)


class StackDataset(Dataset[Any]):
    """Samples put together from several datasets of one length: tuples, or dicts for keywords.

    Args:
        *args: datasets whose samples make a tuple.
        **kwargs: datasets whose samples make a dict; instead of ``args``.

    Raises:
        ValueError: for no dataset, both kinds, or different lengths.

    Example:
        >>> import fx
        >>> fx.data.StackDataset(image=range(3), text="abc")[1]
        {'image': 1, 'text': 'b'}
    """

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args and kwargs:
            raise ValueError(
                "StackDataset: Supported either tuple- (via args) or dict- (via kwargs) like "
                f"input/output, but got {len(args)} positional and {len(kwargs)} keyword datasets"
            )
        if not args and not kwargs:
            raise ValueError("StackDataset: At least one dataset should be passed")
        parts = args or tuple(kwargs.values())
        self._length = len(parts[0])
        if any(len(part) != self._length for part in parts):
            raise ValueError(f"StackDataset: Size mismatch between datasets: {[*map(len, parts)]}")
        self.datasets = args or kwargs

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: part[index] for name, part in self.datasets.items()}
        return tuple([part[index] for part in self.datasets])

    def __getitems__(self, indices: list[int]) -> list[Any]:
        if isinstance(self.datasets, dict):
            columns = [_items(part, indices) for part in self.datasets.values()]
            return [dict(zip(self.datasets, row)) for row in zip(*columns)]
        return list(zip(*[_items(part, indices) for part in self.datasets]))

    def __len__(self) -> int:
        return self._length


def _items(dataset: Any, indices: list[int]) -> list[Any]:
    """The samples of ``indices``, asked for at once where the dataset can."""
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[i] for i in indices]
    items: list[Any] = dataset.__getitems__(indices)
    if len(items) != len(indices):
        raise ValueError(
            f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(items)}"
        )
    return items


class Subset(Dataset[T]):
    """Some samples of a dataset.

    Args:
        dataset: where they are.
        indices: which they are.

    Raises:
        NotImplementedError: if a subclass has a ``__getitem__`` of its own and no
            ``__getitems__``, which loaders ask first.

    Example:
        >>> import fx
        >>> fx.data.Subset(range(10), [2, 4])[1]
        4
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        own = type(self)
        if own.__getitem__ is not Subset.__getitem__ and own.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{own.__name__} overrides __getitem__ but not __getitems__; write\n"
                "    def __getitems__(self, indices):\n"
                "        return [self.__getitem__(index) for index in indices]"
            )
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        return _items(self.dataset, [self.indices[i] for i in indices])

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def batches(self) -> bool:
        """Whether the dataset fetches batches by itself."""
        own = type(self).__getitem__ is Subset.__getitem__
        return own and getattr(self.dataset, "batches", False)

    def batch(self, indices: Sequence[int]) -> list[Tensor]:
        """The samples of ``indices``, collated."""
        return self.dataset.batch([self.indices[i] for i in indices])  # type: ignore[no-any-return]


class ConcatDataset(Dataset[T]):
    """The samples of several datasets, one after the other.

    Raises:
        DatasetError: if there is no dataset, or one that is a stream.

    Example:
        >>> import fx
        >>> fx.data.ConcatDataset([range(3), range(5)])[4]
        1
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise DatasetError("datasets should not be an empty iterable")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise DatasetError(
                "ConcatDataset does not support IterableDataset; write ChainDataset(datasets)"
            )
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


class ChainDataset(IterableDataset[T]):
    """The samples of several streams, one stream after the other.

    Raises:
        DatasetError: when it comes to one that is no stream.

    Example:
        >>> import fx
        >>> class Count(fx.data.IterableDataset):
        ...     def __iter__(self):
        ...         return iter(range(2))
        >>> list(fx.data.ChainDataset([Count(), Count()]))
        [0, 1, 0, 1]
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _streams(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise DatasetError(
                    "ChainDataset only supports IterableDataset, got "
                    f"{type(dataset).__name__}; write ConcatDataset(datasets)"
                )
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._streams():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._streams())


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[Any]]:
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
    if not isinstance(lengths, Iterable):
        raise TypeError(f"random_split: lengths must be a list, got {lengths!r:.60}; write [8, 2]")
    sizes = list(lengths)
    if math.isclose(sum(sizes), 1):
        for i, fraction in enumerate(sizes):
            if not 0 <= fraction <= 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1: {sizes}")
        sizes = [math.floor(n * s) for s in sizes]
        for i in range(n - sum(sizes)):
            sizes[i % len(sizes)] += 1
        for i, size in enumerate(sizes):
            if size == 0:
                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.",
                    stacklevel=2,
                )
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
