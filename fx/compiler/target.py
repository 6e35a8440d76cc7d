"""Target: all that the compiler asks about the device that it compiles for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fx.compiler.step import Step
from fx.graph.ir import Node
from fx.slotted import slotted


@slotted(frozen=True)
class Target:
    """A device, as the scheduler sees it: a few numbers, and what makes steps.

    Attributes:
        vector_bytes: of a vector, whose lanes are iterations of a loop.
        near, far: bytes that are reckoned to lie in the second cache, and in the third.
        has_element: ``(name, dtypes, out_dtype, params)``: whether a loop can compute a primitive
            element by element.
        kernels: for each primitive what may make the steps of a node, ``(node) -> steps or None``,
            the most particular first. A node that none of them takes, and no loop, is written
            out by its formula, or runs in Python.
        products: those of which a step can go on with what follows: ``(node, epilogue) -> steps``,
            or None.
        epilogue: ``fx.compiler.epilogue.Epilogue``, or what this device makes of it.
        loop: ``(plan, reads, writes, name, lines) -> step``: a nest, by its plan.
        together: ``(steps, root) -> steps``: small steps joined.
        exact: whether a loop shorter than a vector gets vectors of its own length.
    """

    vector_bytes: int
    near: int
    far: int
    has_element: Callable[[str, Sequence[Any], Any, Mapping[str, Any]], bool]
    kernels: Mapping[str, Sequence[Callable[[Node], Any]]]
    products: Mapping[str, Callable[[Node, Any], Sequence[Step] | None]]
    epilogue: Callable[..., Any]
    loop: Callable[..., Step]
    together: Callable[..., list[Step]]
    exact: bool = False

    def steps_of(self, node: Node) -> list[Any] | None:
        """The steps of a node by kernels of its own; None if there are none."""
        for builder in self.kernels.get(node.primitive.name, ()):
            found = builder(node)
            if found is not None:
                return list(found) if isinstance(found, list | tuple) else [found]
        return None
