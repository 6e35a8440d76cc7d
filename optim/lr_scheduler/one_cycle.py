"""OneCycleLR: one rise of the learning rate and one long fall."""

from __future__ import annotations

import math
from typing import Any

from fx.optim.lr_scheduler.base import LRScheduler, check_optimizer, one_each
from fx.optim.lr_scheduler.cyclic import begin_momentum, set_momentum, uses_betas
from fx.optim.optimizer import Optimizer


class OneCycleLR(LRScheduler):
    """Learning rates up to ``max_lr`` and then down to nearly nothing, a step a batch.

    Args:
        optimizer: whose learning rates are set.
        max_lr: the upper bound, or a list with one a group.
        total_steps: of the whole cycle.
        epochs, steps_per_epoch: or else their product.
        pct_start: the share of the cycle that goes up.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum: whether momentum (or the first beta) goes the other way.
        base_momentum: its lower bound, or a list.
        max_momentum: its upper bound, or a list.
        div_factor: how many times less than ``max_lr`` the first one is.
        final_div_factor: how many times less than the first the last one is.
        three_phase: up, down to the first, and then down to the last.
        last_epoch: the step to go on from.

    Raises:
        ValueError: for lengths, shares or strategies that do not fit, for an optimizer without
            momentum, and in ``step`` beyond the last.
        TypeError: if ``optimizer`` is none.

    Source: Smith and Topin, "Super-convergence: very fast training of neural networks using large
    learning rates", 2017.

    Example:
        >>> import fx
        >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))], lr=1.0, momentum=0.9)
        >>> scheduler = fx.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
        >>> for _ in range(2):
        ...     optimizer.step()
        ...     scheduler.step()
        >>> scheduler.get_last_lr()
        [1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        if total_steps is not None:
            self.total_steps = _positive("total_steps", total_steps)
        elif epochs is not None and steps_per_epoch is not None:
            self.total_steps = _positive("epochs", epochs) * _positive(
                "steps_per_epoch", steps_per_epoch
            )
        else:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        last = self.total_steps - 1
        up = float(pct_start * self.total_steps) - 1
        if three_phase:
            self._schedule_phases = [
                _phase(up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                _phase(2.0 * up, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                _phase(last, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            self._schedule_phases = [
                _phase(up, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                _phase(last, "max_lr", "min_lr", "base_momentum", "max_momentum"),
            ]
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if not div_factor or not final_div_factor:
            raise ValueError(
                f"OneCycleLR: div_factor and final_div_factor must not be 0, got {div_factor} and "
                f"{final_div_factor}"
            )
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        max_lrs = one_each("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, most in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"] = most / div_factor
                group["max_lr"] = most
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = uses_betas(optimizer)
            high = one_each("max_momentum", optimizer, max_momentum)
            low = one_each("base_momentum", optimizer, base_momentum)
            if last_epoch == -1:
                begin_momentum(self, low, high)
        super().__init__(optimizer, last_epoch)

    def _anneal_func(self, start: Any, end: Any, share: float) -> Any:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[Any]:
        """The place in the cycle; momentum is set on the way."""
        self._within_step()
        now = self.last_epoch
        if now > self.total_steps:
            raise ValueError(
                f"Tried to step {now} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        start: Any = 0.0
        for phase in self._schedule_phases[:-1]:
            if now <= phase["end_step"]:
                break
            start = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        share = (now - start) / (phase["end_step"] - start)
        for group in self.optimizer.param_groups if self.cycle_momentum else ():
            ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
            set_momentum(group, self._anneal_func(*ends, share), self.use_beta1)
        return [
            self._anneal_func(group[phase["start_lr"]], group[phase["end_lr"]], share)
            for group in self.optimizer.param_groups
        ]


def _phase(end: float, *keys: str) -> dict[str, Any]:
    """A part of the cycle: its last step, and the options at its ends."""
    names = ("start_lr", "end_lr", "start_momentum", "end_momentum")
    return {"end_step": end, **dict(zip(names, keys, strict=True))}


def _positive(name: str, value: Any) -> int:
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {value}")
    return value
