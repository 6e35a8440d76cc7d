"""``torch.distributed.device_mesh``: ranks as an array whose axes have names."""

from fx.distributed.device_mesh import DeviceMesh, init_device_mesh
from fx.torch._absent import refusing

__all__ = ["DeviceMesh", "init_device_mesh"]

__getattr__ = refusing("distributed.device_mesh")
