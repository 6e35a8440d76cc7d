"""Transforms that lead to a constraint: ``biject_to`` and ``transform_to``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx.torch.distributions import constraints as c
from fx.torch.distributions import transforms as t
from fx.torch.distributions.distribution import of_dtype


class ConstraintRegistry:
    """From constraints to transforms of all real numbers onto them.

    Example:
        >>> import fx.torch as torch
        >>> d = torch.distributions
        >>> d.biject_to(d.constraints.positive)(torch.tensor(0.0))
        tensor(1.)
    """

    def __init__(self) -> None:
        self._of_kind: dict[type, Any] = {}
        self._of_one: dict[int, Any] = {}

    def register(self, constraint: Any, factory: Any = None) -> Callable[[Any], Any] | Any:
        """Give the factory for a class of constraints, or for that of an instance.

        Raises:
            TypeError: if it is no constraint.
        """
        if factory is None:
            return lambda function: self.register(constraint, function)
        if isinstance(constraint, c.Constraint):
            named = isinstance(constraint, c._Elements)
            key: Any = constraint if named else type(constraint)
        else:
            key = constraint
        if isinstance(key, c.Constraint):
            self._of_one[id(key)] = factory
        elif isinstance(key, type) and issubclass(key, c.Constraint):
            self._of_kind[key] = factory
        else:
            raise TypeError(
                "Expected constraint to be either a Constraint subclass or instance, "
                f"but got {constraint}"
            )
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform onto a constraint.

        Raises:
            NotImplementedError: if none is registered.
        """
        factory = self._of_one.get(id(constraint)) or self._of_kind.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints; "
                f"write a function and put @register on it"
            )
        return factory(constraint)


def _above(constraint: Any) -> Any:
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.lower_bound, 1)])


def _below(constraint: Any) -> Any:
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.upper_bound, -1)])


def _between(constraint: Any) -> Any:
    low, high = of_dtype(constraint.lower_bound, constraint.upper_bound)
    affine = t.AffineTransform(low, high - low)
    return t.ComposeTransform([t.SigmoidTransform(), affine])


def _common(registry: ConstraintRegistry) -> None:
    registry.register(c.real, lambda _: t.identity_transform)
    for one in (c.positive, c.nonnegative):
        registry.register(type(one), _above)
    registry.register(c.less_than, _below)
    registry.register(c.interval, _between)
    registry.register(c.half_open_interval, _between)
    registry.register(c.corr_cholesky, lambda _: t.CorrCholeskyTransform())
    registry.register(
        c.independent,
        lambda one: t.IndependentTransform(
            registry(one.base_constraint), one.reinterpreted_batch_ndims
        ),
    )
    registry.register(
        c.cat, lambda one: t.CatTransform([registry(p) for p in one.cseq], one.dim, one.lengths)
    )
    registry.register(
        c.stack, lambda one: t.StackTransform([registry(p) for p in one.cseq], one.dim)
    )


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()
_common(biject_to)
_common(transform_to)
biject_to.register(c.simplex, lambda _: t.StickBreakingTransform())
transform_to.register(c.simplex, lambda _: t.SoftmaxTransform())
transform_to.register(c.lower_cholesky, lambda _: t.LowerCholeskyTransform())
transform_to.register(c.positive_definite, lambda _: t.PositiveDefiniteTransform())
