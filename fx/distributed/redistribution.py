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

from typing import Any

import numpy as np

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
    local: np.ndarray, shape: tuple[int, ...], mesh: Any, source: Placements, target: Placements
) -> np.ndarray:
    """The part of this rank by other placements."""
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
                local, now[m] = _reduce_scatter(local, ranks, wanted.dim), wanted
            else:
                local, now[m] = _all_reduce(local, ranks, p.reduce_op), REPLICATE
        elif isinstance(p, Shard):
            size = _size_here(shape, mesh, now, m, p.dim)
            if isinstance(wanted, Shard) and not inside and not {p, wanted} & {*others}:
                local, now[m] = _all_to_all(local, ranks, p.dim, wanted.dim, size), wanted
            else:
                local, now[m] = _all_gather(local, ranks, p.dim, size), REPLICATE
    for m in range(count):
        wanted = target[m]
        if now[m] == wanted:
            continue
        ranks = mesh.ranks(m)
        if isinstance(wanted, Shard):
            local = _cut(
                local, wanted.dim, *chunk(local.shape[wanted.dim], ranks.size, ranks.index)
            )
        elif isinstance(wanted, Partial):
            local = as_addend(local, wanted.reduce_op, ranks)
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


def as_addend(whole: np.ndarray, op: str, ranks: Any) -> np.ndarray:
    """Of a whole that all have: the first rank has it, the others what changes nothing."""
    if op in ("avg", "max", "min") or not ranks.index:
        return whole
    return np.full(whole.shape, op == "product", whole.dtype)


# messages -----------------------------------------------------------------------------------------


def _all_reduce(local: np.ndarray, ranks: Any, op: str) -> np.ndarray:
    if local.dtype == bool:
        return _all_reduce(local.view(np.uint8), ranks, op).view(bool)  # type: ignore[no-any-return]
    if op == "avg":
        return (ranks.reduce(local, "sum") / ranks.size).astype(local.dtype)  # type: ignore[no-any-return]
    if op == "product":
        return np.prod(ranks.gather(local), axis=0, dtype=local.dtype)  # type: ignore[no-any-return]
    return ranks.reduce(local, op)  # type: ignore[no-any-return]


def _cut(x: np.ndarray, dim: int, start: int, stop: int) -> np.ndarray:
    return x[(slice(None),) * dim + (slice(start, stop),)]


def _padded(x: np.ndarray, dim: int, size: int) -> np.ndarray:
    """With zeros behind, so that messages of all ranks are of one length."""
    if x.shape[dim] == size:
        return x
    widths = [(0, size - x.shape[dim] if d == dim else 0) for d in range(x.ndim)]
    return np.pad(x, widths)


def _rows(x: np.ndarray, dim: int, count: int) -> np.ndarray:
    """(*A, n, *B) -> (count, *A, length, *B), the parts of the ranks, of one length."""
    length = -(-x.shape[dim] // count)
    x = _padded(x, dim, length * count)
    split = x.reshape(*x.shape[:dim], count, length, *x.shape[dim + 1 :])
    return np.ascontiguousarray(np.moveaxis(split, dim, 0))


def _joined(rows: np.ndarray, dim: int, size: int) -> np.ndarray:
    """(count, *A, length, *B) -> (*A, size, *B)."""
    x = np.moveaxis(rows, 0, dim)
    x = x.reshape(*x.shape[:dim], x.shape[dim] * x.shape[dim + 1], *x.shape[dim + 2 :])
    return _cut(x, dim, 0, size)


def _reduce_scatter(local: np.ndarray, ranks: Any, dim: int) -> np.ndarray:
    size = local.shape[dim]
    start, stop = chunk(size, ranks.size, ranks.index)
    return _cut(ranks.reduce_scatter(_rows(local, dim, ranks.size)), dim, 0, stop - start)


def _all_gather(local: np.ndarray, ranks: Any, dim: int, size: int) -> np.ndarray:
    length = -(-size // ranks.size)
    return _joined(ranks.gather(_padded(local, dim, length)), dim, size)


def _all_to_all(local: np.ndarray, ranks: Any, dim: int, to: int, size: int) -> np.ndarray:
    start, stop = chunk(local.shape[to], ranks.size, ranks.index)
    rows = _rows(_padded(local, dim, -(-size // ranks.size)), to, ranks.size)
    return _cut(_joined(ranks.exchange(rows), dim, size), to, 0, stop - start)
