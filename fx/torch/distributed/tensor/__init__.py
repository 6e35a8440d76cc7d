"""``torch.distributed.tensor``: tensors of which each rank has a part."""

from fx.distributed.creation import empty, full, ones, rand, randn, zeros
from fx.distributed.device_mesh import DeviceMesh, init_device_mesh
from fx.distributed.distributing import distribute_module, distribute_tensor
from fx.distributed.placements import Partial, Placement, Replicate, Shard
from fx.distributed.tensor import DTensor
from fx.torch._absent import refusing

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
    "distribute_tensor", "empty", "full", "init_device_mesh", "ones", "rand", "randn", "zeros",
]  # fmt: skip

__getattr__ = refusing("distributed.tensor")
