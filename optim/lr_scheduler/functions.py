"""Learning rates from functions of the epoch: LambdaLR, MultiplicativeLR."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from fx.config import modes
from fx.optim.lr_scheduler.base import LRScheduler
from fx.optim.optimizer import Optimizer
from fx.transaction import whole

Factor = Callable[[int], float]


class _OfFunctions(LRScheduler):
    """What both have in common: one function a group, which state dicts leave out."""

    lr_lambdas: list[Any]

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1
    ) -> None:
        count = len(optimizer.param_groups)
        if not isinstance(lr_lambda, list | tuple):
            self.lr_lambdas = [lr_lambda] * count
        elif len(lr_lambda) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
        else:
            self.lr_lambdas = list(lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; functions count as None, other callables by state."""
        out = super().state_dict()
        out["lr_lambdas"] = [
            None if isinstance(f, FunctionType) else dict(f.__dict__) for f in self.lr_lambdas
        ]
        return out

    @whole
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave; the functions stay."""
        changes = modes.transaction
        changes.update(self.__dict__, {k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, state in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if state is not None:
                changes.update(function.__dict__, state)


class LambdaLR(_OfFunctions):
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

    def get_lr(self) -> list[Any]:
        """The first ones times the factors of this epoch."""
        self._within_step()
        pairs = zip(self.base_lrs, self.lr_lambdas, strict=True)
        return [base * factor(self.last_epoch) for base, factor in pairs]


class MultiplicativeLR(_OfFunctions):
    """The present learning rate times a function of the epoch.

    Args:
        optimizer: whose learning rates are set.
        lr_lambda: ``epoch -> factor``, or a list of them, one a group.
        last_epoch: the epoch to go on from.

    Raises:
        ValueError: if a list does not have one function a group.
        TypeError: if one is no function.

    Example:
        >>> import fx
        >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))], lr=1.0)
        >>> scheduler = fx.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1
    ) -> None:
        for f in lr_lambda if isinstance(lr_lambda, list | tuple) else [lr_lambda]:
            if not callable(f):
                raise TypeError(f"lr_lambda should be a function, but got {type(f).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Any]:
        """The present ones times the factors of this epoch."""
        self._within_step()
        if self._is_initial:
            return self._current()
        pairs = zip(self._current(), self.lr_lambdas, strict=True)
        return [rate * factor(self.last_epoch) for rate, factor in pairs]
