"""Recording of places: where the parts of a value lie, which follows from where inputs lie.

What is found is assumed of those inputs from then on: a call whose inputs lie otherwise is staged
for itself.
"""

from __future__ import annotations

from typing import Any

from fx.devices import backend
from fx.graph.ir import Value
from fx.graph.surroundings import Outside
from fx.prims.placing import placements_of
from fx.tensor import Tensor
from fx.transforms.jitting.program import Program


class PlaceRecording:
    """The part of a recording that knows where parts lie."""

    program: Program
    call: Any
    following: Any = None  # what knows, of the values that were asked for so far

    def lies(self, value: Value) -> Any:
        """Where the parts of a value lie; None where that does not follow from the inputs."""
        follow = getattr(backend(value.spec.device), "following", None)
        if follow is None:
            return None
        if self.following is None:
            self.following = follow()
        return self.following.where(value) if self._follows(value) else None

    def _follows(self, value: Value) -> bool:
        """Whether it is known where all lies that the value is computed from."""
        stack: list[tuple[Value, bool]] = [(value, False)]
        while stack:
            v, entered = stack.pop()
            if self.following.knows(v):
                continue
            if v.node is None:
                if not self._gives(v):
                    return False
            elif entered:
                if not self.following.runs(v.node):
                    return False
            else:
                stack.append((v, True))
                stack += [(u, False) for u in v.node.inputs]
        return True

    def _gives(self, value: Value) -> bool:
        """Whether it is known where an input lies."""
        if value not in self.program.sources:  # of a shape that depends on values
            return False
        with Outside(self):  # type: ignore[arg-type]
            x = self.call.peek(value)
            where = placements_of(x)
        if where is None and value.spec.device != "cpu" and type(x) is not Tensor:
            return False  # its lanes are cut, or a stage around this one does not know it
        self.program.lies[value] = where
        self.following.gives(value, where)
        return True
