"""Post-local SGD: after a while gradients are averaged in small groups alone, and models at times.

Lin et al., Don't Use Large Mini-Batches, Use Local SGD (2020).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fx.config import no_grad
from fx.distributed.groups import new_subgroups, world
from fx.distributed.work import Future
from fx.errors import ArgumentError
from fx.nn.data_parallel.buckets import GradBucket
from fx.nn.data_parallel.hooks import allreduce_hook, settled, summed
from fx.ops.shapes.joining import concat


class PostLocalSGDState:
    """What ``post_localSGD_hook`` knows.

    Args:
        process_group: the ranks whose gradients are averaged at first; None: all.
        subgroup: those whose gradients are averaged afterwards; None: those of one machine.
        start_localSGD_iter: how many steps that is.
        post_local_gradient_allreduce: whether gradients are averaged afterwards at all.
    """

    def __init__(
        self,
        process_group: Any,
        subgroup: Any,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """A step is through with its last bucket."""
        self.iter += bucket.is_last()


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future:
    """The mean over all ranks for some steps, then that over a subgroup; see ``PostLocalSGDState``.

    Models drift apart then: average them with ``PeriodicModelAverager``.
    """
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        return settled(world(state.process_group), bucket.buffer())
    if state.subgroup is None:
        state.subgroup, _ = new_subgroups()
    return allreduce_hook(state.subgroup, bucket)


class PeriodicModelAverager:
    """Gives parameters their means over the ranks, every ``period`` steps.

    Args:
        period: steps from one mean to the next.
        warmup_steps: steps before the first one.
        process_group: the ranks; None: all.

    Raises:
        ValueError: if ``period`` is below 1, or ``warmup_steps`` negative.
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        if warmup_steps < 0:
            raise ArgumentError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ArgumentError(f"Arg ``period`` must be a positive value, got {period}.")
        self.period, self.warmup_steps, self.step = period, warmup_steps, 0
        self.process_group = process_group

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Count a step, and average where one is due: parameters, or groups of an optimizer."""
        at, self.step = self.step - self.warmup_steps, self.step + 1
        if at < 0 or at % self.period:
            return
        group, listed = world(self.process_group), list(params)
        if listed and isinstance(listed[0], dict):
            listed = [p for each in listed for p in each["params"]]
        by_dtype: dict[Any, list[Any]] = {}
        for p in listed:
            by_dtype.setdefault(p.dtype, []).append(p)
        with no_grad():
            for members in by_dtype.values():
                flat = concat([p.detach().reshape(-1) for p in members]) / group.size()
                whole, at = summed(group, flat).wait(), 0
                for p in members:
                    p._renew("average", whole[at : at + p.size].reshape(p.shape))
                    at += p.size
