"""New tensors on a mesh: each rank makes its part alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx.distributed.distributing import distribute_tensor
from fx.distributed.placed import Placed
from fx.distributed.placements import checked, local_shape
from fx.distributed.tensor import mesh_of, replicated
from fx.errors import ArgumentError
from fx.random import stateful
from fx.tensor import Tensor, new_tensor

__all__ = ["empty", "full", "ones", "rand", "randn", "zeros"]


def _made(name: str, doc: str, draws: bool) -> Callable[..., Tensor]:
    def make(
        *size: Any,
        dtype: Any = None,
        layout: Any = None,
        requires_grad: bool = False,
        device_mesh: Any = None,
        placements: Any = None,
    ) -> Tensor:
        import fx

        if layout is not None and "strided" not in str(layout):
            raise ArgumentError(f"{name}: tensors are dense, got layout={layout!r}")
        mesh = mesh_of(name, device_mesh)
        value: tuple[Any, ...] = ()
        if name == "full":
            *size, fill = size  # type: ignore[assignment]
            value = (fill,)
        shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], tuple | list) else size
        given = replicated(mesh) if placements is None else placements
        placed = checked(name, given, mesh, len(shape))
        if any(p.is_partial() for p in placed):
            raise ArgumentError(f"{name}: a new tensor is no addend, got {placed}")
        if draws:
            whole = getattr(stateful, name)(shape, dtype=dtype)
            out = distribute_tensor(whole, mesh, placed)
        else:
            part = local_shape(tuple(shape), placed, mesh.sizes, mesh.place)
            local = getattr(fx, name)(part, *value, dtype=dtype)
            out = new_tensor(Placed(local._a, tuple(shape), mesh, placed))
        return out.requires_grad_() if requires_grad else out

    make.__name__ = make.__qualname__ = name
    make.__doc__ = doc
    return make


_ARGUMENTS = """

    Args:
        size: of the whole, ints or one tuple.
        dtype: of the elements.
        layout: strided.
        requires_grad: whether gradients are accumulated for it.
        device_mesh: the ranks.
        placements: one an axis of the mesh; replicated unless given.
    """
zeros = _made("zeros", "Zeros on a mesh." + _ARGUMENTS, False)
ones = _made("ones", "Ones on a mesh." + _ARGUMENTS, False)
empty = _made("empty", "A tensor on a mesh whose values nobody has set." + _ARGUMENTS, False)
full = _made("full", "One number everywhere, given behind the size." + _ARGUMENTS, False)
rand = _made("rand", "Uniform numbers: those that one process draws." + _ARGUMENTS, True)
randn = _made("randn", "Normal numbers: those that one process draws." + _ARGUMENTS, True)
