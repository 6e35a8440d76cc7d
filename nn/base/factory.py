"""The first values of parameters and buffers, before an initialiser sets them."""

from __future__ import annotations

from typing import Any

from fx.config import default_dtype
from fx.devices import as_device
from fx.dtypes import as_dtype
from fx.nn.parameter import Parameter
from fx.prims.creation import full
from fx.tensor import Tensor


def filled(shape: tuple[int, ...], value: Any, device: Any = None, dtype: Any = None) -> Tensor:
    """A constant tensor, of the default dtype on the default device unless told."""
    return full(
        shape=shape,
        value=value,
        dtype=default_dtype() if dtype is None else as_dtype(dtype),
        device=as_device(device).name,
    )


def parameter(shape: tuple[int, ...], device: Any = None, dtype: Any = None) -> Parameter:
    """A parameter that an initialiser has still to fill."""
    return Parameter(filled(shape, 0, device, dtype))
