"""Pruning: parameters with entries that are held at zero, with PyTorch's names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fx.nn.utils import _computed
from fx.nn.utils._pruning import (
    BasePruningMethod,
    CustomFromMask,
    Identity,
    L1Unstructured,
    LnStructured,
    PruningContainer,
    RandomStructured,
    RandomUnstructured,
    drop_hook,
)
from fx.nn.utils.gradients import parameters_to_vector
from fx.ops.making.creation import ones_like
from fx.tensor import Tensor

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip


def identity(module: Any, name: str) -> Any:
    """Put a mask of ones on a parameter.

    Example:
        >>> import fx
        >>> from fx.nn.utils import prune
        >>> layer = prune.identity(fx.nn.Linear(2, 2), "bias")
        >>> [name for name, _ in layer.named_buffers()]
        ['bias_mask']
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: float) -> Any:
    """Prune entries of a parameter at random.

    Args:
        module: holds the parameter; it is changed and returned.
        name: of the parameter.
        amount: how many entries (int), or which share of them (float).

    Raises:
        TypeError, ValueError: for an amount that is no number, or out of range.
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: float, importance_scores: Any = None) -> Any:
    """Prune the entries of least absolute value.

    Args:
        module: holds the parameter; it is changed and returned.
        name: of the parameter.
        amount: how many entries (int), or which share of them (float).
        importance_scores: looked at in place of the parameter.

    Example:
        >>> import fx
        >>> from fx.nn.utils import prune
        >>> layer = fx.nn.Linear(2, 1)
        >>> layer.weight.data = fx.tensor([[1.0, -3.0]])
        >>> prune.l1_unstructured(layer, "weight", amount=1).weight.detach()
        tensor([[ 0., -3.]])
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: float, dim: int) -> Any:
    """Prune channels of a parameter, along axis ``dim``, at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Any, name: str, amount: float, n: Any, dim: int, importance_scores: Any = None
) -> Any:
    """Prune the channels, along axis ``dim``, of least ``n``-norm."""
    LnStructured.apply(module, name, amount, n=n, dim=dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Any, str]],
    pruning_method: type,
    importance_scores: dict[tuple[Any, str], Tensor] | None = None,
    **kwargs: Any,
) -> None:
    """Prune entries of several parameters as if they were one.

    Args:
        parameters: pairs of a module and the name of a parameter.
        pruning_method: a class of unstructured pruning.
        importance_scores: by such pairs, looked at in place of the parameters.
        kwargs: of the method.

    Raises:
        TypeError: if ``parameters`` is no iterable, or the method is not unstructured.

    Example:
        >>> import fx
        >>> from fx.nn.utils import prune
        >>> a, b = fx.nn.Linear(2, 2), fx.nn.Linear(2, 1)
        >>> prune.global_unstructured(
        ...     [(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=3
        ... )
        >>> int((a.weight == 0).sum() + (b.weight == 0).sum())
        3
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    pairs = list(parameters)
    scores = importance_scores or {}
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    flat = parameters_to_vector([scores.get(p, getattr(*p)).detach() for p in pairs])
    masks = [
        getattr(m, f"{n}_mask", ones_like(getattr(m, n))).detach().to(flat.dtype) for m, n in pairs
    ]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    mask = container.compute_mask(flat, parameters_to_vector(masks))
    begin = 0
    for module, name in pairs:
        parameter = getattr(module, name)
        end = begin + parameter.numel()
        custom_from_mask(module, name, mask[begin:end].reshape(parameter.shape))
        begin = end


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prune what ``mask``, of the shape of the parameter, holds at zero."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Any, name: str) -> Any:
    """Make a pruned parameter an ordinary one, with its pruned value.

    Raises:
        ValueError: if it is not pruned.
    """
    method = _computed.function_of(module, name)
    if not isinstance(method, BasePruningMethod):
        raise ValueError(
            f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
        )
    method.remove(module)
    drop_hook(module, method)
    return module


def is_pruned(module: Any) -> bool:
    """Whether a parameter of this module, or of one below it, is pruned."""
    return any(
        isinstance(function, BasePruningMethod)
        for part in module.modules()
        for function in part.__dict__.get("_computed", {}).values()
    )
