"""Collation: a list of samples becomes one batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import fx.prims.shape as shape_prims
from fx.dtypes import float64, int64
from fx.errors import ShapeError
from fx.ops.convert import as_tensor
from fx.state import Cell
from fx.tensor import Tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """Stack samples along a new first axis, inside whatever containers they come in.

    Args:
        batch: samples of one structure: tensors and arrays (stacked), Python numbers (float64 or
            int64 tensors), strings (a list), mappings, named tuples, sequences (lists of batches).

    Raises:
        ShapeError: if tensors differ in shape, or sequences in length.
        TypeError: for samples of another type.

    Source: ``torch.utils.data.default_collate``.

    Example:
        >>> import fx
        >>> fx.data.default_collate([{"x": fx.ones(2), "y": 0}, {"x": fx.zeros(2), "y": 1}])
        {'x': tensor([[1., 1.],
                [0., 0.]]), 'y': tensor([0, 1])}
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return _stacked(batch)
    if isinstance(first, np.ndarray | np.generic):
        return _stacked([as_tensor(x) for x in batch])
    if isinstance(first, bool):
        return as_tensor(list(batch))
    if isinstance(first, float):
        return as_tensor(list(batch), dtype=float64)
    if isinstance(first, int):
        return as_tensor(list(batch), dtype=int64)
    if isinstance(first, str | bytes):
        return list(batch)
    if isinstance(first, Mapping):
        collated = {key: default_collate([sample[key] for sample in batch]) for key in first}
        return _same_mapping(first, collated)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*map(default_collate, _columns(batch)))
    if isinstance(first, Sequence):
        return [default_collate(column) for column in _columns(batch)]
    raise TypeError(
        f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {type(first)}; give the DataLoader a collate_fn"
    )


def default_convert(sample: Any) -> Any:
    """NumPy arrays as tensors, inside whatever containers they come in; all else as it is.

    Source: ``torch.utils.data.default_convert``.

    Example:
        >>> import fx
        >>> fx.data.default_convert((1, "a"))
        [1, 'a']
    """
    if isinstance(sample, np.ndarray | np.generic) and sample.dtype.kind not in "USO":
        return as_tensor(sample)
    if isinstance(sample, Mapping):
        converted = {key: default_convert(value) for key, value in sample.items()}
        return _same_mapping(sample, converted)
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return type(sample)(*map(default_convert, sample))
    if isinstance(sample, Sequence) and not isinstance(sample, str | bytes):
        return [default_convert(value) for value in sample]
    return sample


def _same_mapping(like: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    try:
        return type(like)(values)
    except TypeError:  # a mapping that is not made from a mapping
        return values


def _stacked(samples: Sequence[Tensor]) -> Tensor:
    shapes = {x.shape for x in samples}
    if len(shapes) > 1:
        raise ShapeError(
            f"default_collate: the samples of a batch must have one shape, got "
            f"{', '.join(map(str, sorted(shapes)))}; pad them, or give the DataLoader a collate_fn"
        )
    rows = [shape_prims.reshape(x, shape=(1, *x.shape)) for x in samples]
    if len(rows) == 1:
        return rows[0].read() if isinstance(rows[0], Cell) else rows[0]
    return shape_prims.concatenate(*rows, axis=0)


def _columns(batch: Sequence[Any]) -> list[Any]:
    sizes = {len(sample) for sample in batch}
    if len(sizes) > 1:
        raise ShapeError(
            f"default_collate: each element in list of batch should be of equal size, got "
            f"{sorted(sizes)}"
        )
    return list(zip(*batch, strict=True))
