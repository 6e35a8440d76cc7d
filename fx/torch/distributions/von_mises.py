"""The normal distribution's like on a circle."""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math
from typing import Any

import fx
from fx import dtypes
from fx.random.generator import next_key
from fx.tensor import Tensor
from fx.torch.distributions import constraints
from fx.torch.distributions.distribution import Distribution

# 1 - I1(k) / I0(k) = sum(c[i] / k ** (i + 1)) for large k
_FAR = (0.5, 0.125, 0.125, 25 / 128, 13 / 32, 1073 / 1024)
_FAR_FROM = {dtypes.float32: 30.0, dtypes.float64: 1000.0}


class VonMises(Distribution):
    """The von Mises distribution of angles in [-pi, pi), of density exp(k cos(x - loc)).

    Args:
        loc: the middles, in radians.
        concentration: k, positive; numbers or tensors that broadcast together.

    Source: Best and Fisher, "Efficient simulation of the von Mises distribution", Applied
    Statistics 28 (1979).

    Example:
        >>> import fx.torch as torch
        >>> torch.distributions.VonMises(0.0, 1.0).log_prob(torch.tensor(0.0))
        tensor(-1.0738)
    """

    support = constraints.real
    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real, "concentration": constraints.positive,
    }  # fmt: skip

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self._hold(validate_args, loc=loc, concentration=concentration)

    mean = mode = property(lambda self: self.loc, doc="The middles.")

    @property
    def variance(self) -> Tensor:
        """Those on the circle: 1 - I1(k) / I0(k)."""
        k = self.concentration
        near = _FAR_FROM.get(self._dtype, 30.0)
        far, inverse = k * 0, 1 / k.clamp(min=near)
        for c in reversed(_FAR):
            far = (far + c) * inverse
        low = k.clamp(max=near)
        return fx.where(k > near, far, 1 - fx.special.i1e(low) / fx.special.i0e(low))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Angles in [-pi, pi), by rejection from a wrapped Cauchy distribution, in float64."""
        shape = self._extended(sample_shape)
        with fx.no_grad():
            loc, k = (v.detach().to(fx.float64) for v in (self.loc, self.concentration))
            k = fx.broadcast_to(k, shape)
            tau = 1 + (1 + 4 * k * k).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * k)
            r = fx.where(k < 1e-5, 1 / k + k, (1 + rho * rho) / (2 * rho))

            def attempt(state: Any) -> Any:
                i, key, done, angle = state
                u = fx.random.uniform(fx.random.fold_in(key, i), (3, *shape), dtype=fx.float64)
                z = fx.cos(math.pi * u[0])
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                taken = (c * (2 - c) > u[1]) | ((c / u[1]).log() + 1 - c >= 0)
                found = (u[2] - 0.5).sign() * fx.acos(f.clamp(-1.0, 1.0))
                return i + 1, key, done | taken, fx.where(taken & ~done, found, angle)

            zero = fx.tensor(0, dtype=fx.int64)
            start = zero, next_key(), fx.zeros(shape, dtype=fx.bool), fx.zeros(shape, dtype=k.dtype)
            angle = fx.while_loop(lambda state: ~state[2].all(), attempt, start)[3]
            turned = (angle + math.pi + loc) % (2 * math.pi) - math.pi
            return turned.to(self._dtype).detach()

    def _log_prob(self, x: Tensor) -> Tensor:
        k = self.concentration
        return k * (fx.cos(x - self.loc) - 1) - math.log(2 * math.pi) - fx.special.i0e(k).log()


__all__ = ["VonMises"]
