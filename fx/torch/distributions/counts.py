"""Counts of more than one kind of trial: negative binomial and multinomial."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any

import fx
from fx.nn import functional as F
from fx.random.counts import multinomial, poisson
from fx.random.gammas import gamma
from fx.random.generator import next_key
from fx.tensor import Tensor
from fx.torch.distributions import constraints
from fx.torch.distributions.discrete import OfLogits, OneHotCategorical
from fx.torch.distributions.distribution import Distribution, parameters


class NegativeBinomial(Distribution):
    """How many trials succeed (each with ``probs``) before ``total_count`` of them fail."""

    support = constraints.nonnegative_integer
    arg_constraints = {  # noqa: RUF012
        "total_count": constraints.nonnegative,
        "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real,
    }  # fmt: skip

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        one = OfLogits(probs, logits, validate_args=False)
        self._derived = one._derived
        self.total_count, self.probs, self.logits = parameters(total_count, one.probs, one.logits)
        super().__init__(self.probs.shape, (), validate_args)

    param_shape = property(lambda self: self.probs.shape, doc="The shape of the probabilities.")
    mean = property(lambda self: self.total_count * self.logits.exp(), doc="The means.")
    variance = property(lambda self: self.mean / (1 - self.probs), doc="The variances.")

    @property
    def mode(self) -> Tensor:
        """The modes."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Counts as floats: Poisson samples of gamma rates."""
        shape, n = self._extended(sample_shape), self.total_count.detach()
        rate = gamma(next_key(), n, shape, n.dtype) * self.logits.detach().exp()
        return poisson(next_key(), rate, shape).to(n.dtype)

    def _log_prob(self, x: Tensor) -> Tensor:
        n = self.total_count
        log = n * F.logsigmoid(-self.logits) + x * F.logsigmoid(self.logits)
        ways = fx.lgamma(n + x) - fx.lgamma(x + 1) - fx.lgamma(n)
        return log + fx.where((n + x) == 0, 0.0, ways)


class Multinomial(Distribution):
    """How often each of n classes comes in ``total_count`` draws, (..., n)."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}  # noqa: RUF012

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._one = OneHotCategorical(probs, logits, validate_args)
        self._derived = self._one._derived
        self.probs, self.logits = self._one.probs, self._one.logits
        super().__init__(self._one.batch_shape, self._one.event_shape, False)
        self.validate = self._one.validate

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        """Counts that do not exceed the total."""
        return constraints.multinomial(self.total_count)

    param_shape = property(lambda self: self.probs.shape, doc="(*batch, classes).")
    mean = property(lambda self: self.probs * self.total_count, doc="The means.")

    @property
    def variance(self) -> Tensor:
        """The variances of each count."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Counts as floats."""
        p, shape = self.probs.detach(), self._extended(sample_shape)[:-1]
        return multinomial(next_key(), self.total_count, p, shape=shape, dtype=p.dtype)

    def _log_prob(self, x: Tensor) -> Tensor:
        logits = fx.where((x == 0) & (self.logits == -fx.inf), 0.0, self.logits)
        return fx.lgamma(x.sum(-1) + 1) - fx.lgamma(x + 1).sum(-1) + (x * logits).sum(-1)

    def entropy(self) -> Tensor:
        """In nats: each class's count is binomial."""
        n, p = self.total_count, self.probs
        k = fx.arange(1, n + 1).to(p.dtype).reshape((-1,) + (1,) * p.ndim)  # (n, 1, ..., 1)
        ways = fx.lgamma(fx.tensor(n + 1.0, dtype=p.dtype))
        chance = (
            ways - fx.lgamma(k + 1) - fx.lgamma(n - k + 1)
            + fx.xlogy(k, p) + fx.special.xlog1py(n - k, -p)
        ).exp()  # fmt: skip
        return n * self._one.entropy() - ways + (chance * fx.lgamma(k + 1)).sum((0, -1))


__all__ = ["Multinomial", "NegativeBinomial"]
