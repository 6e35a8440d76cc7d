"""Collectives through which gradients flow: what goes back is the transpose of what went there.

The loss is the sum of the losses of all ranks, so every rank calls ``backward``, and the ranks'
backward passes come to their collectives in the same order.

    forward                   backward
    all_reduce (sum)          all_reduce
    all_gather                reduce_scatter
    reduce_scatter            all_gather
    broadcast                 reduce
    gather                    scatter
    all_to_all                all_to_all, the sizes exchanged

Source: ``torch.distributed.nn.functional``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fx.autograd.function import Function
from fx.config import modes
from fx.distributed import collectives as messages
from fx.distributed import staged
from fx.distributed.groups import get_group_rank, get_rank, get_world_size, world
from fx.distributed.reductions import ReduceOp
from fx.errors import ArgumentError
from fx.ops.convert import as_tensor
from fx.ops.making.creation import empty, zeros
from fx.ops.shapes.joining import stack
from fx.tensor import Tensor

Way = Callable[..., Any]


class _Pair(Function):
    """A function of arrays that all ranks call, and its transpose, which they call behind it."""

    _is_closed = True

    @staticmethod
    def forward(ctx: Any, there: Way, back: Way, *xs: Tensor) -> Any:
        ctx.there, ctx.back = there, back
        out = there(*[x.detach() for x in xs])
        return tuple(out) if isinstance(out, list | tuple) else out

    @staticmethod
    def backward(ctx: Any, *cts: Any) -> Any:
        found = _Pair.apply(ctx.back, ctx.there, *cts)
        return (None, None, *(found if isinstance(found, tuple) else (found,)))


def _like(x: Any) -> Tensor:
    return empty(tuple(x.shape), dtype=x.dtype)


def _rooms(x: Any, group: Any) -> list[Tensor]:
    """One for each rank, since a script that writes has each of them filled."""
    return [zeros(tuple(x.shape), dtype=x.dtype) for _ in range(get_world_size(group))]


def _summed(op: Any, name: str) -> None:
    if op != ReduceOp.SUM:
        raise ArgumentError(
            f"{name}: gradients flow through sums, got {op}; divide the sum for a mean"
        )


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum over ranks.

    Args:
        tensor: of one shape and dtype in all ranks.
        op: SUM.
        group: the ranks; None: all.

    Raises:
        ArgumentError: of another op.

    Example:
        >>> import fx, fx.distributed as dist
        >>> from fx.distributed import differentiable
        >>> dist.init_process_group("mpi", rank=0, world_size=1)
        >>> fx.grad(lambda x: fx.sum(differentiable.all_reduce(x) ** 2))(fx.ones(2))
        tensor([2., 2.])
        >>> dist.destroy_process_group()
    """
    _summed(op, "all_reduce")
    there = sum_of_all(group)
    return _Pair.apply(there, there, as_tensor(tensor))  # type: ignore[no-any-return]


def sum_of_all(group: Any, op: Any = ReduceOp.SUM) -> Way:
    """``all_reduce`` without a place that is filled: a node has none."""

    def way(x: Tensor) -> Tensor:
        if modes.stage is not None:
            return staged.reduce_all(world(group), x, op)
        return messages.all_reduce(x.clone(), op, group)  # type: ignore[no-any-return]

    return way


def all_gather(tensor: Any, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks."""
    return _several(_Pair.apply(_gather_all(group), _sum_parts(group), as_tensor(tensor)))


def reduce_scatter(
    output: Any, input_list: Sequence[Any], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """Of the sums over ranks of each tensor of the list, that of this rank's place.

    Args:
        output: not read.
        input_list: one tensor for each rank, all of one shape.
    """
    _summed(op, "reduce_scatter")
    xs = [as_tensor(x) for x in input_list]
    return _Pair.apply(_sum_parts(group), _gather_all(group), *xs)  # type: ignore[no-any-return]


def _gather_all(group: Any) -> Way:
    return lambda x: messages.all_gather(_rooms(x, group), x, group=group)


def _sum_parts(group: Any) -> Way:
    return lambda *xs: messages.reduce_scatter(_like(xs[0]), list(xs), group=group)


def broadcast(tensor: Any, src: int, group: Any = None) -> Tensor:
    """The tensor of rank ``src``."""
    return _Pair.apply(  # type: ignore[no-any-return]
        _from_root(src, group), _to_root(src, group), as_tensor(tensor)
    )


def reduce(tensor: Any, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum over ranks in rank ``dst``; zeros in the others."""
    _summed(op, "reduce")
    return _Pair.apply(  # type: ignore[no-any-return]
        _to_root(dst, group), _from_root(dst, group), as_tensor(tensor)
    )


def _from_root(root: int, group: Any) -> Way:
    def way(x: Tensor) -> Tensor:
        if modes.stage is not None:
            return staged.broadcast(world(group), x, get_group_rank(world(group), root))
        return messages.broadcast(x.clone(), src=root, group=group)  # type: ignore[no-any-return]

    return way


def _to_root(root: int, group: Any) -> Way:
    def way(x: Tensor) -> Tensor:
        if modes.stage is not None:
            found = staged.reduce_all(world(group), x, ReduceOp.SUM)
        else:
            found = messages.reduce(x.clone(), dst=root, group=group)
        return found if get_rank() == root else zeros(tuple(x.shape), dtype=x.dtype)

    return way


def gather(tensor: Any, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all ranks in rank ``dst``; zeros in the others."""
    return _several(_Pair.apply(_collect(dst, group), _deal(dst, group), as_tensor(tensor)))


def scatter(tensors: Sequence[Any], src: int = 0, group: Any = None) -> Tensor:
    """Of the tensors of rank ``src``, that of this rank's place.

    Args:
        tensors: one for each rank, all of one shape; those of the other ranks are not read.
    """
    xs = [as_tensor(x) for x in tensors]
    return _Pair.apply(_deal(src, group), _collect(src, group), *xs)  # type: ignore[no-any-return]


def _collect(root: int, group: Any) -> Way:
    def way(x: Tensor) -> Any:
        here = get_rank() == root
        rooms = _rooms(x, group)
        found = messages.gather(x, rooms if here else None, dst=root, group=group)
        return found if here else rooms

    return way


def _deal(root: int, group: Any) -> Way:
    def way(*xs: Tensor) -> Any:
        given = list(xs) if get_rank() == root else None
        if modes.stage is not None:
            g, parts = world(group), None if given is None else stack(given)
            like = zeros(tuple(xs[0].shape), dtype=xs[0].dtype)
            return staged.scatter(g, parts, like, get_group_rank(g, root))
        return messages.scatter(_like(xs[0]), given, src=root, group=group)

    return way


def all_to_all(
    output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: Any = None
) -> tuple[Tensor, ...]:
    """To each rank its tensor of the list; back, what each has for this one.

    Args:
        output_tensor_list: tensors of the shapes that come.
        input_tensor_list: one tensor for each rank.
    """
    xs = [as_tensor(x) for x in input_tensor_list]

    def between(outs: Sequence[Any]) -> Way:
        rooms = [(tuple(x.shape), x.dtype) for x in outs]
        made = lambda: [empty(shape, dtype=dtype) for shape, dtype in rooms]
        return lambda *given: messages.all_to_all(made(), list(given), group=group)

    return _several(_Pair.apply(between(list(output_tensor_list)), between(xs), *xs))


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:
    """To each rank its rows; back, those that each has for this one.

    Args:
        output: a tensor of the shape that comes.
        input: (rows, ...).
        output_split_sizes, input_split_sizes: rows from and to each rank; None: equal parts.
    """
    x = as_tensor(input)

    def between(like: Any, comes: Any, goes: Any) -> Way:
        shape, dtype = tuple(like.shape), like.dtype
        return lambda given: messages.all_to_all_single(
            empty(shape, dtype=dtype), given, comes, goes, group=group
        )

    return _Pair.apply(  # type: ignore[no-any-return]
        between(output, output_split_sizes, input_split_sizes),
        between(x, input_split_sizes, output_split_sizes),
        x,
    )


def _several(found: Any) -> tuple[Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)
