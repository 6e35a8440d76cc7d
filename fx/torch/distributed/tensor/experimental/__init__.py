"""``torch.distributed.tensor.experimental``: functions of parts."""

from fx.distributed.context import context_parallel
from fx.distributed.implicit import implicit_replication
from fx.distributed.local_mapping import local_map
from fx.torch._absent import refusing

__all__ = ["context_parallel", "implicit_replication", "local_map"]

__getattr__ = refusing("distributed.tensor.experimental")
