"""Distributions of counts and classes."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any

import fx
from fx.nn import functional as F
from fx.random.counts import binomial, geometric, poisson
from fx.random.discrete import categorical
from fx.random.generator import next_key
from fx.tensor import Tensor
from fx.torch.distributions import constraints
from fx.torch.distributions.distribution import Distribution, ExponentialFamily, parameters

_OF_PROBS = {"probs": constraints.unit_interval, "logits": constraints.real}
_OF_CLASSES = {"probs": constraints.simplex, "logits": constraints.real_vector}


def _one_of(owner: Any, probs: Any, logits: Any) -> None:
    owner._derived = "probs" if probs is None else "logits"
    if (probs is None) == (logits is None):
        raise ValueError(
            f"Either `probs` or `logits` must be specified, but not both, of {type(owner).__name__}"
        )


def _eps(p: Tensor) -> float:
    return fx.finfo(p.dtype).eps


class OfLogits(Distribution):
    """A distribution of one probability, given as it is or as its logit."""

    arg_constraints: Any = _OF_PROBS

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        _one_of(self, probs, logits)
        (given,) = parameters(logits if probs is None else probs)
        setattr(self, "logits" if probs is None else "probs", given)
        super().__init__(given.shape, (), validate_args)  # only what was given is checked
        if probs is None:
            self.probs = fx.sigmoid(given)
        else:
            clear = given.clamp(_eps(given), 1 - _eps(given))
            self.logits = clear.log() - fx.log1p(-clear)

    param_shape = property(lambda self: self.probs.shape, doc="The shape of the probabilities.")


class Bernoulli(OfLogits, ExponentialFamily):
    """1 with probability ``probs`` (or sigmoid(``logits``)), else 0.

    Example:
        >>> import fx.torch as torch
        >>> torch.distributions.Bernoulli(probs=0.25).log_prob(torch.tensor(0.0)).exp()
        tensor(0.7500)
    """

    support = constraints.boolean
    has_enumerate_support = True
    mean = property(lambda self: self.probs, doc="The probabilities.")

    @property
    def mode(self) -> Tensor:
        """0 or 1; NaN where both are as likely."""
        return fx.where(self.probs == 0.5, fx.nan, (self.probs >= 0.5).to(self.probs.dtype))

    variance = property(lambda self: self.probs * (1 - self.probs), doc="The variances.")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """0 and 1 as floats."""
        p = self.probs.detach()
        return (fx.rand(self._extended(sample_shape), dtype=p.dtype) < p).to(p.dtype)

    def _log_prob(self, x: Tensor) -> Tensor:
        logits, x = fx.broadcast_tensors(self.logits, x)
        return -F.binary_cross_entropy_with_logits(logits, x, reduction="none")

    def entropy(self) -> Tensor:
        """In nats."""
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """0 and 1 along a new first axis."""
        values = fx.arange(2, dtype=self._dtype).reshape((2,) + (1,) * len(self.batch_shape))
        return values.expand(-1, *self.batch_shape) if expand else values


class Geometric(OfLogits):
    """How often it fails before the first success."""

    support = constraints.nonnegative_integer
    mode = property(lambda self: fx.zeros_like(self.probs), doc="0.")

    mean = property(lambda self: 1 / self.probs - 1, doc="The means.")
    variance = property(lambda self: (1 / self.probs - 1) / self.probs, doc="The variances.")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Counts as floats."""
        p = self.probs.detach()
        return geometric(next_key(), p, self._extended(sample_shape), p.dtype) - 1

    def _log_prob(self, x: Tensor) -> Tensor:
        return fx.xlogy(x, 1 - self.probs) + self.probs.log()

    def entropy(self) -> Tensor:
        """In nats."""
        return F.binary_cross_entropy(self.probs, self.probs, reduction="none") / self.probs


class Poisson(ExponentialFamily):
    """How often what happens ``rate`` times on average happens."""

    support = constraints.nonnegative_integer
    arg_constraints = {"rate": constraints.nonnegative}  # noqa: RUF012

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, rate=rate)

    mean = variance = property(lambda self: self.rate, doc="The rates.")
    mode = property(lambda self: self.rate.floor(), doc="The modes.")

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Counts as floats."""
        rate = self.rate.detach()
        return poisson(next_key(), rate, self._extended(sample_shape)).to(rate.dtype)

    def _log_prob(self, x: Tensor) -> Tensor:
        return fx.xlogy(x, self.rate) - self.rate - fx.lgamma(x + 1)


class Categorical(Distribution):
    """One of n classes, (..., n) probabilities (scaled to sum to 1) or logits.

    Example:
        >>> import fx.torch as torch
        >>> dist = torch.distributions.Categorical(probs=torch.tensor([1.0, 3.0]))
        >>> dist.log_prob(torch.tensor([0, 1])).exp()
        tensor([0.2500, 0.7500])
    """

    has_enumerate_support = True
    arg_constraints = _OF_CLASSES

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        _one_of(self, probs, logits)
        (given,) = parameters(logits if probs is None else probs)
        if not given.ndim:
            raise ValueError("`probs` or `logits` parameter must be at least one-dimensional.")
        self._num_events = given.shape[-1]
        if probs is None:
            self.logits = given - given.logsumexp(-1, keepdim=True)
        else:
            self.probs = given / given.sum(-1, keepdim=True)
        super().__init__(given.shape[:-1], (), validate_args)  # only what was given is checked
        if probs is None:
            self.probs = fx.softmax(given, -1)
        else:
            eps = _eps(given)
            self.logits = self.probs.clamp(eps, 1 - eps).log()

    param_shape = property(lambda self: self.probs.shape, doc="(*batch, classes).")

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """0 to n - 1."""
        return constraints.integer_interval(0, self._num_events - 1)

    def _taken(self, value: Any) -> Tensor:
        return fx.asarray(value)

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        return self.probs.argmax(-1)

    @property
    def mean(self) -> Tensor:
        """NaN: classes have no mean."""
        return fx.full(self.batch_shape, fx.nan, dtype=self.probs.dtype)

    variance = mean

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Classes, int64."""
        logits = self.probs.detach().log()
        return categorical(next_key(), logits, -1, self._extended(sample_shape))

    def _log_prob(self, x: Tensor) -> Tensor:
        index = x.to(fx.int64)
        shape = fx.broadcast_shapes(index.shape, self.batch_shape)
        logits = self.logits.expand(*shape, self._num_events)
        return logits.gather(-1, index.expand(*shape)[..., None])[..., 0]

    def entropy(self) -> Tensor:
        """In nats."""
        least = fx.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All classes along a new first axis."""
        values = fx.arange(self._num_events).reshape((-1,) + (1,) * len(self.batch_shape))
        return values.expand(-1, *self.batch_shape) if expand else values


class OneHotCategorical(Distribution):
    """One of n classes, as a vector with a single 1."""

    support = constraints.one_hot
    has_enumerate_support = True
    arg_constraints = _OF_CLASSES

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        self._derived = self._categorical._derived
        self.probs, self.logits = self._categorical.probs, self._categorical.logits
        super().__init__(self._categorical.batch_shape, self.probs.shape[-1:], False)
        self.validate = self._categorical.validate

    mean = property(lambda self: self.probs, doc="The probabilities.")
    variance = property(lambda self: self.probs * (1 - self.probs), doc="The variances.")
    param_shape = property(lambda self: self.probs.shape, doc="(*batch, classes).")

    @property
    def mode(self) -> Tensor:
        """The likeliest class."""
        return fx.one_hot(self._categorical.mode, self.event_shape[0]).to(self.probs.dtype)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All vectors along a new first axis."""
        n = self.event_shape[0]
        values = fx.eye(n, dtype=self._dtype).reshape((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand(n, *self.batch_shape, n) if expand else values

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Vectors of 0 and 1, floats."""
        classes = self._categorical.sample(sample_shape)
        return fx.one_hot(classes, self.event_shape[0]).to(self.probs.dtype)

    def _log_prob(self, x: Tensor) -> Tensor:
        return self._categorical._log_prob(x.argmax(-1))

    def entropy(self) -> Tensor:
        """In nats."""
        return self._categorical.entropy()


class Binomial(Distribution):
    """How many of ``total_count`` trials succeed."""

    has_enumerate_support = True
    arg_constraints = {"total_count": constraints.nonnegative_integer, **_OF_PROBS}  # noqa: RUF012

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        _one_of(self, probs, logits)
        one = Bernoulli(probs, logits, validate_args)
        self.total_count, self.probs, self.logits = parameters(total_count, one.probs, one.logits)
        super().__init__(self.probs.shape, (), validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """0 to the count."""
        return constraints.integer_interval(0, self.total_count)

    param_shape = property(lambda self: self.probs.shape, doc="The shape of the probabilities.")
    mode = property(
        lambda self: ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count),
        doc="The likeliest counts.",
    )
    mean = property(lambda self: self.total_count * self.probs, doc="The means.")

    @property
    def variance(self) -> Tensor:
        """The variances."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Counts as floats."""
        p, n = self.probs.detach(), self.total_count.detach()
        return binomial(next_key(), n, p, self._extended(sample_shape), p.dtype)

    def _log_prob(self, x: Tensor) -> Tensor:
        n = self.total_count
        ways = fx.lgamma(n + 1) - fx.lgamma(x + 1) - fx.lgamma(n - x + 1)
        return ways + x * F.logsigmoid(self.logits) + (n - x) * F.logsigmoid(-self.logits)

    def _counts(self) -> Tensor:
        trials = int(self.total_count.detach().max())
        counts = fx.arange(trials + 1, dtype=self.probs.dtype)
        return counts.reshape((-1,) + (1,) * len(self.batch_shape))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All counts along a new first axis, where ``total_count`` is one number."""
        n = self.total_count.detach()
        if n.min() != n.max():
            raise NotImplementedError(
                "Binomial.enumerate_support: the counts differ with total_count, which is from "
                f"{n.min().item():g} to {n.max().item():g}; enumerate each alone"
            )
        values = self._counts()
        return values.expand(-1, *self.batch_shape) if expand else values

    def entropy(self) -> Tensor:
        """In nats, by the sum over all counts; those above a place's own count add nothing."""
        counts = self._counts()
        inside = counts <= self.total_count
        log = self._log_prob(fx.where(inside, counts, 0.0))
        return -fx.where(inside, log.exp() * log, 0.0).sum(0)


__all__ = ["Bernoulli", "Binomial", "Categorical", "Geometric", "OneHotCategorical", "Poisson"]
