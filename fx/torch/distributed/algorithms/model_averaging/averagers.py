"""``torch.distributed.algorithms.model_averaging.averagers``: means every some steps."""

from fx.nn.data_parallel.local_sgd import ModelAverager as ModelAverager
from fx.nn.data_parallel.local_sgd import PeriodicModelAverager as PeriodicModelAverager
