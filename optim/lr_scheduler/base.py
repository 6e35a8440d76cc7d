"""What learning-rate schedulers share: groups, epochs, and steps that go on under jit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from fx.config import modes
from fx.numbers import Number, on_host
from fx.ops.convert import as_tensor
from fx.optim.optimizer import Optimizer
from fx.prims.shape import broadcast_to, reshape
from fx.staged_number import StagedNumber
from fx.state import Cell
from fx.tensor import Tensor
from fx.transaction import whole


class LRScheduler:
    """What every scheduler shares, as ``torch.optim.lr_scheduler.LRScheduler``.

    A subclass gives ``get_lr``: the next learning rates, mostly from those that the groups have
    now, so that several schedulers of one optimizer combine. A step inside a jitted function is
    made in every call of it.

    Args:
        optimizer: whose learning rates are set.
        last_epoch: the epoch to go on from, -1 for the beginning.

    Raises:
        TypeError: if ``optimizer`` is none.
        KeyError: when going on, if the optimizer's groups do not know their first learning rate.
    """

    last_epoch = Number()  # which jitted functions may read
    _step_count = Number()
    _get_lr_called_within_step: bool = False
    _is_initial: bool = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        optimizer.__dict__.setdefault("_opt_called", False)  # steps from here on count
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", value_of(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    f"scheduler with last_epoch >= 0; load the optimizer's state dict first"
                )
        self.base_lrs = values(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[Any]:
        """The learning rate of each group at ``last_epoch``; every subclass gives its own."""
        raise NotImplementedError(f"{type(self).__name__} must define get_lr(self)")

    def get_last_lr(self) -> list[Any]:
        """The learning rate of each group that the last step set."""
        if modes.stage is not None:
            modes.stage.reads(self, "_last_lr")
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch; inside a jitted function, in every call of it.

        Args:
            epoch: which one instead of the next; PyTorch has deprecated it.
        """
        self._on_host(self._advance, epoch)

    def _on_host(self, effect: Callable[..., None], value: Any = None) -> None:
        """Call ``effect(value)``, or ``effect()`` without one, in every call of a function."""
        held = self._held()
        if value is None:
            on_host(effect, held)
        elif isinstance(value, StagedNumber):
            on_host(effect, held, value.in_dtype())
        elif isinstance(value, Tensor):
            on_host(effect, held, value)
        else:
            on_host(partial(effect, value), held)

    def _held(self) -> tuple[dict[Any, Any], ...]:
        """The dicts that a step changes."""
        return self.__dict__, *self.optimizer.param_groups

    def _advance(self, epoch: Any = None) -> None:
        if self._step_count == 1:
            _check_order(self.optimizer)
        self._step_count += 1
        if epoch is not None:
            warn_of_epoch()
        self._update_lr(_number(epoch))

    def _update_lr(self, epoch: Any = None) -> None:
        self._get_lr_called_within_step = True
        try:
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            closed = None if epoch is None else getattr(self, "_get_closed_form_lr", None)
            rates = self.get_lr() if closed is None else closed()
        finally:
            self._get_lr_called_within_step = False
        self._set(rates)

    def _set(self, rates: list[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_value(group, "lr", rate)
        self._last_lr = self._current()

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    @whole
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave, of PyTorch's scheduler too."""
        modes.transaction.update(self.__dict__, state_dict)

    def _current(self) -> list[Any]:
        return values(self.optimizer, "lr")

    def _times(self, factor: Any) -> list[Any]:
        """The present learning rates times a factor."""
        return [rate * factor for rate in self._current()]

    def _base_times(self, factor: Any) -> list[Any]:
        """The first learning rates times a factor."""
        return [rate * factor for rate in self.base_lrs]

    def _within_step(self) -> None:
        """Warn whoever calls ``get_lr`` from outside."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, "
                "please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )


def check_optimizer(optimizer: Any) -> None:
    """Refuse what is no optimizer.

    Raises:
        TypeError: naming its type.
    """
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _check_order(optimizer: Any) -> None:
    """Warn of a scheduler that steps before its optimizer has."""
    if not hasattr(optimizer.step, "hooked"):
        said = (
            "Seems like `optimizer.step()` has been overridden after learning rate scheduler "
            "initialization. Please, make sure to call `optimizer.step()` before "
            "`lr_scheduler.step()`."
        )
    elif not getattr(optimizer, "_opt_called", False):
        said = (
            "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them in the "
            "opposite order: `optimizer.step()` before `lr_scheduler.step()`; else the first value "
            "of the learning rate schedule is skipped."
        )
    else:
        return
    warnings.warn(said, UserWarning, stacklevel=5)


def warn_of_epoch() -> None:
    """Warn that ``step(epoch)`` is deprecated."""
    warnings.warn(
        "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
        "possible. Please use `scheduler.step()` to step the scheduler. With an epoch the closed "
        "form is used instead of the chainable form, where there is one.",
        UserWarning,
        stacklevel=5,
    )


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


# options of groups ------------------------------------------------------------------------------


def value_of(x: Any) -> Any:
    """A number, or the tensor that a cell holds now."""
    return x.detach() if isinstance(x, Cell) else x


def values(optimizer: Optimizer, key: str) -> list[Any]:
    """An option of every group."""
    return [value_of(group[key]) for group in optimizer.param_groups]


def set_value(group: dict[str, Any], key: str, value: Any) -> None:
    """Set an option; one that is a tensor stays one of its dtype and shape."""
    held = group[key]
    if not isinstance(held, Tensor):
        group[key] = value
        return
    value = reshape(as_tensor(value, dtype=held.dtype), shape=())
    if isinstance(held, Cell):
        held.rebind(broadcast_to(value, shape=held.shape))
    else:
        group[key] = broadcast_to(value, shape=held.shape)


def one_each(name: str, optimizer: Optimizer, param: Any) -> list[Any]:
    """An argument of a scheduler as a list with one entry a group.

    Raises:
        ValueError: if a list has another length.
    """
    count = len(optimizer.param_groups)
    if not isinstance(param, list | tuple):
        return [param] * count
    if len(param) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has "
            f"{len(param)} values, param_groups has {count}."
        )
    return list(param)
