"""``DataParallel`` where there is one device: the module itself, under PyTorch's keys.

``DistributedDataParallel``, for several processes, loads when it is first asked for.
"""

from __future__ import annotations

from typing import Any

from fx.nn.base.module import Module
from fx.nn.replicas import data_parallel as data_parallel
from fx.nn.replicas import gather as gather
from fx.nn.replicas import parallel_apply as parallel_apply
from fx.nn.replicas import replicate as replicate
from fx.nn.replicas import scatter as scatter
from fx.nn.replicas import scatter_kwargs as scatter_kwargs


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        from fx.nn.data_parallel import DistributedDataParallel

        return DistributedDataParallel
    raise AttributeError(f"module 'fx.nn.parallel' has no attribute {name!r}")


class DataParallel(Module):
    """A module as PyTorch wraps it for several GPUs; here its calls go straight through.

    Its ``state_dict`` has PyTorch's keys, ``module.`` in front of each.

    Args:
        module: the model.
        device_ids, output_device, dim: accepted; there is one device.

    Example:
        >>> import fx
        >>> list(fx.nn.DataParallel(fx.nn.Linear(3, 2)).state_dict())
        ['module.weight', 'module.bias']
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self.module(*inputs, **kwargs)
