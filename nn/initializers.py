"""The initialisers of ``jax.nn.initializers``: functions ``(key, shape, dtype) -> tensor``.

Those of ``fx.nn.init`` are PyTorch's: they rebind a parameter and take their numbers from the
current generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import Any

import fx.prims.shape as shape_prims
from fx import dtypes, random
from fx.config import default_dtype
from fx.errors import DTypeError, ShapeError
from fx.ops.making.creation import full
from fx.ops.making.creation import ones as filled_with_ones
from fx.ops.making.creation import zeros as filled_with_zeros
from fx.ops.shapes.manipulation import moveaxis
from fx.tensor import Tensor

Initializer = Callable[..., Tensor]
Axes = int | Sequence[int]
_TRUNCATED = 0.87962566103423978  # standard deviation of a normal number held within -2 and 2


def _dtype(name: str, *told: Any) -> Any:
    found = next((dtypes.as_dtype(d) for d in told if d is not None), default_dtype())
    if found not in dtypes.INEXACT:
        raise DTypeError(f"initializers.{name}: the dtype must be floating, got {found.name}")
    return found


def zeros(key: Any, shape: Sequence[int], dtype: Any = None) -> Tensor:
    """Zeros of a shape; the key is not used."""
    del key  # it is JAX's signature of an initialiser
    return filled_with_zeros(tuple(shape), dtype=dtype)


def ones(key: Any, shape: Sequence[int], dtype: Any = None) -> Tensor:
    """Ones of a shape; the key is not used."""
    del key
    return filled_with_ones(tuple(shape), dtype=dtype)


def constant(value: Any, dtype: Any = None) -> Initializer:
    """One value everywhere.

    Example:
        >>> import fx
        >>> fx.nn.initializers.constant(0.5)(fx.random.key(0), (2,))
        tensor([0.5000, 0.5000])
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Tensor:
        del key
        return full(tuple(shape), value, dtype=_dtype("constant", dtype))

    return init


def uniform(scale: float = 1e-2, dtype: Any = None) -> Initializer:
    """Uniform numbers in [0, scale)."""

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Tensor:
        return random.uniform(key, tuple(shape), 0.0, scale, _dtype("uniform", dtype))

    return init


def normal(stddev: float = 1e-2, dtype: Any = None) -> Initializer:
    """Normal numbers of mean 0.

    Example:
        >>> import fx
        >>> fx.nn.initializers.normal(0.1)(fx.random.key(0), (2, 3)).shape
        (2, 3)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Tensor:
        return random.normal(key, tuple(shape), 0.0, stddev, _dtype("normal", dtype))

    return init


def truncated_normal(
    stddev: float = 1e-2, dtype: Any = None, lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    """``stddev`` times standard normal numbers that lie in [lower, upper]."""

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Tensor:
        kind = _dtype("truncated_normal", dtype)
        return stddev * random.truncated_normal(key, lower, upper, tuple(shape), kind)

    return init


def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: Any = None,
) -> Initializer:
    """Numbers of the variance ``scale / n``, where n is counted from the shape.

    Args:
        scale: above 0.
        mode: n is "fan_in", "fan_out", their mean "fan_avg" or geometric mean "fan_geo_avg".
        distribution: "normal", "truncated_normal" (within 2 standard deviations) or "uniform".
        in_axis, out_axis: the axes whose sizes are fan in and fan out; both are multiplied by the
            sizes of all other axes.
        batch_axis: axes that count for neither.
        dtype: floating; the default dtype unless told, also in the call.

    Raises:
        ValueError: for an unknown mode or distribution.
        ShapeError: if the shape lacks an axis.

    Source: Glorot, Bengio (2010); He et al. (2015); ``jax.nn.initializers.variance_scaling``.

    Example:
        >>> import fx
        >>> init = fx.nn.initializers.variance_scaling(2.0, "fan_in", "normal")
        >>> w = init(fx.random.key(0), (400, 100))
        >>> bool(abs(w.std() - (2 / 400) ** 0.5) < 1e-3)
        True
    """
    if mode not in ("fan_in", "fan_out", "fan_avg", "fan_geo_avg"):
        raise ValueError(
            f"variance_scaling: mode must be 'fan_in', 'fan_out', 'fan_avg' or 'fan_geo_avg', "
            f"got {mode!r}"
        )
    if distribution not in ("normal", "truncated_normal", "uniform"):
        raise ValueError(
            f"variance_scaling: distribution must be 'normal', 'truncated_normal' or 'uniform', "
            f"got {distribution!r}"
        )

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Tensor:
        sizes, kind = tuple(shape), _dtype("variance_scaling", dtype)
        fan_in, fan_out = _fans(sizes, in_axis, out_axis, batch_axis)
        n = {
            "fan_in": fan_in,
            "fan_out": fan_out,
            "fan_avg": (fan_in + fan_out) / 2,
            "fan_geo_avg": sqrt(fan_in * fan_out),
        }[mode]
        variance = scale / max(n, 1e-30)
        if distribution == "uniform":
            bound = sqrt(3 * variance)
            return random.uniform(key, sizes, -bound, bound, kind)
        if distribution == "normal" or kind in dtypes.COMPLEX:
            return random.normal(key, sizes, 0.0, sqrt(variance), kind)
        std = sqrt(variance) / _TRUNCATED
        return std * random.truncated_normal(key, -2.0, 2.0, sizes, kind)

    return init


def _fans(shape: tuple[int, ...], ins: Axes, outs: Axes, batch: Axes) -> tuple[float, float]:
    groups = [(axes,) if isinstance(axes, int) else tuple(axes) for axes in (ins, outs, batch)]
    rank = len(shape)
    if rank < 2 or any(not -rank <= axis < rank for axes in groups for axis in axes):
        raise ShapeError(
            f"variance_scaling: the shape {shape} lacks the axis of fan in or fan out; write "
            f"in_axis= and out_axis=, or initializers.normal for a vector"
        )
    found = [prod([shape[axis] for axis in axes]) for axes in groups]
    rest = prod(shape) / max(prod(found), 1)
    return found[0] * rest, found[1] * rest


def _scaled(name: str, scale: float, mode: str, distribution: str) -> Any:
    def make(
        in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = (), dtype: Any = None
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"``variance_scaling({scale}, {mode!r}, {distribution!r})``; arguments as there."
    return make


glorot_uniform = xavier_uniform = _scaled("glorot_uniform", 1.0, "fan_avg", "uniform")
glorot_normal = xavier_normal = _scaled("glorot_normal", 1.0, "fan_avg", "truncated_normal")
he_uniform = kaiming_uniform = _scaled("he_uniform", 2.0, "fan_in", "uniform")
he_normal = kaiming_normal = _scaled("he_normal", 2.0, "fan_in", "truncated_normal")
lecun_uniform = _scaled("lecun_uniform", 1.0, "fan_in", "uniform")
lecun_normal = _scaled("lecun_normal", 1.0, "fan_in", "truncated_normal")


def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Matrices with orthonormal columns, or rows where there are fewer of these.

    Args:
        scale: what they are multiplied by.
        column_axis: the axis that counts columns; all others together count rows.
        dtype: floating; the default dtype unless told, also in the call.

    Source: Saxe et al. (2014).

    Example:
        >>> import fx
        >>> w = fx.nn.initializers.orthogonal()(fx.random.key(0), (4, 2))
        >>> bool(fx.allclose(w.T @ w, fx.eye(2), atol=1e-6))
        True
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Tensor:
        sizes, kind = tuple(shape), _dtype("orthogonal", dtype)
        if len(sizes) < 2:
            raise ShapeError(
                f"initializers.orthogonal takes a shape of 2 axes or more, got {sizes}"
            )
        columns = sizes[column_axis]
        rows = prod(sizes) // max(columns, 1)
        from fx.linalg import qr

        tall = random.normal(key, (max(rows, columns), min(rows, columns)), dtype=kind)
        q, r = qr(tall)
        d = r.diagonal()
        q = q * (d / abs(d))[None]
        q = q if rows >= columns else q.mT
        others = [n for i, n in enumerate(sizes) if i != column_axis % len(sizes)]
        out = shape_prims.reshaped(q, (*others, columns))
        return scale * moveaxis(out, -1, column_axis)

    return init


def delta_orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = None) -> Initializer:
    """Kernels of convolutions, (*windows, ins, outs), that are orthogonal at their centres.

    Raises:
        ShapeError: unless there are 3 to 5 axes and ins <= outs.

    Source: Xiao et al. (2018).

    Example:
        >>> import fx
        >>> w = fx.nn.initializers.delta_orthogonal()(fx.random.key(0), (3, 2, 4))
        >>> bool((w[0] == 0).all()), bool((w[1] != 0).any())
        (True, True)
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Tensor:
        sizes, kind = tuple(shape), _dtype("delta_orthogonal", dtype)
        if len(sizes) not in (3, 4, 5) or sizes[-1] < sizes[-2]:
            raise ShapeError(
                f"initializers.delta_orthogonal takes a shape of 3 to 5 axes whose last is not "
                f"smaller than the one before, got {sizes}"
            )
        square = orthogonal(scale, column_axis)(key, (sizes[-1], sizes[-1]), kind)
        centre = tuple([(n - 1) // 2 for n in sizes[:-2]])
        return filled_with_zeros(sizes, dtype=kind).at[centre].set(square[: sizes[-2]])

    return init
