"""``torch.distributed.tensor.debug``: which messages a block sends."""

from fx.distributed.counting import CommDebugMode
from fx.torch._absent import refusing

__all__ = ["CommDebugMode"]

__getattr__ = refusing("distributed.tensor.debug")
