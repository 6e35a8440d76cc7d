"""Distributions that relax or pass derivatives through discrete choices."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math
from typing import Any

import fx
from fx.nn import functional as F
from fx.ops.convert import as_tensor
from fx.random.continuous import gumbel
from fx.random.generator import next_key
from fx.tensor import Tensor
from fx.torch.distributions import constraints
from fx.torch.distributions.discrete import Categorical, OfLogits, OneHotCategorical
from fx.torch.distributions.distribution import Distribution


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot vectors whose derivatives are those of the probabilities.

    Source: Bengio, Leonard and Courville, "Estimating or propagating gradients through stochastic
    neurons for conditional computation" (2013).
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """A sample plus the probabilities less their value."""
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class RelaxedBernoulli(OfLogits):
    """Numbers of (0, 1), close to 0 or 1 at a low temperature.

    Args:
        temperature: positive.
        probs, logits: one of them.

    Source: Maddison, Mnih and Teh, "The concrete distribution" (2017).
    """

    has_rsample = True
    support = constraints.unit_interval

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(probs, logits, validate_args)
        self.temperature = as_tensor(temperature, dtype=self.logits.dtype)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The sigmoid of logistic samples around the logits, over the temperature."""
        u = self._uniform(sample_shape)
        info = fx.finfo(u.dtype)
        x = fx.sigmoid((u.log() - fx.log1p(-u) + self.logits) / self.temperature)
        return x.clamp(info.tiny, 1 - info.eps)

    def _log_prob(self, x: Tensor) -> Tensor:
        logit = x.log() - fx.log1p(-x)
        off = self.logits - logit * self.temperature
        slope = F.softplus(logit) + F.softplus(-logit)
        return self.temperature.log() + off - 2 * F.softplus(off) + slope


class RelaxedOneHotCategorical(Distribution):
    """Points of a simplex (..., n), close to its corners at a low temperature.

    Args:
        temperature: positive.
        probs, logits: one of them, (..., n).

    Source: Jang, Gu and Poole, "Categorical reparameterization with Gumbel-softmax" (2017).
    """

    has_rsample = True
    support = constraints.simplex
    arg_constraints = Categorical.arg_constraints

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        one = Categorical(probs, logits, validate_args)
        self._derived = one._derived
        self.probs, self.logits = one.probs, one.logits
        self.temperature = as_tensor(temperature, dtype=self.logits.dtype)
        super().__init__(one.batch_shape, self.probs.shape[-1:], False)
        self.validate = one.validate

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """The softmax of Gumbel samples around the logits, over the temperature."""
        noise = gumbel(next_key(), self._extended(sample_shape), self._dtype)
        return fx.softmax((self.logits + noise) / self.temperature, -1)

    def _log_prob(self, x: Tensor) -> Tensor:
        n, t, log = self.event_shape[0], self.temperature, x.log()
        score = self.logits - log * t
        whole = score.sum(-1) - n * score.logsumexp(-1)
        return math.lgamma(n) + (n - 1) * t.log() + whole - log.sum(-1)


class ContinuousBernoulli(OfLogits):
    """Numbers of [0, 1] of density C p^x (1 - p)^(1 - x).

    Args:
        probs, logits: one of them.
        lims: probabilities between which series around 1/2 serve.

    Source: Loaiza-Ganem and Cunningham, "The continuous Bernoulli" (2019).
    """

    has_rsample = True
    support = constraints.unit_interval

    def __init__(
        self, probs: Any = None, logits: Any = None, lims: Any = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(probs, logits, validate_args)
        eps = fx.finfo(self.probs.dtype).eps
        self._lims, self.probs = lims, self.probs.clamp(eps, 1 - eps)

    def _away(self) -> tuple[Tensor, Tensor]:
        """Where p is not near 1/2, and a p with which formulas are safe."""
        p = self.probs
        far = (p <= self._lims[0]) | (p > self._lims[1])
        return far, fx.where(far, p, self._lims[0])

    def _log_constant(self) -> Tensor:
        far, p = self._away()
        ratio = (fx.log1p(-p) - p.log()).abs().log() - (1 - 2 * p).abs().log()
        off = (self.probs - 0.5) ** 2
        return fx.where(far, ratio, math.log(2) + (4 / 3 + 104 / 45 * off) * off)

    @property
    def mean(self) -> Tensor:
        """The means."""
        far, p = self._away()
        off = self.probs - 0.5
        out = p / (2 * p - 1) + 1 / (fx.log1p(-p) - p.log())
        return fx.where(far, out, 0.5 + (1 / 3 + 16 / 45 * off**2) * off)

    @property
    def variance(self) -> Tensor:
        """The variances."""
        far, p = self._away()
        off = (self.probs - 0.5) ** 2
        out = p * (p - 1) / (1 - 2 * p) ** 2 + 1 / (fx.log1p(-p) - p.log()) ** 2
        return fx.where(far, out, 1 / 12 - (1 / 15 - 128 / 945 * off) * off)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Quantiles of uniform samples."""
        return self._icdf(self._uniform(sample_shape))

    def _log_prob(self, x: Tensor) -> Tensor:
        logits, x = fx.broadcast_tensors(self.logits, x)
        log = -F.binary_cross_entropy_with_logits(logits, x, reduction="none")
        return log + self._log_constant()

    def _cdf(self, x: Tensor) -> Tensor:
        far, p = self._away()
        out = (p**x * (1 - p) ** (1 - x) + p - 1) / (2 * p - 1)
        return fx.where(far, out, x).clamp(0, 1)

    def _icdf(self, p: Tensor) -> Tensor:
        far, q = self._away()
        out = (fx.log1p(-q + p * (2 * q - 1)) - fx.log1p(-q)) / (q.log() - fx.log1p(-q))
        return fx.where(far, out, p)

    def entropy(self) -> Tensor:
        """In nats."""
        low, high = fx.log1p(-self.probs), self.probs.log()
        return self.mean * (low - high) - self._log_constant() - low


__all__ = [
    "ContinuousBernoulli", "OneHotCategoricalStraightThrough", "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
]  # fmt: skip
