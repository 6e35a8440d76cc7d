"""Distributions of what transforms make of samples."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any

import fx
from fx.tensor import Tensor
from fx.torch.distributions import constraints
from fx.torch.distributions.continuous import Normal
from fx.torch.distributions.distribution import Distribution, Independent, summed
from fx.torch.distributions.transforms.compositions import ComposeTransform, Transform
from fx.torch.distributions.transforms.structured import StickBreakingTransform


class TransformedDistribution(Distribution):
    """What invertible functions make of a distribution's samples.

    Args:
        base_distribution: of the samples.
        transforms: one transform or a list, the first applied first.

    Raises:
        ValueError: if an event of the base has fewer axes than the transforms take.

    Example:
        >>> import fx.torch as torch
        >>> from fx.torch.distributions import Normal, TanhTransform, TransformedDistribution
        >>> squashed = TransformedDistribution(Normal(0.0, 1.0), [TanhTransform(cache_size=1)])
        >>> squashed.log_prob(torch.tensor(0.5))
        tensor(-0.7821)
    """

    def __init__(
        self, base_distribution: Any, transforms: Any, validate_args: bool | None = None
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(
                f"transforms must be a Transform or a list of Transforms, but was {transforms}"
            )
        whole, base = ComposeTransform(self.transforms), base_distribution
        given, axes = base.batch_shape + base.event_shape, len(base.event_shape)
        if len(given) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least "
                f"{whole.domain.event_dim}, but got {given}"
            )
        shape = whole.forward_shape(given)
        wide = whole.inverse_shape(shape)
        if wide != given:
            base = base.expand(wide[: len(wide) - axes])
        if whole.domain.event_dim > axes:
            base = Independent(base, whole.domain.event_dim - axes)
        self.base_dist = base
        self.has_rsample = base.has_rsample
        change = whole.codomain.event_dim - whole.domain.event_dim
        cut = len(shape) - max(whole.codomain.event_dim, axes + change)
        super().__init__(shape[:cut], shape[cut:], validate_args)

    _dtype = property(lambda self: self.base_dist._dtype)

    @property
    def support(self) -> Any:
        """Where the last transform leads, over the axes of an event."""
        if not self.transforms:
            return self.base_dist.support
        return ComposeTransform._widened(self.transforms[-1].codomain, len(self.event_shape))

    def _through(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Samples of the base, transformed, without history."""
        with fx.no_grad():
            return self._through(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples of the base, transformed."""
        return self._through(self.base_dist.rsample(sample_shape))

    def _log_prob(self, x: Tensor) -> Tensor:
        axes, out = len(self.event_shape), 0.0
        for transform in reversed(self.transforms):
            before = transform._inv_call(x)
            axes += transform.domain.event_dim - transform.codomain.event_dim
            slope = transform.log_abs_det_jacobian(before, x)
            out = out - summed(slope, axes - transform.domain.event_dim)  # type: ignore[assignment]
            x = before
        return out + summed(self.base_dist.log_prob(x), axes - len(self.base_dist.event_shape))

    def _monotone(self, p: Tensor) -> Tensor:
        """p, or 1 - p where the transforms turn the order around."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return p if type(sign) is int and sign == 1 else sign * (p - 0.5) + 0.5

    def _cdf(self, x: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            x = transform._inv_call(x)
        return self._monotone(self.base_dist.cdf(x))

    def _icdf(self, p: Tensor) -> Tensor:
        return self._through(self.base_dist.icdf(self._monotone(p)))


class LogisticNormal(TransformedDistribution):
    """Shares, (..., n + 1), that breaking a stick by normal variables gives.

    Args:
        loc, scale: of the normal variables, (..., n).
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        super().__init__(base if base.batch_shape else base.expand((1,)), StickBreakingTransform())

    loc = property(lambda self: self.base_dist.base_dist.loc, doc="The means.")
    scale = property(lambda self: self.base_dist.base_dist.scale, doc="The deviations.")


__all__ = ["LogisticNormal", "TransformedDistribution"]
