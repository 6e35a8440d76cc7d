"""Where the rows of a packed batch lie in the padded one, and the other way round."""

from __future__ import annotations

from functools import lru_cache

from numpy import frombuffer, ndarray

import fx.prims.compare as compare
import fx.prims.creation as creation
import fx.prims.indexing as indexing
from fx.config import modes
from fx.devices import Device
from fx.dtypes import int64
from fx.ops.indexing.searching import searchsorted
from fx.ops.operands import argument, cast
from fx.ops.reductions.cumulative import cumsum
from fx.prims.shape import broadcast_to, reshape
from fx.tensor import Tensor, new_tensor


class Layout:
    """Where the rows of a packed batch lie in the padded one, and the other way round.

    Args:
        batch_sizes: (time,) int64.
        rows: how many rows there are.
        device: where the indices are wanted.

    Attributes:
        places: (time, batch) int64, the packed row; 0 where there is none.
        keep: (time, batch) bool, whether there is one.
        back: (rows,) int64, the place of each row in (time * batch).
    """

    def __init__(self, batch_sizes: Tensor, rows: int, device: Device) -> None:
        sizes = cast(argument("batch_sizes", batch_sizes), int64)
        self.time, self.batch = sizes.shape[0], int(sizes[0])
        if sizes.device != device:
            sizes = sizes.to(device)
        ends = cumsum(sizes, axis=0)  # (time,)
        starts = ends - sizes
        column = count(self.batch, device)
        self.keep = _spread(column, self) < _spread(reshape(sizes, shape=(self.time, 1)), self)
        found = _spread(reshape(starts, shape=(self.time, 1)), self) + _spread(column, self)
        self.places = compare.where(self.keep, found, creation.constant_like(0, found))
        row = count(rows, device)
        step = searchsorted(ends, row, side="right")
        self.back = step * self.batch + row - indexing.take(starts, step, axis=0)

    def padded(self, data: Tensor) -> Tensor:
        """(rows, ...) to (time, batch, ...); anything where there is no row."""
        return indexing.take(data, self.places, axis=0)

    def packed(self, x: Tensor) -> Tensor:
        """(time, batch, ...) to (rows, ...)."""
        flat = reshape(x, shape=(self.time * self.batch, *x.shape[2:]))
        return indexing.take(flat, self.back, axis=0)


def layout_of(batch_sizes: Tensor, rows: int, device: Device) -> Layout:
    """The layout of these sizes: of a batch one, though it is packed, run through and padded."""
    known = type(batch_sizes) is Tensor and type(batch_sizes._a) is ndarray and modes.stage is None
    if known and batch_sizes._a.dtype is int64:
        return _kept(batch_sizes._a.tobytes(), rows, device.name)
    return Layout(batch_sizes, rows, device)


@lru_cache(maxsize=16)
def _kept(batch_sizes: bytes, rows: int, device: str) -> Layout:
    return Layout(new_tensor(frombuffer(batch_sizes, int64)), rows, Device(device))


def count(size: int, device: Device) -> Tensor:
    """0, 1, … (size,), int64."""
    return creation.iota(shape=(size,), axis=0, start=0, step=1, dtype=int64, device=device.name)


def _spread(x: Tensor, layout: Layout) -> Tensor:
    return broadcast_to(x, shape=(layout.time, layout.batch))
