"""Schedulers of schedulers: SequentialLR, ChainedScheduler."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from fx.config import modes
from fx.optim.lr_scheduler.base import LRScheduler, set_value
from fx.optim.lr_scheduler.plateau import ReduceLROnPlateau
from fx.optim.optimizer import Optimizer
from fx.transaction import whole


class _Combined(LRScheduler):
    """What both have in common: a list of schedulers, whose states the state dict holds."""

    _schedulers: Any

    def _check(self, schedulers: Sequence[Any], optimizer: Any, verb: str) -> None:
        name = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(f"{name} expects at least one scheduler{verb}, but got no scheduler.")
        optimizer = optimizer or getattr(schedulers[0], "optimizer", None)
        for i, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires "
                    f"additional kwargs to be specified when calling `step`, but got one at index "
                    f"{i} in the given schedulers sequence."
                )
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got "
                    f"scheduler {type(scheduler).__name__} at index {i} has "
                    f"{scheduler.optimizer}, which is different from {type(optimizer).__name__}."
                )

    def _held(self) -> tuple[dict[Any, Any], ...]:
        inner = [held for s in self._schedulers for held in s._held()]
        return self.__dict__, *inner, *self.optimizer.param_groups

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, and the states of the schedulers."""
        out = super().state_dict()
        out["_schedulers"] = [s.state_dict() for s in self._schedulers]
        return out

    @whole
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        changes = modes.transaction
        changes.update(self.__dict__, {k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            changes.load(scheduler, state)


class SequentialLR(_Combined):
    """One scheduler after the other: at each milestone the next one takes over from its beginning.

    Args:
        optimizer: whose learning rates are set.
        schedulers: of this optimizer.
        milestones: epochs, one less than schedulers.
        last_epoch: the epoch to go on from.

    Raises:
        ValueError: if there are no schedulers, not as many milestones, a scheduler of another
            optimizer, or a ReduceLROnPlateau.

    Example:
        >>> import fx
        >>> from fx.optim.lr_scheduler import ConstantLR, ExponentialLR, SequentialLR
        >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))], lr=1.0)
        >>> parts = [ConstantLR(optimizer, 0.1, 2), ExponentialLR(optimizer, 0.5)]
        >>> scheduler = SequentialLR(optimizer, parts, milestones=[2])
        >>> for _ in range(3):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        self._check(schedulers, optimizer, "")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        for group in optimizer.param_groups:
            set_value(group, "lr", group["initial_lr"])
        self.recursive_undo()  # making them has made a step of each
        first = self._schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take one epoch back in every scheduler within."""
        sched = self if sched is None else sched
        if hasattr(sched, "_schedulers"):
            for inner in sched._schedulers:
                self.recursive_undo(inner)
        elif hasattr(sched, "last_epoch"):
            sched.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Go on to the next epoch."""
        self._on_host(self._advance)

    def _advance(self, epoch: Any = None) -> None:
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Combined):
    """Several schedulers at once: each changes what those before it have set.

    Args:
        schedulers: of one optimizer.
        optimizer: that optimizer; the first scheduler's unless told.

    Raises:
        ValueError: if there are no schedulers, one of another optimizer, or a ReduceLROnPlateau.

    Example:
        >>> import fx
        >>> from fx.optim.lr_scheduler import ChainedScheduler, ConstantLR, ExponentialLR
        >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))], lr=1.0)
        >>> parts = [ConstantLR(optimizer, 0.25, 20), ExponentialLR(optimizer, 0.5)]
        >>> scheduler = ChainedScheduler(parts)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.125]
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        self._check(schedulers, optimizer, " to be chained")
        self._schedulers = schedulers
        self.optimizer = optimizer or schedulers[0].optimizer
        self._last_lr = self._current()

    def step(self) -> None:  # type: ignore[override]
        """Make a step of each scheduler."""
        self._on_host(self._advance)

    def _advance(self, epoch: Any = None) -> None:
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._current()
