"""Samplers of continuous families, each made of a standard sample or of a gamma one.

Derivatives pass through every parameter. One that is none (a scale below 0, degrees of freedom that
are not positive, NaN) gives NaN. Narrow samples are computed in float32 and rounded.
"""

from __future__ import annotations

from math import nan, pi
from typing import Any

import fx.prims.compare as compare
import fx.prims.draws as draws
import fx.prims.elementary as elementary
import fx.prims.elementwise as elementwise
from fx import dtypes
from fx.ops.operands import cast
from fx.prims.creation import constant_like
from fx.random.arguments import Shape, floating_dtype, joint_shape, parameter, positive
from fx.random.counts import rademacher
from fx.random.gammas import gamma, loggamma
from fx.random.keys import as_key, child, sample_shape
from fx.tensor import Tensor


class _Call:
    """The arguments that all samplers have: a key, a shape, a dtype and parameters.

    ``wide`` is the dtype to compute in.
    """

    __slots__ = ("dtype", "key", "name", "shape", "wide")

    def __init__(self, name: str, key: Any, shape: Any, dtype: Any, *parameters: Any) -> None:
        self.name, self.key = name, as_key(name, key)
        self.dtype = floating_dtype(name, dtype, parameters)
        self.shape = joint_shape(name, shape, *parameters)
        self.wide = dtypes.float32 if self.dtype.itemsize == 2 else self.dtype

    def standard(self, family: str, key: Tensor | None = None) -> Tensor:
        """Samples of a standard distribution."""
        key = self.key if key is None else key
        return draws.random_draw(key, family=family, shape=self.shape, dtype=self.wide)

    def real(self, value: Any) -> Tensor:
        """A parameter that may be any number."""
        return parameter(self.name, value, self.wide, self.key.device.name)

    def positive(self, value: Any, zero: bool = False, dtype: Any = None) -> Tensor:
        """A positive parameter, or one that may be 0; NaN in place of others."""
        return positive(self.name, value, dtype or self.wide, self.key.device.name, zero)

    def done(self, x: Tensor) -> Tensor:
        """Samples in the dtype that is asked for."""
        return cast(x, self.dtype)


def cauchy(key: Tensor, shape: Shape = (), dtype: Any = None) -> Tensor:
    """Standard Cauchy samples, with density 1 / (pi (1 + x^2)).

    Args:
        key: uint32 (6,).
        shape: the shape of the samples.
        dtype: floating, the default dtype unless told.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shape or dtype is none.

    Example:
        >>> import fx
        >>> fx.random.cauchy(fx.random.key(0), (2, 3)).shape
        (2, 3)
    """
    call = _Call("cauchy", key, shape, dtype)
    x = call.standard("laplace")
    e = -elementwise.abs(x)
    # tan(pi / 2 (1 - u)) of u = exp(e), precise at both ends
    inner = elementary.sin(elementary.expm1(e) * (-pi / 2))
    outer = elementary.sin(elementary.exp(e) * (pi / 2))
    return call.done(elementwise.copysign(inner / outer, x))


def lognormal(
    key: Tensor, sigma: Any = 1.0, shape: Shape | None = None, dtype: Any = None
) -> Tensor:
    """exp of normal samples of mean 0 and standard deviation ``sigma``.

    Args:
        key: uint32 (6,).
        sigma: a number or a tensor that broadcasts to ``shape``; derivatives pass through it.
        shape: the shape of the samples; None takes that of ``sigma``.
        dtype: floating; the default dtype, or that of ``sigma`` where it is a tensor.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Example:
        >>> import fx
        >>> fx.random.lognormal(fx.random.key(0), 0.5, 3)
        tensor([0.7633, 1.5600, 0.9507])
    """
    call = _Call("lognormal", key, shape, dtype, sigma)
    return call.done(elementary.exp(call.standard("normal") * call.real(sigma)))


def rayleigh(key: Tensor, scale: Any, shape: Shape | None = None, dtype: Any = None) -> Tensor:
    """Rayleigh samples: lengths of normal vectors of two coordinates.

    Args:
        key: uint32 (6,).
        scale: the deviation of a coordinate, >= 0, a number or a tensor that broadcasts to
            ``shape``; derivatives pass through it.
        shape: the shape of the samples; None takes that of ``scale``.
        dtype: floating; the default dtype, or that of ``scale`` where it is a tensor.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Example:
        >>> import fx
        >>> x = fx.random.rayleigh(fx.random.key(0), 2.0, 10_000)
        >>> bool(abs((x * x).mean() - 8.0) < 0.2)
        True
    """
    call = _Call("rayleigh", key, shape, dtype, scale)
    length = elementwise.sqrt(call.standard("exponential") * 2.0)
    return call.done(length * call.positive(scale, zero=True))


def maxwell(key: Tensor, shape: Shape = (), dtype: Any = None) -> Tensor:
    """Maxwell samples: lengths of standard normal vectors of three coordinates.

    Args:
        key: uint32 (6,).
        shape: the shape of the samples.
        dtype: floating, the default dtype unless told.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shape or dtype is none.

    Example:
        >>> import fx
        >>> x = fx.random.maxwell(fx.random.key(0), 10_000)
        >>> bool(abs((x * x).mean() - 3.0) < 0.1)
        True
    """
    call = _Call("maxwell", key, shape, dtype)
    return call.done(elementwise.sqrt(gamma(call.key, 1.5, call.shape, call.wide) * 2.0))


def double_sided_maxwell(
    key: Tensor, loc: Any, scale: Any, shape: Shape = (), dtype: Any = None
) -> Tensor:
    """Maxwell samples with either sign, scaled and shifted.

    Args:
        key: uint32 (6,).
        loc, scale: the middle and the factor (>= 0), numbers or tensors of joint shape (*P);
            derivatives pass through them.
        shape: the shape of the samples for each of the parameters.
        dtype: floating; the default dtype, or that of ``loc`` and ``scale`` where they are tensors.

    Returns:
        (*shape, *P): as in JAX, ``shape`` comes before that of the parameters.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Example:
        >>> import fx
        >>> loc = fx.tensor([0.0, 10.0, 20.0])
        >>> fx.random.double_sided_maxwell(fx.random.key(0), loc, 1.0, (4,)).shape
        (4, 3)
    """
    name = "double_sided_maxwell"
    each = joint_shape(name, None, loc, scale)
    call = _Call(name, key, (*sample_shape(name, shape), *each), dtype, loc, scale)
    x = maxwell(child(call.key, 0), call.shape, call.wide)
    sign = rademacher(child(call.key, 1), call.shape, call.wide)
    return call.done(x * sign * call.positive(scale, zero=True) + call.real(loc))


def pareto(key: Tensor, b: Any, shape: Shape | None = None, dtype: Any = None) -> Tensor:
    """Pareto samples, with density b / x^(b + 1) from 1 on.

    Args:
        key: uint32 (6,).
        b: the exponent, a positive number or tensor that broadcasts to ``shape``; derivatives pass
            through it.
        shape: the shape of the samples; None takes that of ``b``.
        dtype: floating; the default dtype, or that of ``b`` where it is a tensor.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Example:
        >>> import fx
        >>> x = fx.random.pareto(fx.random.key(0), 3.0, 10_000)
        >>> bool(abs(x.mean() - 1.5) < 0.02)
        True
    """
    call = _Call("pareto", key, shape, dtype, b)
    return call.done(elementary.exp(call.standard("exponential") / call.positive(b)))


def weibull_min(
    key: Tensor, scale: Any, concentration: Any, shape: Shape | None = None, dtype: Any = None
) -> Tensor:
    """Weibull samples: ``scale`` times the power 1 / ``concentration`` of exponential ones.

    Args:
        key: uint32 (6,).
        scale: >= 0.
        concentration: positive; numbers or tensors, both broadcast to ``shape``; derivatives pass
            through them.
        shape: the shape of the samples; None takes that of the parameters, with a draw for each.
        dtype: floating; the default dtype, or that of the parameters where they are tensors.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Example:
        >>> import fx
        >>> x = fx.random.weibull_min(fx.random.key(0), 2.0, 1.0, 10_000)
        >>> bool(abs(x.mean() - 2.0) < 0.05)
        True
    """
    call = _Call("weibull_min", key, shape, dtype, scale, concentration)
    power = 1.0 / call.positive(concentration)
    x = elementwise.power(call.standard("exponential"), power)
    return call.done(x * call.positive(scale, zero=True))


def triangular(
    key: Tensor, left: Any, mode: Any, right: Any, shape: Shape | None = None, dtype: Any = None
) -> Tensor:
    """Samples whose density rises in a line from ``left`` to ``mode`` and falls to ``right``.

    Args:
        key: uint32 (6,).
        left, mode, right: left <= mode <= right, numbers or tensors that broadcast to ``shape``;
            derivatives pass through them. In another order they give NaN.
        shape: the shape of the samples; None takes that of the parameters.
        dtype: floating; the default dtype, or that of the parameters where they are tensors.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Example:
        >>> import fx
        >>> x = fx.random.triangular(fx.random.key(0), 0.0, 1.0, 5.0, 10_000)
        >>> bool(abs(x.mean() - 2.0) < 0.05)
        True
    """
    call = _Call("triangular", key, shape, dtype, left, mode, right)
    a, c, b = (call.real(v) for v in (left, mode, right))
    u, width = call.standard("uniform"), b - a
    rising = elementwise.sqrt(u) * elementwise.sqrt(width * (c - a)) + a
    falling = b - elementwise.sqrt(1.0 - u) * elementwise.sqrt(width * (b - c))
    x = compare.where(compare.less(u * width, c - a), rising, falling)
    ordered = compare.logical_and(compare.less_equal(a, c), compare.less_equal(c, b))
    return call.done(compare.where(ordered, x, constant_like(nan, x)))


def wald(key: Tensor, mean: Any, shape: Shape | None = None, dtype: Any = None) -> Tensor:
    """Wald (inverse Gaussian) samples of shape parameter 1.

    Args:
        key: uint32 (6,).
        mean: a positive number or tensor that broadcasts to ``shape``; derivatives pass through it.
            An infinite mean gives Levy's distribution.
        shape: the shape of the samples; None takes that of ``mean``.
        dtype: floating; the default dtype, or that of ``mean`` where it is a tensor.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Source: Michael, Schucany and Haas, "Generating random variates using transformations with
    multiple roots", The American Statistician 30 (1976); the roots in a form that does not cancel.

    Example:
        >>> import fx
        >>> x = fx.random.wald(fx.random.key(0), 2.0, 10_000)
        >>> bool(abs(x.mean() - 2.0) < 0.1)
        True
    """
    call = _Call("wald", key, shape, dtype, mean)
    rate = 1.0 / call.positive(mean)
    z = call.standard("normal", child(call.key, 0))
    u = call.standard("uniform", child(call.key, 1))
    half = z * z * 0.5
    large = rate + half + elementwise.sqrt(half * (rate * 2.0 + half))  # 1 / the smaller root
    first = u * (large + rate) <= large
    return call.done(compare.where(first, 1.0 / large, large / (rate * rate)))


def chisquare(key: Tensor, df: Any, shape: Shape | None = None, dtype: Any = None) -> Tensor:
    """Chi-squared samples: sums of ``df`` squares of standard normal variables.

    Args:
        key: uint32 (6,).
        df: the degrees of freedom, a positive number or tensor that broadcasts to ``shape``;
            derivatives pass through it.
        shape: the shape of the samples; None takes that of ``df``.
        dtype: floating; the default dtype, or that of ``df`` where it is a tensor.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Example:
        >>> import fx
        >>> x = fx.random.chisquare(fx.random.key(0), 3.0, 10_000)
        >>> bool(abs(x.mean() - 3.0) < 0.1)
        True
    """
    call = _Call("chisquare", key, shape, dtype, df)
    return call.done(gamma(call.key, call.positive(df) * 0.5, call.shape, call.wide) * 2.0)


def t(key: Tensor, df: Any, shape: Shape | None = None, dtype: Any = None) -> Tensor:
    """Student's t samples: normal ones over the root of chi-squared ones over ``df``.

    Args:
        key: uint32 (6,).
        df: the degrees of freedom, a positive number or tensor that broadcasts to ``shape``;
            derivatives pass through it. An infinite one gives NaN: draw from ``normal``.
        shape: the shape of the samples; None takes that of ``df``.
        dtype: floating; the default dtype, or that of ``df`` where it is a tensor.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Example:
        >>> import fx
        >>> fx.random.t(fx.random.key(0), 3.0, (2, 3)).shape
        (2, 3)
    """
    call = _Call("t", key, shape, dtype, df)
    z = call.standard("normal", child(call.key, 0))
    return call.done(z * cast(elementary.exp(_log_share(call, df, 1) * -0.5), call.wide))


def f(key: Tensor, dfnum: Any, dfden: Any, shape: Shape | None = None, dtype: Any = None) -> Tensor:
    """F samples: ratios of two chi-squared variables, each over its degrees of freedom.

    Args:
        key: uint32 (6,).
        dfnum, dfden: the degrees of freedom above and below, positive numbers or tensors that
            broadcast to ``shape``; derivatives pass through them.
        shape: the shape of the samples; None takes that of the parameters.
        dtype: floating; the default dtype, or that of the parameters where they are tensors.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Example:
        >>> import fx
        >>> x = fx.random.f(fx.random.key(0), 5.0, 20.0, 10_000)
        >>> bool(abs(x.mean() - 20 / 18) < 0.03)
        True
    """
    call = _Call("f", key, shape, dtype, dfnum, dfden)
    return call.done(elementary.exp(_log_share(call, dfnum, 0) - _log_share(call, dfden, 1)))


def _log_share(call: _Call, df: Any, i: int) -> Tensor:
    """log(x / df) of a chi-squared x, in float64: both logarithms are large, their difference not.

    It underflows for no ``df``, however small.
    """
    half = call.positive(df, dtype=dtypes.float64) * 0.5
    return loggamma(child(call.key, i), half, call.shape, dtypes.float64) - elementary.log(half)


def generalized_normal(
    key: Tensor, p: Any, shape: Shape | None = None, dtype: Any = None
) -> Tensor:
    """Samples with a density in proportion to exp(-abs(x)^p).

    Args:
        key: uint32 (6,).
        p: a positive number or tensor that broadcasts to ``shape``; derivatives pass through it.
        shape: the shape of the samples; None takes that of ``p``.
        dtype: floating; the default dtype, or that of ``p`` where it is a tensor.

    Raises:
        DTypeError, ShapeError: if ``key`` is no key, or shapes or dtypes do not fit.

    Example:
        >>> import fx
        >>> x = fx.random.generalized_normal(fx.random.key(0), 2.0, 10_000)
        >>> bool(abs((x * x).mean() - 0.5) < 0.02)
        True
    """
    call = _Call("generalized_normal", key, shape, dtype, p)
    power = 1.0 / call.positive(p, dtype=dtypes.float64)
    logs = loggamma(child(call.key, 0), power, call.shape, dtypes.float64) * power
    sign = rademacher(child(call.key, 1), call.shape, call.wide)
    return call.done(cast(elementary.exp(logs), call.wide) * sign)
