"""``torch.distributed._composable``: functions that change a module in place."""

from fx.torch._absent import refusing
from fx.torch.distributed._composable.checkpoint_activation import checkpoint
from fx.torch.distributed._composable.replicate import replicate
from fx.torch.distributed.fsdp import fully_shard

__all__ = ["checkpoint", "fully_shard", "replicate"]

__getattr__ = refusing("distributed._composable")
