"""``torch.distributed.optim``: optimizers of several ranks."""

from fx.distributed.remote_modules import DistributedOptimizer as DistributedOptimizer
from fx.optim.post_local_sgd import PostLocalSGDOptimizer as PostLocalSGDOptimizer
from fx.optim.zero_redundancy import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer
from fx.torch._absent import refusing

__getattr__ = refusing("distributed.optim")
