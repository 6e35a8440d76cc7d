"""``torch.distributed.algorithms``: other ways to send gradients, means of models, uneven ranks."""

from fx.distributed.uneven import Join as Join
from fx.distributed.uneven import Joinable as Joinable
from fx.distributed.uneven import JoinHook as JoinHook
from fx.torch._absent import refusing

__getattr__ = refusing("distributed.algorithms")
