"""Per-example gradients: a function of a model and a batch, run on each example by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from fx import tree
from fx.errors import StateError
from fx.nn.base.module import Module
from fx.nn.ensembles import sees_whole_batches
from fx.transforms._arguments import check_function
from fx.transforms.batching import _input_dims, vmap


def per_example(
    function: Callable[..., Any],
    in_axes: Any = None,
    *,
    as_batch: bool = True,
    batch_size: int | None = None,
) -> Callable[..., Any]:
    """Run ``function(model, *batch)`` on each example by itself: ``per_example(grad(loss))``.

    It is ``vmap`` over every argument but the first. Each example comes as a batch of one, so that
    a loss and layers that were written for batches ``(N, C, H, W)`` serve unchanged. Dropout draws
    another mask for each example, the one that a loop over the examples would draw.

    Batch normalisation in training mode makes the loss of an example depend on the others, so that
    it has no gradient of its own, and is refused. In evaluation mode the running statistics are
    constants. To normalise each example by its own statistics, say so with
    ``nn.declare_reduction(model, {"running_*": "mean"})``, which also says what the running
    statistics become.

    Args:
        function: its first argument is a Module or a pytree of them, or parameters; the others have
            the examples along their first axis.
        in_axes: as ``vmap`` takes it, an entry an argument; None maps all but the first along 0.
        as_batch: whether an example keeps a first axis of size 1.
        batch_size: how many examples run at once; None for all.

    Returns:
        a function with the arguments of ``function``; its results have the examples along axis 0.

    Raises:
        StateError: for batch normalisation that would mix the examples, naming the layer.

    Example:
        >>> import fx
        >>> from fx import nn
        >>> import fx.nn.functional as F
        >>> model = nn.Linear(3, 2)
        >>> def loss(model, x, y):
        ...     return F.cross_entropy(model(x), y)
        >>> x, y = fx.ones((5, 3)), fx.tensor([0, 1, 0, 1, 1])
        >>> gradients = fx.per_example(fx.grad(loss))(model, x, y)
        >>> gradients.weight.shape
        (5, 2, 3)
    """
    check_function(function, "per_example")

    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        for part in tree.leaves(args[:1], is_leaf=_is_module):
            if isinstance(part, Module):
                _check(part)
        axes = (None, *[0] * (len(args) - 1)) if in_axes is None else in_axes
        dims = _input_dims(axes, args, kwargs, function)

        def one(*args: Any, **kwargs: Any) -> Any:
            if as_batch:
                leaves, treedef = tree.flatten((args, kwargs))
                leaves = [x if d is None else x[None] for x, d in zip(leaves, dims, strict=True)]
                args, kwargs = tree.unflatten(treedef, leaves)
            return function(*args, **kwargs)

        return vmap(one, axes, chunk_size=batch_size)(*args, **kwargs)

    return run


def _is_module(x: Any) -> bool:
    return isinstance(x, Module)


def _check(model: Module) -> None:
    """Refuse a model whose layers mix the examples."""
    for path, layer in model.named_modules():
        if sees_whole_batches(layer):
            raise StateError(
                f"per_example: layer {path or 'itself'}: {layer!r} normalises with the statistics "
                f"of the whole batch, so that no example has a gradient of its own. Write "
                f"model.eval() to use the running statistics, put a GroupNorm in its place, or "
                f"normalise each example alone: "
                f"fx.nn.declare_reduction(model, {{'running_*': 'mean'}})"
            )
