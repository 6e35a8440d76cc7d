"""``context_parallel``: attention in a block runs over a sequence of which each rank has a part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import fx
from fx.distributed.device_mesh import DeviceMesh
from fx.distributed.mesh import Running
from fx.distributed.ring import around, check
from fx.errors import ArgumentError, InPlaceError, ShapeError
from fx.modes import writing
from fx.state import Cell
from fx.tensor import Tensor
from fx.transforms.collectives import all_gather


class SequenceAxis(NamedTuple):
    """An axis of a mesh along which the sequence is cut while it runs.

    If ``balanced`` a rank has a piece of the sequence from its start and one from its end, so that
    all ranks see as many columns of a causal mask:

        4 pieces on 2 ranks    rank 0: 0 3    rank 1: 1 2
    """

    axis_name: Any
    number: str
    size: int
    balanced: bool

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Any, p: float, is_causal: bool, scale: float
    ) -> Tensor:
        """What ``scaled_dot_product_attention`` gives of the parts of this rank."""
        if mask is not None or p:
            raise ArgumentError(
                "scaled_dot_product_attention: in context_parallel there is is_causal, and no "
                "attn_mask and no dropout_p"
            )
        check(q, k, v)
        return around(q, k, v, self.axis_name, is_causal, scale, self.balanced)

    def order(self, length: int) -> Tensor:
        """The places of the sequence as the ranks have them, one rank behind the other."""
        at = fx.arange(length)
        if not self.balanced:
            return at
        pieces = fx.reshape(at, (2 * self.size, -1))
        pairs = [[r, 2 * self.size - 1 - r] for r in range(self.size)]
        return fx.reshape(fx.concat([pieces[i : i + 1] for pair in pairs for i in pair]), (-1,))


def _axis(mesh: DeviceMesh, length: int) -> SequenceAxis:
    if len(mesh.axis_names) != 1:
        raise ArgumentError(
            f"context_parallel: {mesh!r} has {len(mesh.axis_names)} axes; give one: mesh['cp']"
        )
    axis = mesh._axes[0]
    if length % axis.size:
        raise ShapeError(
            f"context_parallel: {length} rows are no {axis.size} equal parts; pad the sequence"
        )
    return SequenceAxis(*axis, length % (2 * axis.size) == 0)


@contextmanager
def context_parallel(
    mesh: DeviceMesh,
    *,
    buffers: Sequence[Any] | None = None,
    buffer_seq_dims: Sequence[int] | None = None,
    no_restore_buffers: Iterable[Any] | None = None,
) -> Iterator[None]:
    """Within it ``buffers`` are this rank's parts, and attention sees the whole sequence.

    ``scaled_dot_product_attention`` goes round the ring of ranks (``ring_attention``). A sequence
    that has two pieces for each rank is cut so that causal attention costs all the same. What
    ``fx.jit`` compiles contains the block; a compiled function that is called in it runs eagerly.

    Args:
        mesh: of one axis.
        buffers: tensors, the same on all ranks, that go along the sequence: inputs, targets, tables
            of positions. They are written: within the block their axis has its part, and behind it
            they are what they were.
        buffer_seq_dims: for each its axis of the sequence.
        no_restore_buffers: those of them that nobody needs behind it.

    Raises:
        ValueError: if they are not as many, or the mesh has several axes.
        ShapeError: if the sequence has no equal parts.
        InPlaceError: if a buffer is a tensor of a program that does not write.

    Example:
        >>> import fx
        >>> import fx.distributed as dist
        >>> from fx.distributed.context import context_parallel
        >>> mesh, x = dist.init_device_mesh("cpu", (1,)), fx.ones((1, 4, 2))
        >>> with context_parallel(mesh):  # under fx.run: (number of ranks,)
        ...     fx.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).shape
        (1, 4, 2)
    """
    given = list(buffers or ())
    dims = list(buffer_seq_dims or ())
    if len(given) != len(dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    kept = list(no_restore_buffers or ())
    if not all(any(b is each for b in given) for each in kept):
        raise ValueError("`no_restore_buffers` must be a subset of `buffers`.")
    lengths = [b.shape[d] for b, d in zip(given, dims)]
    if len(set(lengths)) > 1:
        raise ShapeError(f"context_parallel: buffers are of one sequence, got lengths {lengths}")
    axis = _axis(mesh, lengths[0] if lengths else 2 * mesh._axes[0].size)
    before = [b.clone() for b in given]
    try:
        for b, d, whole in zip(given, dims, before):
            rows = lengths[0] // axis.size
            mine = axis.order(lengths[0])[mesh.place[0] * rows : (mesh.place[0] + 1) * rows]
            _put(b, fx.take(whole, mine, axis=d))
        with Running([axis]):  # type: ignore[list-item]
            yield
    finally:
        for b, whole in zip(given, before):
            if not any(b is each for each in kept):
                _put(b, whole)


def _put(buffer: Any, value: Tensor) -> None:
    """Let a cell or a tensor of a program that writes hold a value of another shape."""
    if isinstance(buffer, Cell):
        buffer.data = value
        return
    if not writing.enabled:
        raise InPlaceError(
            "context_parallel writes buffers, and tensors never change where fx.torch is not "
            "imported; leave them out, and take the parts in the block"
        )
    from fx.writing.data import hold

    hold(buffer, value)


def context_parallel_unshard(
    mesh: DeviceMesh, buffers: Sequence[Any], seq_dims: Sequence[int], load_balancer: Any = None
) -> list[Tensor]:
    """The whole of what each rank computed of its part in ``context_parallel``.

    Args:
        mesh: of one axis.
        buffers: parts, of which all ranks have the same shapes.
        seq_dims: for each its axis of the sequence.
        load_balancer: None: the order of ``context_parallel``.

    Raises:
        ArgumentError: if another order is asked for, or the mesh has several axes.

    Example:
        >>> import fx
        >>> import fx.distributed as dist
        >>> from fx.distributed.context import context_parallel_unshard
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> context_parallel_unshard(mesh, [fx.arange(4.0)], [0])
        [tensor([0., 1., 2., 3.])]
    """
    if load_balancer is not None:
        raise ArgumentError("context_parallel_unshard: there is one order; leave out load_balancer")
    if len(buffers) != len(seq_dims):
        raise ValueError("`seq_dims` must have the same number of elements as `buffers`.")
    out = []
    for b, d in zip(buffers, seq_dims):
        axis = _axis(mesh, b.shape[d] * mesh._axes[0].size)
        with Running(mesh._axes):
            whole = all_gather(b, axis.axis_name, axis=d, tiled=True)
        out.append(fx.take(whole, fx.argsort(axis.order(whole.shape[d])), axis=d))
    return out
