"""Parametrizations that are ready to use: spectral and weight norm, orthogonal matrices."""

from __future__ import annotations

from typing import Any

from fx.config import no_grad
from fx.errors import ShapeError
from fx.nn.base.module import Module
from fx.nn.functional.normalization import normalize
from fx.nn.utils import parametrize
from fx.nn.utils._orthogonal import MAPS, _Orthogonal
from fx.nn.utils.spectral_norm import as_matrix, default_dim, iterate
from fx.nn.utils.weight_norm import norm_except_dim, scaled
from fx.random.stateful import randn
from fx.state import rebind_all
from fx.tensor import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return scaled(weight_v, weight_g, self.dim)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except_dim(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Learn the length and the direction of a weight apart, as ``original0`` and ``original1``.

    Args:
        module: holds the parameter; it is changed and returned.
        name: of the parameter.
        dim: the axis along which each slice has a length of its own; None for one length.

    Source: Salimans and Kingma, "Weight normalization", 2016.

    Example:
        >>> import fx
        >>> layer = fx.nn.utils.parametrizations.weight_norm(fx.nn.Linear(3, 2))
        >>> [k for k, _ in layer.named_parameters()][1:]
        ['parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    return parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, "
                f"{weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations="
                f"{n_power_iterations}"
            )
        self.dim = dim % weight.ndim
        self.eps = eps
        if weight.ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = as_matrix(weight.detach(), self.dim)
            u, v = (normalize(randn(n).to(matrix.dtype), dim=0, eps=eps) for n in matrix.shape)
            v, u = iterate(matrix.T, v, u, 15, eps)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        u, v = self._u.detach(), self._v.detach()
        if self.training:
            with no_grad():
                turned = matrix.detach().T  # here the left vector comes first
                v, u = iterate(turned, v, u, self.n_power_iterations, self.eps)
                rebind_all([(self._u, u), (self._v, v)])  # type: ignore[list-item]
        return weight / (u.detach() @ (matrix @ v.detach()))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value  # a value of norm 1 gives itself


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Keep the largest singular value of a weight at 1.

    Args:
        module: holds the parameter; it is changed and returned.
        name: of the parameter.
        n_power_iterations: whenever the weight is read in training.
        eps: what a norm is at least, where it divides.
        dim: the axis of the outputs; 1 for transposed convolutions and 0 for others unless told.

    Raises:
        ValueError: if there is no such tensor, or ``n_power_iterations`` is not positive.

    Source: Miyato et al., "Spectral normalization for generative adversarial networks", 2018.

    Example:
        >>> import fx
        >>> layer = fx.nn.utils.parametrizations.spectral_norm(fx.nn.Linear(3, 2))
        >>> list(layer.state_dict())[2:]
        ['parametrizations.weight.0._u', 'parametrizations.weight.0._v']
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    dim = default_dim(module) if dim is None else dim
    part = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, part)


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep a matrix, or a batch of matrices, orthogonal: its columns, or rows if those are fewer.

    Args:
        module: holds the parameter; it is changed and returned.
        name: of the parameter (..., m, n).
        orthogonal_map: ``"matrix_exp"``, ``"cayley"`` or ``"householder"``: how it comes from an
            unconstrained matrix; by default the first for square ones and the last for others.
        use_trivialization: whether the map starts from the matrix that the module has now, so that
            any orthogonal matrix may be assigned.

    Raises:
        ValueError: if there is no such tensor, or the map is unknown.
        ShapeError: if it is no matrix.

    Source: Lezcano-Casado, "Trivializations for gradient-based optimization on manifolds", 2019.

    Example:
        >>> import fx
        >>> layer = fx.nn.utils.parametrizations.orthogonal(fx.nn.Linear(4, 3))
        >>> w = layer.weight.detach()
        >>> fx.max(fx.abs(w @ w.T - fx.eye(3))).item() < 1e-5
        True
    """
    weight: Any = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ShapeError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    part = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return parametrize.register_parametrization(module, name, part, unsafe=True)
