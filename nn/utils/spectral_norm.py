"""Spectral normalisation: a weight divided by its largest singular value."""

from __future__ import annotations

from typing import Any, TypeVar

from fx.config import no_grad
from fx.nn.base.module import Module
from fx.nn.functional.normalization import normalize
from fx.nn.parameter import Parameter
from fx.nn.utils import _computed
from fx.nn.utils.weight_norm import _parameter
from fx.random.stateful import randn
from fx.state import rebind_all
from fx.tensor import Tensor

M = TypeVar("M", bound=Module)


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """A weight as a matrix (axis ``dim``, the others)."""
    if dim:
        order = (dim, *[i for i in range(weight.ndim) if i != dim])
        weight = weight.permute(order)
    return weight.reshape(weight.shape[0], -1)


def iterate(matrix: Tensor, u: Tensor, v: Tensor, times: int, eps: float) -> tuple[Tensor, Tensor]:
    """Left and right singular vectors, nearer to those of the largest singular value."""
    for _ in range(times):
        v = normalize(matrix.T @ u, dim=0, eps=eps)
        u = normalize(matrix @ v, dim=0, eps=eps)
    return u, v


def default_dim(module: Any) -> int:
    """The axis of the outputs of a layer's weight."""
    from fx.nn.layers.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d

    return int(isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d))


class SpectralNorm:
    """What computes the weight of a module under ``spectral_norm``, and, before each forward in
    training, improves the singular vectors.
    """

    def __init__(
        self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations="
                f"{n_power_iterations}"
            )
        self.name, self.dim, self.eps = name, dim, eps
        self.n_power_iterations = n_power_iterations

    def __call__(self, module: Module, *inputs: Any) -> Any:
        """The weight now; before a forward, with its inputs, an iteration."""
        weight = getattr(module, f"{self.name}_orig")
        u, v = getattr(module, f"{self.name}_u"), getattr(module, f"{self.name}_v")
        if inputs:
            if module.training:
                with no_grad():
                    matrix = as_matrix(weight.detach(), self.dim)
                    found = iterate(matrix, u, v, self.n_power_iterations, self.eps)
                    rebind_all([*zip((u, v), found, strict=True)])
            return None
        u, v = u.detach(), v.detach()
        return weight / (u @ (as_matrix(weight, self.dim) @ v))


def spectral_norm(
    module: M,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> M:
    """Keep the largest singular value of a weight at 1.

    The parameter ``name`` becomes ``name_orig``; the buffers ``name_u`` and ``name_v`` follow its
    singular vectors, by power iteration before each forward in training.

    Args:
        module: holds the parameter; it is changed and returned.
        name: of the parameter.
        n_power_iterations: before each forward in training.
        eps: what a norm is at least, where it divides.
        dim: the axis of the outputs; 1 for transposed convolutions and 0 for others unless told.

    Raises:
        RuntimeError: if the parameter is under spectral normalisation already.
        AttributeError: if there is no such parameter.
        ValueError: if ``n_power_iterations`` is not positive.

    Source: Miyato et al., "Spectral normalization for generative adversarial networks", 2018.

    Example:
        >>> import fx
        >>> layer = fx.nn.utils.spectral_norm(fx.nn.Linear(3, 2))
        >>> list(layer.state_dict())
        ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    if isinstance(_computed.function_of(module, name), SpectralNorm):
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    dim = default_dim(module) if dim is None else dim
    function = SpectralNorm(name, n_power_iterations, dim, eps)
    weight = _parameter(module, name)
    height, width = as_matrix(weight.detach(), function.dim).shape
    u, v = (randn(n).to(weight.dtype) for n in (height, width))
    del module._parameters[name]
    module.register_parameter(f"{name}_orig", weight)
    module.register_buffer(f"{name}_u", normalize(u, dim=0, eps=eps))
    module.register_buffer(f"{name}_v", normalize(v, dim=0, eps=eps))
    _computed.compute(module, name, function)
    module.register_forward_pre_hook(function)
    return module


def remove_spectral_norm(module: M, name: str = "weight") -> M:
    """Make a weight an ordinary parameter again, with the value that it has now.

    Raises:
        ValueError: if it is not under spectral normalisation.
    """
    function = _computed.function_of(module, name)
    if not isinstance(function, SpectralNorm):
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    value = function(module).detach()
    _computed.forget(module, name)
    for key, hook in list(module._forward_pre_hooks.items()):
        if getattr(hook, "function", hook) is function:
            del module._forward_pre_hooks[key]
    for end in ("_u", "_v"):
        delattr(module, name + end)
    del module._parameters[f"{name}_orig"]
    module.register_parameter(name, Parameter(value))
    return module
