"""The base of all distributions: shapes, checks, samples, what follows from mean and variance."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import copy
from typing import Any

import fx
from fx import dtypes
from fx.config import default_dtype
from fx.ops.convert import as_tensor
from fx.seen import Size
from fx.tensor import Tensor
from fx.torch.distributions import constraints


def parameters(*values: Any) -> list[Tensor]:
    """Parameters as tensors of one floating dtype in one shape; numbers take the default dtype."""
    return [v.read() if hasattr(v, "read") else v for v in fx.broadcast_tensors(*of_dtype(*values))]


def of_dtype(*values: Any) -> list[Tensor]:
    """Values as tensors of one floating dtype."""
    tensors = [v for v in values if isinstance(v, Tensor)]
    dtype = fx.result_type(*tensors) if tensors else default_dtype()
    if dtype not in dtypes.FLOATING:
        dtype = default_dtype()
    return [as_tensor(v, dtype=dtype) for v in values]


def holds(constraint: Any, value: Any) -> bool:
    """Whether concrete values satisfy a constraint; traced ones are not asked."""
    if type(value) is not Tensor or constraint is None or constraints.is_dependent(constraint):
        return True
    inside = constraint.check(value.detach())
    return type(inside) is not Tensor or bool(inside.all())


def summed(x: Tensor, count: int) -> Tensor:
    """The sum over the last ``count`` axes."""
    return x.sum(tuple(range(-count, 0))) if count else x


class Distribution:
    """A distribution: a batch of them, each over events of some shape.

    A class names its parameters and their sets in ``arg_constraints``, the set of its values in
    ``support``, and gives ``_log_prob``, ``_cdf``, ``_icdf`` of values that were checked. What it
    holds has the axes of the batch first: ``expand`` rests on it.

    Args:
        batch_shape: one distribution for each place.
        event_shape: of what one distribution draws.
        validate_args: whether concrete parameters and values are checked (True unless told).

    Raises:
        ValueError: if a concrete parameter is not in its set.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: Any = {}  # noqa: RUF012
    support: Any = None
    _validate_default = True
    _shared: tuple[str, ...] = ()  # tensors that broadcast with any batch
    _derived = ""  # the parameter that was not given, of two that say the same

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their arguments where they are not told."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected True or False, got {value!r}")
        Distribution._validate_default = value

    def __init__(
        self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None
    ) -> None:
        self.batch_shape, self.event_shape = Size(batch_shape), Size(event_shape)
        self.validate = self._validate_default if validate_args is None else validate_args
        for name, constraint in self.arg_constraints.items() if self.validate else ():
            value = vars(self).get(name)
            if not holds(constraint, value):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {value.shape}) of "
                    f"distribution {self!r} to satisfy the constraint {constraint!r}, "
                    f"but found invalid values:\n{value}"
                )

    def _hold(self, validate_args: Any, **given: Any) -> None:
        """Keep parameters of one element each, broadcast to the shape of the batch."""
        held = dict(zip(given, parameters(*given.values())))
        vars(self).update(held)
        Distribution.__init__(self, next(iter(held.values())).shape, (), validate_args)

    @property
    def _dtype(self) -> Any:
        return next(v.dtype for v in vars(self).values() if isinstance(v, Tensor))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distributions, repeated to a larger batch."""
        new, batch, cut = copy.copy(self), Size(batch_shape), len(self.batch_shape)
        for name, held in vars(self).items():
            if name in self._shared:
                continue
            if isinstance(held, Distribution):
                setattr(new, name, held.expand(batch + held.batch_shape[cut:]))
            elif isinstance(held, Tensor) and (name in self.arg_constraints or name[0] == "_"):
                setattr(new, name, fx.broadcast_to(held, batch + tuple(held.shape[cut:])))
        new.batch_shape = batch
        return new

    def _extended(self, sample_shape: Any = ()) -> tuple[int, ...]:
        if isinstance(sample_shape, int):
            sample_shape = (sample_shape,)
        return (*sample_shape, *self.batch_shape, *self.event_shape)

    def _uniform(self, sample_shape: Any) -> Tensor:
        """Samples of (0, 1), for quantile functions that are infinite at its ends."""
        info = fx.finfo(self._dtype)
        u = fx.rand(self._extended(sample_shape), dtype=self._dtype)
        return u.clamp(info.tiny, 1 - info.eps)

    def _taken(self, value: Any) -> Tensor:
        """A value as a floating tensor."""
        floating = isinstance(value, Tensor) and value.dtype in dtypes.FLOATING
        return value if floating else as_tensor(value, dtype=self._dtype)  # type: ignore[return-value]

    def _checked(self, value: Any) -> Tensor:
        """A value, of the right shape and in the support where that can be seen."""
        value = self._taken(value)
        if not self.validate:
            return value
        shape, wanted = tuple(value.shape), self._extended()
        count = len(self.event_shape)
        if shape[len(shape) - count :] != self.event_shape:
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{shape} vs {self.event_shape}."
            )
        if any(a != b and 1 not in (a, b) for a, b in zip(reversed(shape), reversed(wanted))):
            raise ValueError(
                f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {wanted}."
            )
        support = self.support
        if not holds(support, value):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {shape}) to be within "
                f"the support ({support!r}) of the distribution {self!r}, "
                f"but found invalid values:\n{value}"
            )
        return value

    def _lacks(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {what}, as in PyTorch")

    @property
    def mean(self) -> Tensor:
        """The mean of each distribution."""
        raise self._lacks("mean")

    @property
    def mode(self) -> Tensor:
        """The likeliest value of each distribution."""
        raise self._lacks("mode")

    @property
    def variance(self) -> Tensor:
        """The variance of each distribution."""
        raise self._lacks("variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation of each distribution."""
        return self.variance.sqrt()

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
            return self.rsample(sample_shape).detach()

    def sample_n(self, n: int) -> Tensor:
        """``n`` samples."""
        return self.sample((n,))

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density, or probability, at a value.

        Raises:
            ValueError: if a concrete value has a shape that does not fit or is not in the support.
        """
        return self._log_prob(self._checked(value))

    def cdf(self, value: Any) -> Tensor:
        """The probability of what is not above a value; raises as ``log_prob``."""
        return self._cdf(self._checked(value))

    def icdf(self, value: Any) -> Tensor:
        """Where the cdf has a value."""
        return self._icdf(self._taken(value))

    def _log_prob(self, x: Tensor) -> Tensor:
        raise self._lacks("log_prob")

    def _cdf(self, x: Tensor) -> Tensor:
        raise self._lacks("cdf")

    def _icdf(self, p: Tensor) -> Tensor:
        raise self._lacks("icdf")

    def entropy(self) -> Tensor:
        """The entropy of each distribution, in nats."""
        raise self._lacks("entropy")

    def perplexity(self) -> Tensor:
        """exp(entropy)."""
        return self.entropy().exp()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values along a new first axis, of a distribution that has finitely many."""
        raise self._lacks("enumerate_support")

    def __repr__(self) -> str:
        names = [k for k in self.arg_constraints if k in vars(self) and k != self._derived]
        held = [(k, getattr(self, k)) for k in names]
        shown = [f"{k}: {v if v.numel() == 1 else Size(v.shape)}" for k, v in held]
        return f"{type(self).__name__}({', '.join(shown)})"


class ExponentialFamily(Distribution):
    """Distributions of an exponential family: a mark, as in PyTorch."""


class Independent(Distribution):
    """The last ``reinterpreted_batch_ndims`` axes of a batch as one event.

    Args:
        base_distribution: whose batch axes they are.
        reinterpreted_batch_ndims: how many of them.

    Raises:
        ValueError: if the batch has fewer axes.

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
        shape = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {len(shape)}"
            )
        self.base_dist, self.count = base_distribution, reinterpreted_batch_ndims
        self.has_rsample = base_distribution.has_rsample
        self.has_enumerate_support = base_distribution.has_enumerate_support and not self.count
        cut = len(shape) - reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:] + base_distribution.event_shape, validate_args)

    reinterpreted_batch_ndims = property(lambda self: self.count, doc="How many axes.")
    mean = property(lambda self: self.base_dist.mean, doc="That of the base.")
    mode = property(lambda self: self.base_dist.mode, doc="That of the base.")
    variance = property(lambda self: self.base_dist.variance, doc="That of the base.")
    _dtype = property(lambda self: self.base_dist._dtype)

    @property
    def support(self) -> Any:
        """That of the base, over the event's axes."""
        inner = self.base_dist.support
        return constraints.independent(inner, self.count) if self.count and inner else inner

    def _taken(self, value: Any) -> Tensor:
        return self.base_dist._taken(value)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Those of the base."""
        return self.base_dist.rsample(sample_shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Those of the base."""
        return self.base_dist.sample(sample_shape)

    def _log_prob(self, x: Tensor) -> Tensor:
        return summed(self.base_dist.log_prob(x), self.count)

    def entropy(self) -> Tensor:
        """The sum over the event's axes."""
        return summed(self.base_dist.entropy(), self.count)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Those of the base, where no axis is an event's."""
        if self.count:
            return super().enumerate_support(expand)
        return self.base_dist.enumerate_support(expand)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.count})"
