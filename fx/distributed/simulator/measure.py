"""``measure``: the cluster that the ranks of a group are, by what they take."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log2
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

import fx
from fx.distributed import collectives, groups
from fx.distributed.reductions import ReduceOp
from fx.distributed.simulator.cluster import Cluster, Link

_BYTES = [4, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22]


def measure(group: Any = None, memory: float = float("inf")) -> Cluster:
    """Measure devices and the link between them. All ranks of the group call it, on idle machines.

    All ranks compute at once, as they do in a step, so that what they share is shared here too.

    Args:
        group: the ranks, of one host; the default group for None.
        memory: bytes of a device, which nobody measures.

    Returns:
        a host with a device a rank; the link to other hosts is taken for the same.
    """
    ranks = groups.get_world_size(group)
    matrix, long = fx.rand(512, 512), fx.rand(1 << 22)
    product = _seconds(fx.jit(lambda x: x @ x), matrix, group)
    sweep = _seconds(fx.jit(lambda x: x + 1), long, group)
    link = Link(1e-9, 1e15)
    if ranks > 1:
        add = fx.jit(lambda x: collectives.all_reduce(x, group=group))
        link = _fitted(ranks, [(n, _seconds(add, fx.ones(n // 4), group)) for n in _BYTES])
    return Cluster(1, ranks, 2 * 512**3 / product, 2 * long.nbytes / sweep, memory, link, link)


def _seconds(f: Callable[..., Any], x: Any, group: Any, turns: int = 15) -> float:
    """The median time of a call, that of the slowest rank."""
    f(x)
    taken = []
    for _ in range(turns):
        collectives.barrier(group)
        start = perf_counter()
        f(x)
        taken.append(perf_counter() - start)
    slowest = collectives.all_reduce(fx.tensor(median(taken)), ReduceOp.MAX, group)
    return float(slowest)


def _fitted(ranks: int, found: list[tuple[int, float]]) -> Link:
    """The link by which sums of so many bytes take so long; errors count by their share."""
    rounds, share = ceil(log2(ranks)), 1.0 if ranks == 2 else 2 * (ranks - 1) / ranks
    times = np.array([t for _, t in found])
    terms = np.array([(rounds, share * n) for n, _ in found]) / times[:, None]
    latency, inverse = np.linalg.lstsq(terms, np.ones(len(found)), rcond=None)[0]
    return Link(max(float(latency), 1e-9), 1 / max(float(inverse), 1e-15))
