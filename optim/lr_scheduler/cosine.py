"""Learning rates along a cosine: CosineAnnealingLR, CosineAnnealingWarmRestarts."""

from __future__ import annotations

import math
from typing import Any

from fx.optim.lr_scheduler.base import LRScheduler, _number
from fx.optim.optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first learning rate down to ``eta_min`` in ``T_max`` epochs.

    Args:
        optimizer: whose learning rates are set.
        T_max: epochs down to the least; as many up again.
        eta_min: the least.
        last_epoch: the epoch to go on from.

    Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2016.

    Example:
        >>> import fx
        >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))], lr=1.0)
        >>> scheduler = fx.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> round(scheduler.get_last_lr()[0], 6)
        0.5
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if not T_max:
            raise ValueError("CosineAnnealingLR: T_max must not be 0; give the number of steps")
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The present ones, moved along the cosine."""
        self._within_step()
        now, low = self.last_epoch, self.eta_min
        if self._is_initial:
            return self._current()
        if self._step_count == 1 and now > 0:
            return self._get_closed_form_lr()
        if (now - 1 - self.T_max) % (2 * self.T_max) == 0:  # at the bottom the ratio is 0 / 0
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            pairs = zip(self._current(), self.base_lrs, strict=True)
            return [rate + (base - low) * rise for rate, base in pairs]
        ratio = (1 + math.cos(math.pi * now / self.T_max)) / (
            1 + math.cos(math.pi * (now - 1) / self.T_max)
        )
        return [(rate - low) * ratio + low for rate in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        height = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half cosines one after the other, each from the first learning rate down to ``eta_min``.

    ``step(epoch)`` takes fractions of epochs: call it after each batch with
    ``epoch + i / batches``.

    Args:
        optimizer: whose learning rates are set.
        T_0: epochs of the first cosine.
        T_mult: how many times longer the next one is.
        eta_min: the least learning rate.
        last_epoch: the epoch to go on from.

    Raises:
        ValueError: for lengths that are no positive integers.

    Source: Loshchilov and Hutter, "SGDR: stochastic gradient descent with warm restarts", 2016.

    Example:
        >>> import fx
        >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))], lr=1.0)
        >>> scheduler = fx.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: Any = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The place on the present cosine."""
        self._within_step()
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def _advance(self, epoch: Any = None) -> None:
        epoch = _number(epoch)
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        elif epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            growth = epoch / self.T_0 * (self.T_mult - 1) + 1
            cosines = int(math.log(growth, self.T_mult))  # that are over
            over = self.T_0 * (self.T_mult**cosines - 1) / (self.T_mult - 1)
            self.T_cur, self.T_i = epoch - over, self.T_0 * self.T_mult**cosines
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            rates = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._set(rates)
