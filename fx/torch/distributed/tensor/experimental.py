"""``torch.distributed.tensor.experimental``: functions of parts."""

from fx.distributed.implicit import implicit_replication
from fx.distributed.tensor import local_map

__all__ = ["implicit_replication", "local_map"]
