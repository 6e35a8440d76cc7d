"""Gamma samples that are differentiable in their shape, by implicit reparameterisation.

A sample z of shape a is where the distribution function P(a, z) has a value that does not depend on
a; ``fx/prims/slopes.py`` has the slope of its logarithm, and the source. The rules are custom ones:
which sample a key gives jumps with a, where an attempt is no longer accepted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from fx import dtypes
from fx.ops.operands import cast
from fx.prims.creation import constant_like
from fx.prims.elementwise import log, maximum, multiply
from fx.prims.slopes import gamma_log_slope
from fx.prims.special import digamma
from fx.tensor import Tensor


def _slope(a: Tensor, logs: Tensor) -> Tensor:
    """d(log z)/da, in float32 at least."""
    if a.dtype.itemsize == 2:
        wide, narrow = cast(a, dtypes.float32), a.dtype
        return cast(_slope(wide, cast(logs, dtypes.float32)), narrow)
    return gamma_log_slope(a, logs, digamma(a))


@cache
def moving(logarithm: bool) -> Callable[[Tensor, Tensor], Tensor]:
    """The function of shapes a and gamma samples, (*shape) both, that gives the samples.

    Its derivative in a is that of a sample; with ``logarithm`` the samples are logarithms.
    """
    from fx.transforms.custom import custom_jvp  # transforms stand above

    @custom_jvp
    def sample(a: Tensor, z: Tensor) -> Tensor:
        return z

    sample.is_closed = True

    @sample.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        a, out = primals[0], sample(*primals)
        if logarithm:
            return out, multiply(_slope(a, out), tangents[0])
        tiny = (
            1e-7 if out.dtype == dtypes.float16 else 1e-37
        )  # samples underflow, with their slopes
        slope = _slope(a, log(maximum(out, constant_like(tiny, out))))
        return out, multiply(multiply(out, slope), tangents[0])

    return sample
