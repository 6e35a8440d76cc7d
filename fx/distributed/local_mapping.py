"""Functions of parts as functions of tensors on a mesh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import fx.prims.placing as prims
from fx import tree
from fx.distributed.placements import checked
from fx.distributed.tensor import DTensor, mesh_of
from fx.errors import ArgumentError

__all__ = ["local_map"]


def local_map(
    func: Callable[..., Any],
    out_placements: Any,
    in_placements: Any = None,
    in_grad_placements: Any = None,
    device_mesh: Any = None,
    *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """A function of parts as a function of tensors on a mesh.

    Args:
        func: takes and gives parts, and may send messages.
        out_placements: of its result, or a tuple of those of its results; None of no tensor.
        in_placements: for each argument the placements that it must have, None of what is no
            tensor on a mesh.
        in_grad_placements: for each argument how its gradient lies.
        device_mesh: the ranks; those of the arguments unless given.
        redistribute_inputs: bring arguments to ``in_placements`` instead of refusing others.

    Raises:
        ArgumentError: if an argument has other placements, or none is on a mesh.
    """

    @wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        mesh = device_mesh
        values, treedef = tree.flatten(args)
        _check_count("in_placements", in_placements, len(values))
        _check_count("in_grad_placements", in_grad_placements, len(values))
        parts = []
        for i, x in enumerate(values):
            if isinstance(x, DTensor):
                mesh = mesh or x.device_mesh
                wanted = in_placements and in_placements[i]
                if wanted is not None:
                    placed = checked("local_map", wanted, mesh, x.ndim)
                    if placed != x.placements and not redistribute_inputs:
                        raise ArgumentError(
                            f"local_map: argument {i} has placements {x.placements}, in_placements "
                            f"says {placed}; give redistribute_inputs=True"
                        )
                    x = prims.redistribute(x, mesh=mesh, placements=placed)
                home = in_grad_placements and in_grad_placements[i]
                x = x.to_local(grad_placements=home)
            parts.append(x)
        mesh = mesh_of("local_map", mesh)
        found, out_tree = tree.flatten(func(*tree.unflatten(treedef, parts), **kwargs))
        one = not isinstance(out_placements, tuple)
        outs = [out_placements] * len(found) if one else out_placements
        _check_count("out_placements", outs, len(found))
        made = [
            x if p is None else DTensor.from_local(x, mesh, p)
            for x, p in zip(found, outs, strict=True)
        ]
        return tree.unflatten(out_tree, made)

    return mapped


def _check_count(what: str, given: Sequence[Any] | None, count: int) -> None:
    if given is not None and len(given) != count:
        raise ArgumentError(f"local_map: {what} has {len(given)} entries for {count} tensors")
