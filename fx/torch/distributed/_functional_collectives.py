"""``torch.distributed._functional_collectives``: collectives that give results, and write nothing.

Gradients flow through sums, as ``torch.distributed.nn.functional`` says. A result is there when
the call ends; ``wait_tensor`` gives it back. ``CommDebugMode`` counts them as those of groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx.distributed import collectives as _messages
from fx.distributed import differentiable as _flow
from fx.distributed.device_mesh import DeviceMesh as _Mesh
from fx.distributed.groups import get_rank as _rank
from fx.distributed.groups import get_world_size as _size
from fx.distributed.groups import group as _known
from fx.distributed.groups import world as _world
from fx.distributed.reductions import ReduceOp as _Op
from fx.errors import ArgumentError as _ArgumentError
from fx.ops.making.creation import empty as _empty
from fx.ops.shapes.joining import concat as _concat
from fx.tensor import Tensor as _Tensor
from fx.torch._absent import refusing

_SUMS = ("sum", "avg")


def _of(given: Any, tag: str) -> Any:
    """The process group that is meant: itself, of a mesh of one axis, (mesh, axis), all ranks."""
    if tag:
        raise _ArgumentError(f"tag={tag!r}: groups have no tags; give the group, and leave it out")
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], _Mesh):
        return given[0].get_group(given[1])
    if isinstance(given, _Mesh):
        if given.ndim != 1:
            raise _ArgumentError(f"group: a mesh of {given.ndim} axes; write (mesh, axis)")
        return given.get_group()
    if isinstance(given, list | range):
        ranks = list(given)
        if ranks == list(_world(None).ranks):
            return _known.WORLD
        raise _ArgumentError(f"group: {ranks}; write new_group({ranks}) once, and give what it is")
    return _world(given)


def wait_tensor(tensor: _Tensor) -> _Tensor:
    """The tensor: it is there already.

    Example:
        >>> import fx
        >>> from fx.torch.distributed import _functional_collectives as funcol
        >>> funcol.wait_tensor(fx.ones(2))
        tensor([1., 1.])
    """
    return tensor


def broadcast(self: _Tensor, src: int, group: Any, tag: str = "") -> _Tensor:
    """The tensor of rank ``src`` of the world, (*S) -> (*S); ``all_reduce`` shows a call."""
    return _flow.broadcast(self, src, _of(group, tag))


def all_reduce(self: _Tensor, reduceOp: str, group: Any, tag: str = "") -> _Tensor:
    """The tensors of all ranks as one, (*S) -> (*S).

    Args:
        self: of one shape and dtype in all ranks.
        reduceOp: ``"sum"``, ``"avg"``, ``"min"``, ``"max"``, ``"product"`` ...
        group: a process group, a mesh of one axis, or (mesh, axis).
        tag: left out.

    Raises:
        ArgumentError: in a backward pass through another op than a sum or mean.

    Example:
        >>> import fx, fx.distributed as dist
        >>> from fx.torch.distributed import _functional_collectives as funcol
        >>> dist.init_process_group("mpi", rank=0, world_size=1)
        >>> funcol.all_reduce(fx.ones(2), "sum", dist.group.WORLD)
        tensor([1., 1.])
        >>> dist.destroy_process_group()
    """
    g, op = _of(group, tag), reduceOp.lower()
    if op in _SUMS:
        total = _flow.all_reduce(self, group=g)
        return total / g.size() if op == "avg" else total
    return _flow._Pair.apply(_flow.sum_of_all(g, _op(op)), _refuses(op), self)  # type: ignore[no-any-return]


def all_gather_tensor(self: _Tensor, gather_dim: int, group: Any, tag: str = "") -> _Tensor:
    """The tensors of all ranks, joined along an axis; ``all_reduce`` shows a call."""
    return _concat(list(_flow.all_gather(self, _of(group, tag))), axis=gather_dim)


def reduce_scatter_tensor(
    self: _Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> _Tensor:
    """This rank's part along an axis of the tensors of all ranks as one.

    Args:
        self: of one shape and dtype in all ranks.
        reduceOp, group, tag: as ``all_reduce``.
        scatter_dim: the axis that is cut, whose length the number of ranks divides.

    Raises:
        ArgumentError: if it does not; in a backward pass through another op than a sum or mean.

    Example:
        >>> import fx, fx.distributed as dist
        >>> from fx.torch.distributed import _functional_collectives as funcol
        >>> dist.init_process_group("mpi", rank=0, world_size=1)
        >>> funcol.reduce_scatter_tensor(fx.ones((1, 2)), "sum", 1, dist.group.WORLD)
        tensor([[1., 1.]])
        >>> dist.destroy_process_group()
    """
    g, op = _of(group, tag), reduceOp.lower()
    if self.shape[scatter_dim] % g.size():
        raise _ArgumentError(
            f"reduce_scatter_tensor: axis {scatter_dim} has {self.shape[scatter_dim]} places, "
            f"which do not divide by {g.size()} ranks"
        )
    parts = [x.contiguous() for x in self.chunk(g.size(), scatter_dim)]
    if op in _SUMS:
        total = _flow.reduce_scatter(None, parts, group=g)
        return total / g.size() if op == "avg" else total

    def there(*xs: _Tensor) -> Any:
        room = _empty(tuple(xs[0].shape), dtype=xs[0].dtype)
        return _messages.reduce_scatter(room, list(xs), _op(op), g)

    return _flow._Pair.apply(there, _refuses(op), *parts)  # type: ignore[no-any-return]


def all_to_all_single(
    self: _Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> _Tensor:
    """Rows to each rank, and rows from each, (rows, ...) -> (other rows, ...).

    Args:
        self: the rows.
        output_split_sizes, input_split_sizes: rows from and to each rank; None: equal parts.
        group, tag: as ``all_reduce``, which shows a call.
    """
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    room = _empty((rows, *self.shape[1:]), dtype=self.dtype)
    return _flow.all_to_all_single(
        room, self, output_split_sizes, input_split_sizes, _of(group, tag)
    )


def permute_tensor(self: _Tensor, src_dst: Sequence[int], group: Any, tag: str = "") -> _Tensor:
    """The tensor of the rank that sends to this one: ``src_dst[i]`` is where rank i sends.

    Args:
        self: of one shape in all ranks.
        src_dst: the ranks' places in the group.
        group, tag: as ``all_reduce``, which shows a call.
    """
    g = _of(group, tag)
    mine, count = _rank(g), self.size
    goes = [count if to == src_dst[mine] else 0 for to in range(_size(g))]
    comes = [count if to == mine else 0 for to in src_dst]
    found = all_to_all_single(self.reshape(-1), comes, goes, g)
    return found.reshape(self.shape) if sum(comes) else found


def all_reduce_coalesced(
    self: Sequence[_Tensor], reduceOp: str, group: Any, tag: str = ""
) -> list[_Tensor]:
    """``all_reduce`` of each tensor."""
    return [all_reduce(x, reduceOp, group, tag) for x in self]


def all_gather_into_tensor_coalesced(
    self: Sequence[_Tensor], group: Any, tag: str = ""
) -> list[_Tensor]:
    """``all_gather_tensor`` of each tensor, along its first axis."""
    return [all_gather_tensor(x, 0, group, tag) for x in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[_Tensor], reduceOp: str, scatter_dim: Sequence[int], group: Any, tag: str = ""
) -> list[_Tensor]:
    """``reduce_scatter_tensor`` of each tensor, along its own axis."""
    return [
        reduce_scatter_tensor(x, reduceOp, d, group, tag)
        for x, d in zip(inputs, scatter_dim, strict=True)
    ]


def _op(name: str) -> _Op:
    return getattr(_Op, {"prod": "product"}.get(name, name).upper())  # type: ignore[no-any-return]


def _refuses(op: str) -> Any:
    def back(*cts: Any) -> Any:
        raise _ArgumentError(f"gradients flow through sums and means, not through {op!r}")

    return back


all_gather_single = all_gather_tensor_autograd = all_gather_single_autograd = all_gather_tensor
reduce_scatter_single = reduce_scatter_tensor_autograd = reduce_scatter_tensor
reduce_scatter_single_autograd = reduce_scatter_tensor
all_gather_single_coalesced = all_gather_into_tensor_coalesced
reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
all_to_all_single_autograd = all_to_all_single


__getattr__ = refusing("distributed._functional_collectives")
