"""The base of all distributions: shapes, samples, what follows from mean and variance."""

from __future__ import annotations

from typing import Any

import fx
from fx import dtypes
from fx.config import default_dtype
from fx.ops.convert import as_tensor
from fx.tensor import Tensor


def parameters(*values: Any) -> list[Tensor]:
    """Parameters as tensors of one floating dtype in one shape; numbers take the default dtype."""
    tensors = [v for v in values if isinstance(v, Tensor)]
    dtype = fx.result_type(*tensors) if tensors else default_dtype()
    if dtype not in dtypes.FLOATING:
        dtype = default_dtype()
    made = [as_tensor(v, dtype=dtype) for v in values]
    return [v.read() if hasattr(v, "read") else v for v in fx.broadcast_tensors(*made)]


def check(owner: Any, name: str, value: Any, holds: Any, words: str) -> None:
    """Refuse a parameter whose concrete values are not allowed; traced ones are not asked.

    Raises:
        ValueError: naming the parameter and what it must satisfy, as in PyTorch.
    """
    if owner.validate and type(value) is Tensor and not bool(holds(value.detach()).all()):
        raise ValueError(
            f"Expected parameter {name} ({type(value).__name__} of shape {value.shape}) of "
            f"distribution {type(owner).__name__} to be {words}, but found invalid values:\n{value}"
        )


def positive(value: Tensor) -> Tensor:
    """Where a parameter is positive."""
    return value > 0  # type: ignore[no-any-return]


def unit(value: Tensor) -> Tensor:
    """Where a parameter is a probability."""
    return (value >= 0) & (value <= 1)  # type: ignore[no-any-return]


class Distribution:
    """A distribution: a batch of them, each over events of some shape.

    Args:
        batch_shape: one distribution for each place.
        event_shape: of what one distribution draws.
        validate_args: whether concrete parameters are checked (True unless told).
    """

    has_rsample = False
    has_enumerate_support = False

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self.batch_shape, self.event_shape = tuple(batch_shape), tuple(event_shape)
        self.validate = validate_args is not False

    def _extended(self, sample_shape: Any) -> tuple[int, ...]:
        if isinstance(sample_shape, int):
            sample_shape = (sample_shape,)
        return (*sample_shape, *self.batch_shape, *self.event_shape)

    def _pair(self, value: Any, parameter: Tensor) -> Tensor:
        return as_tensor(value, dtype=parameter.dtype)

    @property
    def mean(self) -> Tensor:
        """The mean of each distribution."""
        raise AttributeError(f"{type(self).__name__} has no mean")

    @property
    def variance(self) -> Tensor:
        """The variance of each distribution."""
        raise AttributeError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation of each distribution."""
        return self.variance.sqrt()  # type: ignore[no-any-return]

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Samples through which derivatives pass to the parameters.

        Raises:
            NotImplementedError: for a distribution that has none.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no rsample: derivatives do not pass through its samples; "
            f"write sample() and use log_prob"
        )

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Samples of shape (*sample_shape, *batch_shape, *event_shape), without history."""
        with fx.no_grad():
            return self.rsample(sample_shape).detach()  # type: ignore[no-any-return]

    def sample_n(self, n: int) -> Tensor:
        """``n`` samples."""
        return self.sample((n,))

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density, or probability, at a value."""
        raise AttributeError(f"{type(self).__name__} has no log_prob")

    def entropy(self) -> Tensor:
        """The entropy of each distribution."""
        raise AttributeError(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Tensor:
        """exp(entropy)."""
        return self.entropy().exp()  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        held = {k: v for k, v in vars(self).items() if isinstance(v, Tensor) and k[0] != "_"}
        shown = [f"{k}: {v if v.numel() == 1 else v.shape}" for k, v in held.items()]
        return f"{type(self).__name__}({', '.join(shown)})"


class Independent(Distribution):
    """The last ``reinterpreted_batch_ndims`` axes of a batch as one event.

    Args:
        base_distribution: whose batch axes they are.
        reinterpreted_batch_ndims: how many of them.

    Example:
        >>> import fx.torch as torch
        >>> from fx.torch.distributions import Independent, Normal
        >>> Independent(Normal(torch.zeros(3), torch.ones(3)), 1).log_prob(torch.zeros(3))
        tensor(-2.7568)
    """

    def __init__(
        self, base_distribution: Any, reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        self.base_dist, self.count = base_distribution, reinterpreted_batch_ndims
        shape = base_distribution.batch_shape
        cut = len(shape) - reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:] + base_distribution.event_shape, validate_args)
        self.has_rsample = base_distribution.has_rsample

    @property
    def mean(self) -> Tensor:
        """That of the base."""
        return self.base_dist.mean  # type: ignore[no-any-return]

    @property
    def variance(self) -> Tensor:
        """That of the base."""
        return self.base_dist.variance  # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        """That of the base."""
        return self.base_dist.mode  # type: ignore[no-any-return]

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Those of the base."""
        return self.base_dist.rsample(sample_shape)  # type: ignore[no-any-return]

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Those of the base."""
        return self.base_dist.sample(sample_shape)  # type: ignore[no-any-return]

    def _summed(self, x: Tensor) -> Tensor:
        return x.sum(tuple(range(-self.count, 0))) if self.count else x

    def log_prob(self, value: Any) -> Tensor:
        """The sum over the event's axes."""
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self) -> Tensor:
        """The sum over the event's axes."""
        return self._summed(self.base_dist.entropy())
