"""``torch.distributed.fsdp``: parameters of which each rank has a part."""

from fx.nn.fully_sharded import FSDPModule as FSDPModule
from fx.nn.fully_sharded import MixedPrecisionPolicy as MixedPrecisionPolicy
from fx.nn.fully_sharded import fully_shard as fully_shard
from fx.nn.fully_sharded import register_fsdp_forward_method as register_fsdp_forward_method
from fx.nn.fully_sharded.module import CPUOffloadPolicy as CPUOffloadPolicy
from fx.nn.fully_sharded.module import OffloadPolicy as OffloadPolicy
from fx.nn.fully_sharded.module import UnshardHandle as UnshardHandle
from fx.nn.fully_sharded.options import BackwardPrefetch as BackwardPrefetch
from fx.nn.fully_sharded.options import CPUOffload as CPUOffload
from fx.nn.fully_sharded.options import FullOptimStateDictConfig as FullOptimStateDictConfig
from fx.nn.fully_sharded.options import FullStateDictConfig as FullStateDictConfig
from fx.nn.fully_sharded.options import LocalOptimStateDictConfig as LocalOptimStateDictConfig
from fx.nn.fully_sharded.options import LocalStateDictConfig as LocalStateDictConfig
from fx.nn.fully_sharded.options import MixedPrecision as MixedPrecision
from fx.nn.fully_sharded.options import OptimStateDictConfig as OptimStateDictConfig
from fx.nn.fully_sharded.options import ShardedOptimStateDictConfig as ShardedOptimStateDictConfig
from fx.nn.fully_sharded.options import ShardedStateDictConfig as ShardedStateDictConfig
from fx.nn.fully_sharded.options import ShardingStrategy as ShardingStrategy
from fx.nn.fully_sharded.options import StateDictConfig as StateDictConfig
from fx.nn.fully_sharded.options import StateDictSettings as StateDictSettings
from fx.nn.fully_sharded.options import StateDictType as StateDictType
from fx.nn.fully_sharded.wrapper import FullyShardedDataParallel as FullyShardedDataParallel
from fx.torch._absent import refusing

__getattr__ = refusing("distributed.fsdp")
