"""Gamma distributions and what is made of them: beta, Dirichlet, chi-squared, Student's t, F."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math
from typing import Any

import fx
from fx.random.families import f, t
from fx.random.gammas import loggamma
from fx.random.generator import next_key
from fx.tensor import Tensor
from fx.torch.distributions import constraints
from fx.torch.distributions.distribution import Distribution, ExponentialFamily, parameters


class Gamma(ExponentialFamily):
    """The gamma distribution; its samples are differentiable in both parameters.

    Args:
        concentration: shapes.
        rate: inverse scales; positive numbers or tensors that broadcast together.

    Example:
        >>> import fx.torch as torch
        >>> torch.distributions.Gamma(2.0, 1.0).log_prob(torch.tensor(1.0))
        tensor(-1.)
    """

    has_rsample = True
    support = constraints.nonnegative
    arg_constraints: Any = {  # noqa: RUF012
        "concentration": constraints.positive, "rate": constraints.positive,
    }  # fmt: skip

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, concentration=concentration, rate=rate)

    mean = property(lambda self: self.concentration / self.rate, doc="The means.")
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0), doc="Modes.")
    variance = property(lambda self: self.concentration / self.rate**2, doc="The variances.")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples of rate 1, divided by the rate."""
        logs = loggamma(next_key(), self.concentration, self._extended(sample_shape))
        return logs.exp().clamp(min=fx.finfo(logs.dtype).tiny) / self.rate

    def _log_prob(self, x: Tensor) -> Tensor:
        a = self.concentration
        return fx.xlogy(a, self.rate) + fx.xlogy(a - 1, x) - self.rate * x - fx.lgamma(a)

    def _cdf(self, x: Tensor) -> Tensor:
        return fx.special.gammainc(self.concentration, self.rate * x)

    def entropy(self) -> Tensor:
        """In nats."""
        a = self.concentration
        return a - self.rate.log() + fx.lgamma(a) + (1 - a) * fx.digamma(a)


class Chi2(Gamma):
    """The sum of squares of ``df`` standard normal variables."""

    arg_constraints = {"df": constraints.positive}  # noqa: RUF012

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (self.df,) = parameters(df)
        self._of_gamma()
        Distribution.__init__(self, self.df.shape, (), validate_args)

    def _of_gamma(self) -> None:
        self.concentration, self.rate = 0.5 * self.df, fx.full_like(self.df, 0.5)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions, repeated to a larger batch."""
        new = super().expand(batch_shape)
        new._of_gamma()
        return new


class InverseGamma(Distribution):
    """1 / x of a gamma variable x."""

    has_rsample = True
    support = constraints.positive
    arg_constraints = Gamma.arg_constraints

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, concentration=concentration, rate=rate)

    base_dist = property(
        lambda self: Gamma(self.concentration, self.rate, validate_args=False), doc="That of x."
    )

    @property
    def mean(self) -> Tensor:
        """The means; infinite for a concentration of 1 and below."""
        a = self.concentration
        return fx.where(a > 1, self.rate / (a - 1), fx.inf)

    mode = property(lambda self: self.rate / (self.concentration + 1), doc="The modes.")

    @property
    def variance(self) -> Tensor:
        """The variances; infinite for a concentration of 2 and below."""
        a = self.concentration
        return fx.where(a > 2, self.rate**2 / ((a - 1) ** 2 * (a - 2)), fx.inf)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """1 / gamma samples."""
        return 1 / self.base_dist.rsample(sample_shape)

    def _log_prob(self, x: Tensor) -> Tensor:
        return self.base_dist._log_prob(1 / x) - 2 * x.log()

    def _cdf(self, x: Tensor) -> Tensor:
        return fx.special.gammaincc(self.concentration, self.rate / x)

    def entropy(self) -> Tensor:
        """In nats."""
        a = self.concentration
        return a + self.rate.log() + fx.lgamma(a) - (1 + a) * fx.digamma(a)


class Dirichlet(ExponentialFamily):
    """Points of a simplex (..., n); its samples are differentiable in the concentration."""

    has_rsample = True
    support = constraints.simplex
    arg_constraints = {  # noqa: RUF012
        "concentration": constraints.independent(constraints.positive, 1)
    }

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        (self.concentration,) = parameters(concentration)
        shape = self.concentration.shape
        if not shape:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        super().__init__(shape[:-1], shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        """The means."""
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        """The modes; the likeliest corner where all concentrations are below 1."""
        a = self.concentration
        above = (a - 1).clamp(min=0)
        corner = fx.one_hot(above.argmax(-1), a.shape[-1]).to(a.dtype)
        flat = (a < 1).all(-1, keepdim=True)
        return fx.where(flat, corner, above / fx.where(flat, 1.0, above.sum(-1, keepdim=True)))

    @property
    def variance(self) -> Tensor:
        """The variances of each place."""
        total, m = self.concentration.sum(-1, keepdim=True), self.mean
        return m * (1 - m) / (total + 1)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Points of the simplex: shares of gamma samples."""
        logs = loggamma(next_key(), self.concentration, self._extended(sample_shape))
        return fx.softmax(logs, -1)

    def _log_prob(self, x: Tensor) -> Tensor:
        a = self.concentration
        return fx.xlogy(a - 1, x).sum(-1) + fx.lgamma(a.sum(-1)) - fx.lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        """In nats."""
        a, n = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        beta = fx.lgamma(a).sum(-1) - fx.lgamma(total)
        return beta - (n - total) * fx.digamma(total) - ((a - 1) * fx.digamma(a)).sum(-1)


class Beta(ExponentialFamily):
    """Numbers of (0, 1); its samples are differentiable in both parameters."""

    has_rsample = True
    support = constraints.unit_interval
    arg_constraints = {  # noqa: RUF012
        "concentration1": constraints.positive, "concentration0": constraints.positive,
    }  # fmt: skip

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self._hold(validate_args, concentration1=concentration1, concentration0=concentration0)
        both = fx.stack([self.concentration1, self.concentration0], -1)
        self._both = Dirichlet(both, validate_args=False)

    @property
    def mean(self) -> Tensor:
        """The means."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    mode = property(lambda self: self._both.mode[..., 0], doc="The modes.")

    @property
    def variance(self) -> Tensor:
        """The variances."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The first of the two parts of a simplex."""
        return self._both.rsample(sample_shape)[..., 0]

    def _log_prob(self, x: Tensor) -> Tensor:
        return self._both._log_prob(fx.stack([x, 1 - x], -1))

    def entropy(self) -> Tensor:
        """In nats."""
        return self._both.entropy()


class StudentT(Distribution):
    """Student's t of ``df`` degrees of freedom, shifted and scaled."""

    has_rsample = True
    support = constraints.real
    arg_constraints = {  # noqa: RUF012
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive,
    }  # fmt: skip

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self._hold(validate_args, df=df, loc=loc, scale=scale)

    mode = property(lambda self: self.loc, doc="The middles.")
    mean = property(lambda self: fx.where(self.df > 1, self.loc, fx.nan), doc="NaN to df = 1.")

    @property
    def variance(self) -> Tensor:
        """The variances; infinite for df to 2, NaN to 1."""
        df = fx.where(self.df > 2, self.df, 3.0)
        low = fx.where(self.df > 1, fx.inf, fx.nan)
        return fx.where(self.df > 2, self.scale**2 * df / (df - 2), low)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """A normal variable over the root of a chi-squared one."""
        drawn = t(next_key(), self.df, self._extended(sample_shape), self._dtype)
        return self.loc + self.scale * drawn

    def _scale_log(self) -> Tensor:
        half = 0.5 * self.df
        beta = fx.lgamma(half) - fx.lgamma(half + 0.5)
        return self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + beta

    def _log_prob(self, x: Tensor) -> Tensor:
        z = (x - self.loc) / self.scale
        return -0.5 * (self.df + 1) * fx.log1p(z**2 / self.df) - self._scale_log()

    def entropy(self) -> Tensor:
        """In nats."""
        half = 0.5 * (self.df + 1)
        return self._scale_log() + half * (fx.digamma(half) - fx.digamma(0.5 * self.df))


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared variables, each over its degrees of freedom."""

    has_rsample = True
    support = constraints.positive
    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}  # noqa: RUF012

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, df1=df1, df2=df2)

    @property
    def mean(self) -> Tensor:
        """The means; NaN for a df2 of 2 and below."""
        b = fx.where(self.df2 > 2, self.df2, fx.nan)
        return b / (b - 2)

    @property
    def mode(self) -> Tensor:
        """The modes; NaN for a df1 of 2 and below."""
        a = self.df1
        return fx.where(a > 2, (a - 2) / a * self.df2 / (self.df2 + 2), fx.nan)

    @property
    def variance(self) -> Tensor:
        """The variances; NaN for a df2 of 4 and below."""
        a, b = self.df1, fx.where(self.df2 > 4, self.df2, fx.nan)
        return 2 * b**2 * (a + b - 2) / (a * (b - 2) ** 2 * (b - 4))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The ratio of two gamma samples."""
        return f(next_key(), self.df1, self.df2, self._extended(sample_shape), self._dtype)

    def _log_prob(self, x: Tensor) -> Tensor:
        a, b = 0.5 * self.df1, 0.5 * self.df2
        ratio = self.df1 / self.df2
        ways = fx.lgamma(a + b) - fx.lgamma(a) - fx.lgamma(b)
        return ways + a * ratio.log() + (a - 1) * x.log() - (a + b) * fx.log1p(ratio * x)


__all__ = ["Beta", "Chi2", "Dirichlet", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT"]
