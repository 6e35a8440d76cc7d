"""What is drawn for tensors of a mesh: the same on all ranks, which their generators must be for.

A draw has no mesh: each rank draws all of it by the key of its own generator, and takes its part
where it meets a tensor of a mesh. There the key is compared along the axes of the mesh, once. What
is computed of a draw remembers its key until then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx.prims.factors import drawn


class Key:
    """The key of a draw, as an array or as a value of a graph; with which meshes it was met."""

    __slots__ = ("key", "meshes")

    def __init__(self, key: Any) -> None:
        self.key, self.meshes = key, []  # type: ignore[var-annotated]

    def meet(self, mesh: Any, on: Any) -> None:
        """See that all ranks of a mesh have this key.

        Raises:
            DistError: with those that they have.
        """
        if any(known is mesh for known in self.meshes):
            return
        self.meshes.append(mesh)
        for m, size in enumerate(mesh.sizes):
            if size > 1:
                on.same_key(self.key, mesh.ranks(m))


def keys_of(primitive: Any, arrays: Sequence[Any]) -> tuple[Key, ...]:
    """The keys that the results of a primitive depend on, whose operands have no mesh."""
    if primitive.sharding is drawn:
        return (Key(arrays[0].local),)
    return tuple(dict.fromkeys([key for a in arrays for key in a.keys]))


def met(arrays: Sequence[Any], mesh: Any, on: Any) -> None:
    """Let what was drawn meet a mesh."""
    for a in arrays:
        for key in a.keys:
            key.meet(mesh, on)
