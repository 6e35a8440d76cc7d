"""Where parameters and values of distributions may lie: ``torch.distributions.constraints``."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import fx
from fx.tensor import Tensor


class Constraint:
    """A set of values; each value has ``event_dim`` axes.

    Example:
        >>> import fx.torch as torch
        >>> torch.distributions.constraints.positive.check(torch.tensor([-1.0, 2.0]))
        tensor([False,  True])
    """

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each value, of ``event_dim`` axes, lies in the set."""
        raise NotImplementedError(f"{type(self).__name__} has no check")

    def __repr__(self) -> str:
        held = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__.lstrip('_')}({held})"


class _Dependent(Constraint):
    """A set that depends on other values: it is not asked."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented):
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def check(self, value: Tensor) -> Tensor:
        """Raises: such a set must be computed first."""
        raise ValueError("Cannot determine validity of dependent constraint")

    def __call__(
        self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ) -> Any:
        """A dependent constraint of these."""
        return type(self)(is_discrete=is_discrete, event_dim=event_dim)


class _DependentProperty(property, _Dependent):
    """A property whose value is a constraint that depends on the distribution."""

    def __init__(
        self, fn: Any = None, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented
    ):
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Any) -> Any:  # type: ignore[override]
        """As a decorator with arguments."""
        return type(self)(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint: Any) -> bool:
    """Whether a constraint depends on other values."""
    return isinstance(constraint, _Dependent)


class _Elements(Constraint):
    """Elements that satisfy a predicate."""

    def __init__(self, name: str, holds: Callable[[Tensor], Tensor], is_discrete: bool = False):
        self._name, self._holds, self.is_discrete = name, holds, is_discrete

    def check(self, value: Tensor) -> Tensor:
        """Whether the predicate holds."""
        return self._holds(value)

    def __repr__(self) -> str:
        return f"{self._name}()"


class _Events(_Elements):
    """Vectors or matrices that satisfy a predicate; it has one answer an event."""

    def __init__(self, name: str, holds: Any, event_dim: int, is_discrete: bool = False):
        super().__init__(name, holds, is_discrete)
        self.event_dim = event_dim


class _Bounded(Constraint):
    """Elements between bounds, each of which may be a tensor; None is no bound."""

    _low: Any = None
    _high: Any = None

    def check(self, value: Tensor) -> Tensor:
        """Whether the elements are inside."""
        low = vars(self).get("lower_bound")
        high = vars(self).get("upper_bound")
        inside = value == value
        if self.is_discrete:
            inside = inside & (value % 1 == 0)
        if low is not None:
            inside = inside & (value > low if self._low == "open" else value >= low)
        if high is not None:
            inside = inside & (value < high if self._high == "open" else value <= high)
        return inside


def _bounded(name: str, low: str | None, high: str | None, is_discrete: bool = False) -> Any:
    def __init__(self: Any, *bounds: Any, **named: Any) -> None:
        names = [n for n, kind in (("lower_bound", low), ("upper_bound", high)) if kind]
        held = dict(zip(names, bounds), **named)
        if sorted(held) != sorted(names):
            raise TypeError(f"{name}: needs {' and '.join(names)}, got {', '.join(held) or 'none'}")
        vars(self).update(held)

    body = {"__init__": __init__, "_low": low, "_high": high, "is_discrete": is_discrete}
    return type(name, (_Bounded,), body)


greater_than = _bounded("GreaterThan", "open", None)
greater_than_eq = _bounded("GreaterThanEq", "closed", None)
less_than = _bounded("LessThan", None, "open")
interval = _bounded("Interval", "closed", "closed")
half_open_interval = _bounded("HalfOpenInterval", "closed", "open")
integer_interval = _bounded("IntegerInterval", "closed", "closed", True)
_integer_greater_than = _bounded("IntegerGreaterThan", "closed", None, True)


class independent(Constraint):
    """The last ``reinterpreted_batch_ndims`` axes of a constraint as one event."""

    def __init__(self, base_constraint: Any, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        """Whether all elements of an event are inside."""
        inside = self.base_constraint.check(value)
        count = self.reinterpreted_batch_ndims
        if inside.ndim < count:
            raise ValueError(
                f"Expected value.dim() >= {self.event_dim} but got {value.ndim}; "
                f"an event has {self.event_dim} axes"
            )
        return inside.flatten(inside.ndim - count).all(-1) if count else inside

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _Parts(Constraint):
    """Parts of a tensor along an axis, each with a constraint of its own."""

    def __init__(self, cseq: Any, dim: int = 0, lengths: Any = None) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = list(lengths or [1] * len(self.cseq))
        self.is_discrete = any(c.is_discrete for c in self.cseq)
        self.event_dim = max(c.event_dim for c in self.cseq)


class cat(_Parts):
    """Parts of ``lengths`` along an axis."""

    def check(self, value: Tensor) -> Tensor:
        """Whether each part satisfies its own."""
        parts = fx.torch.split(value, self.lengths, self.dim)
        return fx.concat([c.check(v) for c, v in zip(self.cseq, parts)], self.dim)


class stack(_Parts):
    """Slices along an axis."""

    def check(self, value: Tensor) -> Tensor:
        """Whether each slice satisfies its own."""
        slices = fx.unstack(value, axis=self.dim)
        return fx.stack([c.check(v) for c, v in zip(self.cseq, slices)], self.dim)


class multinomial(Constraint):
    """Counts whose sum is at most ``upper_bound``."""

    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Tensor) -> Tensor:
        """Whether the counts are not negative and not too many."""
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


class MixtureSameFamilyConstraint(Constraint):
    """Values of a mixture: those of all of its components."""

    def __init__(self, base_constraint: Any) -> None:
        self.base_constraint = base_constraint
        self.is_discrete, self.event_dim = base_constraint.is_discrete, base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        """Whether each component may give the value."""
        place = value.ndim - self.event_dim
        return self.base_constraint.check(fx.expand_dims(value, axis=place)).all(-1)


def _square(x: Tensor) -> Tensor:
    return fx.full(x.shape[:-2], x.shape[-2] == x.shape[-1], dtype=fx.bool)


def _all(x: Tensor, axes: int) -> Tensor:
    return x.flatten(x.ndim - axes).all(-1)


def _symmetric(x: Tensor) -> Tensor:
    if x.shape[-2] != x.shape[-1]:
        return _square(x)
    return _all(fx.isclose(x, x.mT, atol=1e-6), 2)


def _unit_rows(x: Tensor) -> Tensor:
    slack = fx.finfo(x.dtype).eps * x.shape[-1] * 10
    return ((x * x).sum(-1) - 1).abs().le(slack).all(-1)


def _positive_definite(x: Tensor) -> Tensor:
    if x.shape[-2] != x.shape[-1]:
        return _square(x)
    return _symmetric(x) & (fx.linalg.cholesky_ex(x).info == 0)


def _positive_semidefinite(x: Tensor) -> Tensor:
    if x.shape[-2] != x.shape[-1]:
        return _square(x)
    return _symmetric(x) & (fx.linalg.eigvalsh(x) >= 0).all(-1)


def _lower(x: Tensor) -> Tensor:
    return _all(x.tril() == x, 2)


def _positive_diagonal(x: Tensor) -> Tensor:
    return (fx.linalg.diagonal(x) > 0).all(-1)


dependent = _Dependent()
dependent_property = _DependentProperty
real = _Elements("Real", lambda x: x == x)
boolean = _Elements("Boolean", lambda x: (x == 0) | (x == 1), True)
real_vector = independent(real, 1)
positive, nonnegative = greater_than(0.0), greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
nonnegative_integer, positive_integer = _integer_greater_than(0), _integer_greater_than(1)
simplex = _Events("Simplex", lambda x: (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6), 1)
one_hot = _Events("OneHot", lambda x: ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1), 1, True)
square = _Events("Square", _square, 2)
symmetric = _Events("Symmetric", _symmetric, 2)
positive_definite = _Events("PositiveDefinite", _positive_definite, 2)
positive_semidefinite = _Events("PositiveSemidefinite", _positive_semidefinite, 2)
lower_triangular = _Events("LowerTriangular", _lower, 2)
lower_cholesky = _Events("LowerCholesky", lambda x: _lower(x) & _positive_diagonal(x), 2)
corr_cholesky = _Events(
    "CorrCholesky", lambda x: _lower(x) & _positive_diagonal(x) & _unit_rows(x), 2
)
