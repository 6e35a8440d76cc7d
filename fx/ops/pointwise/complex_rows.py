"""Softmax, its logarithm and logsumexp of complex numbers, in terms of what complex numbers have.

As in JAX the largest real part is taken off first, and imaginary parts are those of a logarithm.
"""

from __future__ import annotations

import fx.prims.elementwise as prims
import fx.prims.reduction as reduction
from fx.dtypes import COMPLEX
from fx.ops.pointwise.elementwise import real
from fx.prims.compare import astype, isfinite, stop_gradient, where
from fx.prims.creation import constant_like
from fx.quick import quick
from fx.tensor import Tensor

_softmax, _log_softmax = quick(reduction.softmax, "axis"), quick(reduction.log_softmax, "axis")


def softmax_along(x: Tensor, axis: int) -> Tensor:
    """Softmax of real or complex numbers along an axis that is there."""
    return softmax(x, axis) if x._dtype in COMPLEX else _softmax(x, axis)  # type: ignore[no-any-return]


def log_softmax_along(x: Tensor, axis: int) -> Tensor:
    """Its logarithm, the same."""
    return log_softmax(x, axis) if x._dtype in COMPLEX else _log_softmax(x, axis)  # type: ignore[no-any-return]


def softmax(x: Tensor, axis: int) -> Tensor:
    """exp(x) / sum(exp(x)) along an axis."""
    e = prims.exp(x - _top(x, (axis,)))
    return e / reduction.sum(e, axes=(axis,), keepdims=True)


def log_softmax(x: Tensor, axis: int) -> Tensor:
    """x - log(sum(exp(x))) along an axis."""
    centred = x - _top(x, (axis,))
    total = reduction.sum(prims.exp(centred), axes=(axis,), keepdims=True)
    return centred - prims.log(total)


def logsumexp(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """log(sum(exp(x))) along axes."""
    top = _top(x, axes)
    total = reduction.sum(prims.exp(x - top), axes=axes, keepdims=True)
    out = prims.log(total) + top
    return out if keepdims else reduction.sum(out, axes=axes, keepdims=False)


def _top(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The largest real part, as a complex number; 0 where it is not finite."""
    top = reduction.max(real(x), axes=axes, keepdims=True)
    top = where(isfinite(top), top, constant_like(0, top))
    return astype(stop_gradient(top), dtype=x._dtype)
