"""``torch.distributed._composable.replicate``: modules that become data parallel in place."""

from fx.nn.data_parallel.replicating import DDP, replicate

__all__ = ["DDP", "replicate"]
