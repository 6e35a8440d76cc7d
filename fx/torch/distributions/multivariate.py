"""Normal distributions of vectors."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math
from typing import Any

import fx
from fx.tensor import Tensor
from fx.torch.distributions import constraints
from fx.torch.distributions.distribution import Distribution, of_dtype

_LOG_TAU = math.log(2 * math.pi)


def _quadratic(tril: Tensor, x: Tensor) -> Tensor:
    """x^T (L L^T)^-1 x for lower triangles (..., n, n) and vectors (..., n)."""
    shape = fx.broadcast_shapes(tril.shape[:-2], x.shape[:-1])
    wide = fx.broadcast_to(tril, (*shape, *tril.shape[-2:]))
    x = fx.broadcast_to(x, (*shape, x.shape[-1]))
    z = fx.linalg.solve_triangular(wide, x[..., None], upper=False)[..., 0]
    return (z * z).sum(-1)


def half_log_det(tril: Tensor) -> Tensor:
    return fx.linalg.diagonal(tril).log().sum(-1)


class Factored(Distribution):
    """What is given a covariance, its inverse or its lower triangular factor, by these names.

    ``_given`` is the name; what broadcasts with the batch stands in ``_unbroadcasted_scale_tril``.
    """

    _shared = ("_unbroadcasted_scale_tril",)
    _given: str

    @staticmethod
    def _one_of(covariance_matrix: Any, precision_matrix: Any, scale_tril: Any) -> tuple[str, Any]:
        given = {
            "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix,
            "scale_tril": scale_tril,
        }  # fmt: skip
        given = {name: value for name, value in given.items() if value is not None}
        if len(given) != 1:
            raise ValueError(
                "Exactly one of covariance_matrix or precision_matrix or scale_tril may be "
                f"specified, got {' and '.join(given) or 'none'}"
            )
        ((name, value),) = given.items()
        return name, value

    def _tril_of(self, matrix: Tensor) -> Tensor:
        if self._given == "scale_tril":
            return matrix
        if self._given == "covariance_matrix":
            return fx.linalg.cholesky(matrix)
        # P = M M^T gives the covariance M^-T M^-1; turned around twice, M^-T is a lower triangle
        flipped = fx.linalg.cholesky(matrix.flip((-2, -1))).flip((-2, -1)).mT
        eye = fx.broadcast_to(fx.eye(matrix.shape[-1], dtype=matrix.dtype), matrix.shape)
        return fx.linalg.solve_triangular(flipped, eye, upper=False)

    def __getattr__(self, name: str) -> Any:
        tril = vars(self).get("_unbroadcasted_scale_tril")
        if tril is None or name not in self.arg_constraints:
            raise AttributeError(f"{type(self).__name__} has no {name}")
        if name == "covariance_matrix":
            tril = tril @ tril.mT
        elif name == "precision_matrix":
            tril = fx.linalg.cholesky_inverse(tril)
        return fx.broadcast_to(tril, (*self.batch_shape, *tril.shape[-2:]))


class MultivariateNormal(Factored):
    """The normal distribution of vectors.

    Args:
        loc: means, (..., n).
        covariance_matrix, precision_matrix, scale_tril: one of them, (..., n, n): the covariance,
            its inverse, or its lower triangular factor.

    Raises:
        ValueError: if not exactly one of the three is given, or one has no two axes.

    Example:
        >>> import fx.torch as torch
        >>> d = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
        >>> d.log_prob(torch.zeros(2))
        tensor(-1.8379)
    """

    has_rsample = True
    support = constraints.real_vector
    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }

    def __init__(
        self, loc: Any, covariance_matrix: Any = None, precision_matrix: Any = None,
        scale_tril: Any = None, validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self._given, matrix = self._one_of(covariance_matrix, precision_matrix, scale_tril)
        loc, matrix = of_dtype(loc, matrix)
        if loc.ndim < 1 or matrix.ndim < 2:
            raise ValueError(
                f"loc must be at least one-dimensional and {self._given} two-dimensional, "
                f"got shapes {loc.shape} and {matrix.shape}"
            )
        batch, n = fx.broadcast_shapes(loc.shape[:-1], matrix.shape[:-2]), loc.shape[-1]
        self.loc = fx.broadcast_to(loc, (*batch, n))
        setattr(self, self._given, fx.broadcast_to(matrix, (*batch, *matrix.shape[-2:])))
        super().__init__(batch, (n,), validate_args)
        self._unbroadcasted_scale_tril = self._tril_of(matrix)

    mean = mode = property(lambda self: self.loc, doc="The means.")

    @property
    def variance(self) -> Tensor:
        """The variances of each place."""
        square = (self._unbroadcasted_scale_tril**2).sum(-1)
        return fx.broadcast_to(square, self._extended())

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + L z of standard normal z."""
        z = fx.randn(self._extended(sample_shape), dtype=self._dtype)
        return self.loc + (self._unbroadcasted_scale_tril @ z[..., None])[..., 0]

    def _log_prob(self, x: Tensor) -> Tensor:
        tril = self._unbroadcasted_scale_tril
        square = _quadratic(tril, x - self.loc)
        return -0.5 * (self.event_shape[0] * _LOG_TAU + square) - half_log_det(tril)

    def entropy(self) -> Tensor:
        """In nats."""
        half = half_log_det(self._unbroadcasted_scale_tril)
        out = 0.5 * self.event_shape[0] * (1 + _LOG_TAU) + half
        return fx.broadcast_to(out, self.batch_shape)


class LowRankMultivariateNormal(Distribution):
    """A normal distribution of vectors whose covariance is W W^T and a diagonal.

    Args:
        loc: means, (..., n).
        cov_factor: W, (..., n, k).
        cov_diag: the diagonal, (..., n), positive.
    """

    has_rsample = True
    support = constraints.real_vector
    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }

    def __init__(
        self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None
    ) -> None:
        loc, factor, diag = of_dtype(loc, cov_factor, cov_diag)
        n = loc.shape[-1] if loc.ndim else 0
        if not n or factor.ndim < 2 or factor.shape[-2] != n or diag.shape[-1:] != (n,):
            raise ValueError(
                "loc must be (..., n), cov_factor (..., n, k) and cov_diag (..., n), "
                f"got {loc.shape}, {factor.shape} and {diag.shape}"
            )
        batch = fx.broadcast_shapes(loc.shape[:-1], factor.shape[:-2], diag.shape[:-1])
        self.loc, self.cov_diag = (fx.broadcast_to(v, (*batch, n)) for v in (loc, diag))
        self.cov_factor = fx.broadcast_to(factor, (*batch, *factor.shape[-2:]))
        super().__init__(batch, (n,), validate_args)
        scaled = self.cov_factor.mT / self.cov_diag[..., None, :]  # W^T D^-1, (..., k, n)
        inner = scaled @ self.cov_factor + fx.eye(factor.shape[-1], dtype=factor.dtype)
        self._scaled, self._capacitance = scaled, fx.linalg.cholesky(inner)

    mean = mode = property(lambda self: self.loc, doc="The means.")

    @property
    def variance(self) -> Tensor:
        """The variances of each place."""
        return (self.cov_factor**2).sum(-1) + self.cov_diag

    @property
    def covariance_matrix(self) -> Tensor:
        """W W^T + D."""
        eye = fx.eye(self.event_shape[0], dtype=self._dtype)
        return self.cov_factor @ self.cov_factor.mT + eye * self.cov_diag[..., None]

    @property
    def scale_tril(self) -> Tensor:
        """The lower triangular factor of the covariance."""
        return fx.linalg.cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance, by Woodbury's identity."""
        root = fx.linalg.solve_triangular(self._capacitance, self._scaled, upper=False)
        eye = fx.eye(self.event_shape[0], dtype=self._dtype)
        return eye / self.cov_diag[..., None] - root.mT @ root

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + W z + sqrt(D) e of standard normal z and e."""
        shape, k = self._extended(sample_shape), self.cov_factor.shape[-1]
        z = fx.randn((*shape[:-1], k), dtype=self._dtype)
        noise = fx.randn(shape, dtype=self._dtype)
        return self.loc + (self.cov_factor @ z[..., None])[..., 0] + self.cov_diag.sqrt() * noise

    def _log_det(self) -> Tensor:
        return 2 * half_log_det(self._capacitance) + self.cov_diag.log().sum(-1)

    def _log_prob(self, x: Tensor) -> Tensor:
        off = x - self.loc
        inner = (self._scaled @ off[..., None])[..., 0]
        square = (off * off / self.cov_diag).sum(-1) - _quadratic(self._capacitance, inner)
        return -0.5 * (self.event_shape[0] * _LOG_TAU + self._log_det() + square)

    def entropy(self) -> Tensor:
        """In nats."""
        return 0.5 * (self.event_shape[0] * (1 + _LOG_TAU) + self._log_det())


__all__ = ["LowRankMultivariateNormal", "MultivariateNormal"]
