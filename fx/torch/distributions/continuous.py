"""Distributions of real numbers that are shifted, scaled or transformed by closed formulas."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math
from typing import Any

import fx
import fx.random.continuous as draws
from fx.random.families import cauchy
from fx.random.generator import next_key
from fx.tensor import Tensor
from fx.torch.distributions import constraints
from fx.torch.distributions.distribution import Distribution, ExponentialFamily

_LOG_SQRT_TAU = math.log(math.sqrt(2 * math.pi))
_EULER = 0.57721566490153286060


class _LocScale(Distribution):
    """What a shift and a positive factor make of a standard distribution."""

    has_rsample = True
    support: Any = constraints.real
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, loc=loc, scale=scale)

    mean = mode = property(lambda self: self.loc, doc="The middles.")

    def _standard(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale  # type: ignore[attr-defined]

    def _drawn(self, draw: Any, sample_shape: Any) -> Tensor:
        shape = self._extended(sample_shape)
        return self.loc + self.scale * draw(next_key(), shape, self._dtype)  # type: ignore[attr-defined]


class Normal(_LocScale, ExponentialFamily):
    """The normal distribution.

    Args:
        loc: means.
        scale: standard deviations, positive; numbers or tensors that broadcast together.

    Example:
        >>> import fx.torch as torch
        >>> torch.distributions.Normal(0.0, 2.0).log_prob(torch.tensor(0.0))
        tensor(-1.6121)
    """

    stddev = property(lambda self: self.scale, doc="The standard deviations.")
    variance = property(lambda self: self.scale**2, doc="The variances.")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale * (standard normal samples)."""
        return self.loc + self.scale * fx.randn(self._extended(sample_shape), dtype=self._dtype)

    def _log_prob(self, x: Tensor) -> Tensor:
        z = self._standard(x)
        return -0.5 * z * z - self.scale.log() - _LOG_SQRT_TAU

    def _cdf(self, x: Tensor) -> Tensor:
        return 0.5 * (1 + fx.erf(self._standard(x) * math.sqrt(0.5)))

    def _icdf(self, p: Tensor) -> Tensor:
        return self.loc + self.scale * fx.erfinv(2 * p - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        """In nats."""
        return 0.5 + _LOG_SQRT_TAU + self.scale.log()


class Laplace(_LocScale):
    """Two exponential distributions back to back."""

    variance = property(lambda self: 2 * self.scale**2, doc="The variances.")
    stddev = property(lambda self: math.sqrt(2) * self.scale, doc="The deviations.")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale * (standard samples)."""
        return self._drawn(draws.laplace, sample_shape)

    def _log_prob(self, x: Tensor) -> Tensor:
        return -(2 * self.scale).log() - self._standard(x).abs()

    def _cdf(self, x: Tensor) -> Tensor:
        z = self._standard(x)
        return 0.5 - 0.5 * z.sign() * fx.expm1(-z.abs())

    def _icdf(self, p: Tensor) -> Tensor:
        term = p - 0.5
        return self.loc - self.scale * term.sign() * fx.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        """In nats."""
        return 1 + (2 * self.scale).log()


class Cauchy(_LocScale):
    """The ratio of two normal variables: no mean, no variance."""

    mode = property(lambda self: self.loc, doc="The middles.")
    mean = property(lambda self: fx.full_like(self.loc, fx.nan), doc="NaN: it has none.")
    variance = property(lambda self: fx.full_like(self.loc, fx.inf), doc="It has none.")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale * (standard samples)."""
        return self._drawn(cauchy, sample_shape)

    def _log_prob(self, x: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - fx.log1p(self._standard(x) ** 2)

    def _cdf(self, x: Tensor) -> Tensor:
        return fx.atan(self._standard(x)) / math.pi + 0.5

    def _icdf(self, p: Tensor) -> Tensor:
        return self.loc + self.scale * fx.tan(math.pi * (p - 0.5))

    def entropy(self) -> Tensor:
        """In nats."""
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocScale):
    """The largest of many: -log(-log(u)), scaled and shifted."""

    mean = property(lambda self: self.loc + self.scale * _EULER, doc="The means.")
    mode = property(lambda self: self.loc, doc="The modes.")
    stddev = property(lambda self: math.pi / math.sqrt(6) * self.scale, doc="The deviations.")
    variance = property(lambda self: self.stddev**2, doc="The variances.")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale * (standard samples)."""
        return self._drawn(draws.gumbel, sample_shape)

    def _log_prob(self, x: Tensor) -> Tensor:
        z = self._standard(x)
        return -z - (-z).exp() - self.scale.log()

    def _cdf(self, x: Tensor) -> Tensor:
        return (-(-self._standard(x)).exp()).exp()

    def _icdf(self, p: Tensor) -> Tensor:
        return self.loc - self.scale * (-p.log()).log()

    def entropy(self) -> Tensor:
        """In nats."""
        return self.scale.log() + (1 + _EULER)


class Uniform(Distribution):
    """Every number of [low, high) is as likely."""

    has_rsample = True
    arg_constraints = {  # noqa: RUF012
        "low": constraints.dependent(is_discrete=False, event_dim=0),
        "high": constraints.dependent(is_discrete=False, event_dim=0),
    }

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, low=low, high=high)
        wide = (self.low < self.high).detach()
        if self.validate and type(wide) is Tensor and not bool(wide.all()):
            raise ValueError("Uniform is not defined when low>= high")

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """[low, high]."""
        return constraints.interval(self.low, self.high)

    mean = property(lambda self: (self.low + self.high) / 2, doc="The middles.")
    mode = property(lambda self: fx.nan * self.high, doc="NaN: none is likelier.")
    variance = property(lambda self: (self.high - self.low) ** 2 / 12, doc="The variances.")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """low + (high - low) * (samples of [0, 1))."""
        u = fx.rand(self._extended(sample_shape), dtype=self._dtype)
        return self.low + u * (self.high - self.low)

    def _log_prob(self, x: Tensor) -> Tensor:
        inside = (x >= self.low) & (x < self.high)
        return fx.where(inside, 0.0, -math.inf) - (self.high - self.low).log()

    def _cdf(self, x: Tensor) -> Tensor:
        return ((x - self.low) / (self.high - self.low)).clamp(0, 1)

    def _icdf(self, p: Tensor) -> Tensor:
        return p * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """In nats."""
        return (self.high - self.low).log()


class Exponential(ExponentialFamily):
    """The waiting time for what happens ``rate`` times in a unit of time."""

    has_rsample = True
    support = constraints.nonnegative
    arg_constraints = {"rate": constraints.positive}  # noqa: RUF012

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, rate=rate)

    mean = stddev = property(lambda self: 1 / self.rate, doc="1 / rate.")
    mode = property(lambda self: fx.zeros_like(self.rate), doc="0.")
    variance = property(lambda self: self.rate**-2, doc="The variances.")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples of rate 1, divided by the rate."""
        return draws.exponential(next_key(), self._extended(sample_shape), self._dtype) / self.rate

    def _log_prob(self, x: Tensor) -> Tensor:
        return self.rate.log() - self.rate * x

    def _cdf(self, x: Tensor) -> Tensor:
        return -fx.expm1(-self.rate * x)

    def _icdf(self, p: Tensor) -> Tensor:
        return -fx.log1p(-p) / self.rate

    def entropy(self) -> Tensor:
        """In nats."""
        return 1 - self.rate.log()
