"""Distributions of real numbers."""

from __future__ import annotations

import math
from typing import Any

import fx
from fx.random.continuous import exponential, laplace
from fx.random.gammas import dirichlet, gamma
from fx.random.generator import next_key
from fx.tensor import Tensor
from fx.torch.distributions.distribution import Distribution, check, parameters, positive

_LOG_SQRT_TAU = math.log(math.sqrt(2 * math.pi))


class Normal(Distribution):
    """The normal distribution.

    Args:
        loc: means.
        scale: standard deviations, positive; numbers or tensors that broadcast together.

    Example:
        >>> import fx.torch as torch
        >>> torch.distributions.Normal(0.0, 2.0).log_prob(torch.tensor(0.0))
        tensor(-1.6121)
    """

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = parameters(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)
        check(self, "scale", self.scale, positive, "positive")

    mean = mode = property(lambda self: self.loc, doc="The means.")
    stddev = property(lambda self: self.scale, doc="The standard deviations.")
    variance = property(lambda self: self.scale**2, doc="The variances.")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale * (standard normal samples)."""
        shape = self._extended(sample_shape)
        return self.loc + self.scale * fx.randn(shape, dtype=self.loc.dtype)  # type: ignore[no-any-return]

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density."""
        z = (self._pair(value, self.loc) - self.loc) / self.scale
        return -0.5 * z * z - self.scale.log() - _LOG_SQRT_TAU  # type: ignore[no-any-return]

    def cdf(self, value: Any) -> Tensor:
        """The probability of what is below."""
        z = (self._pair(value, self.loc) - self.loc) / self.scale
        return 0.5 * (1 + fx.erf(z * math.sqrt(0.5)))  # type: ignore[no-any-return]

    def icdf(self, value: Any) -> Tensor:
        """Where the cdf has a value."""
        p = self._pair(value, self.loc)
        return self.loc + self.scale * fx.erfinv(2 * p - 1) * math.sqrt(2)  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        """In nats."""
        return 0.5 + _LOG_SQRT_TAU + self.scale.log()  # type: ignore[no-any-return]


class LogNormal(Normal):
    """exp of a normal variable; ``loc`` and ``scale`` are those of the logarithm."""

    mean = property(lambda self: (self.loc + self.scale**2 / 2).exp(), doc="The means.")
    mode = property(lambda self: (self.loc - self.scale**2).exp(), doc="The modes.")
    stddev = property(lambda self: self.variance.sqrt(), doc="The standard deviations.")

    @property
    def variance(self) -> Tensor:
        """The variances."""
        square = self.scale**2
        return fx.expm1(square) * (2 * self.loc + square).exp()  # type: ignore[no-any-return]

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """exp of normal samples."""
        return super().rsample(sample_shape).exp()  # type: ignore[no-any-return]

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density."""
        log = self._pair(value, self.loc).log()
        return super().log_prob(log) - log  # type: ignore[no-any-return]

    def cdf(self, value: Any) -> Tensor:
        """The probability of what is below."""
        return super().cdf(self._pair(value, self.loc).log())

    def icdf(self, value: Any) -> Tensor:
        """Where the cdf has a value."""
        return super().icdf(value).exp()  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        """In nats."""
        return super().entropy() + self.loc  # type: ignore[no-any-return]


class Uniform(Distribution):
    """Every number of [low, high) is as likely."""

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = parameters(low, high)
        super().__init__(self.low.shape, (), validate_args)
        check(self, "high", self.high - self.low, positive, "above low")

    mean = property(lambda self: (self.low + self.high) / 2, doc="The middles.")
    variance = property(lambda self: (self.high - self.low) ** 2 / 12, doc="The variances.")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """low + (high - low) * (samples of [0, 1))."""
        u = fx.rand(self._extended(sample_shape), dtype=self.low.dtype)
        return self.low + u * (self.high - self.low)  # type: ignore[no-any-return]

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density; -inf outside."""
        x = self._pair(value, self.low)
        inside = (x >= self.low) & (x < self.high)
        return fx.where(inside, 0.0, -math.inf) - (self.high - self.low).log()  # type: ignore[no-any-return]

    def cdf(self, value: Any) -> Tensor:
        """The probability of what is below."""
        x = self._pair(value, self.low)
        return ((x - self.low) / (self.high - self.low)).clamp(0, 1)  # type: ignore[no-any-return]

    def icdf(self, value: Any) -> Tensor:
        """Where the cdf has a value."""
        return self._pair(value, self.low) * (self.high - self.low) + self.low  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        """In nats."""
        return (self.high - self.low).log()  # type: ignore[no-any-return]


class Exponential(Distribution):
    """The waiting time for what happens ``rate`` times in a unit of time."""

    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = parameters(rate)
        super().__init__(self.rate.shape, (), validate_args)
        check(self, "rate", self.rate, positive, "positive")

    mean = stddev = property(lambda self: 1 / self.rate, doc="1 / rate.")
    variance = property(lambda self: self.rate**-2, doc="The variances.")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples of rate 1, divided by the rate."""
        shape = self._extended(sample_shape)
        return exponential(next_key(), shape, self.rate.dtype) / self.rate  # type: ignore[no-any-return]

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density."""
        return self.rate.log() - self.rate * self._pair(value, self.rate)  # type: ignore[no-any-return]

    def cdf(self, value: Any) -> Tensor:
        """The probability of what is below."""
        return -fx.expm1(-self.rate * self._pair(value, self.rate))  # type: ignore[no-any-return]

    def icdf(self, value: Any) -> Tensor:
        """Where the cdf has a value."""
        return -fx.log1p(-self._pair(value, self.rate)) / self.rate  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        """In nats."""
        return 1 - self.rate.log()  # type: ignore[no-any-return]


class Laplace(Distribution):
    """Two exponential distributions back to back."""

    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = parameters(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)
        check(self, "scale", self.scale, positive, "positive")

    mean = mode = property(lambda self: self.loc, doc="The means.")
    variance = property(lambda self: 2 * self.scale**2, doc="The variances.")
    stddev = property(lambda self: math.sqrt(2) * self.scale, doc="The deviations.")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """loc + scale * (standard samples)."""
        shape = self._extended(sample_shape)
        return self.loc + self.scale * laplace(next_key(), shape, self.loc.dtype)  # type: ignore[no-any-return]

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density."""
        distance = (self._pair(value, self.loc) - self.loc).abs()
        return -(2 * self.scale).log() - distance / self.scale  # type: ignore[no-any-return]

    def cdf(self, value: Any) -> Tensor:
        """The probability of what is below."""
        z = self._pair(value, self.loc) - self.loc
        return 0.5 - 0.5 * z.sign() * fx.expm1(-z.abs() / self.scale)  # type: ignore[no-any-return]

    def icdf(self, value: Any) -> Tensor:
        """Where the cdf has a value."""
        term = self._pair(value, self.loc) - 0.5
        return self.loc - self.scale * term.sign() * fx.log1p(-2 * term.abs())  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        """In nats."""
        return 1 + (2 * self.scale).log()  # type: ignore[no-any-return]


class Gamma(Distribution):
    """The gamma distribution; derivatives do not pass through its samples."""

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = parameters(concentration, rate)
        super().__init__(self.rate.shape, (), validate_args)
        check(self, "concentration", self.concentration, positive, "positive")
        check(self, "rate", self.rate, positive, "positive")

    mean = property(lambda self: self.concentration / self.rate, doc="The means.")
    variance = property(lambda self: self.concentration / self.rate**2, doc="The variances.")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Samples of rate 1, divided by the rate."""
        shape, a = self._extended(sample_shape), self.concentration.detach()
        return gamma(next_key(), a, shape, a.dtype) / self.rate.detach()  # type: ignore[no-any-return]

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density."""
        x, a = self._pair(value, self.rate), self.concentration
        return fx.xlogy(a, self.rate) + fx.xlogy(a - 1, x) - self.rate * x - fx.lgamma(a)  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        """In nats."""
        a = self.concentration
        return a - self.rate.log() + fx.lgamma(a) + (1 - a) * fx.digamma(a)  # type: ignore[no-any-return]


class Dirichlet(Distribution):
    """Points of a simplex (..., n); derivatives do not pass through its samples."""

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        (self.concentration,) = parameters(concentration)
        shape = self.concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args)
        check(self, "concentration", self.concentration, positive, "positive")

    @property
    def mean(self) -> Tensor:
        """The means."""
        return self.concentration / self.concentration.sum(-1, keepdim=True)  # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        """The variances of each place."""
        total, m = self.concentration.sum(-1, keepdim=True), self.mean
        return m * (1 - m) / (total + 1)  # type: ignore[no-any-return]

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Points of the simplex."""
        a = self.concentration.detach()
        shape = self._extended(sample_shape)[:-1]
        return dirichlet(next_key(), a, shape, a.dtype)

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density."""
        x, a = self._pair(value, self.concentration), self.concentration
        return fx.xlogy(a - 1, x).sum(-1) + fx.lgamma(a.sum(-1)) - fx.lgamma(a).sum(-1)  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        """In nats."""
        a, n = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        beta = fx.lgamma(a).sum(-1) - fx.lgamma(total)
        return beta - (n - total) * fx.digamma(total) - ((a - 1) * fx.digamma(a)).sum(-1)  # type: ignore[no-any-return]


class Beta(Distribution):
    """Numbers of (0, 1); derivatives do not pass through its samples."""

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = parameters(concentration1, concentration0)
        both = fx.stack([self.concentration1, self.concentration0], -1)
        self._both = Dirichlet(both, validate_args)
        super().__init__(self.concentration1.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        """The means."""
        return self.concentration1 / (self.concentration1 + self.concentration0)  # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        """The variances."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))  # type: ignore[no-any-return]

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """The first of the two parts of a simplex."""
        return self._both.sample(sample_shape)[..., 0]  # type: ignore[no-any-return]

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density."""
        x = self._pair(value, self.concentration1)
        return self._both.log_prob(fx.stack([x, 1 - x], -1))

    def entropy(self) -> Tensor:
        """In nats."""
        return self._both.entropy()
