"""Weight normalisation: a weight as its direction and its length, each a parameter."""

from __future__ import annotations

from typing import Any, TypeVar

from fx.nn.base.module import Module
from fx.nn.parameter import Parameter
from fx.nn.utils import _computed
from fx.ops.reductions.norms import norm
from fx.tensor import Tensor

M = TypeVar("M", bound=Module)


def norm_except_dim(v: Tensor, dim: int | None) -> Tensor:
    """The 2-norm over all axes but ``dim``, which stay as 1; over all of them for None or -1."""
    if dim is None or dim == -1:
        return norm(v)
    axes = tuple([i for i in range(v.ndim) if i != dim % v.ndim])
    return norm(v, axis=axes, keepdims=True) if axes else v.abs()


def scaled(v: Tensor, g: Tensor, dim: int | None) -> Tensor:
    """The weight of direction ``v`` and length ``g``."""
    return v * (g / norm_except_dim(v, dim))


class WeightNorm:
    """What computes the weight of a module under ``weight_norm``."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def __call__(self, module: Module) -> Tensor:
        """The weight now."""
        v, g = getattr(module, f"{self.name}_v"), getattr(module, f"{self.name}_g")
        return scaled(v, g, self.dim)

    compute_weight = __call__


def weight_norm(module: M, name: str = "weight", dim: int | None = 0) -> M:
    """Learn the length and the direction of a weight apart.

    The parameter ``name`` becomes two, ``name_g`` (length) and ``name_v`` (direction), and
    ``module.name`` is computed from them whenever it is read.

    Args:
        module: holds the parameter; it is changed and returned.
        name: of the parameter.
        dim: the axis along which each slice has a length of its own; None for one length.

    Raises:
        RuntimeError: if the parameter is under weight normalisation already.
        AttributeError: if there is no such parameter.

    Source: Salimans and Kingma, "Weight normalization", 2016.

    Example:
        >>> import fx
        >>> layer = fx.nn.utils.weight_norm(fx.nn.Linear(3, 2))
        >>> [(k, v.shape) for k, v in layer.named_parameters()]
        [('bias', (2,)), ('weight_g', (2, 1)), ('weight_v', (2, 3))]
    """
    if isinstance(_computed.function_of(module, name), WeightNorm):
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    weight = _parameter(module, name)
    function = WeightNorm(name, dim)
    v = weight.detach()
    del module._parameters[name]
    length = norm_except_dim(v, function.dim)
    module.register_parameter(f"{name}_g", Parameter(length))
    module.register_parameter(f"{name}_v", Parameter(v))
    _computed.compute(module, name, function)
    return module


def remove_weight_norm(module: M, name: str = "weight") -> M:
    """Make a weight one parameter again, with the value that it has now.

    Raises:
        ValueError: if it is not under weight normalisation.

    Example:
        >>> import fx
        >>> layer = fx.nn.utils.weight_norm(fx.nn.Linear(3, 2))
        >>> [k for k, _ in fx.nn.utils.remove_weight_norm(layer).named_parameters()]
        ['bias', 'weight']
    """
    function = _computed.function_of(module, name)
    if not isinstance(function, WeightNorm):
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    value = function(module).detach()
    _computed.forget(module, name)
    del module._parameters[f"{name}_g"], module._parameters[f"{name}_v"]
    module.register_parameter(name, Parameter(value))
    return module


def _parameter(module: Any, name: str) -> Parameter:
    found = module._parameters.get(name)
    if not isinstance(found, Parameter):
        known = ", ".join(k for k, p in module._parameters.items() if p is not None) or "none"
        raise AttributeError(
            f"'{type(module).__name__}' object has no parameter '{name}'; it has {known}"
        )
    return found
