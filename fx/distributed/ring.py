"""Context parallel: attention over a sequence of which each rank has a part (ring attention).

Keys and values go round the ring of ranks, one step for each rank, while every rank keeps its
queries. What a rank has of the softmax after some steps is a mean ``out``, whose weights sum to
exp(total); two such means are one, by these sums:

    rank 0: q0 k0   k3 comes from rank 3   k2 comes ...     out (..., L / n, features)
    rank 1: q1 k1   k0 comes from rank 0   k3 comes ...     total (..., L / n, 1)
"""

from __future__ import annotations

import math
from typing import Any

import fx
from fx.distributed.mesh import Running
from fx.distributed.placed import DEVICE
from fx.distributed.placements import REPLICATE, Placement, Shard
from fx.distributed.tensor import DTensor
from fx.dtypes import float32
from fx.errors import DTypeError, ShapeError
from fx.ops.convert import as_tensor
from fx.tensor import Tensor
from fx.transforms.checkpoint import checkpoint
from fx.transforms.collectives import axis_index, axis_size, ppermute

NAME = "ring_attention"
Mean = tuple[Tensor, Tensor]


def ring_attention(
    query: Any,
    key: Any,
    value: Any,
    axis_name: Any,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """``softmax(query @ key.T * scale) @ value`` over sequences that ranks have parts of.

    Each rank (or lane) of an axis has the same number of rows of the sequence, in the order of the
    axis, and all call it. No rank ever has all scores: of each step its backward pass keeps the
    keys and values that came by, and computes scores again.

    Args:
        query: (..., rows, features), the part of this rank inside of ``fx.shard_map`` or
            ``fx.vmap``; or a tensor on a mesh, of global shape, which is brought to that cut, and
            so are the others.
        key: (..., rows, features), with the leading axes of ``query``.
        value: (..., rows, value_features).
        axis_name: of the ``vmap`` or the mesh, along which the sequence is cut.
        is_causal: whether a row sees only the rows up to its own, of the whole sequence.
        scale: ``1 / sqrt(features)`` unless told.

    Returns:
        (..., rows, value_features), as ``query`` lies.

    Raises:
        AxisError: if no such axis runs, or the mesh has none.
        ShapeError: if the shapes do not fit, or a sequence on a mesh has no equal parts.
        DTypeError: if the dtypes differ or are not floating.

    Source: Liu, Zaharia and Abbeel, "Ring attention with blockwise transformers for near-infinite
    context", 2023.

    Example:
        >>> import fx
        >>> from fx.distributed import ring_attention
        >>> mesh = fx.Mesh((2,), ("seq",), lanes=True)
        >>> rows = fx.P(None, "seq")
        >>> attend = lambda q, k, v: ring_attention(q, k, v, "seq", is_causal=True)
        >>> x = fx.reshape(fx.arange(16.0), (1, 8, 2)) / 16
        >>> found = fx.shard_map(attend, mesh, rows, rows)(x, x, x)
        >>> want = fx.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        >>> bool(fx.max(fx.abs(found - want)) < 1e-6)
        True
    """
    q, k, v = as_tensor(query), as_tensor(key), as_tensor(value)
    check(q, k, v)
    if DEVICE in (q.device.name, k.device.name, v.device.name):
        return _on_mesh(q, k, v, axis_name, is_causal, scale)
    return around(q, k, v, axis_name, is_causal, scale)


def check(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Raise where shapes or dtypes do not fit."""
    shapes = f"{q.shape}, {k.shape} and {v.shape}"
    if min(q.ndim, k.ndim, v.ndim) < 2 or not q.shape[:-1] == k.shape[:-1] == v.shape[:-1]:
        raise ShapeError(
            f"{NAME}: query, key and value have the same leading axes and rows, got {shapes}"
        )
    if q.shape[-1] != k.shape[-1] or not q.shape[-1]:
        raise ShapeError(f"{NAME}: query and key have as many features, got {shapes}")
    if not q.dtype == k.dtype == v.dtype or not q.is_floating_point():
        raise DTypeError(
            f"{NAME}: query, key and value are of one floating dtype, got {q.dtype}, {k.dtype} and "
            f"{v.dtype}"
        )


def _on_mesh(
    q: Tensor, k: Tensor, v: Tensor, axis_name: Any, is_causal: bool, scale: float | None
) -> Tensor:
    """The same of tensors of global shape."""
    mesh = q.device_mesh  # type: ignore[attr-defined]
    m, rows = mesh.axis(axis_name, NAME), q.ndim - 2
    if q.shape[rows] % mesh.sizes[m]:
        raise ShapeError(
            f"{NAME}: {q.shape[rows]} rows are no {mesh.sizes[m]} equal parts along {axis_name!r} "
            f"of {mesh!r}; pad the sequence"
        )
    wanted: list[Placement] = [
        p if isinstance(p, Shard) and p.dim < rows else REPLICATE
        for p in q.placements  # type: ignore[attr-defined]
    ]
    wanted[m] = Shard(rows)
    parts = [x.redistribute(mesh, wanted).to_local() for x in (q, k, v)]  # type: ignore[attr-defined]
    with Running([mesh._axes[m]]):
        out = around(*parts, axis_name, is_causal, scale)
    shape = (*q.shape[:-1], v.shape[-1])
    return DTensor.from_local(out, mesh, wanted, shape=shape)


def around(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    axis_name: Any,
    is_causal: bool,
    scale: float | None,
    balanced: bool = False,
) -> Tensor:
    """The parts of this rank attend to those of all, which come round the ring.

    If ``balanced`` rank r of n has the pieces r and 2n - 1 - r of the sequence, in this order.
    """
    count, dtype = axis_size(axis_name), q.dtype
    if dtype.itemsize < 4:  # 16 bits: sums are of 32
        q, k, v = [x.astype(float32) for x in (q, k, v)]
    q = q * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    ring = [(i, (i + 1) % count) for i in range(count)]
    here = axis_index(axis_name)
    at = fx.arange(q.shape[-2])
    seen = at[:, None] >= at if is_causal else None  # of the own part, where rows begin as columns
    mean = checkpoint(_block)(q, k, v, seen)
    for step in range(1, count):
        k, v = ppermute((k, v), axis_name, ring)  # those of the rank so many places before
        if not is_causal:
            mean = _joined(mean, checkpoint(_block)(q, k, v, None))
        elif balanced:
            mean = _halves(mean, q, k, v, here >= step)
        else:  # they come from before, or from the end of the sequence, which no row sees
            mean = _joined(mean, checkpoint(_block)(q, k, v, None), here >= step)
    return mean[0].astype(dtype)


def _joined(mean: Mean, more: Mean, there: Any = None) -> Mean:
    """One mean of two; of the first alone where the second is not there."""
    (out, total), (its_out, its) = mean, more
    if there is not None:
        its = fx.where(there, its, -math.inf)
    both = fx.logaddexp(total, its)
    return out * fx.exp(total - both) + its_out * fx.exp(its - both), both


def _halves(mean: Mean, q: Tensor, k: Tensor, v: Tensor, before: Tensor) -> Mean:
    """The mean with two pieces of a rank ``before`` or after, of which causal rows see half.

    before: head and tail see its head      after: tail sees its head and its tail
    """
    half = q.shape[-2] // 2
    heads, tails = ([x[..., part, :] for x in (q, k, v, *mean)]
                    for part in (slice(None, half), slice(half, None)))  # fmt: skip
    head, tail = (heads[3], heads[4]), (tails[3], tails[4])
    tail = _joined(tail, checkpoint(_block)(tails[0], heads[1], heads[2], None))
    chosen = [fx.where(before, h, t) for h, t in zip(heads[:3], tails[:3])]
    more = checkpoint(_block)(*chosen, None)
    head, tail = _joined(head, more, before), _joined(tail, more, ~before)
    return fx.concat([head[0], tail[0]], -2), fx.concat([head[1], tail[1]], -2)


def _block(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None) -> tuple[Tensor, Tensor]:
    """The mean of values by weights, (..., rows, features), and the log of the weights' sum."""
    scores = q @ k.mT  # (..., rows, columns)
    if seen is not None:
        scores = fx.where(seen, scores, -math.inf)
    total = scores.logsumexp(-1, keepdim=True)
    return fx.exp(scores - total) @ v, total
