"""Samplers of vectors and matrices: multivariate_normal, ball, orthogonal."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np

import fx.prims.draws as draws
import fx.prims.elementary as elementary
import fx.prims.elementwise as elementwise
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.errors import ShapeError
from fx.ops.axes import integer
from fx.ops.operands import cast
from fx.prims.compare import less, where
from fx.prims.creation import constant_like, full
from fx.random.arguments import Rows, Shape, floating_dtype, joint_shape, parameter, positive
from fx.random.continuous import normal
from fx.random.counts import rademacher
from fx.random.gammas import loggamma, total
from fx.random.keys import as_key, child, sample_shape
from fx.tensor import Tensor

_METHODS = ("cholesky", "eigh", "svd")


def multivariate_normal(
    key: Tensor, mean: Any, cov: Any, shape: Shape | None = None, dtype: Any = None,
    method: str = "cholesky",
) -> Tensor:  # fmt: skip
    """Normal samples of vectors: a factor of the covariance times standard normal ones.

    Args:
        key: uint32 (6,).
        mean: (*B, n).
        cov: (*B, n, n), symmetric, of which the lower triangle is read; derivatives pass through
            both.
        shape: the shape of the samples without n, to which both (*B) broadcast; None is their joint
            shape.
        dtype: floating; that of ``mean`` and ``cov`` unless told, or the default dtype.
        method: how ``cov`` is factored: ``"cholesky"`` takes positive definite ones; ``"eigh"`` and
            ``"svd"`` singular ones, too. ``"eigh"`` gives NaN for one with a negative eigenvalue.

    Returns:
        (*shape, n).

    Raises:
        ShapeError: if ``mean``, ``cov`` and ``shape`` do not fit.
        ValueError: for another method.
        LinAlgError: if ``cov`` is not positive definite, by ``"cholesky"``.
        DTypeError: if ``key`` is no key.

    Example:
        >>> import fx
        >>> cov = fx.tensor([[2.0, 0.5], [0.5, 1.0]])
        >>> x = fx.random.multivariate_normal(fx.random.key(0), fx.zeros(2), cov, (10_000,))
        >>> bool((abs(x.mT @ x / 10_000 - cov) < 0.1).all())
        True
    """
    name = "multivariate_normal"
    key = as_key(name, key)
    dtype = floating_dtype(name, dtype, (mean, cov))
    if method not in _METHODS:
        raise ValueError(f"{name}: method is one of {', '.join(_METHODS)}, got {method!r}")
    wide = dtypes.float32 if dtype.itemsize == 2 else dtype
    m, c = (parameter(name, v, wide, key.device.name) for v in (mean, cov))
    n = m._shape[-1] if m.ndim else 0
    if not m.ndim or c._shape[-2:] != (n, n):
        raise ShapeError(
            f"{name}: mean is (..., n) and cov (..., n, n), got {m.shape} and {c.shape}; of "
            f"independent numbers write fx.random.normal(key, shape, mean, std)"
        )
    shape = joint_shape(name, shape, Rows(m._shape[:-1]), Rows(c._shape[:-2]))
    z = normal(key, (*shape, n), dtype=wide)
    factor = _factor(c, method)
    if c.ndim == 2:
        x = z @ factor.mT
    else:
        x = shape_prims.reshaped(factor @ shape_prims.reshaped(z, (*z.shape, 1)), z.shape)
    return cast(x + m, dtype)


def _factor(cov: Tensor, method: str) -> Tensor:
    """L (*B, n, n) with L L^T = cov."""
    from fx import linalg

    if method == "cholesky":
        return linalg.cholesky(cov)
    if method == "svd":
        vectors, values, _ = linalg.svd(cov)
    else:
        values, vectors = linalg.eigh(cov)
        last = values.ndim - 1
        largest = reduction.max(elementwise.abs(values), axes=(last,), keepdims=True)
        # what is below 0 by rounding alone is 0
        slack = largest * (-float(np.finfo(cov.dtype).eps) * cov.shape[-1])
        small = less(values, constant_like(0.0, values)) & less(slack, values)
        values = where(small, constant_like(0.0, values), values)
    rows = shape_prims.reshaped(values, (*values.shape[:-1], 1, values.shape[-1]))
    return vectors * elementwise.sqrt(rows)


def ball(key: Tensor, d: int, p: Any = 2, shape: Shape | None = None, dtype: Any = None) -> Tensor:
    """Points of the unit ball of the p-norm, all of it as likely.

    Args:
        key: uint32 (6,).
        d: how many coordinates.
        p: of the norm (sum of abs(x)^p)^(1 / p): a positive number, or a tensor that broadcasts to
            ``shape``. One that is none gives NaN.
        shape: the shape of the samples without the coordinates; None takes that of ``p``.
        dtype: floating; the default dtype, or that of ``p`` where it is a tensor.

    Returns:
        (*shape, d).

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.
        ValueError: if ``p`` is the number inf.

    Source: Barthe, Guedon, Mendelson and Naor, "A probabilistic approach to the geometry of the
    l_p^n-ball", Annals of Probability 33 (2005).

    Example:
        >>> import fx
        >>> x = fx.random.ball(fx.random.key(0), 3, shape=(1000,))
        >>> bool(((x * x).sum(dim=-1) <= 1).all())
        True
    """
    key = as_key("ball", key)
    dtype = floating_dtype("ball", dtype, (p,))
    shape = joint_shape("ball", shape, p)
    (d,) = sample_shape("ball", integer("ball", "d", d))
    if isinstance(p, float) and p == inf:
        raise ValueError(
            "ball: p must be finite; that of the maximum norm is a cube: write "
            "fx.random.uniform(key, (*shape, d), -1.0, 1.0)"
        )
    device = key.device.name
    if not d:
        return full(shape=(*shape, 0), value=0.0, dtype=dtype, device=device)
    # log of abs(g)^p for d coordinates g with a density in proportion to exp(-abs(g)^p)
    power = 1.0 / positive("ball", p, dtypes.float64, device)
    power = shape_prims.reshaped(power, (*power.shape, 1))
    logs = loggamma(child(key, 0), power, (*shape, d), dtypes.float64)
    e = draws.random_draw(
        child(key, 1), family="exponential", shape=(*shape, 1), dtype=dtypes.float64
    )
    rest = elementary.log(e)
    largest = reduction.max(logs, axes=(logs.ndim - 1,), keepdims=True)
    largest = elementwise.maximum(largest, rest)
    sums = total(elementary.exp(logs - largest)) + elementary.exp(rest - largest)
    sizes = elementary.exp((logs - largest - elementary.log(sums)) * power)
    sign = rademacher(child(key, 2), (*shape, d), dtypes.float64)
    return cast(sizes * sign, dtype)


def orthogonal(
    key: Tensor, n: int, shape: Shape = (), dtype: Any = None, m: int | None = None
) -> Tensor:
    """Orthogonal matrices, all as likely: the Q of normal ones, whose R has a positive diagonal.

    Computed in float64.

    Args:
        key: uint32 (6,).
        n: how many rows.
        shape: the shape of the samples without rows and columns.
        dtype: floating, the default dtype unless told; of complex numbers the matrices are unitary.
        m: how many columns, as many as rows unless told. Of unequal numbers the rows, or the
            columns if those are fewer, are orthonormal.

    Returns:
        (*shape, n, m).

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shape or dtype is none.

    Source: Mezzadri, "How to generate random matrices from the classical compact groups", Notices
    of the American Mathematical Society 54 (2007).

    Example:
        >>> import fx
        >>> q = fx.random.orthogonal(fx.random.key(0), 3)
        >>> bool((abs(q @ q.mT - fx.eye(3)) < 1e-6).all())
        True
    """
    key = as_key("orthogonal", key)
    dtype = floating_dtype("orthogonal", dtype, kinds=dtypes.INEXACT)
    rows = integer("orthogonal", "n", n)
    columns = rows if m is None else integer("orthogonal", "m", m)
    rows, columns = sample_shape("orthogonal", (rows, columns))
    sides = (*sample_shape("orthogonal", shape), max(rows, columns), min(rows, columns))
    if 0 in sides:
        return full(
            shape=(*sides[:-2], rows, columns), value=0.0, dtype=dtype, device=key.device.name
        )
    from fx import linalg

    wide = dtypes.complex128 if dtype in dtypes.COMPLEX else dtypes.float64
    q, r = linalg.qr(normal(key, sides, dtype=wide))
    diagonal = linalg.diagonal(r)
    phase = diagonal / elementwise.abs(diagonal)
    q = q * shape_prims.reshaped(phase, (*phase.shape[:-1], 1, phase.shape[-1]))
    return cast(q.mT if rows < columns else q, dtype)
