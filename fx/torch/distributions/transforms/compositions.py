"""Invertible functions of random variables: the protocol, and what is made of several."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import copy
import math
from typing import Any

import fx
from fx.tensor import Tensor
from fx.torch.distributions import constraints
from fx.torch.distributions.distribution import summed


class Transform:
    """A function with a set where it lives (``domain``), one of its values (``codomain``).

    A class gives ``_call``, ``_inverse`` and ``log_abs_det_jacobian``.

    Args:
        cache_size: 1 keeps the last pair, so that ``inv`` of a value that was just computed is
            what it came from, exactly; 0 keeps none.

    Raises:
        ValueError: for another size.

    Example:
        >>> import fx.torch as torch
        >>> t = torch.distributions.AffineTransform(1.0, 2.0)
        >>> t(torch.tensor(3.0)), t.inv(torch.tensor(7.0))
        (tensor(7.), tensor(3.))
    """

    bijective = False
    domain: Any
    codomain: Any
    sign: Any = NotImplemented

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size must be 0 or 1, got {cache_size}")
        self._cache_size, self._last = cache_size, (None, None)

    event_dim = property(
        lambda self: self.domain.event_dim, doc="How many axes one value of the domain has."
    )
    inv = property(lambda self: _Inverse(self), doc="The inverse transform.")

    def with_cache(self, cache_size: int = 1) -> Any:
        """The same transform with a cache of another size."""
        new = copy.copy(self)
        new._cache_size, new._last = cache_size, (None, None)
        return new

    def __call__(self, x: Tensor) -> Tensor:
        """The value at x."""
        if not self._cache_size:
            return self._call(x)
        if self._last[0] is not x:
            self._last = (x, self._call(x))
        return self._last[1]  # type: ignore[return-value]

    def _inv_call(self, y: Tensor) -> Tensor:
        if not self._cache_size:
            return self._inverse(y)
        if self._last[1] is not y:
            self._last = (self._inverse(y), y)
        return self._last[0]  # type: ignore[return-value]

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no _call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |dy / dx|, one number for each event."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of the value for an argument of a shape."""
        return tuple(shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        """The shape of the argument for a value of a shape."""
        return tuple(shape)

    def __eq__(self, other: object) -> bool:
        return self is other or (type(self) is type(other) and self._held() == other._held())  # type: ignore[attr-defined]

    __hash__ = None  # type: ignore[assignment]

    def _held(self) -> Any:
        """What two transforms of one kind must share to be the same."""
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._of = transform

    domain = property(lambda self: self._of.codomain)
    codomain = property(lambda self: self._of.domain)
    bijective = property(lambda self: self._of.bijective)
    sign = property(lambda self: self._of.sign)
    inv = property(lambda self: self._of)

    def _held(self) -> Any:
        return self._of

    def with_cache(self, cache_size: int = 1) -> Any:
        return self._of.with_cache(cache_size).inv

    def _call(self, x: Tensor) -> Tensor:
        return self._of._inv_call(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._of(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._of.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        return self._of.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        return self._of.forward_shape(shape)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._of!r})"


class ComposeTransform(Transform):
    """Several transforms, the first applied first.

    Args:
        parts: transforms.
    """

    def __init__(self, parts: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [p.with_cache(cache_size) if cache_size else p for p in parts]

    @staticmethod
    def _widened(constraint: Any, event_dim: int) -> Any:
        missing = event_dim - constraint.event_dim
        return constraints.independent(constraint, missing) if missing > 0 else constraint

    @property
    def domain(self) -> Any:
        """That of the first, over as many axes as an event of the whole has."""
        if not self.parts:
            return constraints.real
        needed = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            needed += part.domain.event_dim - part.codomain.event_dim
            needed = max(needed, part.domain.event_dim)
        return self._widened(self.parts[0].domain, needed)

    @property
    def codomain(self) -> Any:
        """That of the last, over as many axes as an event of the whole has."""
        if not self.parts:
            return constraints.real
        needed = self.parts[0].domain.event_dim
        for part in self.parts:
            needed += part.codomain.event_dim - part.domain.event_dim
            needed = max(needed, part.codomain.event_dim)
        return self._widened(self.parts[-1].codomain, needed)

    bijective = property(lambda self: all(p.bijective for p in self.parts), doc="All are.")
    sign = property(lambda self: math.prod(p.sign for p in self.parts), doc="Their product.")

    def _held(self) -> Any:
        return self.parts

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over the parts."""
        if not self.parts:
            return fx.zeros_like(x)
        total, event_dim = 0.0, self.domain.event_dim
        for k, part in enumerate(self.parts):
            value = y if k == len(self.parts) - 1 else part(x)
            one = part.log_abs_det_jacobian(x, value)
            total = total + summed(one, event_dim - part.domain.event_dim)  # type: ignore[assignment]
            event_dim += part.codomain.event_dim - part.domain.event_dim
            x = value
        return total  # type: ignore[return-value]

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """Through all parts."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        """Back through all parts."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return tuple(shape)

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts})"


class IndependentTransform(Transform):
    """A transform whose last axes count as one event.

    Args:
        base_transform: the transform.
        reinterpreted_batch_ndims: how many axes.
    """

    def __init__(
        self, base_transform: Any, reinterpreted_batch_ndims: int, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    bijective = property(lambda self: self.base_transform.bijective, doc="As the base.")
    sign = property(lambda self: self.base_transform.sign, doc="As the base.")

    @property
    def domain(self) -> Any:
        """That of the base, over more axes."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @property
    def codomain(self) -> Any:
        """That of the base, over more axes."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    def _held(self) -> Any:
        return self.base_transform, self.reinterpreted_batch_ndims

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The sum over the event's axes."""
        one = self.base_transform.log_abs_det_jacobian(x, y)
        return summed(one, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """As the base."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        """As the base."""
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """The last axes in another shape of as many elements."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")

    domain = property(lambda self: constraints.independent(constraints.real, len(self.in_shape)))
    codomain = property(lambda self: constraints.independent(constraints.real, len(self.out_shape)))

    def _held(self) -> Any:
        return self.in_shape, self.out_shape

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """0."""
        return fx.zeros(x.shape[: x.ndim - len(self.in_shape)], dtype=x.dtype)

    def forward_shape(self, shape: Any) -> tuple[int, ...]:
        """With ``out_shape`` at its end."""
        return self._replaced(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> tuple[int, ...]:
        """With ``in_shape`` at its end."""
        return self._replaced(shape, self.out_shape, self.in_shape)

    @staticmethod
    def _replaced(shape: Any, old: Any, new: Any) -> tuple[int, ...]:
        cut = len(shape) - len(old)
        if cut < 0 or tuple(shape[cut:]) != old:
            raise ValueError(f"Shape mismatch: expected {old} at the end, but got {tuple(shape)}")
        return (*shape[:cut], *new)


identity_transform = ComposeTransform([])
