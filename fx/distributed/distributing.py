"""Whole tensors and modules brought to a mesh, of which each rank keeps its part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fx.prims.placing as prims
from fx.distributed.placed import Placed
from fx.distributed.placements import checked
from fx.distributed.tensor import DTensor, mesh_of, refuse_staging, replicated
from fx.errors import ArgumentError
from fx.tensor import Tensor, new_tensor

__all__ = ["distribute_module", "distribute_tensor"]


def distribute_tensor(
    tensor: Tensor,
    device_mesh: Any = None,
    placements: Any = None,
    *,
    src_data_rank: int | None = 0,
) -> Tensor:
    """A tensor on a mesh, of a whole one that all ranks have: a new leaf.

    Args:
        tensor: the whole, (*S).
        device_mesh: the ranks.
        placements: one an axis of the mesh, ``Shard`` or ``Replicate``; replicated unless given.
        src_data_rank: the place along each axis of the rank whose values count, which are sent to
            the others; None: nothing is sent, every rank takes its part of what it has.

    Raises:
        ArgumentError: if placements do not fit the mesh, or the tensor was computed from what
            requires grad.

    Example:
        >>> import fx
        >>> import fx.distributed as dist
        >>> mesh = dist.init_device_mesh("cpu", (1,))
        >>> x = dist.distribute_tensor(fx.ones(3), mesh, [dist.Shard(0)])
        >>> (x + 1).placements, (x + 1).to_local()
        ((Shard(dim=0),), tensor([2., 2., 2.]))
    """
    mesh = mesh_of("distribute_tensor", device_mesh)
    refuse_staging("distribute_tensor")
    given = replicated(mesh) if placements is None else placements
    placed = checked("distribute_tensor", given, mesh, tensor.ndim)
    if any(p.is_partial() for p in placed):
        raise ArgumentError(f"distribute_tensor: a whole is no addend, got {placed}")
    found = prims.placements_of(tensor)
    if found is not None:
        if found != (mesh, placed):
            raise ArgumentError(
                f"distribute_tensor: the tensor lies on {found[0]!r} by {found[1]}; write "
                f"x.redistribute(mesh, placements)"
            )
        return tensor
    if not tensor.is_leaf:
        raise ArgumentError(
            "distribute_tensor: the tensor was computed from what requires grad, and the result "
            "is a leaf; write x.detach(), or DTensor.from_local"
        )
    array = tensor.detach()._a
    if src_data_rank is not None:
        for m in range(len(placed)):
            array = mesh.ranks(m).broadcast(array, src_data_rank)
    whole = Placed(array, array.shape, mesh, replicated(mesh))
    return new_tensor(whole.moved(mesh, placed)).requires_grad_(tensor.requires_grad)


def distribute_module(
    module: Any,
    device_mesh: Any = None,
    partition_fn: Callable[..., Any] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Any:
    """Bring the parameters and buffers of a module to a mesh.

    Args:
        module: changed in place.
        device_mesh: the ranks.
        partition_fn: ``(name, module, mesh)``, called for each module: gives it parameters that are
            distributed. What it leaves is replicated.
        input_fn: ``(module, inputs, mesh) -> inputs``, before each call.
        output_fn: ``(module, outputs, mesh) -> outputs``, behind each call.

    Returns:
        the module.
    """
    from fx.nn import Parameter

    mesh = mesh_of("distribute_module", device_mesh)
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        for key, p in [*part._parameters.items()]:
            if p is not None and not isinstance(p, DTensor):
                moved = distribute_tensor(p.detach(), mesh)
                part.register_parameter(key, Parameter(moved, requires_grad=p.requires_grad))
        for key, b in [*part._buffers.items()]:
            if b is not None and not isinstance(b, DTensor):
                part.register_buffer(
                    key, distribute_tensor(b.detach(), mesh),
                    persistent=key not in part._non_persistent_buffers_set,
                )  # fmt: skip
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, inputs, outs: output_fn(m, outs, mesh))
    return module
