"""Several collectives at once: a block of them, and those of lists of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from fx.config import modes
from fx.distributed.collectives import all_reduce, called, engine, gathering, spec_of, values_of
from fx.distributed.filling import fits, into
from fx.distributed.groups import world
from fx.distributed.reductions import ReduceOp
from fx.distributed.work import Work
from fx.errors import ShapeError
from fx.ops.shapes.joining import concat


class Coalesced:
    """A block whose collectives are under way together; ``wait`` for all of them.

    Example:
        >>> import fx, fx.distributed as dist
        >>> dist.init_process_group("fake", rank=0, world_size=2)
        >>> x = [fx.nn.Buffer(fx.ones(2)), fx.nn.Buffer(fx.ones(3))]
        >>> with dist.Coalesced() as together:
        ...     for each in x:
        ...         work = dist.all_reduce(each)
        >>> dist.destroy_process_group()
    """

    def __init__(self, group: Any = None, device: Any = None, async_ops: bool = False) -> None:
        self._later = async_ops
        self.works: list[Work] = []

    def __enter__(self) -> Coalesced:
        gathering.append(self.works)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        gathering.remove(self.works)
        if kind is None and not self._later:
            self.wait()

    def append(self, work: Work) -> None:
        """Wait for this one too."""
        self.works.append(work)

    def wait(self) -> None:
        """Wait for all."""
        for work in self.works:
            work.wait()


def all_reduce_coalesced(
    tensors: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """``all_reduce`` of each of a list, under way together; the results, or a ``Coalesced``."""
    with Coalesced(group, async_ops=True) as together:
        works = [all_reduce(x, op, group, async_op=True) for x in tensors]
    return together if async_op else [work.value() for work in works]


def all_gather_coalesced(
    output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Any:
    """``all_gather`` of each of a list, in one message: for each rank the list of its tensors.

    Args:
        output_tensor_lists: for each rank a list of as many tensors as ``input_tensor_list`` has,
            of the same shapes.
        input_tensor_list: tensors of one dtype and any shapes.
        group: the ranks; None: all.
        async_op: give a ``Work`` at once.

    Raises:
        ShapeError, DTypeError: if lists or tensors do not fit.

    Example:
        >>> import fx, fx.distributed as dist
        >>> dist.init_process_group("fake", rank=0, world_size=2)
        >>> rooms = [[fx.zeros(1), fx.zeros(2)] for _ in range(2)]
        >>> [
        ...     [x.tolist() for x in row]
        ...     for row in dist.all_gather_coalesced(rooms, [fx.ones(1), fx.ones(2)])
        ... ]
        [[[1.0], [1.0, 1.0]], [[1.0], [1.0, 1.0]]]
        >>> dist.destroy_process_group()
    """
    what = "all_gather_coalesced"
    g, xs = world(group), values_of(input_tensor_list, what)
    if not xs or len(output_tensor_lists) != g.size():
        raise ShapeError(
            f"{what}: {len(output_tensor_lists)} lists for {len(xs)} tensors, and the group has "
            f"{g.size()} ranks: give a list for each rank, and a tensor or more"
        )
    for row in output_tensor_lists:
        rooms = values_of(row, what)
        if len(rooms) != len(xs):
            raise ShapeError(f"{what}: a list of {len(rooms)} tensors for {len(xs)} of each rank")
        for room, x in zip(rooms, xs):
            fits(x, x.shape, xs[0].dtype, what)
            fits(room, x.shape, x.dtype, what)
    flat = [x.reshape((-1,)) for x in xs]
    joined = np.concatenate(flat) if modes.stage is None else concat(flat)
    ends = np.cumsum([x.size for x in xs])
    fills = [into(row, what) for row in output_tensor_lists]

    def fill(rows: Any) -> list[Any]:
        cut = lambda row: [row[e - x.size : e].reshape(x.shape) for e, x in zip(ends, xs)]
        return [of_rank(cut(row)) for of_rank, row in zip(fills, rows)]

    key = (what, *map(spec_of, xs))
    return called(g, joined, key, engine().gather_all(g, joined), fill, async_op)
