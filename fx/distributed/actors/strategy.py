"""How the ranks of a ``Trainer`` share a model: each has all of it, or a part."""

from __future__ import annotations

import os
from typing import Any

from fx.distributed.actors.rank import get_context
from fx.errors import ArgumentError

_COPIES = 4  # the parameters, their gradients, and two slots of an optimizer such as Adam


def prepare_model(model: Any, parallel_strategy: str | None = "ddp") -> Any:
    """The model as the ranks of a ``Trainer`` train it together.

    Args:
        model: a module, the same in all ranks.
        parallel_strategy: ``"ddp"``: each rank has all of it (``DistributedDataParallel``);
            ``"fsdp"``: each has a part of each parameter, and of each child whole ones only while
            it computes (``fully_shard``); ``"auto"``: the first where parameters, gradients and the
            slots of Adam take at most half of a rank's memory; None: as it is.

    Raises:
        ArgumentError: if there is no such strategy.
        DistError: outside of the loop of a ``Trainer``.

    Example:
        >>> import fx.ray
        >>> def loop():
        ...     model = fx.ray.prepare_model(fx.nn.Linear(3, 1), "auto")
        >>> trainer = fx.ray.Trainer(loop, fx.ray.ScalingConfig(num_workers=2))
    """
    if parallel_strategy not in (None, "ddp", "fsdp", "auto"):
        raise ArgumentError(
            f"prepare_model: parallel_strategy is 'ddp', 'fsdp', 'auto' or None, got "
            f"{parallel_strategy!r}"
        )
    memory = get_context().memory or _of_host()
    if parallel_strategy == "auto":
        parameters = sum(p.numel() * p.dtype.itemsize for p in model.parameters())
        parallel_strategy = "ddp" if _COPIES * parameters <= memory / 2 else "fsdp"
    if parallel_strategy == "ddp":
        from fx.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(model)
    if parallel_strategy == "fsdp":
        from fx.distributed.device_mesh import init_device_mesh
        from fx.nn.fully_sharded import fully_shard

        mesh = init_device_mesh("cpu", (get_context().size,))
        for child in model.children():
            if any(True for _ in child.parameters()):
                fully_shard(child, mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def _of_host() -> float:
    """The memory of this host, a share of it for each of its ranks."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return whole / get_context().local_size
