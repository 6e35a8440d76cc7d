"""The collectives: every rank of a group calls the same one, in the same order.

Names and arguments are PyTorch's (``torch.distributed``). Each gives its result; ``filling.py``
says which tensors are filled in place as well. With ``async_op=True`` it gives a ``Work``. No
gradient flows through one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from fx.config import modes
from fx.distributed import exchange, reductions, staged
from fx.distributed.filling import Array, Place, array_of, each_of, fits, into, kept, stacked
from fx.distributed.groups import ProcessGroup, meet, world
from fx.distributed.reductions import ReduceOp
from fx.distributed.timeouts import span
from fx.distributed.work import Steps, Work
from fx.errors import ArgumentError, ShapeError
from fx.ops.shapes.joining import concat

gathering: list[list[Work]] = []  # the works of the coalescing blocks that are open


def called(
    group: ProcessGroup,
    x: Array | None,
    key: tuple[Any, ...],
    steps: Steps,
    fill: Callable[[Any], Any],
    later: bool,
    timeout: timedelta | None = None,
) -> Any:
    """Run a collective of ``x`` whose ``key`` must be the same in every rank.

    Args:
        steps: of ``exchange``; in a function that is being staged, what ``staged`` gave.
    """
    later = later or bool(gathering)
    if modes.stage is None:
        whole = exchange.checked(group, key, steps, later)
        work = Work(group, key[0], whole, fill, 0 if x is None else x.nbytes).begin()
    else:
        work = Work.complete(group, key[0], fill(steps))
    if not later:
        work.wait(timeout)
        return work.value()
    if gathering:
        gathering[-1].append(work)
    return work


def engine() -> Any:
    """What moves: by messages that are sent now, or by nodes of a function that is being staged."""
    return exchange if modes.stage is None else staged


def _value(x: Any, what: str) -> Any:
    """The array of a tensor, or what stands for it in a function that is being staged."""
    return array_of(x, what) if modes.stage is None else staged.value_of(x, what)


def values_of(listed: Any, what: str) -> list[Any]:
    return each_of(listed, what, _value)


def spec_of(x: Array) -> tuple[Any, tuple[int, ...]]:
    return x.dtype, x.shape


def _root(group: ProcessGroup, rank: int | None, within: int | None, what: str) -> int:
    """The number in the group of a rank that is given by its number in the world, or there."""
    if (rank is None) == (within is None):
        raise ArgumentError(f"{what}: give the rank by its number in the world, or in the group")
    if within is not None:
        group.global_rank(within)
        return within
    return group.group_rank(int(rank or 0))


def all_reduce(
    tensor: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """The reduction of all ranks' tensors, in each.

    Args:
        tensor: of one shape and dtype in all ranks; float16 and bfloat16 are summed in float32.
        op: how values become one.
        group: the ranks; None: all.
        async_op: give a ``Work`` at once.

    Raises:
        DistError: if ranks call something else (all sides are shown), or do not come in time.
        DTypeError: if the dtype has no such reduction.
        InPlaceError: if the result would be lost.

    Example:
        >>> import fx, fx.distributed as dist
        >>> dist.init_process_group("fake", rank=0, world_size=2)
        >>> dist.all_reduce(fx.tensor([1.0, 2.0]))
        tensor([1., 2.])
        >>> dist.destroy_process_group()
    """
    g, x = world(group), _value(tensor, "all_reduce")
    reductions.check(op, x.dtype, "all_reduce")
    place = Place(tensor, "all_reduce")
    kept([place], "all_reduce", "x = all_reduce(x)")
    key = ("all_reduce", spec_of(x), str(op))
    return called(g, x, key, engine().reduce_all(g, x, op), place.filled, async_op)


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """The reduction in rank ``dst``; the others get their own tensor back."""
    g, x = world(group), _value(tensor, "reduce")
    reductions.check(op, x.dtype, "reduce")
    root, place = _root(g, dst, group_dst, "reduce"), Place(tensor, "reduce")
    if g.rank() == root:
        kept([place], "reduce", "x = reduce(x, dst)")
    key = ("reduce", spec_of(x), str(op), f"dst={g.ranks[root]}")
    steps = engine().reduce_to(g, x, op, root)
    return called(
        g, x, key, steps, lambda out: tensor if out is None else place.filled(out), async_op
    )


def broadcast(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """The tensor of rank ``src``, in each."""
    g, x = world(group), _value(tensor, "broadcast")
    root, place = _root(g, src, group_src, "broadcast"), Place(tensor, "broadcast")
    if g.rank() != root:
        kept([place], "broadcast", "x = broadcast(x, src)")
    key = ("broadcast", spec_of(x), f"src={g.ranks[root]}")
    fill = place.filled if g.rank() != root else lambda out: tensor
    return called(g, x, key, engine().broadcast(g, x, root), fill, async_op)


def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    """The tensors of all ranks, a list, in each; ``tensor_list`` is filled.

    Args:
        tensor_list: for each rank a tensor of the shape that its ``tensor`` has; the shapes may
            differ, and every rank gives the same list of them.
        tensor: of one dtype in all ranks.
        group: the ranks; None: all.
        async_op: give a ``Work`` at once.
    """
    what = "all_gather"
    g, x = world(group), _value(tensor, what)
    outs, fill = _listed(tensor_list, g, x, what), into(tensor_list, what)
    if _alike(outs):
        fits(outs[0], x.shape, x.dtype, what)
        return called(g, x, (what, spec_of(x)), engine().gather_all(g, x), fill, async_op)
    steps = engine().all_to_all_ragged(g, [x] * g.size(), [_room(out) for out in outs])
    return called(g, x, _ragged(what, outs, g, x), steps, fill, async_op)


def _alike(arrays: Sequence[Any]) -> bool:
    return all(a.shape == arrays[0].shape for a in arrays)


def _ragged(what: str, listed: Sequence[Any], group: ProcessGroup, mine: Any) -> tuple[Any, ...]:
    """The key of a list with a shape for each rank; a rank with another one has another key."""
    wrong = mine.shape != listed[group.rank()].shape
    return what, *map(spec_of, listed), *([f"this rank has {list(mine.shape)}"] if wrong else [])


def _listed(listed: Any, group: ProcessGroup, x: Array, what: str) -> list[Any]:
    """The tensors of a list, of which there is one for each rank, of the dtype of ``x``."""
    arrays = values_of(listed, what)
    if len(arrays) != group.size():
        raise ShapeError(
            f"{what}: a list of {len(arrays)} tensors, and the group has {group.size()} ranks"
        )
    for a in arrays:
        fits(a, a.shape, x.dtype, what)
    return arrays


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Any:
    """The tensors of all ranks in a row, or along a new first axis, as ``output_tensor`` is."""
    what = "all_gather_into_tensor"
    g, x = world(group), _value(input_tensor, what)
    out = _value(output_tensor, what)
    if out.size != x.size * g.size():
        raise ShapeError(
            f"{what}: output has shape {out.shape}, and {g.size()} inputs of shape {x.shape} have "
            f"{x.size * g.size()} elements"
        )
    fits(out, out.shape, x.dtype, what)
    place = Place(output_tensor, what)
    kept([place], what, f"out = {what}(out, x)")
    fill = lambda a: place.filled(a.reshape(out.shape))
    return called(g, x, (what, spec_of(x)), engine().gather_all(g, x), fill, async_op)


def gather(
    tensor: Any,
    gather_list: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """The tensors of all ranks in rank ``dst``, whose ``gather_list`` is filled; None elsewhere."""
    g, x = world(group), _value(tensor, "gather")
    root = _root(g, 0 if dst is None and group_dst is None else dst, group_dst, "gather")
    if g.rank() == root:
        if gather_list is None:
            raise ArgumentError("gather: rank dst gives gather_list, a tensor for each rank")
        for a in _listed(gather_list, g, x, "gather"):
            fits(a, x.shape, x.dtype, "gather")
    elif gather_list:
        raise ArgumentError("gather: gather_list is of rank dst alone")
    fill = into(gather_list, "gather") if g.rank() == root else lambda out: None
    key = ("gather", spec_of(x), f"dst={g.ranks[root]}")
    return called(g, x, key, engine().gather_to(g, x, root), fill, async_op)


def scatter(
    tensor: Any,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Of the tensors that rank ``src`` lists, one for each rank, this rank's."""
    g, x = world(group), _value(tensor, "scatter")
    root = _root(g, 0 if src is None and group_src is None else src, group_src, "scatter")
    parts = None
    if g.rank() == root:
        if scatter_list is None:
            raise ArgumentError("scatter: rank src gives scatter_list, a tensor for each rank")
        parts = stacked(values_of(scatter_list, "scatter"), g.size(), "scatter")
        fits(x, parts.shape[1:], parts.dtype, "scatter")
    elif scatter_list:
        raise ArgumentError("scatter: scatter_list is of rank src alone")
    place = Place(tensor, "scatter")
    kept([place], "scatter", "x = scatter(x, ...)")
    key = ("scatter", spec_of(x), f"src={g.ranks[root]}")
    return called(g, x, key, engine().scatter(g, parts, x, root), place.filled, async_op)


def reduce_scatter(
    output: Any,
    input_list: Any,
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Of the tensors that each rank lists, one for each: the reduction of those for this rank.

    The shapes may differ from rank to rank; every rank gives the same list of them.
    """
    what = "reduce_scatter"
    g, out = world(group), _value(output, what)
    parts = _listed(input_list, g, out, what)
    reductions.check(op, out.dtype, what)
    if _alike(parts):
        x = stacked(parts, g.size(), what)
        fits(out, x.shape[1:], x.dtype, what)
        steps = engine().reduce_scatter(g, x, op)
        return _reduce_scatter(g, output, x, (what, spec_of(x)), steps, op, async_op)
    steps = engine().reduce_scatter_ragged(g, parts, op)
    return _reduce_scatter(g, output, out, _ragged(what, parts, g, out), steps, op, async_op)


def reduce_scatter_tensor(
    output: Any, input: Any, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """The same of one tensor, cut along its first axis into a part for each rank."""
    what = "reduce_scatter_tensor"
    g, x, out = world(group), _value(input, what), _value(output, what)
    if x.size != out.size * g.size():
        raise ShapeError(
            f"{what}: input has shape {x.shape}, and {g.size()} outputs of shape {out.shape} have "
            f"{out.size * g.size()} elements"
        )
    fits(out, out.shape, x.dtype, what)
    reductions.check(op, x.dtype, what)
    x = x.reshape((g.size(), *out.shape))
    steps = engine().reduce_scatter(g, x, op)
    return _reduce_scatter(g, output, x, (what, spec_of(x)), steps, op, async_op)


def _reduce_scatter(
    g: ProcessGroup, output: Any, x: Array, key: Any, steps: Steps, op: ReduceOp, later: bool
) -> Any:
    place = Place(output, key[0])
    kept([place], key[0], f"out = {key[0]}(out, x)")
    return called(g, x, (*key, str(op)), steps, place.filled, later)


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Any:
    """A tensor to each rank, and one from each, of any sizes; ``output_tensor_list`` is filled."""
    g = world(group)
    parts = values_of(input_tensor_list, "all_to_all")
    outs = values_of(output_tensor_list, "all_to_all")
    for listed in (parts, outs):
        if len(listed) != g.size():
            raise ShapeError(
                f"all_to_all: a list of {len(listed)} tensors, and the group has {g.size()} ranks"
            )
    for a in (*parts, *outs):
        fits(a, a.shape, parts[0].dtype, "all_to_all")
    key = ("all_to_all", parts[0].dtype.name)
    steps = engine().all_to_all_ragged(g, parts, [_room(o) for o in outs])
    return called(g, parts[g.rank()], key, steps, into(output_tensor_list, "all_to_all"), async_op)


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """A part of ``input``, cut along its first axis, to each rank; those that come, in a row.

    Args:
        output_split_sizes, input_split_sizes: how long the parts are; None or []: all alike.
    """
    what = "all_to_all_single"
    g, x, out = world(group), _value(input, what), _value(output, what)
    fits(out, (out.shape[0], *x.shape[1:]) if x.ndim and out.ndim else x.shape, x.dtype, what)
    parts = _cut(x, input_split_sizes, g.size(), what)
    room = _room(out)
    outs = _cut(room, output_split_sizes, g.size(), what)
    place = Place(output, what)
    kept([place], what, f"out = {what}(out, x)")
    fill = lambda filled: place.filled(room if modes.stage is None else concat(filled))
    key = (what, x.dtype.name)
    return called(g, x, key, engine().all_to_all_ragged(g, parts, outs), fill, async_op)


def _room(x: Any) -> Any:
    """Memory for what comes; nodes have their own."""
    return np.empty_like(x) if modes.stage is None else x


def _cut(x: Array, sizes: Sequence[int] | None, ranks: int, what: str) -> list[Array]:
    length = x.shape[0] if x.ndim else 1
    if not sizes:
        if length % ranks:
            raise ShapeError(f"{what}: {length} rows do not divide by {ranks} ranks; give sizes")
        sizes = [length // ranks] * ranks
    if len(sizes) != ranks or sum(sizes) != length:
        raise ShapeError(
            f"{what}: split sizes {list(sizes)} are not {ranks} that sum up to {length}"
        )
    ends = np.cumsum(sizes)
    return [x[end - size : end] for end, size in zip(ends, sizes)]


def barrier(
    group: Any = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Any:
    """Wait until every rank is here."""
    g = world(group)
    return called(g, None, ("barrier",), engine().barrier(g), lambda out: None, async_op, timeout)


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """A barrier whose first rank names those that do not come in time.

    Raises:
        DistStoreError: in the first rank, with the first of the missing ranks, or with
            ``wait_all_ranks`` all of them; in the others, if the first does not answer.
    """
    g = world(group)
    if g.comm is not None and g.size() > 1:
        late = g.timeout if timeout is None else span(timeout, "monitored_barrier")
        meet(g, range(g.size()), late.total_seconds(), "monitored_barrier", wait_all_ranks)
