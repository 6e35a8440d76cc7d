"""The results of a forward pass, which tell where a backward pass begins which of them it takes.

A loss may leave results out: what only they were made of gets no gradient, and must not be waited
for. An identity over all results at once knows: its backward pass runs before all others, with
None for each result that no loss was made of.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx import tree
from fx.autograd.function import Function
from fx.distributed.errors import DistError
from fx.tensor import Tensor


class _Watched(Function):
    """The same tensors; ``begun`` is called with the places of those that have a cotangent."""

    @staticmethod
    def forward(
        ctx: Any, begun: Callable[[list[int]], None], *results: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.begun = begun
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, *cts: Tensor | None) -> tuple[Tensor | None, ...]:
        ctx.begun([i for i, ct in enumerate(cts) if ct is not None])
        return None, *cts


def watched(out: Any, begun: Callable[[list[Any]], None]) -> Any:
    """The result of a forward pass; ``begun(used)`` hears at which nodes a backward pass begins.

    Args:
        out: tensors, or a tree of them.
        begun: called once.

    Raises:
        DistError: in a second backward pass through the same results.
    """
    leaves, shape = tree.flatten(out)
    places = [i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x._node is not None]
    inner = [leaves[i] for i in places]
    nodes = [x._node for x in inner]  # now: a write to the result later may be one to these, too
    passes = 0

    def noted(used: list[int]) -> None:
        nonlocal passes
        passes += 1
        if passes > 1:
            raise DistError(
                "a second backward pass through the results of one forward pass: their gradients "
                "are averaged once; add the losses, and write (a + b).backward()"
            )
        begun([nodes[i] for i in used])

    if not inner:
        return out
    for place, x in zip(places, _Watched.apply(noted, *inner)):
        leaves[place] = x
    return tree.unflatten(shape, leaves)
