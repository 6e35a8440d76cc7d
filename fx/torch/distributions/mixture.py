"""Mixtures of distributions of one family."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from typing import Any

import fx
from fx.tensor import Tensor
from fx.torch.distributions import constraints
from fx.torch.distributions.discrete import Categorical
from fx.torch.distributions.distribution import Distribution


class MixtureSameFamily(Distribution):
    """One of k components, chosen by a Categorical.

    Args:
        mixture_distribution: Categorical of k classes, batch (...).
        component_distribution: a distribution of batch (..., k).

    Raises:
        ValueError: if they do not fit.

    Example:
        >>> import fx.torch as torch
        >>> from fx.torch.distributions import Categorical, MixtureSameFamily, Normal
        >>> choice = Categorical(torch.ones(2))
        >>> MixtureSameFamily(choice, Normal(torch.tensor([-1.0, 3.0]), 1.0)).mean
        tensor(1.)
    """

    def __init__(
        self, mixture_distribution: Any, component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        mixture, component = mixture_distribution, component_distribution
        for what, value, kind in (
            ("Mixture", mixture, Categorical), ("component", component, Distribution),
        ):  # fmt: skip
            if not isinstance(value, kind):
                raise ValueError(
                    f"The {what} distribution needs to be an instance of "
                    f"torch.distributions.{kind.__name__}, got {type(value).__name__}"
                )
        batch = component.batch_shape[:-1]
        known = component.batch_shape[-1:]
        if known != (mixture._num_events,):
            raise ValueError(
                f"`mixture_distribution component` ({mixture._num_events}) does not equal "
                f"`component_distribution.batch_shape[-1]` {known}"
            )
        if mixture.batch_shape not in ((), batch):
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({mixture.batch_shape}) is not compatible "
                f"with `component_distribution.batch_shape`({component.batch_shape})"
            )
        self._mixture_distribution, self._component_distribution = mixture, component
        super().__init__(batch, component.event_shape, validate_args)
        self._event_ndims = len(self.event_shape)
        self._pad_axes = (1,) * self._event_ndims

    mixture_distribution = property(lambda self: self._mixture_distribution, doc="Who chooses.")
    component_distribution = property(lambda self: self._component_distribution, doc="Of what.")
    _dtype = property(lambda self: self._component_distribution._dtype)

    @property
    def support(self) -> Any:
        """That of all components."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same mixtures, repeated to a larger batch."""
        component = self._component_distribution
        mixture = self._mixture_distribution.expand(batch_shape)
        wide = component.expand((*batch_shape, *component.batch_shape[-1:]))
        return type(self)(mixture, wide, validate_args=self.validate)

    def _mixed(self, x: Tensor) -> Tensor:
        """The mean over the components, which stand before the event's axes."""
        probs = self._mixture_distribution.probs
        return (probs.reshape((*probs.shape, *self._pad_axes)) * x).sum(-1 - self._event_ndims)

    mean = property(lambda self: self._mixed(self._component_distribution.mean), doc="The means.")

    @property
    def variance(self) -> Tensor:
        """That within the components and that of their means."""
        component = self._component_distribution
        off = component.mean - fx.expand_dims(self.mean, axis=-1 - self._event_ndims)
        return self._mixed(component.variance) + self._mixed(off**2)

    def _each(self, x: Tensor) -> Tensor:
        return fx.expand_dims(x, axis=x.ndim - self._event_ndims)

    def _log_prob(self, x: Tensor) -> Tensor:
        log = self._component_distribution.log_prob(self._each(x))
        return (log + self._mixture_distribution.logits).logsumexp(-1)

    def _cdf(self, x: Tensor) -> Tensor:
        below = self._component_distribution.cdf(self._each(x))
        return (below * self._mixture_distribution.probs).sum(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """A sample of the component that was chosen."""
        with fx.no_grad():
            shape = self._extended(sample_shape)
            if isinstance(sample_shape, int):
                sample_shape = (sample_shape,)
            lead = shape[: len(shape) - self._event_ndims]
            choice = fx.broadcast_to(
                self._mixture_distribution.expand(self.batch_shape).sample(sample_shape), lead
            )
            drawn = self._component_distribution.sample(sample_shape)  # (*lead, k, *event)
            index = choice.reshape((*lead, 1, *self._pad_axes))
            index = fx.broadcast_to(index, (*lead, 1, *self.event_shape))
            return drawn.gather(len(lead), index).squeeze(len(lead))

    def __repr__(self) -> str:
        held = f"{self.mixture_distribution},\n  {self.component_distribution}"
        return f"{type(self).__name__}(\n  {held})"


__all__ = ["MixtureSameFamily"]
