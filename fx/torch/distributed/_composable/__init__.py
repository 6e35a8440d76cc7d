"""``torch.distributed._composable``: functions that change a module in place."""

from fx.torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    checkpoint_wrapper as checkpoint,
)
from fx.torch.distributed.fsdp import fully_shard

__all__ = ["checkpoint", "fully_shard"]
