"""ReduceLROnPlateau: a lower learning rate when a metric no longer improves."""

from __future__ import annotations

from math import inf
from typing import Any

from fx.config import modes
from fx.optim.lr_scheduler.base import LRScheduler, check_optimizer, set_value, warn_of_epoch
from fx.optim.optimizer import Optimizer
from fx.transaction import whole


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the learning rate by ``factor`` when a metric has not improved for a while.

    Inside a jitted function ``step(loss)`` takes the loss as it is: its value is looked at after
    each call.

    Args:
        optimizer: whose learning rates are set.
        mode: ``"min"`` or ``"max"``: which way the metric improves.
        factor: below 1.
        patience: how many epochs without improvement are borne.
        threshold: what counts as an improvement.
        threshold_mode: ``"rel"`` to the best so far, or ``"abs"``.
        cooldown: epochs after a change that are not looked at.
        min_lr: the least learning rate, or a list with one a group.
        eps: the least change that is made.

    Raises:
        ValueError: for a factor, mode or list that does not fit.
        TypeError: if ``optimizer`` is none.

    Example:
        >>> import fx
        >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))], lr=1.0)
        >>> scheduler = fx.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)
        >>> for loss in [3.0, 2.0, 2.0, 2.0]:
        ...     scheduler.step(loss)
        >>> scheduler.get_last_lr()
        [0.1]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(f"Factor should be < 1.0, got {factor}")
        self.factor = factor
        check_optimizer(optimizer)
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        self.default_min_lr: float | None = None
        if not isinstance(min_lr, list | tuple):
            self.default_min_lr = min_lr
            self.min_lrs = [min_lr] * count
        elif len(min_lr) != count:
            raise ValueError(f"expected {count} min_lrs, got {len(min_lr)}")
        else:
            self.min_lrs = list(min_lr)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = self._current()
        self.__dict__.update(_better(mode, threshold, threshold_mode))
        self._reset()

    def _reset(self) -> None:
        """Begin anew, with no best value."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Look at a metric.

        Args:
            metrics: a number, or a tensor of one element.
            epoch: which epoch it is; PyTorch has deprecated it.
        """
        if epoch is not None:
            warn_of_epoch()
        self._on_host(lambda value: self._look(float(value), epoch), metrics)

    def _look(self, value: float, epoch: int | None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value, self.best):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._current()

    def _reduce_lr(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from "
                    f"when `ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due "
                    f"to a new param group being added to the optimizer. Please modify the "
                    f"`min_lrs` field to match the length of the `optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, least)
            if old - new > self.eps:
                set_value(group, "lr", new)

    @property
    def in_cooldown(self) -> bool:
        """Whether a change was made so lately that metrics are not looked at."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        sign = -1.0 if self.mode == "min" else 1.0
        if self.threshold_mode == "rel":
            bound = best * (1.0 + sign * self.threshold)
        else:
            bound = best + sign * self.threshold
        return a < bound if self.mode == "min" else a > bound

    @whole
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave.

        Raises:
            ValueError: for an unknown mode.
        """
        now = {**self.__dict__, **state_dict}
        better = _better(now["mode"], now["threshold"], now["threshold_mode"])
        modes.transaction.update(self.__dict__, {**state_dict, **better})


def _better(mode: str, threshold: float, threshold_mode: str) -> dict[str, Any]:
    """The attributes that say which metric is better."""
    if mode not in ("min", "max"):
        raise ValueError(f"mode {mode} is unknown! Use 'min' or 'max'")
    if threshold_mode not in ("rel", "abs"):
        raise ValueError(f"threshold mode {threshold_mode} is unknown! Use 'rel' or 'abs'")
    return {
        "mode_worse": inf if mode == "min" else -inf,
        "mode": mode,
        "threshold": threshold,
        "threshold_mode": threshold_mode,
    }
