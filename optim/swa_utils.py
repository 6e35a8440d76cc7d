"""Averages of weights along training: AveragedModel, SWALR, update_bn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

from fx.config import modes, no_grad
from fx.dtypes import int64
from fx.nn.base.module import Module
from fx.nn.layers.normalization import _BatchNorm
from fx.nn.parameter import Buffer
from fx.optim.lr_scheduler.base import LRScheduler, one_each
from fx.optim.optimizer import Optimizer
from fx.prims.compare import astype, where
from fx.prims.creation import constant
from fx.prims.shape import broadcast_to
from fx.state import Cell, rebind_all
from fx.tensor import Tensor
from fx.transaction import whole

Average = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage = Callable[[Sequence[Cell], Sequence[Tensor], Any], None]


def get_swa_avg_fn() -> Average:
    """The function that keeps the equal average of all values: ``(average, value, count)``.

    Example:
        >>> import fx
        >>> fx.optim.swa_utils.get_swa_avg_fn()(fx.tensor(1.0), fx.tensor(4.0), 2)
        tensor(2.)
    """

    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """The function that keeps an exponential moving average: ``(average, value, count)``.

    Args:
        decay: the share of the average that is kept, in [0, 1].

    Raises:
        ValueError: for a decay out of range.

    Example:
        >>> import fx
        >>> fx.optim.swa_utils.get_ema_avg_fn(0.75)(fx.tensor(1.0), fx.tensor(5.0), 2)
        tensor(2.)
    """
    _check_decay(decay)

    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_multi_avg_fn() -> MultiAverage:
    """``get_swa_avg_fn`` for lists: it rebinds the averages, and returns nothing."""
    return _of_lists(get_swa_avg_fn())


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """``get_ema_avg_fn`` for lists: it rebinds the averages, and returns nothing.

    Raises:
        ValueError: for a decay out of range.
    """
    return _of_lists(get_ema_avg_fn(decay))


def _of_lists(average: Average) -> MultiAverage:
    def update(
        averaged_param_list: Sequence[Cell], current_param_list: Sequence[Tensor], num_averaged: Any
    ) -> None:
        with no_grad():
            for held, current in zip(averaged_param_list, current_param_list, strict=True):
                held.copy_(average(held.detach(), current, num_averaged))

    return update


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of what the model's were.

    Args:
        model: what is averaged; it stays as it is.
        device: where the copy is kept.
        avg_fn: ``(average, value, count) -> average``; the equal average unless told.
        multi_avg_fn: ``(averages, values, count)``, which rebinds the averages in place.
        use_buffers: whether buffers are averaged too; else they are copied.

    Raises:
        AssertionError: if both functions are given.

    Source: Izmailov et al., "Averaging weights leads to wider optima and better generalization",
    2018.

    Example:
        >>> import fx
        >>> model = fx.nn.Linear(1, 1, bias=False)
        >>> averaged = fx.optim.swa_utils.AveragedModel(model)
        >>> for value in (1.0, 3.0):
        ...     model.weight.data = fx.tensor([[value]])
        ...     averaged.update_parameters(model)
        >>> averaged(fx.ones((1, 1))).item()
        2.0
    """

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.n_averaged = Buffer(constant(0, int64, str(device or "cpu")))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the copy gives."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the present parameters of a model into the average."""
        averages, values = _held(self.module, self.use_buffers), _held(model, self.use_buffers)
        with no_grad():
            now = [v.detach().to(a.device) for a, v in zip(averages, values, strict=True)]
            count = self.n_averaged.detach()
            if self.multi_avg_fn is None:
                average = self.avg_fn or get_swa_avg_fn()
                found = [
                    (held, _first_or(count, value, average(held.detach(), value, count)))
                    for held, value in zip(averages, now, strict=True)
                ]
            elif count == 0:
                found = [
                    (held, value.astype(held.dtype))
                    for held, value in zip(averages, now, strict=True)
                ]
            else:
                self.multi_avg_fn(averages, now, count)  # rebinds them itself
                found = []
            if not self.use_buffers:
                for held, other in zip(self.module.buffers(), model.buffers(), strict=True):
                    found.append((held, other.detach().to(held.device, held.dtype)))
            rebind_all([*found, (self.n_averaged, count + 1)])


def _held(model: Module, use_buffers: bool) -> list[Any]:
    more: Iterable[Any] = model.buffers() if use_buffers else ()
    return list(chain(model.parameters(), more))


def _first_or(count: Tensor, value: Tensor, average: Tensor) -> Tensor:
    """The average, or where nothing has been averaged yet the value itself."""
    average = average if average.dtype == value.dtype else astype(average, dtype=value.dtype)
    return where(broadcast_to(count == 0, shape=value.shape), value, average)


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of all BatchNorm layers anew from data.

    Args:
        loader: gives batches, or tuples and lists whose first entry is the batch.
        model: is run once on each.
        device: where batches are moved to.

    Example:
        >>> import fx
        >>> model = fx.nn.Sequential(fx.nn.BatchNorm1d(1))
        >>> fx.optim.swa_utils.update_bn([fx.tensor([[1.0], [3.0]])], model)
        >>> model[0].running_mean
        tensor([2.])
    """
    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None  # the equal average of all batches
    with no_grad():
        for batch in loader:
            x = batch[0] if isinstance(batch, list | tuple) else batch
            model(x if device is None else x.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Moves the learning rates to a constant one, for the time in which weights are averaged.

    Args:
        optimizer: whose learning rates are set.
        swa_lr: the constant one, or a list with one a group.
        anneal_epochs: epochs that the move takes.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        last_epoch: the epoch to go on from.

    Raises:
        ValueError: for a strategy, length or list that does not fit.

    Example:
        >>> import fx
        >>> optimizer = fx.optim.SGD([fx.nn.Parameter(fx.zeros(1))], lr=1.0)
        >>> scheduler = fx.optim.swa_utils.SWALR(
        ...     optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear"
        ... )
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(
            one_each("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True
        ):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """How much of the move is done after so many epochs."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        """The present ones, moved on."""
        self._within_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        out = []
        for group, rate in zip(self.optimizer.param_groups, self._current(), strict=True):
            goal = group["swa_lr"]
            first = goal if before == 1 else (rate - before * goal) / (1 - before)
            out.append(goal * now + first * (1 - now))
        return out

    @whole
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what ``state_dict`` gave, of PyTorch's scheduler too."""
        modes.transaction.update(
            self.__dict__, {k: v for k, v in state_dict.items() if k != "anneal_func"}
        )
