"""The functions of ``jax.nn`` as ``fx.nn.relu`` and so on, with JAX's arguments and defaults.

Those of ``fx.nn.functional`` have PyTorch's. Where both have a name, the numbers agree but for
``gelu``, which is JAX's approximation here unless told, and ``one_hot``, which gives floats here.
"""

from __future__ import annotations

from math import log, prod
from typing import Any

import fx.prims.compare as compare
import fx.prims.elementwise as elementwise
import fx.prims.shape as shape_prims
from fx import dtypes
from fx.config import default_dtype
from fx.errors import DTypeError
from fx.nn.dot_product import dot_product_attention as dot_product_attention
from fx.nn.functional import activation, rectifiers
from fx.ops.axes import normal_axis, reduced_axes
from fx.ops.operands import argument, cast, floating
from fx.ops.pointwise import activations
from fx.ops.pointwise.elementwise import sigmoid as sigmoid
from fx.ops.pointwise.elementwise import tanh as tanh
from fx.ops.reductions import reduction, statistics
from fx.ops.reductions.masked import mask_of
from fx.prims.creation import constant_like, iota
from fx.special.sums import held
from fx.special.sums import logsumexp as logsumexp
from fx.tensor import Tensor

relu, relu6 = activations.relu, activation.relu6
silu = swish = activations.silu
log_sigmoid, elu = activation.logsigmoid, activation.elu
celu, selu, mish = rectifiers.celu, rectifiers.selu, rectifiers.mish
hard_sigmoid = rectifiers.hardsigmoid
hard_silu = hard_swish = rectifiers.hardswish
soft_sign = rectifiers.softsign
Axes = int | tuple[int, ...] | None
NAMES = frozenset(
    [
        "celu",
        "dot_product_attention",
        "elu",
        "gelu",
        "glu",
        "hard_sigmoid",
        "hard_silu",
        "hard_swish",
        "hard_tanh",
        "identity",
        "leaky_relu",
        "log1mexp",
        "log_sigmoid",
        "log_softmax",
        "logmeanexp",
        "logsumexp",
        "mish",
        "one_hot",
        "relu",
        "relu6",
        "selu",
        "sigmoid",
        "silu",
        "soft_sign",
        "softmax",
        "softplus",
        "sparse_plus",
        "sparse_sigmoid",
        "squareplus",
        "standardize",
        "swish",
        "tanh",
    ]
)


def identity(x: Any) -> Tensor:
    """Its argument as a tensor."""
    return argument("identity", x)


def softplus(x: Any) -> Tensor:
    """``log(1 + exp(x))`` without overflow.

    Example:
        >>> import fx
        >>> fx.nn.softplus(fx.tensor([-100.0, 0.0, 100.0]))
        tensor([3.7835e-44, 6.9315e-01, 1.0000e+02])
    """
    x = floating("softplus", x)
    return elementwise.logaddexp(x, constant_like(0.0, x))


def gelu(x: Any, approximate: bool = True) -> Tensor:
    """``x`` times the normal distribution function of ``x``.

    Args:
        x: floating, any shape.
        approximate: by a hyperbolic tangent, as JAX does unless told. ``fx.gelu`` is exact.

    Example:
        >>> import fx
        >>> fx.nn.gelu(fx.tensor(1.0)) == fx.gelu(fx.tensor(1.0), "tanh")
        tensor(True)
    """
    return activations.gelu(x, "tanh" if approximate else "none")


def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Tensor:
    """``x`` where it is not negative, ``negative_slope * x`` elsewhere; the slope at 0 is 1.

    Example:
        >>> import fx
        >>> fx.nn.leaky_relu(fx.tensor([-1.0, 2.0]), 0.5)
        tensor([-0.5000,  2.0000])
    """
    x = floating("leaky_relu", x)
    return compare.where(
        compare.greater_equal(x, constant_like(0.0, x)), x, cast(x * negative_slope, x.dtype)
    )


def hard_tanh(x: Any) -> Tensor:
    """``x`` held between -1 and 1, where the slope is 1 at both ends.

    Example:
        >>> import fx
        >>> fx.nn.hard_tanh(fx.tensor([-3.0, 0.5]))
        tensor([-1.0000,  0.5000])
    """
    x = floating("hard_tanh", x)
    low, high = constant_like(-1.0, x), constant_like(1.0, x)
    inside = compare.where(compare.less(x, low), low, x)
    return compare.where(compare.greater(x, high), high, inside)


def glu(x: Any, axis: int = -1) -> Tensor:
    """The first half along an axis times the sigmoid of the second."""
    return rectifiers.glu(x, axis)


def sparse_plus(x: Any) -> Tensor:
    """0 below -1, ``x`` above 1, and a quarter of ``(x + 1) ** 2`` between them.

    Example:
        >>> import fx
        >>> fx.nn.sparse_plus(fx.tensor([-2.0, 0.0, 2.0]))
        tensor([0.0000, 0.2500, 2.0000])
    """
    x = floating("sparse_plus", x)
    middle = (x + 1.0) ** 2 / 4
    return compare.where(
        compare.less_equal(x, constant_like(-1.0, x)),
        constant_like(0.0, x),
        compare.where(compare.greater_equal(x, constant_like(1.0, x)), x, middle),
    )


def sparse_sigmoid(x: Any) -> Tensor:
    """The derivative of ``sparse_plus``: 0 below -1, 1 above 1, a line between them."""
    x = floating("sparse_sigmoid", x) + 1.0
    low = elementwise.maximum(x, constant_like(0.0, x))
    return elementwise.minimum(low, constant_like(2.0, x)) * 0.5


def squareplus(x: Any, b: Any = 4) -> Tensor:
    """``(x + sqrt(x ** 2 + b)) / 2``, a smooth ``relu`` without exponentials.

    Example:
        >>> import fx
        >>> fx.nn.squareplus(fx.tensor([0.0, 3.0]), 16.0)
        tensor([2., 4.])
    """
    x = floating("squareplus", x)
    return (x + elementwise.sqrt(x * x + b)) / 2


def log1mexp(x: Any) -> Tensor:
    """``log(1 - exp(-x))`` for ``x`` above 0, exact for small and for large ones.

    Source: Maechler, "Accurately computing log(1 - exp(-abs(a)))" (2012).

    Example:
        >>> import fx
        >>> fx.nn.log1mexp(fx.tensor([1e-10, 50.0]))
        tensor([-2.3026e+01, -1.9287e-22])
    """
    x = floating("log1mexp", x)
    small = compare.less(x, constant_like(log(2), x))
    one = constant_like(1.0, x)
    inside, outside = compare.where(small, x, one), compare.where(small, one, x)
    return compare.where(
        small,
        elementwise.log(elementwise.negative(elementwise.expm1(elementwise.negative(inside)))),
        elementwise.log1p(elementwise.negative(elementwise.exp(elementwise.negative(outside)))),
    )


# along axes -------------------------------------------------------------------------------------


def softmax(x: Any, axis: Axes = -1, where: Any = None) -> Tensor:
    """``exp(x)`` divided by its sum along axes.

    Args:
        x: floating, any shape.
        axis: an axis, several or all (None).
        where: bool, broadcast to ``x``: other elements count as -inf.

    Example:
        >>> import fx
        >>> fx.nn.softmax(fx.tensor([0.0, 0.0, 9.0]), where=fx.tensor([True, True, False]))
        tensor([0.5000, 0.5000, 0.0000])
    """
    x = floating("softmax", x)
    if isinstance(axis, int) and where is None:
        return activations.softmax(x, axis)
    if where is None:
        return elementwise.exp(log_softmax(x, axis))
    mask, masked = held("softmax", x, where)
    out = softmax(masked, axis)
    return compare.where(mask, out, constant_like(0.0, out))


def log_softmax(x: Any, axis: Axes = -1, where: Any = None) -> Tensor:
    """The logarithm of ``softmax``; arguments as there.

    Example:
        >>> import fx
        >>> fx.nn.log_softmax(fx.zeros(2, 2), axis=(0, 1))
        tensor([[-1.3863, -1.3863],
                [-1.3863, -1.3863]])
    """
    x = floating("log_softmax", x)
    if where is not None:
        x = held("log_softmax", x, where)[1]
    if isinstance(axis, int):
        return activations.log_softmax(x, axis)
    return x - reduction.logsumexp(x, axis, keepdims=True)


def logmeanexp(x: Any, axis: Axes = None, where: Any = None, keepdims: bool = False) -> Tensor:
    """``log(mean(exp(x)))`` along axes, without overflow; arguments as in ``logsumexp``.

    Example:
        >>> import fx
        >>> fx.nn.logmeanexp(fx.tensor([1000.0, 1000.0]))
        tensor(1000.)
    """
    x = floating("logmeanexp", x)
    total: Tensor = logsumexp(x, axis, keepdims=keepdims, where=where)
    axes = reduced_axes("logmeanexp", axis, x.shape)
    if where is None:
        return total - log(prod([x.shape[i] for i in axes]))
    counted = cast(mask_of("logmeanexp", x, where), x.dtype)
    return total - elementwise.log(reduction.sum(counted, axis, keepdims=keepdims))


def standardize(
    x: Any,
    axis: Axes = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: Any = 1e-5,
    where: Any = None,
) -> Tensor:
    """``(x - mean) / sqrt(variance + epsilon)``, by the mean and variance along axes.

    Args:
        x: floating, any shape.
        axis: an axis, several or all (None).
        mean, variance: instead of those of ``x``, with axes of size 1.
        epsilon: added to the variance.
        where: bool, of the shape of ``x``: what counts for the mean and the variance.

    Example:
        >>> import fx
        >>> fx.nn.standardize(fx.tensor([1.0, 3.0]))
        tensor([-1.0000,  1.0000])
    """
    x = floating("standardize", x)
    if mean is None:
        mean = statistics.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        variance = statistics.mean((x - mean) ** 2, axis, keepdims=True, where=where)
    return (x - mean) / elementwise.sqrt(argument("standardize", variance) + epsilon)


def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Tensor:
    """A new axis that is 1 at the number that ``x`` holds, and 0 elsewhere.

    Args:
        x: integers, any shape; one outside [0, num_classes) gives zeros.
        num_classes: the size of the new axis.
        dtype: the default dtype unless told.
        axis: where the new axis stands.

    Example:
        >>> import fx
        >>> fx.nn.one_hot(fx.tensor([0, 2, -1]), 3)
        tensor([[1., 0., 0.],
                [0., 0., 1.],
                [0., 0., 0.]])
    """
    x = argument("one_hot", x)
    if x.dtype not in dtypes.INTEGRAL:
        raise DTypeError(f"one_hot takes integers, got {x.dtype.name}; write x.astype(fx.int64)")
    place = normal_axis("one_hot", axis, (*x.shape, num_classes))
    wide = cast(x, dtypes.int64)
    wide = shape_prims.reshaped(wide, (*x.shape[:place], 1, *x.shape[place:]))
    shape = tuple(num_classes if i == place else 1 for i in range(x.ndim + 1))
    numbers = iota(
        shape=shape, axis=place, start=0, step=1, dtype=dtypes.int64, device=x.device.name
    )
    return cast(compare.equal(wide, numbers), default_dtype() if dtype is None else dtype)
