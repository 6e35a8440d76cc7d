"""Parameters of which each rank has a part, whole only while a unit of modules computes.

``gathering.py`` makes parameters whole and lets go of them; ``reducing.py`` sends gradients;
``unit.py`` is the parameters that travel together; ``module.py`` has ``fully_shard``; ``state.py``
whole and sharded state dicts. ``README.md`` tells how.
"""

from fx.nn.fully_sharded.module import FSDPModule as FSDPModule
from fx.nn.fully_sharded.module import MixedPrecisionPolicy as MixedPrecisionPolicy
from fx.nn.fully_sharded.module import fully_shard as fully_shard
from fx.nn.fully_sharded.module import register_fsdp_forward_method as register_fsdp_forward_method
