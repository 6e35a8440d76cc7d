"""Transforms of vectors and matrices, and of parts of a tensor."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math
from typing import Any

import fx
from fx.nn import functional as F
from fx.tensor import Tensor
from fx.torch.distributions import constraints
from fx.torch.distributions.distribution import summed
from fx.torch.distributions.transforms.compositions import Transform


class SoftmaxTransform(Transform):
    """exp(x), scaled to sum to 1: it has no Jacobian, as all shifts of x give the same."""

    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return fx.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """n real numbers to n + 1 shares: each takes a part of what the ones before it left."""

    domain, codomain, bijective = constraints.real_vector, constraints.simplex, True

    @staticmethod
    def _offset(n: int, dtype: Any) -> Tensor:
        return fx.arange(n, 0, -1, dtype=dtype).log()

    def _call(self, x: Tensor) -> Tensor:
        z = x - self._offset(x.shape[-1], x.dtype)
        left = fx.cumsum(F.logsigmoid(-z), -1).exp()  # what each leaves, (..., n)
        before = F.pad(left[..., :-1], (1, 0), value=1.0)
        return fx.concat([fx.sigmoid(z) * before, left[..., -1:]], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        most = y[..., :-1]
        left = (1 - fx.cumsum(most, -1)).clamp(min=fx.finfo(y.dtype).tiny)
        return most.log() - left.log() + self._offset(most.shape[-1], y.dtype)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Of the first n shares."""
        z = x - self._offset(x.shape[-1], x.dtype)
        return (F.logsigmoid(z) - z + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """One more at the end."""
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        """One less at the end."""
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(Transform):
    """A matrix to its lower triangle with exp of its diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    @staticmethod
    def _with_diagonal(x: Tensor, diagonal: Tensor) -> Tensor:
        eye = fx.eye(x.shape[-1], dtype=x.dtype)
        return x.tril(-1) + eye * diagonal[..., None]

    def _call(self, x: Tensor) -> Tensor:
        return self._with_diagonal(x, fx.linalg.diagonal(x).exp())

    def _inverse(self, y: Tensor) -> Tensor:
        return self._with_diagonal(y, fx.linalg.diagonal(y).log())


class PositiveDefiniteTransform(Transform):
    """A matrix to L L^T of its LowerCholeskyTransform L."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(fx.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """n (n - 1) / 2 real numbers to the lower factor of a correlation matrix (n, n).

    tanh of a number is a partial correlation: the share of what its row has left of length 1.
    """

    domain, codomain, bijective = constraints.real_vector, constraints.corr_cholesky, True

    @staticmethod
    def _size(count: int) -> int:
        n = round((math.sqrt(8 * count + 1) + 1) / 2)
        if n * (n - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return n

    @staticmethod
    def _places(n: int) -> list[int]:
        return [i * n + j for i in range(n) for j in range(i)]

    def _partial(self, x: Tensor) -> Tensor:
        """tanh(x) below the diagonal of (..., n, n)."""
        n = self._size(x.shape[-1])
        rows = [
            F.pad(x[..., i * (i - 1) // 2 : i * (i + 1) // 2].tanh(), (0, n - i)) for i in range(n)
        ]
        return fx.stack(rows, -2)

    def _call(self, x: Tensor) -> Tensor:
        r = self._partial(x)
        left = fx.cumprod(1 - r * r, -1).sqrt()
        full = r + fx.eye(r.shape[-1], dtype=r.dtype)
        return full * F.pad(left[..., :-1], (1, 0), value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        n = y.shape[-1]
        left = (1 - fx.cumsum(y * y, -1)).clamp(min=fx.finfo(y.dtype).tiny).sqrt()
        r = y.tril(-1) / F.pad(left[..., :-1], (1, 0), value=1.0)
        return fx.atanh(r.flatten(-2)[..., self._places(n)])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Of the numbers below the diagonal."""
        tanh = -2 * (x + F.softplus(-2 * x) - math.log(2.0))
        left = 1 - fx.cumsum(y * y, -1)
        n = y.shape[-1]
        below = left[..., :-1].tril(-2)[..., 2:, :] if n > 2 else left[..., :0, :0]
        below = fx.where(below == 0, 1.0, below)
        return 0.5 * below.log().sum((-2, -1)) + tanh.sum(-1)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """(..., n, n)."""
        n = self._size(shape[-1])
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        """(..., n (n - 1) / 2)."""
        if shape[-1] != shape[-2]:
            raise ValueError("Input is not square")
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


class _Parts(Transform):
    def __init__(self, tseq: Any, dim: int = 0, lengths: Any = None, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) if cache_size else t for t in tseq]
        self.lengths, self.dim = list(lengths or [1] * len(self.transforms)), dim

    bijective = property(lambda self: all(t.bijective for t in self.transforms), doc="All are.")
    _set: Any

    domain = property(
        lambda self: self._set([t.domain for t in self.transforms], self.dim, self.lengths)
    )
    codomain = property(
        lambda self: self._set([t.codomain for t in self.transforms], self.dim, self.lengths)
    )

    def _held(self) -> Any:
        return self.transforms, self.lengths, self.dim

    def _split(self, x: Tensor) -> Any:
        raise NotImplementedError

    def _joined(self, parts: Any) -> Tensor:
        raise NotImplementedError

    def _call(self, x: Tensor) -> Tensor:
        return self._joined([t(v) for t, v in zip(self.transforms, self._split(x))])

    def _inverse(self, y: Tensor) -> Tensor:
        return self._joined([t._inv_call(v) for t, v in zip(self.transforms, self._split(y))])

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Those of the parts, side by side."""
        pairs = zip(self.transforms, self._split(x), self._split(y))
        parts = [(t, t.log_abs_det_jacobian(a, b)) for t, a, b in pairs]
        most = max(t.domain.event_dim for t in self.transforms)
        return self._joined([summed(v, most - t.domain.event_dim) for t, v in parts])


class CatTransform(_Parts):
    """Transforms of parts of ``lengths`` along an axis."""

    _set = constraints.cat

    def _split(self, x: Tensor) -> Any:
        return x.split(self.lengths, self.dim)

    def _joined(self, parts: Any) -> Tensor:
        return fx.concat(parts, self.dim)


class StackTransform(_Parts):
    """Transforms of slices along an axis."""

    _set = constraints.stack

    def __init__(self, tseq: Any, dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, None, cache_size)

    def _split(self, x: Tensor) -> Any:
        return fx.unstack(x, axis=self.dim)

    def _joined(self, parts: Any) -> Tensor:
        return fx.stack(parts, self.dim)


__all__ = [
    "CatTransform", "CorrCholeskyTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform",
    "SoftmaxTransform", "StackTransform", "StickBreakingTransform",
]  # fmt: skip
