"""Normalisation: batch, layer and group norm, and vectors of norm 1."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import fx.prims.elementwise as elementwise
import fx.prims.lengths as lengths
import fx.prims.norms as norms
import fx.prims.shape as shape_prims
from fx.config import modes
from fx.dtypes import float32
from fx.errors import InPlaceError, ShapeError
from fx.levels import Tracer, live
from fx.ops.axes import integers, normal_axis
from fx.ops.operands import argument, cast, floating, of_scalar
from fx.ops.reductions.norms import norm
from fx.prims.creation import constant_like, filled
from fx.quick import quick
from fx.state import Cell, Held, free_value, rebind_all
from fx.tensor import Tensor
from fx.writing.inplace import written


def _widened(function: Any, x: Tensor) -> Tensor:
    """Statistics of float16 and bfloat16 are taken in float32."""
    return cast(function(cast(x, float32)), x._dtype)


def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise each channel over the batch and all positions.

    Args:
        input: (batch, channels, ...).
        running_mean: (channels,); what ``training=False`` subtracts. In training a Buffer, which is
            rebound to ``(1 - momentum) * running_mean + momentum * mean``, or None.
        running_var: (channels,); the same for the variance (unbiased).
        weight: (channels,), the factor after normalising, or None.
        bias: (channels,), added after that, or None.
        training: whether the statistics of ``input`` itself are used.
        momentum: the weight of the new statistics.
        eps: added to the variance.

    Raises:
        ValueError: in training, if there is only one value a channel.
        InPlaceError: in training, if a running statistic is a plain tensor.
        ShapeError: if a channel vector does not have one entry a channel.

    Source: Ioffe and Szegedy, "Batch normalization", 2015.

    Example:
        >>> import fx
        >>> x = fx.tensor([[1.0], [3.0]])
        >>> fx.nn.functional.batch_norm(x, None, None, training=True, eps=0.0)
        tensor([[-1.],
                [ 1.]])
    """
    given = (running_mean, running_var, weight, bias, training, momentum, eps)
    return batch_norm_counting(input, *given)


def batch_norm_counting(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any,
    bias: Any,
    training: bool,
    momentum: Any,
    eps: Any,
    counts: Sequence[tuple[Cell, Tensor]] = (),
    over_all: Any = None,
) -> Tensor:
    """``batch_norm`` that rebinds cells of counts along with the statistics: all at once.

    ``over_all(*sums)`` gives the sums over all who have a part of the batch; None: it is whole.
    """
    x = floating("batch_norm", input)
    shape = x._shape
    if len(shape) < 2:
        raise ShapeError(f"batch_norm takes an input (batch, channels, ...), got shape {shape}")
    channels = shape[1]
    of_channels = (channels,)
    for name, v in (
        ("running_mean", running_mean), ("running_var", running_var), ("weight", weight),
        ("bias", bias),
    ):  # fmt: skip
        if v is None or getattr(v, "_shape", None) == of_channels:
            continue
        if getattr(v, "shape", None) != of_channels:
            raise ShapeError(
                f"batch_norm: {name} must have shape ({channels},), one entry for each channel of "
                f"the input {x.shape}, got {getattr(v, 'shape', v)}"
            )
    if x._dtype.itemsize == 2:
        given = (weight, bias, training, momentum, eps, counts, over_all)
        return _widened(lambda x: batch_norm_counting(x, running_mean, running_var, *given), x)
    line = (channels, *[1] * (len(shape) - 2))  # broadcasts against (batch, channels, ...)
    if training:
        count = shape[0] * prod(shape[2:])
        if modes.stage is not None:
            modes.stage.was_told((count,))  # of which the factor below is no product
        if count == 1 and over_all is None:
            raise ShapeError(
                f"batch_norm: expected more than 1 value per channel when training, got input size "
                f"{x.shape}; give a larger batch, or call model.eval()"
            )
        if count == 0 and over_all is None:
            running_mean = running_var = None  # nothing came that they could follow
        factor: Any = count / max(count - 1, 1)
        if over_all is None and type(eps) is float:
            w = _full(1.0, of_channels, x) if weight is None else argument("batch_norm", weight)
            b = _full(0.0, of_channels, x) if bias is None else argument("batch_norm", bias)
            if _plain(x, w, b) and x._dtype == w._dtype == b._dtype:
                running = (running_mean, running_var)
                return _trained(x, w, b, running, momentum, factor, eps, counts)
        axes = (0, *range(2, x.ndim))
        if over_all is None:
            mean, centred, variance = norms.centred_and_variance(x, axes)
        else:
            total, mean, centred, variance = norms.centred_and_variance(x, axes, over_all)
            factor = total / elementwise.maximum(total - 1, constant_like(1, total))
        rebind_all(
            [
                *_followed("running_mean", running_mean, mean, momentum),
                *_followed("running_var", running_var, variance, momentum, factor),
                *counts,
            ]
        )
    elif running_mean is None or running_var is None:
        raise ValueError("batch_norm: with training=False it takes running_mean and running_var")
    else:
        if type(eps) is float and ((weight is not None and bias is not None) or _plain(x)):
            w = _full(1.0, of_channels, x) if weight is None else argument("batch_norm", weight)
            b = _full(0.0, of_channels, x) if bias is None else argument("batch_norm", bias)
            mean = argument("batch_norm", running_mean)
            variance = argument("batch_norm", running_var)
            if x._dtype == w._dtype == b._dtype == mean._dtype == variance._dtype:
                return norms.normalised(x, w, b, mean, variance, eps)  # type: ignore[no-any-return]
        centred = x - shape_prims.reshaped(running_mean, line)
        variance = shape_prims.reshaped(running_var, line)
    scale = elementwise.rsqrt(variance + eps)
    if weight is not None:
        scale = scale * shape_prims.reshaped(weight, line)
    out = centred * scale
    return out if bias is None else out + shape_prims.reshaped(bias, line)


def _trained(
    x: Tensor, w: Tensor, b: Tensor, running: tuple[Any, Any], momentum: Any, factor: float,
    eps: float, counts: Sequence[tuple[Cell, Tensor]],
) -> Tensor:  # fmt: skip
    """Normalise in training what no transform but reverse mode looks on."""
    mean, variance = running
    if type(momentum) is float:
        if mean is None is variance:
            held_mean = held_variance = _full(0.0, w._shape, x)
        else:
            held_mean = mean.read() if isinstance(mean, Held) else mean
            held_variance = variance.read() if isinstance(variance, Held) else variance
        found = norms.batch_norm_step(
            x, w, b, held_mean, held_variance, eps=eps, keep=1 - momentum, share=momentum,
            wide=momentum * factor,
        )  # fmt: skip
        if found is not None:
            out, new_mean, new_variance = found
            pairs = _renewed("running_mean", mean, new_mean)
            pairs += _renewed("running_var", variance, new_variance)
            pairs += counts
            if pairs:
                rebind_all(pairs)
            return out  # type: ignore[no-any-return]
    mean, variance = norms.moments(free_value(x))
    rebind_all(
        [
            *_followed("running_mean", running[0], mean, momentum),
            *_followed("running_var", running[1], variance, momentum, factor),
            *counts,
        ]
    )
    return norms.batch_norm(x, w, b, mean, variance, eps=eps)  # type: ignore[no-any-return]


def _plain(*tensors: Tensor) -> bool:
    """Whether no transform but reverse mode looks on."""
    if live and modes.stage is not None:
        return False
    for x in tensors:  # noqa: SIM110 # a few, of which a loop is quicker
        if type(x) is not Tensor and not _fuses(x):
            return False
    return True


def _fuses(x: Tensor) -> bool:
    return isinstance(x, Tracer) and x.fuses


def _followed(
    name: str, cell: Any, value: Tensor, momentum: Any, factor: Any = 1.0
) -> list[tuple[Cell, Tensor]]:
    """What a running statistic is rebound to: it follows the new one."""
    if cell is None:
        return []
    if not isinstance(cell, Tensor):
        raise _refused(name)
    held, new = cell.read() if isinstance(cell, Held) else cell, free_value(value)
    if new._shape != held._shape:
        new = shape_prims.reshaped(new, held._shape)
    now = norms.followed(free_value(held), new, 1 - momentum, momentum * factor)
    return _renewed(name, cell, cast(now, held._dtype))


def _renewed(name: str, cell: Any, now: Tensor) -> list[tuple[Cell, Tensor]]:
    """A cell and what it is rebound to; a tensor of who writes has the new value at once."""
    if cell is None:
        return []
    if isinstance(cell, Cell):
        return [(cell, now)]
    if written(cell, "batch_norm", now) is not cell:
        raise _refused(name)
    return []


def _refused(name: str) -> InPlaceError:
    return InPlaceError(
        f"batch_norm: in training {name} is given a new value, and a tensor cannot change; "
        f"pass fx.nn.Buffer({name}), or None to leave it"
    )


def layer_norm(
    input: Any,
    normalized_shape: Sequence[int] | int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise over the last axes.

    Args:
        input: (..., *normalized_shape).
        normalized_shape: the sizes of the axes to normalise over.
        weight: of ``normalized_shape``, the factor after normalising, or None.
        bias: of ``normalized_shape``, added after that, or None.
        eps: added to the variance.

    Raises:
        ShapeError: if the input does not end in ``normalized_shape``.

    Source: Ba et al., "Layer normalization", 2016.

    Example:
        >>> import fx
        >>> fx.nn.functional.layer_norm(fx.tensor([[1.0, 3.0]]), (2,), eps=0.0)
        tensor([[-1.,  1.]])
    """
    x = floating("layer_norm", input)
    sizes = integers("layer_norm", "normalized_shape", normalized_shape)
    first = x.ndim - len(sizes)
    if not sizes or first < 0 or x._shape[first:] != sizes:
        raise ShapeError(
            f"layer_norm: an input of shape {x.shape} does not end in normalized_shape {sizes}"
        )
    for name, v in (("weight", weight), ("bias", bias)):
        if v is not None and getattr(v, "shape", None) != sizes:
            raise ShapeError(
                f"layer_norm: {name} must have normalized_shape {sizes}, got "
                f"{getattr(v, 'shape', v)}"
            )
    if x._dtype.itemsize == 2:
        return _widened(lambda x: layer_norm(x, sizes, weight, bias, eps), x)
    if type(eps) is float and ((weight is not None and bias is not None) or _plain(x)):
        w = _full(1.0, sizes, x) if weight is None else argument("layer_norm", weight)
        b = _full(0.0, sizes, x) if bias is None else argument("layer_norm", bias)
        if x._dtype == w._dtype == b._dtype:
            return _layer_norm(x, w, b, eps)  # type: ignore[no-any-return]
    out, _ = norms.standardised(x, tuple(range(first, x.ndim)), eps)
    if weight is not None:
        out = out * weight
    return out if bias is None else out + bias


_layer_norm = quick(norms.layer_norm, "eps", tensors=3)


def _full(value: float, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """What stands for a weight or bias that is not there, for the kernel's sake."""
    return _kept(value, shape, like._dtype, like.device.name)


@lru_cache(64)
def _kept(value: float, shape: tuple[int, ...], dtype: Any, device: str) -> Tensor:
    return filled(shape, value, dtype, device)  # type: ignore[no-any-return]


def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Tensor:
    """Normalise each sample over groups of channels and all positions.

    Args:
        input: (batch, channels, ...).
        num_groups: how many groups the channels are cut into.
        weight: (channels,), the factor after normalising, or None.
        bias: (channels,), added after that, or None.
        eps: added to the variance.

    Raises:
        ShapeError: if the channels cannot be cut evenly.

    Source: Wu and He, "Group normalization", 2018.

    Example:
        >>> import fx
        >>> x = fx.tensor([[1.0, 3.0, 5.0, 5.0]])
        >>> fx.nn.functional.group_norm(x, 2)
        tensor([[-1.0000,  1.0000,  0.0000,  0.0000]])
    """
    x = floating("group_norm", input)
    shape = x._shape
    if len(shape) < 2 or num_groups < 1 or shape[1] % num_groups:
        raise ShapeError(
            f"group_norm: an input of shape {shape}, (batch, channels, ...), cannot be cut into "
            f"{num_groups} groups of channels"
        )
    if prod(shape) == num_groups:
        raise ShapeError(
            f"group_norm: expected more than 1 value per channel when training, got input size "
            f"{shape}, one value a group"
        )
    if x._dtype.itemsize == 2:
        return _widened(lambda x: group_norm(x, num_groups, weight, bias, eps), x)
    channels, positions = shape[1] // num_groups, prod(shape[2:])
    if weight is not None and bias is not None and x._dtype == weight.dtype == bias.dtype:
        parts = shape_prims.reshaped(x, (shape[0], num_groups, channels, positions))
        vectors = [shape_prims.reshaped(v, (num_groups, channels)) for v in (weight, bias)]
        return shape_prims.reshaped(norms.group_norm(parts, *vectors, eps=eps), shape)
    grouped = shape_prims.reshaped(x, (shape[0], num_groups, channels * positions))
    out = shape_prims.reshaped(lengths.standard(grouped, axes=(2,), eps=eps), shape)
    line = (shape[1], *[1] * (len(shape) - 2))
    if weight is not None:
        out = out * shape_prims.reshaped(weight, line)
    return out if bias is None else out + shape_prims.reshaped(bias, line)


def normalize(input: Any, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Divide by the p-norm along an axis, or by ``eps`` where the norm is smaller.

    Example:
        >>> import fx
        >>> fx.nn.functional.normalize(fx.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """
    x = floating("normalize", input)
    if not x._shape:
        return of_scalar(normalize, x, p, dim, eps)  # type: ignore[no-any-return]
    axis = normal_axis("normalize", dim, x._shape)
    if p == 2 and x._dtype.itemsize > 2:
        return lengths.unit(x, axes=(axis,), eps=eps)  # type: ignore[no-any-return]
    length = norm(x, p, axis, keepdims=True)
    return x / elementwise.maximum(length, constant_like(eps, length))
