"""CyclicLR: learning rates that go up and down between two bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

from fx.config import modes
from fx.optim.lr_scheduler.base import LRScheduler, check_optimizer, one_each, set_value
from fx.optim.optimizer import Optimizer
from fx.transaction import whole

_MODES = ("triangular", "triangular2", "exp_range")


class CyclicLR(LRScheduler):
    """Learning rates along triangles between a lower and an upper bound, a step a batch.

    Args:
        optimizer: whose learning rates are set.
        base_lr: the lower bound, or a list with one a group.
        max_lr: the upper bound, or a list.
        step_size_up: steps up.
        step_size_down: steps down; as many as up unless told.
        mode: ``"triangular"``; ``"triangular2"``, each half as high as the last; or
            ``"exp_range"``, whose height falls by ``gamma`` a step.
        gamma: for ``"exp_range"``.
        scale_fn: instead of ``mode``, what multiplies the height.
        scale_mode: what ``scale_fn`` gets, ``"cycle"`` (from 1) or ``"iterations"``.
        cycle_momentum: whether momentum (or the first beta) goes the other way.
        base_momentum: its lower bound, or a list.
        max_momentum: its upper bound, or a list.
        last_epoch: the step to go on from.

    Raises:
        ValueError: for an unknown mode, lists of another length, or an optimizer without momentum.
        TypeError: if ``optimizer`` is none.

    Source: Smith, "Cyclical learning rates for training neural networks", 2015.

    Example:
        >>> import fx
        >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))], lr=1.0, momentum=0.9)
        >>> scheduler = fx.optim.lr_scheduler.CyclicLR(optimizer, 0.0, 1.0, step_size_up=2)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        base_lrs = one_each("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for rate, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_value(group, "lr", rate)
        self.max_lrs = one_each("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        if not self.total_size > 0:
            raise ValueError(
                f"CyclicLR: step_size_up and step_size_down must be positive, got {step_size_up} "
                f"and {step_size_down}"
            )
        self.step_ratio = up / self.total_size
        if mode not in _MODES and scale_fn is None:
            raise ValueError(f"mode is invalid and scale_fn is None: {mode!r}; use one of {_MODES}")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = _scale_mode(mode)
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = uses_betas(optimizer)
            self.base_momentums = one_each("base_momentum", optimizer, base_momentum)
            self.max_momentums = one_each("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                begin_momentum(self, self.base_momentums, self.max_momentums)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """What multiplies the height in a cycle or step."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 0.5 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[Any]:
        """The place on the triangle; momentum is set on the way."""
        self._within_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums, strict=True)
            momenta = [high - (high - low) * height * scale for low, high in bounds]
            for group, momentum in zip(self.optimizer.param_groups, momenta, strict=True):
                set_momentum(group, momentum, self.use_beta1)
        bounds = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * height * scale for low, high in bounds]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; a function counts as None, another callable by state."""
        out = super().state_dict()
        f = out.pop("_scale_fn_custom")
        out["_scale_fn_custom"] = (
            None if f is None or isinstance(f, FunctionType) else dict(f.__dict__)
        )
        return out

    @whole
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave; the function stays."""
        changes = modes.transaction
        given = {k: v for k, v in state_dict.items() if k != "_scale_fn_custom"}
        if self._scale_fn_custom is None:
            given["scale_mode"] = _scale_mode(given.get("mode", self.mode))
        changes.update(self.__dict__, given)
        state = state_dict["_scale_fn_custom"]
        if state is not None:
            changes.update(self._scale_fn_custom.__dict__, state)


def _scale_mode(mode: str) -> str:
    """What the height of a mode of its own is scaled by."""
    return "iterations" if mode == "exp_range" else "cycle"


# momentum, which goes the other way than the learning rate ---------------------------------------


def uses_betas(optimizer: Optimizer) -> bool:
    """Whether an optimizer's momentum is the first of its betas.

    Raises:
        ValueError: if it has neither.
    """
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            f"optimizer must support momentum or beta1 with `cycle_momentum` option enabled, and "
            f"{type(optimizer).__name__} does not; pass cycle_momentum=False"
        )
    return "betas" in optimizer.defaults


def begin_momentum(scheduler: Any, low: list[float], high: list[float]) -> None:
    """Set the momentum of each group to its upper bound, and note both bounds there."""
    groups = scheduler.optimizer.param_groups
    for group, base, most in zip(groups, low, high, strict=True):
        set_momentum(group, most, scheduler.use_beta1)
        group["max_momentum"] = most
        group["base_momentum"] = base


def set_momentum(group: dict[str, Any], momentum: Any, use_beta1: bool) -> None:
    """Set the momentum of a group, or its first beta."""
    if use_beta1:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum
