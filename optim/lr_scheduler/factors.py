"""Learning rates times a factor that follows from the epoch: steps, ramps and decays."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import Any

from fx.optim.lr_scheduler.base import LRScheduler
from fx.optim.optimizer import Optimizer


class StepLR(LRScheduler):
    """Multiplies the learning rate by ``gamma`` every ``step_size`` epochs.

    Args:
        optimizer: whose learning rates are set.
        step_size: epochs between changes.
        gamma: the factor.
        last_epoch: the epoch to go on from.

    Example:
        >>> import fx
        >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))], lr=1.0)
        >>> scheduler = fx.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        >>> for _ in range(4):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        if not step_size:
            raise ValueError("StepLR: step_size must not be 0; write step_size=1 for each step")
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The present ones, or a factor of ``gamma`` less."""
        self._within_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._current()
        return self._times(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return self._base_times(self.gamma ** (self.last_epoch // self.step_size))


class MultiStepLR(LRScheduler):
    """Multiplies the learning rate by ``gamma`` at each milestone.

    Args:
        optimizer: whose learning rates are set.
        milestones: epochs; one that is named twice counts twice.
        gamma: the factor.
        last_epoch: the epoch to go on from.

    Example:
        >>> import fx
        >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))], lr=1.0)
        >>> scheduler = fx.optim.lr_scheduler.MultiStepLR(optimizer, [1, 3], gamma=0.5)
        >>> for _ in range(4):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(milestones, Iterable):
            raise TypeError(
                f"MultiStepLR: milestones must be a list of steps, got {milestones!r:.60}; write "
                f"milestones=[30, 80]"
            )
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The present ones, or a factor of ``gamma`` less."""
        self._within_step()
        times = self.milestones[self.last_epoch]
        return self._times(self.gamma**times) if times else self._current()

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return self._base_times(self.gamma**passed)


class ConstantLR(LRScheduler):
    """Multiplies the learning rate by ``factor`` until epoch ``total_iters``.

    Args:
        optimizer: whose learning rates are set.
        factor: between 0 and 1.
        total_iters: the epoch in which the learning rate is the full one again.
        last_epoch: the epoch to go on from.

    Raises:
        ValueError: for a factor out of range.

    Example:
        >>> import fx
        >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))], lr=1.0)
        >>> scheduler = fx.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=2)
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError(
                f"Constant multiplicative factor expected to be between 0 and 1, got {factor}"
            )
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The present ones, lower at first and full at the end."""
        self._within_step()
        if self.last_epoch == 0:
            return self._times(self.factor)
        if self.last_epoch != self.total_iters:
            return self._current()
        if not self.factor:  # nothing is left of them to multiply
            return self._base_times(1.0)
        return self._times(1.0 / self.factor)

    def _get_closed_form_lr(self) -> list[Any]:
        return self._base_times(1.0 if self.last_epoch >= self.total_iters else self.factor)


class LinearLR(LRScheduler):
    """Multiplies the learning rate by a factor that goes from one value to another in a line.

    Args:
        optimizer: whose learning rates are set.
        start_factor: the first factor, above 0.
        end_factor: the last one, from 0 to 1.
        total_iters: epochs between the two.
        last_epoch: the epoch to go on from.

    Raises:
        ValueError: for factors out of range.

    Example:
        >>> import fx
        >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))], lr=1.0)
        >>> scheduler = fx.optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=2)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                f"Starting multiplicative factor expected to be greater than 0 and less or equal "
                f"to 1, got {start_factor}"
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError(
                f"Ending multiplicative factor expected to be between 0 and 1, got {end_factor}"
            )
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The present ones, moved along the line."""
        self._within_step()
        now, rise = self.last_epoch, self.end_factor - self.start_factor
        if now == 0:
            return self._times(self.start_factor)
        if self._is_initial or now > self.total_iters:
            return self._current()
        before = self.total_iters * self.start_factor + (now - 1) * rise
        return self._times(1.0 + rise / before)

    def _get_closed_form_lr(self) -> list[Any]:
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        return self._base_times(self.start_factor + (self.end_factor - self.start_factor) * share)


class ExponentialLR(LRScheduler):
    """Multiplies the learning rate by ``gamma`` every epoch.

    Args:
        optimizer: whose learning rates are set.
        gamma: the factor.
        last_epoch: the epoch to go on from.

    Example:
        >>> import fx
        >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))], lr=1.0)
        >>> scheduler = fx.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The present ones times ``gamma``."""
        self._within_step()
        return self._current() if self._is_initial else self._times(self.gamma)

    def _get_closed_form_lr(self) -> list[Any]:
        return self._base_times(self.gamma**self.last_epoch)


class PolynomialLR(LRScheduler):
    """Lowers the learning rate to 0 along a power of the epochs that are left.

    Args:
        optimizer: whose learning rates are set.
        total_iters: the epoch in which it is 0.
        power: the power.
        last_epoch: the epoch to go on from.

    Example:
        >>> import fx
        >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))], lr=1.0)
        >>> scheduler = fx.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=2, power=2.0)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The present ones, moved along the power."""
        self._within_step()
        now, end = self.last_epoch, self.total_iters
        if self._is_initial or now > end:
            return self._current()
        return self._times(((1.0 - now / end) / (1.0 - (now - 1) / end)) ** self.power)

    def _get_closed_form_lr(self) -> list[Any]:
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        return self._base_times((1.0 - share) ** self.power)
