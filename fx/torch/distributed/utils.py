"""``torch.distributed.utils``: models made the same in all ranks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fx.distributed.groups import world
from fx.nn.data_parallel.values import take

__all__ = ["_sync_module_states"]


def _sync_module_states(
    module: Any,
    process_group: Any,
    broadcast_bucket_size: int = 250 << 20,
    src: int = 0,
    params_and_buffers_to_ignore: Iterable[str] = (),
    broadcast_buffers: bool = True,
) -> None:
    """Give a module's parameters and buffers the values of rank ``src``."""
    ignored = set(params_and_buffers_to_ignore)
    named = [*module.named_parameters(), *(module.named_buffers() if broadcast_buffers else ())]
    group = world(process_group)
    take(group, [x for name, x in named if name not in ignored], group.group_rank(src))
