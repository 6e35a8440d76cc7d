"""From placements to placements: which messages carry the parts of a tensor there.

Along one axis of a mesh of n ranks, of B bytes that a rank would have of the whole:

=================  ==================  ==================
from, to           message             bytes a rank sends
=================  ==================  ==================
Partial Replicate  all_reduce          2 B (n - 1) / n
Partial Shard      reduce_scatter      B (n - 1) / n
Shard Replicate    all_gather          B (n - 1) / n
Shard(i) Shard(j)  all_to_all          B (n - 1) / n^2
Replicate any      none                0
=================  ==================  ==================

A tensor axis that several axes of the mesh cut is cut by the first of them first. What lies inside
of a cut that changes is gathered before, and cut again behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fx.distributed.agreement import same_key
from fx.distributed.placements import REPLICATE, Partial, Placement, Placements, Shard
from fx.prims.factors import chunk


def cost(source: Placement, target: Placement, count: int, nbytes: float) -> float:
    """The bytes that a rank sends."""
    if source == target or source.is_replicate():
        return 0.0
    share = nbytes * (count - 1) / count
    if isinstance(source, Partial):
        return share if isinstance(target, Shard) and source.reduce_op == "sum" else 2 * share
    return share / count if isinstance(target, Shard) else share


def redistributed(
    local: Any,
    shape: tuple[int, ...],
    mesh: Any,
    source: Placements,
    target: Placements,
    on: Any = None,
) -> Any:
    """The part of this rank by other placements; ``on`` works with parts."""
    on = on or ARRAYS
    if source == target:
        return local
    now = list(source)
    count = len(now)
    for m in reversed(range(count)):
        p, wanted = now[m], target[m]
        inside = isinstance(p, Shard) and any(
            now[k] != target[k] and p in (now[k], target[k]) for k in range(m)
        )
        if p == wanted and not inside:
            continue
        others = [*now[:m], *target[:m], *now[m + 1 :], *target[m + 1 :]]
        ranks = mesh.ranks(m)
        if isinstance(p, Partial):
            if isinstance(wanted, Shard) and p.reduce_op == "sum" and wanted not in others:
                local, now[m] = _reduce_scatter(on, local, ranks, wanted.dim), wanted
            else:
                local, now[m] = _all_reduce(on, local, ranks, p.reduce_op), REPLICATE
        elif isinstance(p, Shard):
            size = _size_here(shape, mesh, now, m, p.dim)
            if isinstance(wanted, Shard) and not inside and not {p, wanted} & {*others}:
                local, now[m] = _all_to_all(on, local, ranks, p.dim, wanted.dim, size), wanted
            else:
                local, now[m] = _all_gather(on, local, ranks, p.dim, size), REPLICATE
    for m in range(count):
        wanted = target[m]
        if now[m] == wanted:
            continue
        ranks = mesh.ranks(m)
        if isinstance(wanted, Shard):
            n = on.shape(local)[wanted.dim]
            local = on.cut(local, wanted.dim, *chunk(n, ranks.size, ranks.index))
        elif isinstance(wanted, Partial):
            local = _as_addend(on, local, wanted.reduce_op, ranks)
        now[m] = wanted
    return local


def _size_here(shape: tuple[int, ...], mesh: Any, now: list[Any], m: int, dim: int) -> int:
    """How long an axis is that axis m of the mesh cuts: a part, if axes before m cut it too."""
    size = shape[dim]
    for k in range(m):
        if now[k] == Shard(dim):
            ranks = mesh.ranks(k)
            start, stop = chunk(size, ranks.size, ranks.index)
            size = stop - start
    return size


def _as_addend(on: Any, whole: Any, op: str, ranks: Any) -> Any:
    """Of a whole that all have: the first rank has it, the others what changes nothing."""
    if op in ("avg", "max", "min") or not ranks.index:
        return whole
    return on.full(on.shape(whole), int(op == "product"), on.dtype(whole), [whole])


# messages -----------------------------------------------------------------------------------------


def _all_reduce(on: Any, local: Any, ranks: Any, op: str) -> Any:
    if op == "product":
        return on.product(on.gather(local, ranks))
    return on.reduce(local, ranks, op)


def _padded(on: Any, x: Any, dim: int, size: int) -> Any:
    """With zeros behind, so that messages of all ranks are of one length."""
    return x if on.shape(x)[dim] == size else on.pad(x, dim, size)


def _rows(on: Any, x: Any, dim: int, count: int) -> Any:
    """(*A, n, *B) -> (count, *A, length, *B), the parts of the ranks, of one length."""
    length = -(-on.shape(x)[dim] // count)
    x = _padded(on, x, dim, length * count)
    shape = on.shape(x)
    return on.moved(on.reshape(x, (*shape[:dim], count, length, *shape[dim + 1 :])), dim, 0)


def _joined(on: Any, rows: Any, dim: int, size: int) -> Any:
    """(count, *A, length, *B) -> (*A, size, *B)."""
    x = on.moved(rows, 0, dim)
    shape = on.shape(x)
    x = on.reshape(x, (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))
    return on.cut(x, dim, 0, size)


def _reduce_scatter(on: Any, local: Any, ranks: Any, dim: int) -> Any:
    start, stop = chunk(on.shape(local)[dim], ranks.size, ranks.index)
    rows = _rows(on, local, dim, ranks.size)
    return on.cut(on.reduce_scatter(rows, ranks), dim, 0, stop - start)


def _all_gather(on: Any, local: Any, ranks: Any, dim: int, size: int) -> Any:
    length = -(-size // ranks.size)
    return _joined(on, on.gather(_padded(on, local, dim, length), ranks), dim, size)


def _all_to_all(on: Any, local: Any, ranks: Any, dim: int, to: int, size: int) -> Any:
    start, stop = chunk(on.shape(local)[to], ranks.size, ranks.index)
    rows = _rows(on, _padded(on, local, dim, -(-size // ranks.size)), to, ranks.size)
    return on.cut(_joined(on, on.exchange(rows, ranks), dim, size), to, 0, stop - start)


# what parts are -----------------------------------------------------------------------------------


class Arrays:
    """Parts as NumPy's arrays; ``propagation.Nodes`` has the same of values of a graph."""

    def shape(self, x: Any) -> tuple[int, ...]:
        return x.shape  # type: ignore[no-any-return]

    def dtype(self, x: Any) -> Any:
        return x.dtype

    def call(self, primitive: Any, parts: Sequence[Any], params: dict[str, Any]) -> list[Any]:
        """The results of a primitive on parts."""
        out = primitive.cpu(*parts, **params)
        return [np.asarray(a) for a in (out if isinstance(out, tuple) else (out,))]

    def full(self, shape: tuple[int, ...], value: Any, dtype: Any, of: Sequence[Any]) -> Any:
        """One number, in place of what would have been computed ``of`` parts."""
        return np.full(shape, value, dtype)

    def same_key(self, key: Any, ranks: Any) -> None:
        """See that all ranks draw by the same key."""
        same_key(ranks, key)

    def reduce(self, x: Any, ranks: Any, op: str) -> Any:
        if x.dtype == bool:
            return self.reduce(x.view(np.uint8), ranks, op).view(bool)
        if op == "avg":
            return (ranks.reduce(x, "sum") / ranks.size).astype(x.dtype)
        return ranks.reduce(x, op)

    def product(self, rows: Any) -> Any:
        return np.prod(rows, axis=0, dtype=rows.dtype)

    def gather(self, x: Any, ranks: Any) -> Any:
        return ranks.gather(x)

    def reduce_scatter(self, rows: Any, ranks: Any) -> Any:
        return ranks.reduce_scatter(np.ascontiguousarray(rows))

    def exchange(self, rows: Any, ranks: Any) -> Any:
        return ranks.exchange(np.ascontiguousarray(rows))

    def cut(self, x: Any, dim: int, start: int, stop: int) -> Any:
        return x[(slice(None),) * dim + (slice(start, stop),)]

    def pad(self, x: Any, dim: int, size: int) -> Any:
        widths = [(0, size - x.shape[dim] if d == dim else 0) for d in range(x.ndim)]
        return np.pad(x, widths)

    def reshape(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x.reshape(shape)

    def moved(self, x: Any, source: int, to: int) -> Any:
        return np.moveaxis(x, source, to)


ARRAYS = Arrays()
