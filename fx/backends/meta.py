"""The ``meta`` device: specs instead of arrays, so that only spec rules run."""

from __future__ import annotations

from typing import Any

from fx.errors import DeviceError
from fx.spec import TensorSpec

ARRAY = TensorSpec


def kernel_for(primitive: Any) -> Any:
    """The spec rule, whose results live on ``meta``."""

    def kernel(*specs: TensorSpec, **params: Any) -> Any:
        out = primitive.spec(*specs, **params)
        if primitive.multiple:
            return tuple(TensorSpec(o.shape, o.dtype, "meta") for o in out)
        return TensorSpec(out.shape, out.dtype, "meta")

    return kernel


def from_numpy(array: Any) -> TensorSpec:
    """Keep the spec of a NumPy array, drop its values."""
    return TensorSpec(array.shape, array.dtype, "meta")


def to_numpy(spec: TensorSpec) -> Any:
    """Refuse: there are no values."""
    raise DeviceError(
        f"a tensor {spec!r} on the meta device has a shape and a dtype but no values; "
        f"make it on the CPU: fx.zeros(shape, device='cpu')"
    )
