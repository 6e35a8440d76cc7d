"""The means over ranks of a unit's gradients: of each this rank gets its part, by one message.

A message has a row for each rank: its parts of the gradients, one behind the other, and a number
for each parameter, which counts the ranks that have a gradient for it, and one that tells which
parameters these are: the sum of equal ones is a multiple. A parameter that had a part
nowhere so keeps none, and ranks in which other parameters took part understand each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any
from zlib import crc32

import numpy as np

from fx.devices import backend
from fx.errors import DistError
from fx.tensor import new_tensor

collective: Any = backend("cpu").between_ranks()


def means(
    parts: Sequence[Any],
    cts: Sequence[Any],
    axis: int,
    dtype: Any,
    divisor: float | None,
    trained: Sequence[int],
) -> list[Any]:
    """Parts of the mean gradients.

    Args:
        parts: the parameters' arrays on the mesh.
        cts: this rank's gradients of the whole parameters, arrays of the CPU; None: it has none.
        axis: of the mesh, along which the parts lie; along the others the mean is replicated.
        dtype: in which they are sent; None: that of the gradients.
        divisor: of the sums; None: the number of ranks.
        trained: which parameters of the unit these are.

    Returns:
        for each an array on the mesh, None where no rank has a gradient.

    Raises:
        DistError: if other ranks train other parameters.
    """
    mesh = parts[0].mesh
    kinds: dict[Any, list[int]] = {}
    for i, part in enumerate(parts):
        kinds.setdefault(sent_as(part, dtype), []).append(i)
    out: list[Any] = [None] * len(parts)
    told = crc32(repr(list(trained)).encode()) % 4093 + 1  # its sums are exact in float32
    for sent, members in kinds.items():
        row = _summed(
            mesh, axis, [parts[i] for i in members], [cts[i] for i in members], sent, told
        )
        if row[-1].real != told * prod(mesh.sizes):
            raise DistError(
                f"fully_shard: ranks train other parameters of a unit; here requires_grad is True "
                f"of those with the numbers {list(trained)}"
            )
        count = len(members)
        at = 0
        for k, i in enumerate(members):
            part = parts[i]
            here = row[at : at + part.local.size]
            at += _stride(part, mesh.sizes[axis])
            if row[len(row) - 1 - count + k].real > 0:
                mean = here / (prod(mesh.sizes) if divisor is None else divisor)
                mean = collective.narrowed(mean.astype(row.dtype, copy=False), sent)
                value = new_tensor(mean.reshape(part.local.shape)).astype(part.dtype)
                out[i] = mesh.placed(value._a, part.shape, part.placements)
    return out


def sent_as(part: Any, dtype: Any) -> Any:
    floating = new_tensor(part.local).is_floating_point()
    return np.dtype(part.dtype if dtype is None or not floating else dtype)


def _stride(part: Any, count: int) -> int:
    """How many elements of a row are of this parameter."""
    width = int(np.prod(part.shape[1:]))
    return -(-part.shape[0] // count) * width


def _summed(
    mesh: Any, axis: int, parts: Sequence[Any], cts: Sequence[Any], sent: Any, told: int
) -> Any:
    """This rank's row of the sum over all ranks, in the dtype in which it was added."""
    ranks = mesh.ranks(axis)
    strides = [_stride(p, ranks.size) for p in parts]
    wide = collective.widen(np.empty(0, sent)).dtype
    rows = np.zeros((ranks.size, sum(strides) + len(parts) + 1), wide)
    rows[:, -1] = told
    at = 0
    for k, (ct, stride) in enumerate(zip(cts, strides)):
        if ct is not None:
            flat = collective.widen(new_tensor(ct).astype(sent)._a).reshape(-1)
            full = len(flat) // stride if stride else 0
            rows[:full, at : at + stride] = flat[: full * stride].reshape(full, stride)
            if full < ranks.size:
                rest = flat[full * stride :]
                rows[full, at : at + len(rest)] = rest
            rows[:, k - len(parts) - 1] = 1
        at += stride
    row = ranks.reduce_scatter(rows)
    for m in range(len(mesh.sizes)):
        if m != axis:
            row = mesh.ranks(m).reduce(row, "sum")
    return row
