"""Collation: a list of samples becomes one batch."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

import fx.prims.shape as shape_prims
from fx import dtypes
from fx.data.errors import CollateError
from fx.ops.convert import as_tensor
from fx.state import Cell
from fx.tensor import Tensor, new_tensor

Rule = Callable[..., Any]
Rules = Mapping[Any, Rule]


class _Memory(threading.local):
    """Where the arrays of a batch are made: a worker process gives its shared memory."""

    allocate: Callable[[tuple[int, ...], Any], np.ndarray | None] | None = None


memory = _Memory()


def output(shape: tuple[int, ...], dtype: Any) -> np.ndarray | None:
    """Where an array of the batch is to be written; None for wherever NumPy likes."""
    return None if memory.allocate is None else memory.allocate(shape, dtype)


_FOUND = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
    "found {}; give the DataLoader a collate_fn"
)


def collate(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Any:
    """Collate samples with a rule for each type of leaf, inside the containers they come in.

    Args:
        batch: samples of one structure.
        collate_fn_map: for a type, or a tuple of types, the function that collates its values:
            it is called as ``rule(values, collate_fn_map=collate_fn_map)``. The exact type is
            looked up first, then the first entry that the value is an instance of.

    Raises:
        CollateError: if sequences differ in length.
        TypeError: for samples of another type.

    Source: ``torch.utils.data._utils.collate.collate``.

    Example:
        >>> from fx.data._utils.collate import collate
        >>> collate(
        ...     [(1, "a"), (2, "b")],
        ...     collate_fn_map={
        ...         int: lambda x, collate_fn_map: sum(x),
        ...         str: lambda x, collate_fn_map: "".join(x),
        ...     },
        ... )
        [3, 'ab']
    """
    first = batch[0]
    kind = type(first)
    if collate_fn_map is not None:
        rule = collate_fn_map.get(kind)
        if rule is None:
            rule = next((r for t, r in collate_fn_map.items() if isinstance(first, t)), None)
        if rule is not None:
            return rule(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        columns = {
            key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map)
            for key in first
        }
        return _mapping_like(first, columns)
    if isinstance(first, Sequence):
        parts = [collate(column, collate_fn_map=collate_fn_map) for column in _columns(batch)]
        if isinstance(first, tuple):
            return kind(*parts) if hasattr(first, "_fields") else parts
        return _sequence_like(first, parts)
    raise TypeError(_FOUND.format(kind))


def default_collate(batch: Sequence[Any]) -> Any:
    """Stack samples along a new first axis, inside whatever containers they come in.

    Args:
        batch: samples of one structure: tensors and arrays (stacked), Python numbers (float64 or
            int64 tensors), strings (as they are), mappings, named tuples, sequences (sequences of
            batches).

    Raises:
        CollateError: if tensors differ in shape, or sequences in length.
        TypeError: for samples of another type.

    Source: ``torch.utils.data.default_collate``.

    Example:
        >>> import fx
        >>> fx.data.default_collate([{"x": fx.ones(2), "y": 0}, {"x": fx.zeros(2), "y": 1}])
        {'x': tensor([[1., 1.],
                [0., 0.]]), 'y': tensor([0, 1])}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def default_convert(data: Any) -> Any:
    """NumPy arrays as tensors, inside whatever containers they come in; all else as it is.

    Source: ``torch.utils.data.default_convert``.

    Example:
        >>> import fx
        >>> fx.data.default_convert((1, "a"))
        [1, 'a']
    """
    if isinstance(data, np.ndarray | np.generic):
        return data if data.dtype.kind in "USO" else as_tensor(data)
    if isinstance(data, Mapping):
        return _mapping_like(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple):
        parts = [default_convert(value) for value in data]
        return type(data)(*parts) if hasattr(data, "_fields") else parts
    if isinstance(data, Sequence) and not isinstance(data, str | bytes):
        return _sequence_like(data, [default_convert(value) for value in data])
    return data


# containers -------------------------------------------------------------------------------------


def _mapping_like(like: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    if type(like) is dict:
        return values
    try:
        if isinstance(like, MutableMapping):
            filled = copy.copy(like)  # a defaultdict keeps its factory
            filled.update(values)
            return filled
        return type(like)(values)  # type: ignore[call-arg]
    except TypeError:  # a mapping that can be neither copied nor made from a mapping
        return values


def _sequence_like(like: Sequence[Any], values: list[Any]) -> Any:
    if type(like) is list:
        return values
    try:
        if isinstance(like, MutableSequence):
            filled = copy.copy(like)
            for i, value in enumerate(values):
                filled[i] = value
            return filled
        return type(like)(values)  # type: ignore[call-arg]
    except TypeError:  # a range, an array of numbers
        return values


def _columns(batch: Sequence[Any]) -> list[Any]:
    sizes = {len(sample) for sample in batch}
    if len(sizes) > 1:
        raise CollateError(
            f"default_collate: each element in list of batch should be of equal size, got "
            f"{sorted(sizes)}"
        )
    return list(zip(*batch))


# leaves -----------------------------------------------------------------------------------------


def collate_tensor_fn(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Tensor:
    """Tensors of one shape, stacked."""
    arrays = [x._a for x in batch if type(x) is Tensor and x._node is None]
    if len(arrays) == len(batch) and all(type(a) is np.ndarray for a in arrays):
        return new_tensor(_stack(arrays))
    rows = [shape_prims.reshape(x, shape=(1, *x.shape)) for x in _of_one_shape(batch)]
    if len(rows) == 1:
        return rows[0].read() if isinstance(rows[0], Cell) else rows[0]
    return shape_prims.concatenate(*rows, axis=0)


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Tensor:
    """Arrays of one shape, stacked; one of strings or objects is refused."""
    dtype = batch[0].dtype
    if dtype.kind in "USO":
        raise TypeError(_FOUND.format(dtype))
    if all(a.dtype == dtype for a in batch) and dtypes.as_dtype(dtype) == dtype:
        return new_tensor(_stack(batch))
    return collate_tensor_fn([as_tensor(x) for x in batch])


def collate_numpy_scalar_fn(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Tensor:
    """NumPy scalars, in their dtype."""
    return as_tensor(np.asarray(batch))


def collate_float_fn(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Tensor:
    """Python floats, as float64."""
    return as_tensor(np.array(batch, np.float64))


def collate_int_fn(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Tensor:
    """Python ints and bools, as int64 and bool."""
    array = np.array(batch)
    if array.dtype in (np.int64, np.bool_):
        return as_tensor(array)
    return as_tensor(list(batch))  # numbers that int64 cannot hold, or of several types


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: Rules | None = None) -> Any:
    """Strings, as they are."""
    return batch


default_collate_fn_map: dict[Any, Rule] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def _stack(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays one after the other, each written once, in the worker's shared memory if there is."""
    first = arrays[0]
    for a in arrays:
        if a.shape != first.shape or a.dtype != first.dtype:
            _of_one_shape(arrays)
            return np.stack(arrays)  # of several dtypes
    out = output((len(arrays), *first.shape), first.dtype)
    if out is None:
        out = np.empty((len(arrays), *first.shape), first.dtype)
    if not first.ndim:
        return np.stack(arrays, out=out)  # type: ignore[no-any-return]
    joined = out.reshape(len(arrays) * first.shape[0], *first.shape[1:])
    np.concatenate(arrays, out=joined)  # half the time of np.stack, which makes a view of each
    return out


def _of_one_shape(samples: Sequence[Any]) -> Sequence[Any]:
    shapes = {x.shape for x in samples}
    if len(shapes) > 1:
        raise CollateError(
            f"default_collate: the samples of a batch must have one shape, got "
            f"{', '.join(map(str, sorted(shapes)))}; pad them, or give the DataLoader a collate_fn"
        )
    return samples
