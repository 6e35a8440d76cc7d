"""Training by several processes, each with batches of its own.

``module.py`` wraps a model; ``reducer.py`` averages its gradients in ``buckets.py``; ``hooks.py``,
``power_sgd.py`` and ``local_sgd.py`` are other ways to send them; ``joining.py`` lets ranks have
different numbers of batches.
"""

from fx.nn.data_parallel.buckets import GradBucket as GradBucket
from fx.nn.data_parallel.module import DistributedDataParallel as DistributedDataParallel
