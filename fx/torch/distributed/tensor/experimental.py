"""``torch.distributed.tensor.experimental``: functions of parts."""

from fx.distributed.tensor import local_map

__all__ = ["local_map"]
