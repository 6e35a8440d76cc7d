"""Post-local SGD: after a while gradients are averaged in small groups alone, and models at times.

Lin et al., Don't Use Large Mini-Batches, Use Local SGD (2020).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from fx.config import no_grad
from fx.distributed.groups import NotInGroup, new_subgroups, world
from fx.distributed.work import Future
from fx.errors import ArgumentError
from fx.nn.data_parallel.buckets import GradBucket
from fx.nn.data_parallel.hooks import allreduce_hook, settled, summed
from fx.ops.shapes.joining import concat
from fx.tensor import Tensor


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


def with_gradients(params: Iterable[Any]) -> list[Any]:
    """The parameters that have a gradient, of parameters or of groups of an optimizer.

    Raises:
        NotImplementedError: if one is neither.
    """
    found = []
    for p in params:
        if isinstance(p, dict):
            found += [each for each in p["params"] if each.grad is not None]
        elif isinstance(p, Tensor):
            found += [p] if p.grad is not None else []
        else:
            raise NotImplementedError(f"Parameter input of type {type(p)} is not supported")
    return found


def average(params: Iterable[Any], process_group: Any = None) -> None:
    """Give parameters their means over the ranks, one message a dtype.

    Args:
        params: parameters, the same in all ranks.
        process_group: the ranks; None: all. Those that are not in it keep what they have.
    """
    try:
        group = world(process_group)
    except NotInGroup:
        return
    by_dtype: dict[Any, list[Any]] = {}
    for p in params:
        by_dtype.setdefault(p.dtype, []).append(p)
    with no_grad():
        for members in by_dtype.values():
            flat = concat([p.detach().reshape(-1) for p in members]) / group.size()
            whole, at = summed(group, flat).wait(), 0
            for p in members:
                p._renew("average", whole[at : at + p.size].reshape(p.shape))
                at += p.size


class ModelAverager:
    """What gives the parameters of models their means at times: ``step`` counts the calls.

    Args:
        process_group: the ranks; None: all.
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group, self.step = world(process_group), 0

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Count a step, and average where one is due."""
        raise NotImplementedError("average_parameters: a subclass of ModelAverager says when")


class PeriodicModelAverager(ModelAverager):
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
        super().__init__(process_group)
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Count a step, and average where one is due what has a gradient.

        Args:
            params: parameters, or groups of an optimizer.
        """
        at, self.step = self.step - self.warmup_steps, self.step + 1
        if at >= 0 and at % self.period == 0:
            average(with_gradients(params), self.process_group)


class HierarchicalModelAverager(ModelAverager):
    """Gives parameters their means over groups of ranks, the larger ones less often.

    Lin et al., Don't Use Large Mini-Batches, Use Local SGD (2020), section 5.

    Args:
        period_group_size_dict: how many steps from one mean to the next, and over how many
            neighbouring ranks it is, in growing order; the last is over all. A step at which
            several are due has the largest.
        warmup_steps: steps before the first one.
        process_group: the ranks; None: all.

    Raises:
        ValueError: if there is no period, the first is below 1, the last group is not that of all
            ranks, or ``warmup_steps`` is negative.
    """

    def __init__(
        self,
        period_group_size_dict: Mapping[int, int] | None = None,
        warmup_steps: int = 0,
        process_group: Any = None,
    ) -> None:
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ArgumentError("Arg ``period_group_size_dict`` must not be empty.")
        periods, sizes = [*period_group_size_dict], [*period_group_size_dict.values()]
        if periods[0] <= 0:
            raise ArgumentError(
                "The minimum period in arg ``period_group_size_dict`` must be a positive value."
            )
        if periods[-1] == 1:
            warnings.warn(
                "When the maximum period in arg ``period_group_size_dict`` is 1, no need to use "
                "model averaging: DistributedDataParallel alone sends as much.",
                stacklevel=2,
            )
        whole = self.process_group.size()
        if sizes[-1] != whole:
            raise ArgumentError(
                f"The last value in arg ``period_group_size_dict`` {sizes[-1]} must be equal to "
                f"the size of arg ``process_group`` {whole}."
            )
        if warmup_steps < 0:
            raise ArgumentError("Arg ``warmup_steps`` must be a non-negative number.")
        self.warmup_steps = warmup_steps
        self.period_process_group_dict = {
            period: self.process_group
            if size == whole
            else new_subgroups(group_size=size, group=self.process_group)[0]
            for period, size in zip(periods, sizes)
        }

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Count a step, and average where one is due what has a gradient.

        Args:
            params: parameters, or groups of an optimizer.
        """
        at, self.step = self.step, self.step + 1
        if at < self.warmup_steps:
            return
        due = [g for period, g in self.period_process_group_dict.items() if at % period == 0]
        if due:
            average(with_gradients(params), due[-1])
