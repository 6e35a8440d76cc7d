"""Distributions of matrices: Wishart's of covariances, Lewandowski's of factors of correlations."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math
from typing import Any

import fx
from fx.ops.pointwise.torch_names import mvlgamma
from fx.random.gammas import loggamma
from fx.random.generator import next_key
from fx.tensor import Tensor
from fx.torch.distributions import constraints
from fx.torch.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    of_dtype,
    parameters,
)
from fx.torch.distributions.gammas import Beta
from fx.torch.distributions.multivariate import Factored, half_log_det

_LOG_2 = math.log(2)


def multidigamma(x: Tensor, p: int) -> Tensor:
    """The derivative of ``mvlgamma(x, p)``."""
    return fx.digamma(x[..., None] - fx.arange(p, dtype=x.dtype) / 2).sum(-1)


class Wishart(Factored, ExponentialFamily):
    """The distribution of X X^T where X has ``df`` normal columns of one covariance.

    Its samples are differentiable in ``df`` and in the matrix.

    Args:
        df: degrees of freedom, more than n - 1: a number or a tensor of the batch's shape.
        covariance_matrix, precision_matrix, scale_tril: one of them, (..., n, n): the covariance,
            its inverse, or its lower triangular factor.

    Raises:
        ValueError: if not exactly one of the three is given, it has no two axes, or a concrete
            ``df`` is too small.

    Example:
        >>> import fx.torch as torch
        >>> torch.distributions.Wishart(3.0, torch.eye(2)).log_prob(torch.eye(2))
        tensor(-3.5310)
    """

    has_rsample = True
    support = constraints.positive_definite

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        """Those of the matrices; df > n - 1."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self, df: Any, covariance_matrix: Any = None, precision_matrix: Any = None,
        scale_tril: Any = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._given, matrix = self._one_of(covariance_matrix, precision_matrix, scale_tril)
        df, matrix = of_dtype(df, matrix)
        if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
            raise ValueError(f"{self._given} must be square matrices, got shape {matrix.shape}")
        n = matrix.shape[-1]
        batch = fx.broadcast_shapes(df.shape, matrix.shape[:-2])
        self.df = fx.broadcast_to(df, batch)
        setattr(self, self._given, fx.broadcast_to(matrix, (*batch, n, n)))
        super().__init__(batch, (n, n), validate_args)
        self._unbroadcasted_scale_tril = self._tril_of(matrix)

    @property
    def mean(self) -> Tensor:
        """df times the covariances."""
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """The modes; NaN where df is not above n + 1."""
        above = self.df - self.event_shape[0] - 1
        return fx.where(above > 0, above, fx.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """The variances of each place."""
        v = self.covariance_matrix
        d = fx.linalg.diagonal(v)
        return self.df[..., None, None] * (v * v + d[..., :, None] * d[..., None, :])

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """L A A^T L^T of Bartlett's triangles A: roots of chi-squared samples over normal ones."""
        n = self.event_shape[0]
        shape = self._extended(sample_shape)
        half = (self.df[..., None] - fx.arange(n, dtype=self.df.dtype)) / 2  # (*batch, n)
        logs = loggamma(next_key(), half, shape[:-1])
        least = fx.finfo(logs.dtype).eps
        roots = (0.5 * (logs + _LOG_2)).exp().clamp(min=least)
        noise = fx.randn(shape, dtype=self._dtype).tril(-1)
        factor = self._unbroadcasted_scale_tril @ (
            noise + roots[..., None] * fx.eye(n, dtype=logs.dtype)
        )
        return factor @ factor.mT

    def _base(self) -> Tensor:
        """n log(2) / 2 + log det L."""
        half = half_log_det(self._unbroadcasted_scale_tril)
        return fx.broadcast_to(half + self.event_shape[0] * _LOG_2 / 2, self.batch_shape)

    def _log_prob(self, x: Tensor) -> Tensor:
        n, df = self.event_shape[0], self.df
        tril = self.scale_tril
        shape = fx.broadcast_shapes(tril.shape, x.shape)
        tril, wide = (fx.broadcast_to(v, shape) for v in (tril, x))
        trace = fx.linalg.diagonal(fx.linalg.cholesky_solve(wide, tril)).sum(-1)
        det = fx.linalg.slogdet(x)[1]
        return (df - n - 1) / 2 * det - trace / 2 - df * self._base() - mvlgamma(df / 2, n)

    def entropy(self) -> Tensor:
        """In nats."""
        n, half = self.event_shape[0], self.df / 2
        first = (n + 1) * self._base() + mvlgamma(half, n) + half * n
        return first - (half - (n + 1) / 2) * multidigamma(half, n)


class LKJCholesky(Distribution):
    """Lower triangular factors (dim, dim) of correlations C with a density of det(C)^(k - 1).

    Args:
        dim: of the correlations, at least 2.
        concentration: k, positive: 1 is uniform over correlations, more is nearer to none.

    Raises:
        ValueError: if ``dim`` is less than 2.

    Source: Lewandowski, Kurowicka and Joe, "Generating random correlation matrices based on vines
    and extended onion method", Journal of Multivariate Analysis 100 (2009).

    Example:
        >>> import fx.torch as torch
        >>> torch.distributions.LKJCholesky(2, 1.0).log_prob(torch.eye(2))
        tensor(-0.6931)
    """

    support = constraints.corr_cholesky
    arg_constraints = {"concentration": constraints.positive}  # noqa: RUF012

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = parameters(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Row by row: a direction of normal samples, its length by a beta distribution."""
        shape = self._extended(sample_shape)
        with fx.no_grad():
            k = self.concentration.detach()
            row = fx.arange(1, self.dim, dtype=k.dtype)  # of all rows but the first
            squares = Beta(
                fx.broadcast_to(row / 2, (*k.shape, self.dim - 1)),
                k[..., None] + 0.5 * (self.dim - 1 - row),
                validate_args=False,
            ).sample(sample_shape)  # (..., dim - 1)
            way = fx.randn(shape, dtype=self._dtype).tril(-1)[..., 1:, :]
            way = way / fx.linalg.vector_norm(way, axis=-1, keepdims=True)
            below = squares.sqrt()[..., None] * way
            last = (1 - (below * below).sum(-1)).clamp(min=fx.finfo(self._dtype).tiny).sqrt()
            diagonal = fx.concat([fx.ones_like(last[..., :1]), last], -1)
            below = fx.concat([fx.zeros_like(below[..., :1, :]), below], -2)
            return below + diagonal[..., None] * fx.eye(self.dim, dtype=self._dtype)

    def _log_prob(self, x: Tensor) -> Tensor:
        k, rest = self.concentration, self.dim - 1
        order = 2 * (k - 1)[..., None] + fx.arange(rest - 1, -1, -1, dtype=k.dtype)
        density = (order * fx.linalg.diagonal(x)[..., 1:].log()).sum(-1)
        alpha = k + 0.5 * rest
        log_pi = 0.5 * rest * math.log(math.pi)
        return density - log_pi - mvlgamma(alpha - 0.5, rest) + rest * fx.lgamma(alpha)


__all__ = ["LKJCholesky", "Wishart"]
