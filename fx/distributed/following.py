"""Where the values of a graph lie that is still being staged."""

from __future__ import annotations

from typing import Any

from fx.distributed.placed import DEVICE
from fx.distributed.placements import Placements, local_shape
from fx.distributed.propagation import Nodes, Part, Unfit
from fx.graph.ir import Node, Value, input_value
from fx.spec import TensorSpec


class Following:
    """Puts nodes through the choice of placements, to know what comes of it; nothing is sent."""

    def __init__(self) -> None:
        self.nodes = Nodes()
        self.env: dict[Value, Any] = {}

    def knows(self, value: Value) -> bool:
        """Whether it is known where a value lies."""
        return value in self.env or value.constant is not None

    def gives(self, value: Value, where: tuple[Any, Placements] | None) -> None:
        """Say where an input lies; None: on the CPU, or the same on all ranks of any mesh."""
        shape, dtype = value.spec.shape, value.spec.dtype
        if where is not None:
            mesh, placements = where
            part = input_value(
                TensorSpec(local_shape(shape, placements, mesh.sizes, mesh.place), dtype)
            )
            self.env[value] = Part(part, shape, mesh, placements, self.nodes)
        elif value.spec.device == DEVICE:
            self.env[value] = Part(
                input_value(TensorSpec(shape, dtype)), shape, None, (), self.nodes
            )
        else:
            self.env[value] = input_value(TensorSpec(shape, dtype))

    def runs(self, node: Node) -> bool:
        """Say what a node does; False if no rank can write that down before it runs."""
        try:
            self.nodes.walk_one(node, self.env)
        except Unfit:
            return False
        return True

    def where(self, value: Value) -> tuple[Any, Placements] | None:
        """Where a value lies that is known; None: on no mesh."""
        found = self.nodes.read(self.env, value)
        mesh = getattr(found, "mesh", None)
        return None if mesh is None else (mesh, found.placements)
