"""``torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks``: steps without messages."""

from fx.nn.data_parallel.hooks import noop_hook as noop_hook
