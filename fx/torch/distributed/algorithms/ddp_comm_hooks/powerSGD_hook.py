"""``torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook``: matrices of low rank."""

from fx.nn.data_parallel.power_sgd import PowerSGDState as PowerSGDState
from fx.nn.data_parallel.power_sgd import batched_powerSGD_hook as batched_powerSGD_hook
from fx.nn.data_parallel.power_sgd import powerSGD_hook as powerSGD_hook
from fx.torch._absent import refusing

__getattr__ = refusing("distributed.algorithms.ddp_comm_hooks.powerSGD_hook")
