"""JAX's names for what has another name in fx, and what to write for those that fx lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from fx import tree
from fx.devices import as_device
from fx.errors import ArgumentError
from fx.graph.staging import make_graph
from fx.ops.convert import as_tensor, to_device
from fx.ops.specs import eval_shape
from fx.tensor import Tensor

# where they stand here: a module and its name there
SAME = {
    "Array": "fx.tensor.Tensor",
    "ShapeDtypeStruct": "fx.spec.TensorSpec",
    "block_until_ready": "fx.jax_names.block_until_ready",
    "bool_": "fx.dtypes.bool_",
    "complexfloating": "numpy.complexfloating",
    "custom_gradient": "fx.transforms.custom_gradient.custom_gradient",
    "device_count": "fx.jax_names.device_count",
    "device_get": "fx.jax_names.device_get",
    "device_put": "fx.jax_names.device_put",
    "disable_jit": "fx.transforms.jitting.disabled.disable_jit",
    "dtype": "numpy.dtype",
    "floating": "numpy.floating",
    "generic": "numpy.generic",
    "inexact": "numpy.inexact",
    "integer": "numpy.integer",
    "jacobian": "fx.transforms.jacrev",
    "local_device_count": "fx.jax_names.device_count",
    "make_jaxpr": "fx.jax_names.make_jaxpr",
    "ndarray": "fx.tensor.Tensor",
    "number": "numpy.number",
    "remat": "fx.transforms.checkpoint",
    "signedinteger": "numpy.signedinteger",
    "unsignedinteger": "numpy.unsignedinteger",
}
LACKING = {
    "clear_caches": "each jitted function has f.cache_clear()",
    "debug_nans": "write fx.jit(f, check=True), or fx.isnan where it matters",
    "ds": "write slice(start, start + size)",
    "enable_x64": "float64 needs no switch: write dtype=fx.float64, or fx.set_default_dtype",
    "experimental": "io_callback is fx.io_callback; meshes are in fx.distributed",
    "image": "write fx.nn.functional.interpolate",
    "make_mesh": "write fx.distributed.init_device_mesh",
    "named_scope": "leave it out: errors, profiles and fx.ledger name the lines of the program",
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


def make_jaxpr(
    fun: Callable[..., Any], static_argnums: int | Sequence[int] = (), axis_env: Any = None,
    return_shape: bool = False,
) -> Callable[..., Any]:  # fmt: skip
    """A function that stages ``fun`` for its arguments and gives the graph: ``fx.make_graph``.

    Args:
        fun: takes and returns pytrees of tensors.
        static_argnums: positions of arguments that are no tensors.
        axis_env: None; an axis has its name from ``fx.vmap`` or a mesh.
        return_shape: whether to give a pair, the second of which is a pytree of ``fx.TensorSpec``.

    Raises:
        ArgumentError: for an ``axis_env``.

    Example:
        >>> import fx
        >>> graph = fx.make_jaxpr(lambda x: fx.sin(x) * 2)(fx.ones(3))
        >>> [node.primitive.name for node in graph.nodes]
        ['sin', 'multiply']
    """
    if axis_env is not None:
        raise ArgumentError("make_jaxpr: axes have their names from fx.vmap(f, axis_name=...)")
    fixed = {static_argnums} if isinstance(static_argnums, int) else set(static_argnums)

    def graph_of(*args: Any, **kwargs: Any) -> Any:
        places = {n % len(args) for n in fixed} if args else set()
        rest = [x for i, x in enumerate(args) if i not in places]

        def partly(*given: Any, **kwargs: Any) -> Any:
            left = iter(given)
            return fun(*[x if i in places else next(left) for i, x in enumerate(args)], **kwargs)

        graph = make_graph(wraps(fun)(partly))(*rest, **kwargs)
        return (graph, eval_shape(partly, *rest, **kwargs)) if return_shape else graph

    return graph_of


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
