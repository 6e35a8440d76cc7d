"""``torch.distributed.optim``: optimizers of several ranks."""

from fx.distributed.remote_modules import DistributedOptimizer as DistributedOptimizer
from fx.nn.data_parallel.local_sgd import PostLocalSGDOptimizer as PostLocalSGDOptimizer
from fx.optim.zero_redundancy import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer
