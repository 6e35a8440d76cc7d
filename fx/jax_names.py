"""JAX's names for what has another name in fx, and what to write for those that fx lacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from fx import tree
from fx.devices import as_device
from fx.ops.convert import as_tensor, to_device
from fx.tensor import Tensor

# where they stand here: a module and its name there
SAME = {
    "Array": "fx.tensor.Tensor",
    "ShapeDtypeStruct": "fx.spec.TensorSpec",
    "block_until_ready": "fx.jax_names.block_until_ready",
    "bool_": "fx.dtypes.bool_",
    "complexfloating": "numpy.complexfloating",
    "device_count": "fx.jax_names.device_count",
    "device_get": "fx.jax_names.device_get",
    "device_put": "fx.jax_names.device_put",
    "dtype": "numpy.dtype",
    "floating": "numpy.floating",
    "generic": "numpy.generic",
    "inexact": "numpy.inexact",
    "integer": "numpy.integer",
    "jacobian": "fx.transforms.jacrev",
    "local_device_count": "fx.jax_names.device_count",
    "ndarray": "fx.tensor.Tensor",
    "number": "numpy.number",
    "remat": "fx.transforms.checkpoint",
    "signedinteger": "numpy.signedinteger",
    "unsignedinteger": "numpy.unsignedinteger",
}
LACKING = {
    "clear_caches": "each jitted function has f.cache_clear()",
    "custom_gradient": "write fx.custom_vjp",
    "debug_nans": "write fx.jit(f, check=True), or fx.isnan where it matters",
    "disable_jit": "write f.function(x), the function that fx.jit was given",
    "enable_x64": "float64 needs no switch: write dtype=fx.float64, or fx.set_default_dtype",
    "experimental": "io_callback is fx.io_callback; meshes are in fx.distributed",
    "image": "write fx.nn.functional.interpolate",
    "make_jaxpr": "write fx.make_graph(f)(x)",
    "make_mesh": "write fx.distributed.init_device_mesh",
    "named_scope": "write fx.torch.profiler.record_function(name)",
    "numpy": "its names are those of fx itself; write import fx as jnp",
    "pmap": "write fx.vmap(f, axis_name=...) for lanes, or fx.shard_map for ranks",
    "process_count": "write fx.distributed.get_world_size()",
    "process_index": "write fx.distributed.get_rank()",
    "profiler": "write fx.torch.profiler.profile()",
    "scipy": (
        "its rooms are fx.special, fx.linalg, fx.fft, fx.signal, fx.stats, fx.ndimage, "
        "fx.interpolate and fx.optimize"
    ),
    "sharding": "fx.distributed has meshes and placements, and there is fx.PartitionSpec",
    "typeof": "write x.spec",
}


def found(name: str) -> Any:
    """What stands under a name of ``SAME``."""
    from importlib import import_module

    home, _, last = SAME[name].rpartition(".")
    return getattr(import_module(home), last)


def device_put(x: Any, device: Any = None) -> Any:
    """The leaves of a pytree as tensors on a device.

    Args:
        x: tensors, arrays and numbers.
        device: "cpu" or another; each stays where it is unless told.

    Example:
        >>> import fx
        >>> fx.device_put([1.0, 2.0])
        [tensor(1.), tensor(2.)]
    """
    where = None if device is None else as_device(device)

    def put(leaf: Any) -> Tensor:
        tensor = as_tensor(leaf)
        return tensor if where is None else to_device(tensor, where)

    return tree.map(put, x)


def device_get(x: Any) -> Any:
    """The leaves of a pytree as NumPy arrays.

    Example:
        >>> import fx
        >>> fx.device_get({"w": fx.ones(2)})
        {'w': array([1., 1.], dtype=float32)}
    """
    return tree.map(lambda leaf: leaf.numpy() if isinstance(leaf, Tensor) else np.asarray(leaf), x)


def block_until_ready(x: Any) -> Any:
    """``x``: what a function gives is there when it returns.

    Example:
        >>> import fx
        >>> fx.block_until_ready(fx.ones(2))
        tensor([1., 1.])
    """
    return x


def device_count() -> int:
    """How many devices this process computes on.

    Example:
        >>> import fx
        >>> fx.device_count()
        1
    """
    return 1
