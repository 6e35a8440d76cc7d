"""``torch.distributed.nn``: collectives through which gradients flow, and modules elsewhere."""

from fx.distributed.groups import group as group
from fx.distributed.reductions import ReduceOp as ReduceOp
from fx.distributed.remote_modules import RemoteModule as RemoteModule
from fx.torch._absent import refusing
from fx.torch.distributed.nn.functional import *

__getattr__ = refusing("distributed.nn")
