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
from fx.ops.pointwise import activations, composed
from fx.ops.pointwise.elementwise import sigmoid as sigmoid
from fx.ops.pointwise.elementwise import tanh as tanh
from fx.ops.reductions import reduction
from fx.prims.creation import constant_like, iota
from fx.tensor import Tensor

relu, relu6 = activations.relu, activation.relu6
silu = swish = activations.silu
log_sigmoid, leaky_relu, elu = activation.logsigmoid, activation.leaky_relu, activation.elu
celu, selu, mish = rectifiers.celu, rectifiers.selu, rectifiers.mish
hard_sigmoid, hard_tanh = rectifiers.hardsigmoid, activation.hardtanh
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
    return composed.logaddexp(floating("softplus", x), 0.0)


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
    return activation.hardtanh((floating("sparse_sigmoid", x) + 1.0) * 0.5, 0.0, 1.0)


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


def _held(name: str, x: Tensor, where: Any) -> tuple[Tensor, Tensor]:
    """``where`` as a mask, and -inf in the places that it leaves out."""
    mask = argument(name, where)
    if mask.dtype != dtypes.bool_:
        raise DTypeError(f"{name}: where must be bool, got {mask.dtype.name}; write m != 0")
    return mask, compare.where(mask, x, constant_like(float("-inf"), x))


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
    mask, held = _held("softmax", x, where)
    out = softmax(held, axis)
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
        x = _held("log_softmax", x, where)[1]
    if isinstance(axis, int):
        return activations.log_softmax(x, axis)
    return x - reduction.logsumexp(x, axis, keepdims=True)


def logsumexp(
    a: Any,
    axis: Axes = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """``log(sum(b * exp(a)))`` along axes, without overflow.

    Args:
        a: any shape.
        axis: an axis, several or all (None).
        b: weights that broadcast to ``a``.
        keepdims: keep the reduced axes, with size 1.
        return_sign: also give the sign of the sum, and the logarithm of its magnitude.
        where: bool, broadcast to ``a``: other elements are left out.

    Example:
        >>> import fx
        >>> fx.nn.logsumexp(fx.tensor([0.0, 0.0]), b=fx.tensor([1.0, -3.0]), return_sign=True)
        (tensor(0.6931), tensor(-1.))
    """
    from fx.special import logsumexp as weighted

    x = floating("logsumexp", a)
    if where is not None:
        x = _held("logsumexp", x, where)[1]
    return weighted(x, axis=axis, b=b, keepdims=keepdims, return_sign=return_sign)


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
    mask, _ = _held("logmeanexp", x, where)
    whole = shape_prims.stretched(mask, x.shape) if mask.shape != x.shape else mask
    count = reduction.sum(cast(whole, x.dtype), axis, keepdims=keepdims)
    return total - elementwise.log(count)


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
    if where is None:
        mean = reduction.mean(x, axis, keepdims=True) if mean is None else mean
        if variance is None:
            variance = reduction.mean((x - mean) ** 2, axis, keepdims=True)
    else:
        mask = cast(_held("standardize", x, where)[0], x.dtype)
        if mask.shape != x.shape:
            mask = shape_prims.stretched(mask, x.shape)
        count = reduction.sum(mask, axis, keepdims=True)
        if mean is None:
            mean = reduction.sum(x * mask, axis, keepdims=True) / count
        if variance is None:
            variance = reduction.sum((x - mean) ** 2 * mask, axis, keepdims=True) / count
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
