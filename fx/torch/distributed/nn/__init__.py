"""``torch.distributed.nn``: collectives through which gradients flow, and modules elsewhere."""

from fx.distributed.remote_modules import RemoteModule as RemoteModule
from fx.torch.distributed.nn.functional import *
