"""``torch.distributed.fsdp``: parameters of which each rank has a part."""

from fx.nn.fully_sharded import FSDPModule as FSDPModule
from fx.nn.fully_sharded import MixedPrecisionPolicy as MixedPrecisionPolicy
from fx.nn.fully_sharded import fully_shard as fully_shard
from fx.nn.fully_sharded import register_fsdp_forward_method as register_fsdp_forward_method
from fx.nn.fully_sharded.module import OffloadPolicy as OffloadPolicy
from fx.nn.fully_sharded.module import UnshardHandle as UnshardHandle

_OF_THE_WRAPPER = {  # of FSDP1, and what says the same of fully_shard
    "FullyShardedDataParallel": "call fully_shard on the blocks, then on the model",
    "ShardingStrategy": "write fully_shard(..., reshard_after_forward=), or a mesh of two axes",
    "MixedPrecision": "write MixedPrecisionPolicy",
    "CPUOffload": "parts lie on the CPU already",
    "BackwardPrefetch": "write model.set_modules_to_forward_prefetch",
    "StateDictType": "write torch.distributed.checkpoint.state_dict.get_model_state_dict",
    "FullStateDictConfig": "write StateDictOptions(full_state_dict=True)",
    "ShardedStateDictConfig": "state dicts have the parts; write model.state_dict()",
}


def __getattr__(name: str) -> object:
    if name in _OF_THE_WRAPPER:
        raise AttributeError(f"torch.distributed.fsdp.{name} is not there: {_OF_THE_WRAPPER[name]}")
    if name in ("CPUOffloadPolicy", "share_comm_ctx", "DataParallelMeshDims"):
        raise AttributeError(f"torch.distributed.fsdp.{name} is not there: parts lie on the CPU")
    raise AttributeError(f"module 'torch.distributed.fsdp' has no attribute {name!r}")
