"""Moving to another device, a linear operation as any other."""

from __future__ import annotations

import fx.devices as devices
import fx.prims.factors as factors
from fx.primitive import define
from fx.prims.sampling import Sample
from fx.spec import TensorSpec


def _spec(x, *, device):
    return TensorSpec(x.shape, x.dtype, devices.Device(device).name)


def _vjp(needs, x, *, device):
    home = x.device.name
    return lambda ct: (device_put(ct, device=home),)


device_put = define(
    "device_put", cpu=lambda a, *, device: devices.moved(a, device), anywhere=True, kind="view",
    formula=lambda x, *, device: x if x.device.name == device else None, dissolves=True,
    spec=_spec, torch_name="ToCopy",
    jvp=lambda primals, tangents, *, device: (
        device_put(*primals, device=device), device_put(*tangents, device=device)
    ),
    vjp=_vjp,
    sharding=factors.elementwise((0,)),
    batch=lambda level, args, dims, *, device: (device_put(*args, device=device), *dims),
    sample=lambda d: Sample([d.floats(d.shape())], {"device": "cpu"}),
)  # fmt: skip
