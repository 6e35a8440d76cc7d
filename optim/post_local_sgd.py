"""``PostLocalSGDOptimizer``: an optimizer whose parameters get their means over ranks at times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fx.nn.data_parallel.local_sgd import PeriodicModelAverager
from fx.optim.optimizer import Optimizer


class PostLocalSGDOptimizer(Optimizer):
    """An optimizer behind whose steps an averager gives parameters their means.

    Args:
        optim: what steps, and has the state.
        averager: a ``PeriodicModelAverager``.

    Source: Lin et al., "Don't Use Large Mini-Batches, Use Local SGD" (2020);
    ``torch.distributed.optim.PostLocalSGDOptimizer``.

    Example:
        >>> import fx, fx.distributed as dist
        >>> from fx.nn.data_parallel.local_sgd import PeriodicModelAverager
        >>> from fx.optim.post_local_sgd import PostLocalSGDOptimizer
        >>> dist.init_process_group("fake", rank=0, world_size=2)
        >>> inner = fx.optim.SGD([fx.nn.Parameter(fx.ones(2))], lr=0.1)
        >>> optimizer = PostLocalSGDOptimizer(inner, PeriodicModelAverager(4, warmup_steps=2))
        >>> optimizer.step()
        >>> optimizer.state_dict()["step"]
        1
        >>> dist.destroy_process_group()
    """

    def __init__(self, optim: Optimizer, averager: PeriodicModelAverager) -> None:
        self._begin_hooks()
        self.optim, self.averager = optim, averager
        self.defaults = optim.defaults
        self.param_groups = optim.param_groups  # the same, for schedules

    @property
    def state(self) -> Any:  # type: ignore[override]
        """That of the optimizer."""
        return self.optim.state

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with options of their own."""
        self.optim.add_param_group(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients, or make them zero."""
        self.optim.zero_grad(set_to_none)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step, and average where it is due; what the closure gives."""
        loss = self.optim.step(closure)
        self.averager.average_parameters(self.optim.param_groups)
        return loss

    def state_dict(self) -> dict[str, Any]:
        """That of the optimizer, and the averager's count of steps."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Put both back; without a count the averager begins with its warm-up again."""
        found = dict(state_dict)
        step = int(found.pop("step", 0))
        self.optim.load_state_dict(found)
        self.averager.step = step

    def __getstate__(self) -> dict[str, Any]:
        return {"optim": self.optim, "averager": self.averager, "defaults": self.defaults}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.param_groups = self.optim.param_groups
