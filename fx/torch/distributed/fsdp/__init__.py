"""``torch.distributed.fsdp``: parameters of which each rank has a part."""

from fx.nn.fully_sharded import FSDPModule as FSDPModule
from fx.nn.fully_sharded import MixedPrecisionPolicy as MixedPrecisionPolicy
from fx.nn.fully_sharded import fully_shard as fully_shard
from fx.nn.fully_sharded import register_fsdp_forward_method as register_fsdp_forward_method
from fx.nn.fully_sharded.module import OffloadPolicy as OffloadPolicy
from fx.nn.fully_sharded.module import UnshardHandle as UnshardHandle


def __getattr__(name: str) -> object:
    if name in ("CPUOffloadPolicy", "share_comm_ctx", "DataParallelMeshDims"):
        raise AttributeError(f"torch.distributed.fsdp.{name} is not there: parts lie on the CPU")
    raise AttributeError(f"module 'torch.distributed.fsdp' has no attribute {name!r}")
