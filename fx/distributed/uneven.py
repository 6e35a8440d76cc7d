"""Uneven inputs: what has collectives in each iteration goes on where ranks have fewer of them.

Names are PyTorch's (``torch.distributed.algorithms.join``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fx.distributed import exchange
from fx.distributed.errors import DistError
from fx.distributed.groups import world
from fx.distributed.reductions import ReduceOp
from fx.distributed.work import Work
from fx.errors import ArgumentError

EXHAUSTED = "Detected at least one rank that exhausted inputs. Throwing across all ranks."


class JoinHook:
    """What a rank that is through does while others go on; override both."""

    def main_hook(self) -> None:
        """The collectives of one iteration of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """When all ranks are through.

        Args:
            is_last_joiner: whether this rank is one of those that had the most iterations.
        """


class Joinable:
    """What can take part in ``Join``: it calls ``Join.notify_join_context(self)`` each iteration,
    before its collectives.
    """

    _join: Join | None = None

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """A hook for a block, with its keywords."""
        raise NotImplementedError(f"{type(self).__name__} has no join_hook")

    @property
    def join_device(self) -> Any:
        """Where its messages lie."""
        raise NotImplementedError(f"{type(self).__name__} has no join_device")

    @property
    def join_process_group(self) -> Any:
        """The ranks that it talks to."""
        raise NotImplementedError(f"{type(self).__name__} has no join_process_group")


class Join:
    """A block in which ranks may have different numbers of iterations.

    A rank that leaves it first runs the hooks of all joinables until the last rank leaves, so that
    each collective is met.

    Args:
        joinables: at least one; the first counts the iterations.
        enable: False: the block does nothing.
        throw_on_early_termination: raise in all ranks when the first is through.
        kwargs: for each joinable's ``join_hook``.

    Raises:
        ValueError: without joinables, or if they talk to different ranks.
        TypeError: if one is none.

    Source: ``torch.distributed.algorithms.join.Join``.
    """

    def __init__(
        self, joinables: Sequence[Any], enable: bool = True,
        throw_on_early_termination: bool = False, **kwargs: Any,
    ) -> None:  # fmt: skip
        if not len(joinables):
            raise ArgumentError("The join context manager requires at least one joinable")
        for x in joinables:
            if not hasattr(x, "join_hook") or not hasattr(type(x), "join_process_group"):
                raise TypeError(
                    f"The join context manager requires joinables, got {type(x).__name__}, which "
                    f"has no join_hook and join_process_group"
                )
        self._joinables = list(joinables)
        self._enable, self._throw = enable, throw_on_early_termination
        self._group, *others = [world(x.join_process_group) for x in self._joinables]
        if any(group is not self._group for group in others):
            raise ArgumentError("Using join context manager with multiple process groups")
        self._hooks = [x.join_hook(**kwargs) for x in self._joinables] if enable else []

    def __enter__(self) -> None:
        if self._enable:
            for x in self._joinables:
                object.__setattr__(x, "_join", self)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if not self._enable:
            return
        try:
            if kind is None:
                self._shadow()
        finally:
            for x in self._joinables:
                object.__setattr__(x, "_join", None)
                end = getattr(x, "_leave_join", None)
                if end is not None:
                    end()

    def _shadow(self) -> None:
        last = True
        while self._sum(0):
            if self._throw:
                self._sum(1)
                raise DistError(f"Rank {self._group.rank()} exhausted all inputs.")
            last = False
            for hook in self._hooks:
                hook.main_hook()
        for hook in self._hooks:
            hook.post_hook(last)

    def _sum(self, value: int) -> int:
        array = np.array([value], np.int64)
        steps = exchange.reduce_all(self._group, array, ReduceOp.SUM)
        return int(Work(self._group, "Join", steps, lambda out: out).begin().value()[0])

    @staticmethod
    def notify_join_context(joinable: Any) -> None:
        """Say that this rank begins an iteration; only the first joinable of a block does.

        Raises:
            RuntimeError: if a rank is through and the block throws then.
        """
        join = getattr(joinable, "_join", None)
        if join is None or joinable is not join._joinables[0]:
            return
        join._sum(1)
        if join._throw and join._sum(0):
            raise DistError(EXHAUSTED)
