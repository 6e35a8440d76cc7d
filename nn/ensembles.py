"""Many models at once: their states stacked, and what becomes of buffers that lanes rebind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from fx.nn.base.module import Module
from fx.nn.parameter import Parameter
from fx.ops.shapes.joining import stack
from fx.tensor import Tensor


def stack_module_state(
    models: Sequence[Module],
) -> tuple[dict[str, Parameter], dict[str, Tensor]]:
    """The parameters and the buffers of models of one architecture, stacked along a new axis 0.

    ``vmap`` over them runs the ensemble: ``functional_call`` takes one slice of each.

    Args:
        models: of one class, all in training or all in evaluation mode.

    Returns:
        parameters and buffers by path; the parameters are Parameters of their own, so that an
        optimizer can train the ensemble.

    Raises:
        RuntimeError: for no models, or models of different classes or modes.

    Example:
        >>> import fx
        >>> from fx import nn
        >>> models = [nn.Linear(3, 2) for _ in range(4)]
        >>> params, buffers = nn.stack_module_state(models)
        >>> def call(params, buffers, x):
        ...     return nn.functional_call(models[0], (params, buffers), (x,))
        >>> fx.vmap(call, (0, 0, None))(params, buffers, fx.ones((5, 3))).shape
        (4, 5, 2)
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = {}
    for name, first in models[0].named_parameters():
        rows = [m.get_parameter(name).detach() for m in models]
        parameters[name] = Parameter(stack(rows), requires_grad=first.requires_grad)
    buffers = {
        name: stack([m.get_buffer(name).detach() for m in models])
        for name, _ in models[0].named_buffers()
    }
    return parameters, buffers


def declare_reduction(model: Module, reductions: str | Mapping[str, str | None]) -> Module:
    """Say what becomes of buffers of ``model`` that are rebound with one value a lane of ``vmap``.

    Args:
        model: any Module.
        reductions: ``"mean"``, ``"max"`` or ``"min"`` for all buffers, or a dict from names or
            paths of buffers, with ``*`` for any part, to one of these; None takes it back.

    Returns:
        the model.

    Raises:
        ValueError: for another reduction, or a name that no buffer has.

    Example:
        >>> import fx
        >>> norm = fx.nn.BatchNorm1d(3)
        >>> _ = fx.nn.declare_reduction(norm, {"running_*": "mean"})
        >>> _ = fx.vmap(norm)(fx.ones((2, 4, 3)))  # the statistics are means over the 2 lanes
        >>> norm.running_mean
        tensor([0.1000, 0.1000, 0.1000])
    """
    given = {"*": reductions} if isinstance(reductions, str) else reductions
    held = dict(model.named_buffers())
    for pattern, reduction in given.items():
        if reduction not in (None, "mean", "max", "min"):
            raise ValueError(
                f"declare_reduction: a reduction is 'mean', 'max' or 'min', got {reduction!r}"
            )
        found = [
            cell
            for path, cell in held.items()
            if fnmatchcase(path, pattern) or fnmatchcase(path.rpartition(".")[2], pattern)
        ]
        if not found:
            raise ValueError(
                f"declare_reduction: {type(model).__name__} has no buffer {pattern!r}; it has "
                f"{list(held)}"
            )
        for cell in found:
            cell.reduction = reduction
    return model


def sees_whole_batches(module: Any) -> bool:
    """Whether a layer normalises with statistics of the batch, and says nothing of lanes."""
    from fx.nn.layers.normalization import _BatchNorm

    if not isinstance(module, _BatchNorm):
        return False
    held = [module.running_mean, module.running_var]
    if any(cell is None for cell in held):
        return True
    return module.training and any(getattr(cell, "reduction", None) is None for cell in held)
