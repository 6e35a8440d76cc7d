"""Distributions of counts and classes."""

from __future__ import annotations

from typing import Any

import fx
from fx.nn import functional as F
from fx.random.discrete import categorical, poisson
from fx.random.generator import next_key
from fx.tensor import Tensor
from fx.torch.distributions.distribution import (
    Distribution,
    check,
    parameters,
    unit,
)


def _one_of(owner: Any, probs: Any, logits: Any) -> None:
    if (probs is None) == (logits is None):
        raise ValueError(
            f"Either `probs` or `logits` must be specified, but not both, of {type(owner).__name__}"
        )


def _eps(p: Tensor) -> float:
    return fx.finfo(p.dtype).eps  # type: ignore[no-any-return]


class _OfLogits(Distribution):
    """A distribution of one probability, given as it is or as its logit."""

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        _one_of(self, probs, logits)
        (given,) = parameters(logits if probs is None else probs)
        super().__init__(given.shape, (), validate_args)
        if probs is None:
            self.logits, self.probs = given, fx.sigmoid(given)
        else:
            check(self, "probs", given, unit, "in [0, 1]")
            clear = given.clamp(_eps(given), 1 - _eps(given))
            self.probs, self.logits = given, clear.log() - fx.log1p(-clear)


class Bernoulli(_OfLogits):
    """1 with probability ``probs`` (or sigmoid(``logits``)), else 0.

    Example:
        >>> import fx.torch as torch
        >>> torch.distributions.Bernoulli(probs=0.25).log_prob(torch.tensor(0.0)).exp()
        tensor(0.7500)
    """

    mean = property(lambda self: self.probs, doc="The probabilities.")
    mode = property(lambda self: (self.probs >= 0.5).to(self.probs.dtype), doc="0 or 1.")
    variance = property(lambda self: self.probs * (1 - self.probs), doc="The variances.")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """0 and 1 as floats."""
        p = self.probs.detach()
        return (fx.rand(self._extended(sample_shape), dtype=p.dtype) < p).to(p.dtype)  # type: ignore[no-any-return]

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the probability."""
        x = self._pair(value, self.logits)
        logits, x = fx.broadcast_tensors(self.logits, x)
        return -F.binary_cross_entropy_with_logits(logits, x, reduction="none")  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        """In nats."""
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")  # type: ignore[no-any-return]


class Geometric(_OfLogits):
    """How often it fails before the first success."""

    mean = property(lambda self: 1 / self.probs - 1, doc="The means.")
    variance = property(lambda self: (1 / self.probs - 1) / self.probs, doc="The variances.")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Counts as floats."""
        p = self.probs.detach()
        u = fx.rand(self._extended(sample_shape), dtype=p.dtype).clamp(min=fx.finfo(p.dtype).tiny)
        return (u.log() / fx.log1p(-p)).floor()  # type: ignore[no-any-return]

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the probability."""
        return fx.xlogy(self._pair(value, self.probs), 1 - self.probs) + self.probs.log()  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        """In nats."""
        return F.binary_cross_entropy(self.probs, self.probs, reduction="none") / self.probs  # type: ignore[no-any-return]


class Poisson(Distribution):
    """How often what happens ``rate`` times on average happens."""

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = parameters(rate)
        super().__init__(self.rate.shape, (), validate_args)
        check(self, "rate", self.rate, lambda r: r >= 0, "not negative")

    mean = variance = property(lambda self: self.rate, doc="The rates.")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Counts as floats."""
        rate = self.rate.detach()
        return poisson(next_key(), rate, self._extended(sample_shape)).to(rate.dtype)  # type: ignore[no-any-return]

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the probability."""
        x = self._pair(value, self.rate)
        return fx.xlogy(x, self.rate) - self.rate - fx.lgamma(x + 1)  # type: ignore[no-any-return]


class Categorical(Distribution):
    """One of n classes, (..., n) probabilities (scaled to sum to 1) or logits.

    Example:
        >>> import fx.torch as torch
        >>> dist = torch.distributions.Categorical(probs=torch.tensor([1.0, 3.0]))
        >>> dist.log_prob(torch.tensor([0, 1])).exp()
        tensor([0.2500, 0.7500])
    """

    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        _one_of(self, probs, logits)
        (given,) = parameters(logits if probs is None else probs)
        if not given.ndim:
            raise ValueError("`probs` or `logits` parameter must be at least one-dimensional.")
        super().__init__(given.shape[:-1], (), validate_args)
        if probs is None:
            check(self, "logits", given, lambda x: x == x, "real")
            self.logits = given - given.logsumexp(-1, keepdim=True)
            self.probs = fx.softmax(given, -1)
        else:
            check(self, "probs", given, lambda p: p >= 0, "not negative")
            self.probs = given / given.sum(-1, keepdim=True)
            eps = _eps(given)
            self.logits = self.probs.clamp(eps, 1 - eps).log()
        self._num_events = given.shape[-1]

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        return self.probs.argmax(-1)  # type: ignore[no-any-return]

    @property
    def mean(self) -> Tensor:
        """NaN: classes have no mean."""
        return fx.full(self.batch_shape, fx.nan, dtype=self.probs.dtype)

    variance = mean

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Classes, int64."""
        logits = self.probs.detach().log()
        return categorical(next_key(), logits, -1, self._extended(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the probability of each class."""
        index = fx.asarray(value).to(fx.int64)
        shape = fx.broadcast_shapes(index.shape, self.batch_shape)
        logits = self.logits.expand(*shape, self._num_events)
        return logits.gather(-1, index.expand(*shape)[..., None])[..., 0]  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        """In nats."""
        least = fx.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)  # type: ignore[no-any-return]

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All classes along a new first axis."""
        values = fx.arange(self._num_events).reshape((-1,) + (1,) * len(self.batch_shape))
        return values.expand(-1, *self.batch_shape) if expand else values  # type: ignore[no-any-return]


class OneHotCategorical(Distribution):
    """One of n classes, as a vector with a single 1."""

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        self.probs, self.logits = self._categorical.probs, self._categorical.logits
        super().__init__(self._categorical.batch_shape, self.probs.shape[-1:], validate_args)

    mean = property(lambda self: self.probs, doc="The probabilities.")
    variance = property(lambda self: self.probs * (1 - self.probs), doc="The variances.")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Vectors of 0 and 1, floats."""
        classes = self._categorical.sample(sample_shape)
        return fx.one_hot(classes, self.event_shape[0]).to(self.probs.dtype)  # type: ignore[no-any-return]

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the probability of the class that has the 1."""
        return self._categorical.log_prob(fx.asarray(value).argmax(-1))

    def entropy(self) -> Tensor:
        """In nats."""
        return self._categorical.entropy()


class Binomial(Distribution):
    """How many of ``total_count`` trials succeed."""

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        _one_of(self, probs, logits)
        one = Bernoulli(probs, logits, validate_args)
        self.probs, self.logits = one.probs, one.logits
        self.total_count, _ = parameters(total_count, self.probs)
        shape = fx.broadcast_shapes(self.total_count.shape, self.probs.shape)
        super().__init__(shape, (), validate_args)
        check(self, "total_count", self.total_count, lambda n: n >= 0, "not negative")

    mean = property(lambda self: self.total_count * self.probs, doc="The means.")

    @property
    def variance(self) -> Tensor:
        """The variances."""
        return self.total_count * self.probs * (1 - self.probs)  # type: ignore[no-any-return]

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Counts as floats: as many trials are drawn as the largest count needs."""
        p, n = self.probs.detach(), self.total_count.detach()
        trials = int(n.max()) if n.numel() else 0
        drawn = fx.rand((trials, *self._extended(sample_shape)), dtype=p.dtype) < p
        number = fx.arange(trials).reshape((-1,) + (1,) * (drawn.ndim - 1))
        return (drawn & (number < n)).sum(0).to(p.dtype)  # type: ignore[no-any-return]

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the probability."""
        x, n = self._pair(value, self.probs), self.total_count
        ways = fx.lgamma(n + 1) - fx.lgamma(x + 1) - fx.lgamma(n - x + 1)
        return ways + x * F.logsigmoid(self.logits) + (n - x) * F.logsigmoid(-self.logits)  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        """In nats, by the sum over all counts; those above a place's own count add nothing."""
        trials = int(self.total_count.detach().max())
        counts = fx.arange(trials + 1).reshape((-1,) + (1,) * len(self.batch_shape))
        counts = counts.to(self.probs.dtype)
        inside = counts <= self.total_count
        log = self.log_prob(fx.where(inside, counts, 0.0))
        return -fx.where(inside, log.exp() * log, 0.0).sum(0)  # type: ignore[no-any-return]


__all__ = ["Bernoulli", "Binomial", "Categorical", "Geometric", "OneHotCategorical", "Poisson"]
