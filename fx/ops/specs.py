"""``eval_shape``: shapes and dtypes of a function's results without computing them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fx import tree
from fx.config import default_device, modes
from fx.devices import Device, backend
from fx.errors import DeviceError
from fx.spec import TensorSpec
from fx.tensor import Tensor, new_tensor


def eval_shape(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run ``function`` on shapes alone: no memory, no arithmetic, every check.

    Args:
        function: takes and returns pytrees of tensors.
        args, kwargs: pytrees of tensors, arrays or ``fx.TensorSpec``; anything else is passed on as
            it is. Pass modules and parameters as arguments too: what the function finds elsewhere
            lives on its own device and does not mix with shapes.

    Returns:
        the result with a ``fx.TensorSpec`` in place of every tensor.

    Raises:
        DeviceError: if ``function`` needs a value (``if x > 0``), or mixes in tensors of another
            device.

    Source: ``jax.eval_shape``.

    Example:
        >>> import fx
        >>> big = fx.TensorSpec((100_000, 100_000), fx.float32)
        >>> fx.eval_shape(lambda x: {"row": x[0], "product": x @ x}, big)
        {'row': float32[100000], 'product': float32[100000,100000]}
    """
    backend("meta")
    device = default_device()
    try:
        with Device("meta"):
            inputs = tree.map(_without_values, (args, kwargs))
            out = function(*inputs[0], **inputs[1])
    except DeviceError as error:
        error.add_note(
            "fx.eval_shape runs the function on the meta device: pass every tensor that it uses, "
            "a module too, as an argument, and let no value decide what it does"
        )
        raise
    return tree.map(lambda x: _spec(x, device), out)


def _without_values(leaf: Any) -> Any:
    if isinstance(leaf, Tensor | TensorSpec | np.ndarray):
        if modes.stage is not None:
            modes.stage.was_told(leaf.shape)
        return new_tensor(TensorSpec(leaf.shape, leaf.dtype, "meta"))
    return leaf


def _spec(leaf: Any, device: str) -> Any:
    return TensorSpec(leaf.shape, leaf.dtype, device) if isinstance(leaf, Tensor) else leaf
