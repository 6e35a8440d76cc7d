"""``torch.distributed.device_mesh``: ranks as an array whose axes have names."""

from fx.distributed.device_mesh import DeviceMesh, init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]
