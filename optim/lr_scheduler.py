"""Learning-rate schedulers: each ``step()`` sets the learning rate of every group."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fx.numbers import on_host
from fx.optim.optimizer import Optimizer


class LRScheduler:
    """What every scheduler shares, as ``torch.optim.lr_scheduler.LRScheduler``.

    A subclass gives ``get_lr``: the next learning rates from those that the groups have now, so
    that several schedulers of one optimizer combine.

    Args:
        optimizer: whose learning rates are set.
        last_epoch: the epoch to go on from, -1 for the beginning.

    Raises:
        TypeError: if ``optimizer`` is none.
        KeyError: when going on, if the optimizer's groups do not know their first learning rate.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    f"scheduler with last_epoch >= 0; load the optimizer's state dict first"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._last_lr: list[Any] = []
        self.step()

    def get_lr(self) -> list[Any]:
        """The learning rate of each group at ``last_epoch``; every subclass gives its own."""
        raise NotImplementedError(f"{type(self).__name__} must define get_lr(self)")

    def get_last_lr(self) -> list[Any]:
        """The learning rate of each group that the last step set."""
        return self._last_lr

    def step(self) -> None:
        """Go on to the next epoch; inside a jitted function, in every call of it."""
        on_host(self._advance, (self.__dict__, *self.optimizer.param_groups))

    def _advance(self) -> None:
        self.last_epoch += 1
        groups = self.optimizer.param_groups
        for group, lr in zip(groups, self.get_lr(), strict=True):
            group["lr"] = lr
        self._last_lr = [group["lr"] for group in groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave."""
        self.__dict__.update(state_dict)

    def _current(self) -> list[Any]:
        return [group["lr"] for group in self.optimizer.param_groups]


class StepLR(LRScheduler):
    """Multiplies the learning rate by ``gamma`` every ``step_size`` epochs.

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
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The present ones, or a factor of ``gamma`` less."""
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._current()
        return [lr * self.gamma for lr in self._current()]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first learning rate down to ``eta_min`` in ``T_max`` epochs.

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
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The present ones, moved along the cosine."""
        now, low = self.last_epoch, self.eta_min
        if now == 0:
            return self._current()
        if (now - 1 - self.T_max) % (2 * self.T_max) == 0:  # at the bottom the ratio is 0 / 0
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            pairs = zip(self._current(), self.base_lrs, strict=True)
            return [lr + (base - low) * rise for lr, base in pairs]
        ratio = (1 + math.cos(math.pi * now / self.T_max)) / (
            1 + math.cos(math.pi * (now - 1) / self.T_max)
        )
        return [low + (lr - low) * ratio for lr in self._current()]


class LambdaLR(LRScheduler):
    """The first learning rate times a function of the epoch.

    Args:
        optimizer: whose learning rates are set.
        lr_lambda: ``epoch -> factor``, or a list of them, one a group.
        last_epoch: the epoch to go on from.

    Raises:
        ValueError: if a list does not have one function a group.

    Example:
        >>> import fx
        >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))], lr=1.0)
        >>> scheduler = fx.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        count = len(optimizer.param_groups)
        if not isinstance(lr_lambda, list | tuple):
            self.lr_lambdas: list[Any] = [lr_lambda] * count
        elif len(lr_lambda) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
        else:
            self.lr_lambdas = list(lr_lambda)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The first ones times the factors of this epoch."""
        return [
            base * function(self.last_epoch)
            for base, function in zip(self.base_lrs, self.lr_lambdas, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; functions count as None, other callables by state."""
        out = super().state_dict()
        out["lr_lambdas"] = [
            None if isinstance(f, type(lambda: 0)) else dict(f.__dict__) for f in self.lr_lambdas
        ]
        return out

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave; the functions stay."""
        self.__dict__.update((k, v) for k, v in state_dict.items() if k != "lr_lambdas")
        for function, state in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if state is not None:
                function.__dict__.update(state)
