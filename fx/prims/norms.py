"""Variances, layer and batch normalisation, fused."""

from __future__ import annotations

from numpy import ndarray

import fx.prims.elementwise as elementwise
from fx.config import modes
from fx.prims.compare import stop_gradient
from fx.prims.creation import constant_like
from fx.prims.fused import along, fuse
from fx.prims.reduction import sum
from fx.prims.shape import reshape
from fx.quick import quick
from fx.tape import attach
from fx.tensor import Tensor, new_tensor


def _count(shape):
    n = 1
    for side in shape:
        n *= side
    return n


def centred_and_variance(x, axes, over_all=None):
    """The mean over ``axes``, x less the mean, and its biased variance; the axes are kept.

    Where others have parts of the same batch, ``over_all(sums)`` gives the sums over all of them,
    and what comes first is how many elements they have together.

    A mean is rounded: where it is 10^6 and the deviation is 1, squares about it would be wrong by
    10^-3. The sum of the gaps is what the rounding left, a number without a derivative.
    """
    add = over_all or (lambda *sums: sums)
    count = _count([x.shape[i] for i in axes])
    total = sum(x, axes=axes, keepdims=True)
    if over_all is not None:
        total, count = add(total, constant_like(count, total))
    mean = total / count
    gap = x - mean
    square, left = add(
        sum(elementwise.square(gap), axes=axes, keepdims=True),
        sum(gap, axes=axes, keepdims=True),
    )
    square, left = square / count, stop_gradient(left / count)
    mean = mean + left
    excess = elementwise.minimum(elementwise.square(left), square)
    found = mean, x - mean, square - stop_gradient(excess)
    return found if over_all is None else (count, *found)


def standardised(x, axes, eps):
    """x with mean 0 and variance 1 over ``axes``, and what it was multiplied with for that."""
    _, centred, variance = centred_and_variance(x, axes)
    scale = elementwise.rsqrt(variance + eps)
    return centred * scale, scale


# variance ---------------------------------------------------------------------------------------


def _variance(x, *, axes, keepdims, freedom):
    count = _count([x.shape[i] for i in axes])
    gap = x - sum(x, axes=axes, keepdims=True) / count
    gap = gap - stop_gradient(sum(gap, axes=axes, keepdims=True) / count)
    return sum(elementwise.square(gap), axes=axes, keepdims=keepdims) / freedom


variance = along("variance", _variance, "x>r", ["freedom"], torch_name="Var")


# layer norm -------------------------------------------------------------------------------------


def _last_axes(x, like):
    return tuple(range(x.ndim - like.ndim, x.ndim))


def _layer_norm(x, weight, bias, *, eps):
    return standardised(x, _last_axes(x, weight), eps)[0] * weight + bias


def _layer_norm_grad(ct, x, weight, *, eps):
    axes = _last_axes(x, weight)
    lead = tuple(range(x.ndim - weight.ndim))
    count = _count(weight.shape)
    y, scale = standardised(x, axes, eps)  # (..., *sizes)
    g = ct * weight
    mean = lambda a: sum(a, axes=axes, keepdims=True) / count
    dx = (g - mean(g) - y * mean(g * y)) * scale
    return dx, sum(ct * y, axes=lead, keepdims=False), sum(ct, axes=lead, keepdims=False)


layer_norm_grad = fuse("layer_norm_grad", reference=_layer_norm_grad, multiple=True)
layer_norm = fuse(  # x (..., *sizes), weight and bias (*sizes)
    "layer_norm", reference=_layer_norm, torch_name="NativeLayerNorm",
    vjp=lambda needs, x, weight, bias, *, eps: lambda ct: layer_norm_grad(ct, x, weight, eps=eps),
)  # fmt: skip


# group norm: x (batch, groups, channels, positions), weight and bias (groups, channels) -----------


def _group_norm(x, weight, bias, *, eps):
    line = (1, *weight.shape, 1)
    y = standardised(x, (2, 3), eps)[0]
    return y * reshape(weight, shape=line) + reshape(bias, shape=line)


def _group_norm_grad(ct, x, weight, *, eps):
    count = _count(x.shape[2:])
    y, scale = standardised(x, (2, 3), eps)
    g = ct * reshape(weight, shape=(1, *weight.shape, 1))
    mean = lambda a: sum(a, axes=(2, 3), keepdims=True) / count
    dx = (g - mean(g) - y * mean(g * y)) * scale
    return dx, *[sum(a, axes=(0, 3), keepdims=False) for a in (ct * y, ct)]


group_norm_grad = fuse("group_norm_grad", reference=_group_norm_grad, multiple=True)
group_norm = fuse(
    "group_norm", reference=_group_norm, torch_name="NativeGroupNorm",
    vjp=lambda needs, x, weight, bias, *, eps: lambda ct: group_norm_grad(ct, x, weight, eps=eps),
)  # fmt: skip


# batch norm: x (batch, channels, ...), the others (channels,) -------------------------------------


def _over(x):
    """The axes that statistics are taken over, and the shape of a vector along the channels."""
    return (0, *range(2, x.ndim)), (x.shape[1], *[1] * (x.ndim - 2))


def _moments(x):
    mean, _, variance = centred_and_variance(x, _over(x)[0])
    return reshape(mean, shape=x.shape[1:2]), reshape(variance, shape=x.shape[1:2])


def _batch_norm(x, weight, bias, mean, variance, *, eps):
    axes, line = _over(x)
    y, _ = standardised(x, axes, eps)
    return y * reshape(weight, shape=line) + reshape(bias, shape=line)


def _batch_norm_grad(ct, x, weight, mean, variance, *, eps):
    axes, line = _over(x)
    return _from_standard(ct, *standardised(x, axes, eps), weight, axes, line)


def _given_grad(ct, x, weight, mean, variance, *, eps):
    """The same where no derivative will go through mean and variance."""
    axes, line = _over(x)
    scale = elementwise.rsqrt(reshape(variance, shape=line) + eps)
    return _from_standard(ct, (x - reshape(mean, shape=line)) * scale, scale, weight, axes, line)


def _from_standard(ct, y, scale, weight, axes, line):
    count = _count([ct.shape[i] for i in axes])
    for_bias, for_weight = (sum(a, axes=axes, keepdims=True) for a in (ct, ct * y))
    dx = (ct - for_bias / count - y * (for_weight / count)) * scale * reshape(weight, shape=line)
    vector = weight.shape
    return dx, reshape(for_weight, shape=vector), reshape(for_bias, shape=vector)


def _batch_norm_vjp(needs, x, weight, bias, mean, variance, *, eps):
    return lambda ct: (*batch_norm_grad(ct, x, weight, mean, variance, eps=eps), None, None)


def _normalised(x, weight, bias, mean, variance, *, eps):
    _, line = _over(x)
    mean, variance, weight, bias = (reshape(v, shape=line) for v in (mean, variance, weight, bias))
    return (x - mean) * (elementwise.rsqrt(variance + eps) * weight) + bias


def _followed(held, new, *, keep, share):
    """A running statistic after a batch of which it takes a share."""
    return held * keep + new * share


def _followed_arrays(held, new, *, keep, share):
    dtype = held.dtype
    if type(keep) is not float or type(share) is not float or dtype is not new.dtype:
        return None
    if dtype.kind != "f":
        return None
    found = held * keep
    found += new * share
    return found


def _batch_norm_step(x, weight, bias, held_mean, held_variance, *, eps, keep, share, wide):
    """The normalised batch, its moments, and the running statistics after it."""
    mean, variance = _moments(x)
    followed = held_mean * keep + mean * share, held_variance * keep + variance * wide
    return _normalised(x, weight, bias, mean, variance, eps=eps), mean, variance, *followed


moments = fuse("moments", reference=_moments, multiple=True)
followed = quick(
    fuse("followed", cpu=_followed_arrays, reference=_followed), "keep", "share", tensors=2
)
batch_norm_grad = fuse(
    "batch_norm_grad", reference=_batch_norm_grad, formula=_given_grad, multiple=True
)
batch_norm = fuse(  # mean and variance are the moments of x, and no derivative goes through them
    "batch_norm", reference=_batch_norm, formula=_normalised, vjp=_batch_norm_vjp,
    torch_name="NativeBatchNorm",
)  # fmt: skip


_by_statistics = fuse("normalised", reference=_normalised, torch_name="NativeBatchNorm")
normalised = quick(  # by statistics that are given
    _by_statistics, "eps", tensors=5
)
_step = fuse("batch_norm_step", reference=_batch_norm_step, multiple=True)


def batch_norm_step(x, weight, bias, held_mean, held_variance, *, eps, keep, share, wide):
    """A step of training by one kernel: the normalised batch and the new running statistics.

    None where one of all is no plain tensor of x's dtype, or there is no kernel.
    """
    if not (type(x) is type(weight) is type(bias) is Tensor):
        return None
    if not (type(held_mean) is type(held_variance) is Tensor):
        return None
    arrays = x._a, weight._a, bias._a, held_mean._a, held_variance._a
    for array in arrays:
        if type(array) is not ndarray:
            return None
    found = _step.cpu(*arrays, eps=eps, keep=keep, share=share, wide=wide)
    if found is None:
        return None
    out = new_tensor(found[0])
    needs = x._node, weight._node, bias._node, None, None
    if modes.record0 and (needs[0] is not None or needs[1] is not None or needs[2] is not None):
        moments = new_tensor(found[1]), new_tensor(found[2])
        vjp = _batch_norm_vjp(needs, x, weight, bias, *moments, eps=eps)
        attach(batch_norm, vjp, needs, out)
    return out, new_tensor(found[3]), new_tensor(found[4])
