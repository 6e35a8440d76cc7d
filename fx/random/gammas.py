"""Gamma samples and what is made of them: beta, dirichlet.

Derivatives pass through the shape parameters (``implicit.py``).
"""

from __future__ import annotations

from typing import Any

import fx.prims.draws as draws
import fx.prims.elementary as elementary
import fx.prims.elementwise as elementwise
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
from fx.errors import ShapeError
from fx.prims.cumulative import cumsum
from fx.random.arguments import Rows, Shape, floating_dtype, joint_shape, parameter
from fx.random.implicit import moving
from fx.random.keys import as_key, child
from fx.tensor import Tensor


def gamma(key: Tensor, a: Any, shape: Shape | None = None, dtype: Any = None) -> Tensor:
    """Gamma samples of shape parameter ``a`` and scale 1, by the method of Marsaglia and Tsang.

    Computed in float64. Attempt t of an element reads a block of its own, so that its value depends
    on the key and its place alone; attempts go on until one is accepted (95% at the first).

    Args:
        key: uint32 (6,).
        a: a positive number or tensor that broadcasts to ``shape``; derivatives pass through it
            (by implicit reparameterisation). 0 gives 0, a negative one NaN.
        shape: the shape of the samples; None takes that of ``a``.
        dtype: floating; the default dtype, or that of ``a`` where it is a tensor.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Source: Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26
    (2000); of the derivative Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients",
    NeurIPS 2018.

    Example:
        >>> import fx
        >>> x = fx.random.gamma(fx.random.key(0), 3.0, 10_000)
        >>> bool(abs(x.mean() - 3.0) < 0.1)
        True
    """
    return _draw("gamma", key, a, shape, dtype, False)


def loggamma(key: Tensor, a: Any, shape: Shape | None = None, dtype: Any = None) -> Tensor:
    """Logarithms of gamma samples: exact where a small ``a`` makes the samples underflow.

    Args:
        key, a, shape, dtype: as for ``gamma``.

    Example:
        >>> import fx
        >>> fx.random.loggamma(fx.random.key(0), fx.tensor([1e-3, 1.0])).shape
        (2,)
    """
    return _draw("loggamma", key, a, shape, dtype, True)


def _draw(name: str, key: Any, a: Any, shape: Any, dtype: Any, logarithm: bool) -> Tensor:
    key = as_key(name, key)
    dtype = floating_dtype(name, dtype, (a,))
    shape = joint_shape(name, shape, a)
    alpha = parameter(name, a, dtype, key.device.name)
    drawn = draws.random_gamma(key, alpha, shape=shape, logarithm=logarithm)
    if type(alpha) is Tensor and alpha._node is None:
        return drawn
    return moving(logarithm)(shape_prims.stretched(alpha, shape), drawn)


def beta(key: Tensor, a: Any, b: Any, shape: Shape | None = None, dtype: Any = None) -> Tensor:
    """Beta samples in [0, 1], from two gamma samples.

    Args:
        key: uint32 (6,).
        a, b: positive numbers or tensors that broadcast to ``shape``; derivatives pass through.
        shape: the shape of the samples; None takes that of ``a`` and ``b``.
        dtype: floating; the default dtype, or that of ``a`` and ``b`` where they are tensors.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Example:
        >>> import fx
        >>> x = fx.random.beta(fx.random.key(0), 2.0, 6.0, 10_000)
        >>> bool(abs(x.mean() - 0.25) < 0.01)
        True
    """
    key = as_key("beta", key)
    dtype = floating_dtype("beta", dtype, (a, b))
    shape = joint_shape("beta", shape, a, b)
    x = loggamma(child(key, 0), a, shape, dtype)
    y = loggamma(child(key, 1), b, shape, dtype)
    top = elementwise.maximum(x, y)
    first = elementary.exp(elementwise.subtract(x, top))
    second = elementary.exp(elementwise.subtract(y, top))
    return elementwise.divide(first, elementwise.add(first, second))


def dirichlet(key: Tensor, alpha: Any, shape: Shape | None = None, dtype: Any = None) -> Tensor:
    """Dirichlet samples: points of the simplex, along the last axis.

    Args:
        key: uint32 (6,).
        alpha: (*A, n), positive; derivatives pass through it.
        shape: the shape of the points, to which (*A) broadcasts; None is (*A).
        dtype: floating; the default dtype, or that of ``alpha``.

    Returns:
        (*shape, n), whose last axis sums to 1.

    Raises:
        ShapeError: if ``alpha`` has no axis or ``shape`` does not fit.
        DTypeError: if ``key`` is no key.

    Example:
        >>> import fx
        >>> x = fx.random.dirichlet(fx.random.key(0), fx.tensor([1.0, 2.0, 3.0]), 4)
        >>> x.shape
        (4, 3)
    """
    key = as_key("dirichlet", key)
    dtype = floating_dtype("dirichlet", dtype, (alpha,))
    alphas = parameter("dirichlet", alpha, dtype, key.device.name)
    if alphas.ndim == 0:
        raise ShapeError(
            "dirichlet: alpha needs an axis of parameters, got a scalar; "
            "write fx.full((n,), alpha) for a symmetric one"
        )
    wanted = joint_shape("dirichlet", shape, Rows(alphas.shape[:-1]))
    logs = loggamma(key, alphas, (*wanted, alphas.shape[-1]), dtype)
    shares = elementary.exp(logs - reduction.max(logs, axes=(logs.ndim - 1,), keepdims=True))
    return shares / total(shares)


def total(shares: Tensor) -> Tensor:
    """The sums (*A, 1) of numbers >= 0 (*A, n) along the last axis.

    Lanes must have the bits of a loop, whatever the size of the batch, and one after the other is
    the order of sums that does not depend on it.
    """
    last = shares.ndim - 1
    sums = cumsum(shares, axis=last, reverse=False)  # they grow: the largest is that of all
    return reduction.max(sums, axes=(last,), keepdims=True)
