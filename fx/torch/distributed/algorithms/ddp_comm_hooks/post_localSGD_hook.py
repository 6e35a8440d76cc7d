"""``torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook``: means in small groups."""

from fx.nn.data_parallel.local_sgd import PostLocalSGDState as PostLocalSGDState
from fx.nn.data_parallel.local_sgd import post_localSGD_hook as post_localSGD_hook
