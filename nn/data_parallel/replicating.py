"""``replicate``: a module that becomes data parallel in place, whose names stay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from fx.distributed.errors import DistError
from fx.nn.base.module import Module
from fx.nn.data_parallel.module import DistributedDataParallel
from fx.nn.fully_sharded.module import FSDPModule


class _Replica(DistributedDataParallel):
    """Runs the forward pass that the module had, inside of its call."""

    def _run(self, *inputs: Any, **kwargs: Any) -> Any:
        kind = type(self.module).__mro__[2]
        return kind.forward(self.module, *inputs, **kwargs)


class DDP:
    """What ``replicate`` makes of a module's class."""

    _replica: _Replica

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self._replica.forward(*inputs, **kwargs)

    def set_requires_gradient_sync(self, requires_gradient_sync: bool) -> None:
        """Whether the next backward passes average gradients, or add them up in this rank."""
        self._replica.require_backward_grad_sync = requires_gradient_sync

    def register_comm_hook(self, state: Any, hook: Any) -> None:
        """Let a function send the gradients: ``DistributedDataParallel.register_comm_hook``."""
        self._replica.register_comm_hook(state, hook)

    def __deepcopy__(self, memo: Any) -> NoReturn:
        raise AssertionError(
            "DDP does not support deepcopy. Please use state dict for serialization."
        )


def replicate(
    module: Module, ignored_modules: Iterable[Module] | None = None, **kwargs: Any
) -> Module:
    """Let ranks have the same parameters, and the means of their gradients, of a module.

    All begin with what rank 0 has. Buffers stay each rank's own; modules
    below that are fully sharded take care of themselves.

    Args:
        module: changed in place, and given back; names of parameters stay.
        ignored_modules: modules below it whose parameters each rank trains alone.
        kwargs: of ``DistributedDataParallel``: ``process_group``, ``device_mesh``,
            ``bucket_cap_mb``, ``find_unused_parameters``, ``static_graph``. ``device_id``: the CPU.

    Raises:
        RuntimeError: if the module is fully sharded, or replicated.

    Example:
        >>> import fx, fx.distributed as dist
        >>> from fx.nn.data_parallel.replicating import replicate
        >>> dist.init_process_group("fake", rank=0, world_size=2)
        >>> model = replicate(fx.nn.Linear(3, 1))
        >>> model(fx.ones((4, 3))).sum().backward()
        >>> list(model.state_dict()), model.bias.grad
        (['weight', 'bias'], tensor([4.]))
        >>> dist.destroy_process_group()
    """
    if isinstance(module, FSDPModule | DDP):
        raise DistError(
            f"Cannot apply `replicate()` on a Module already managed by "
            f"`{'replicate' if isinstance(module, DDP) else 'fully_shard'}`"
        )
    if str(kwargs.pop("device_id", None) or "cpu") != "cpu":
        raise DistError("replicate: modules are on the CPU; leave device_id out")
    left_out = {
        id(p)
        for m in [*(ignored_modules or ()), *module.modules()]
        if isinstance(m, FSDPModule) or m in [*(ignored_modules or ())]
        for p in m.parameters()
    }
    names = [name for name, p in module.named_parameters() if id(p) in left_out]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, names)
    kwargs["broadcast_buffers"] = False
    replica = _Replica(module, **kwargs)
    kind = type(module)
    module.__class__ = type(f"DDP{kind.__name__}", (DDP, kind), {"__module__": kind.__module__})
    module.__dict__["_replica"] = replica
    return module
