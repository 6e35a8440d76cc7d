"""``torch.distributed.nn``: collectives through which gradients flow."""

from fx.torch.distributed.nn.functional import *
