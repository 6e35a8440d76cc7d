"""Transforms of each element."""

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


class ExpTransform(Transform):
    """exp(x)."""

    domain, codomain, bijective, sign = constraints.real, constraints.positive, True, 1

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """x."""
        return x


class PowerTransform(Transform):
    """x ** exponent of positive x."""

    domain, codomain, bijective = constraints.positive, constraints.positive, True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else fx.tensor(float(exponent))

    sign = property(lambda self: self.exponent.sign(), doc="That of the exponent.")

    def _held(self) -> Any:
        return self.exponent.tolist()

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |exponent * y / x|."""
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """Broadcast with the exponent."""
        return tuple(fx.broadcast_shapes(tuple(shape), tuple(self.exponent.shape)))

    inverse_shape = forward_shape


class SigmoidTransform(Transform):
    """1 / (1 + exp(-x)); the inverse keeps away from 0 and 1 by a last digit."""

    domain, codomain, bijective, sign = constraints.real, constraints.unit_interval, True, 1

    def _call(self, x: Tensor) -> Tensor:
        info = fx.finfo(x.dtype)
        return fx.sigmoid(x).clamp(info.tiny, 1 - info.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        info = fx.finfo(y.dtype)
        y = y.clamp(info.tiny, 1 - info.eps)
        return y.log() - fx.log1p(-y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log(y (1 - y)), from x."""
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(Transform):
    """log(1 + exp(x))."""

    domain, codomain, bijective, sign = constraints.real, constraints.positive, True, 1

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-fx.expm1(-y)).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """-log(1 + exp(-x))."""
        return -F.softplus(-x)


class TanhTransform(Transform):
    """tanh(x); a cache of size 1 spares the inverse, which loses digits near 1."""

    domain, codomain, bijective, sign = constraints.real, constraints.interval(-1.0, 1.0), True, 1

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return fx.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log(1 - y ** 2), from x, where it does not cancel."""
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """|x|: not invertible; its inverse gives the positive one."""

    domain, codomain = constraints.real, constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """loc + scale * x.

    Args:
        loc, scale: numbers or tensors that broadcast with x.
        event_dim: how many axes one event has.
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    event_dim = property(lambda self: self._event_dim, doc="How many axes one event has.")

    @property
    def domain(self) -> Any:
        """All real events."""
        real = constraints.real
        return constraints.independent(real, self._event_dim) if self._event_dim else real

    codomain = domain

    @property
    def sign(self) -> Any:
        """That of the scale."""
        scale = self.scale
        return scale.sign() if isinstance(scale, Tensor) else (scale > 0) - (scale < 0)

    def _held(self) -> Any:
        values = (self.loc, self.scale)
        return [v.tolist() if isinstance(v, Tensor) else v for v in values], self._event_dim

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |scale|, summed over an event."""
        scale = (
            self.scale if isinstance(self.scale, Tensor) else fx.tensor(self.scale, dtype=x.dtype)
        )
        return summed(fx.broadcast_to(scale.abs().log(), x.shape), self._event_dim)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """Broadcast with loc and scale."""
        shapes = [tuple(getattr(v, "shape", ())) for v in (self.loc, self.scale)]
        return tuple(fx.broadcast_shapes(tuple(shape), *shapes))

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """The cdf of a distribution."""

    bijective, codomain, sign = True, constraints.unit_interval, 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support, doc="Where the distribution lives.")

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of the density."""
        return self.distribution.log_prob(x)
