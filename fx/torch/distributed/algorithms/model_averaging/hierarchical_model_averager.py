"""``...model_averaging.hierarchical_model_averager``: larger groups less often."""

from fx.nn.data_parallel.local_sgd import HierarchicalModelAverager as HierarchicalModelAverager
