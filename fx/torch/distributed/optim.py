"""``torch.distributed.optim``: optimizers whose state is shared out over ranks."""

from fx.optim.zero_redundancy import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer
