"""Distributions of positive numbers, or of an interval, with closed quantile functions."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math
from typing import Any

import fx
from fx.random.families import pareto, weibull_min
from fx.random.generator import next_key
from fx.tensor import Tensor
from fx.torch.distributions import constraints
from fx.torch.distributions.continuous import Cauchy, Normal
from fx.torch.distributions.distribution import Distribution

_EULER = 0.57721566490153286060


class _OfQuantiles(Distribution):
    """Whose samples are quantiles of uniform ones."""

    has_rsample = True
    support: Any = constraints.positive

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Quantiles of uniform samples."""
        return self._icdf(self._uniform(sample_shape))


class LogNormal(Distribution):
    """exp of a normal variable; ``loc`` and ``scale`` are those of the logarithm."""

    has_rsample = True
    support = constraints.positive
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, loc=loc, scale=scale)

    base_dist = property(
        lambda self: Normal(self.loc, self.scale, validate_args=False), doc="That of the logarithm."
    )
    mean = property(lambda self: (self.loc + self.scale**2 / 2).exp(), doc="The means.")
    mode = property(lambda self: (self.loc - self.scale**2).exp(), doc="The modes.")

    @property
    def variance(self) -> Tensor:
        """The variances."""
        square = self.scale**2
        return fx.expm1(square) * (2 * self.loc + square).exp()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """exp of normal samples."""
        return self.base_dist.rsample(sample_shape).exp()

    def _log_prob(self, x: Tensor) -> Tensor:
        log = x.log()
        return self.base_dist._log_prob(log) - log

    def _cdf(self, x: Tensor) -> Tensor:
        return self.base_dist._cdf(x.log())

    def _icdf(self, p: Tensor) -> Tensor:
        return self.base_dist._icdf(p).exp()

    def entropy(self) -> Tensor:
        """In nats."""
        return self.base_dist.entropy() + self.loc


class _Half(Distribution):
    """The absolute value of a distribution that is even; ``_whole`` makes that one."""

    has_rsample = True
    support = constraints.nonnegative
    arg_constraints = {"scale": constraints.positive}  # noqa: RUF012
    _whole: Any

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, scale=scale)

    base_dist = property(
        lambda self: self._whole(fx.zeros_like(self.scale), self.scale, validate_args=False),
        doc="The even one.",
    )
    mode = property(lambda self: fx.zeros_like(self.scale), doc="0.")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Absolute values."""
        return self.base_dist.rsample(sample_shape).abs()

    def _log_prob(self, x: Tensor) -> Tensor:
        log = self.base_dist._log_prob(x) + math.log(2)
        return fx.where(x >= 0, log, -math.inf)

    def _cdf(self, x: Tensor) -> Tensor:
        return 2 * self.base_dist._cdf(x) - 1

    def _icdf(self, p: Tensor) -> Tensor:
        return self.base_dist._icdf((p + 1) / 2)

    def entropy(self) -> Tensor:
        """In nats."""
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The absolute value of a normal variable of mean 0."""

    _whole = Normal
    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi), doc="The means.")
    variance = property(lambda self: self.scale**2 * (1 - 2 / math.pi), doc="The variances.")


class HalfCauchy(_Half):
    """The absolute value of a Cauchy variable of middle 0."""

    _whole = Cauchy
    mean = property(lambda self: fx.full_like(self.scale, fx.inf), doc="Infinite.")
    variance = property(lambda self: fx.full_like(self.scale, fx.inf), doc="Infinite.")


class Weibull(_OfQuantiles):
    """The time to a failure whose rate is a power of time."""

    arg_constraints = {  # noqa: RUF012
        "scale": constraints.positive, "concentration": constraints.positive,
    }  # fmt: skip

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, scale=scale, concentration=concentration)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Powers of exponential samples."""
        shape = self._extended(sample_shape)
        return weibull_min(next_key(), self.scale, self.concentration, shape, self._dtype)

    def _moment(self, k: int) -> Tensor:
        return fx.lgamma(1 + k / self.concentration).exp()

    mean = property(lambda self: self.scale * self._moment(1), doc="The means.")

    @property
    def mode(self) -> Tensor:
        """The modes."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** (1 / k)

    @property
    def variance(self) -> Tensor:
        """The variances."""
        return self.scale**2 * (self._moment(2) - self._moment(1) ** 2)

    def _log_prob(self, x: Tensor) -> Tensor:
        log = (x / self.scale).log()
        k = self.concentration
        return (k / self.scale).log() + (k - 1) * log - (k * log).exp()

    def _cdf(self, x: Tensor) -> Tensor:
        return -fx.expm1(-((x / self.scale) ** self.concentration))

    def _icdf(self, p: Tensor) -> Tensor:
        return self.scale * (-fx.log1p(-p)) ** (1 / self.concentration)

    def entropy(self) -> Tensor:
        """In nats."""
        k = self.concentration
        return _EULER * (1 - 1 / k) + (self.scale / k).log() + 1


class Pareto(_OfQuantiles):
    """What is above ``scale``, falling as a power."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}  # noqa: RUF012

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, scale=scale, alpha=alpha)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Above the scale."""
        return constraints.greater_than_eq(self.scale)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The scale times samples from 1 on."""
        return self.scale * pareto(
            next_key(), self.alpha, self._extended(sample_shape), self._dtype
        )

    mode = property(lambda self: self.scale, doc="The modes.")

    @property
    def mean(self) -> Tensor:
        """The means; infinite for an alpha of 1 and below."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def variance(self) -> Tensor:
        """The variances; infinite for an alpha of 2 and below."""
        a = self.alpha.clamp(min=2)
        return self.scale**2 * a / ((a - 1) ** 2 * (a - 2))

    def _log_prob(self, x: Tensor) -> Tensor:
        return self.alpha.log() + self.alpha * self.scale.log() - (self.alpha + 1) * x.log()

    def _cdf(self, x: Tensor) -> Tensor:
        return 1 - (self.scale / x) ** self.alpha

    def _icdf(self, p: Tensor) -> Tensor:
        return self.scale * (-fx.log1p(-p) / self.alpha).exp()

    def entropy(self) -> Tensor:
        """In nats."""
        return (self.scale / self.alpha).log() + 1 + 1 / self.alpha


class Kumaraswamy(_OfQuantiles):
    """Numbers of (0, 1) with closed quantiles, close to a beta distribution."""

    support = constraints.unit_interval
    arg_constraints = {  # noqa: RUF012
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self._hold(validate_args, concentration1=concentration1, concentration0=concentration0)

    def _moment(self, k: int) -> Tensor:
        a, b = 1 + k / self.concentration1, self.concentration0
        return b * (fx.lgamma(a) + fx.lgamma(b) - fx.lgamma(a + b)).exp()

    mean = property(lambda self: self._moment(1), doc="The means.")
    variance = property(lambda self: self._moment(2) - self._moment(1) ** 2, doc="The variances.")

    @property
    def mode(self) -> Tensor:
        """The modes; NaN where a parameter is below 1."""
        a, b = self.concentration1, self.concentration0
        out = ((a - 1) / (a * b - 1)) ** (1 / a)
        return fx.where((a < 1) | (b < 1), fx.nan, out)

    def _log_prob(self, x: Tensor) -> Tensor:
        a, b = self.concentration1, self.concentration0
        power = a * x.log()
        return a.log() + b.log() + power - x.log() + (b - 1) * fx.log1p(-power.exp())

    def _cdf(self, x: Tensor) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return -fx.expm1(b * fx.log1p(-(x**a)))

    def _icdf(self, p: Tensor) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return (-fx.expm1(fx.log1p(-p) / b)) ** (1 / a)

    def entropy(self) -> Tensor:
        """In nats."""
        a, b = self.concentration1, self.concentration0
        harmonic = fx.digamma(b + 1) + _EULER
        return 1 - 1 / b + (1 - 1 / a) * harmonic - a.log() - b.log()


class GeneralizedPareto(_OfQuantiles):
    """What lies above a threshold ``loc``: exponential at concentration 0, heavier above."""

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real,
    }  # fmt: skip

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self._hold(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:
        """Above loc, and below an end where the concentration is negative."""
        k = self.concentration
        end = self.loc - self.scale / fx.where(k < 0, k, -1.0)
        return constraints.interval(self.loc, fx.where(k < 0, end, fx.inf))

    def _near_zero(self) -> tuple[Tensor, Tensor]:
        """Where the concentration counts as 0, and a concentration to divide by."""
        k = self.concentration
        zero = k.abs() < fx.finfo(k.dtype).eps
        return zero, fx.where(zero, 1.0, k)

    @property
    def mean(self) -> Tensor:
        """The means; infinite for a concentration of 1 and above."""
        k = self.concentration
        low = k < 1
        return fx.where(low, self.loc + self.scale / (1 - fx.where(low, k, 0.0)), fx.inf)

    @property
    def variance(self) -> Tensor:
        """The variances; infinite for a concentration of 1/2 and above."""
        low = self.concentration < 0.5
        k = fx.where(low, self.concentration, 0.0)
        return fx.where(low, self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)), fx.inf)

    mode = property(lambda self: self.loc, doc="The thresholds.")

    def _log_survival(self, x: Tensor) -> Tensor:
        zero, k = self._near_zero()
        z = (x - self.loc) / self.scale
        return fx.where(zero, -z, -fx.log1p(fx.where(zero, 0.0, k * z)) / k)

    def _log_prob(self, x: Tensor) -> Tensor:
        k = self._near_zero()
        power = fx.where(k[0], 1.0, self.concentration + 1)
        return power * self._log_survival(x) - self.scale.log()

    def _cdf(self, x: Tensor) -> Tensor:
        return -fx.expm1(self._log_survival(x))

    def _icdf(self, p: Tensor) -> Tensor:
        zero, k = self._near_zero()
        log = -fx.log1p(-p)
        return self.loc + self.scale * fx.where(zero, log, fx.expm1(k * log) / k)

    def entropy(self) -> Tensor:
        """In nats."""
        return self.scale.log() + self.concentration + 1


__all__ = [
    "GeneralizedPareto", "HalfCauchy", "HalfNormal", "Kumaraswamy", "LogNormal", "Pareto",
    "Weibull",
]  # fmt: skip
