"""What a convolution's kernel sees at each place, by the names of ``jax.lax``."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from math import prod
from typing import Any

import fx
from fx.errors import ShapeError
from fx.lax.order import padding_pairs
from fx.lax.products import layouts
from fx.lax.shapes import pad
from fx.ops.operands import argument
from fx.tensor import Tensor


def _patches(
    name: str, lhs: Any, filter_shape: Sequence[int], window_strides: Sequence[int], padding: Any,
    lhs_dilation: Any, rhs_dilation: Any, of_x: str,
) -> Tensor:  # fmt: skip
    """(N, C * elements of a window, *places), the channel changing slowest."""
    x = argument(f"lax.{name}", lhs)
    rank = x.ndim - 2
    if len(filter_shape) != rank or len(window_strides) != rank:
        raise ShapeError(
            f"lax.{name}: filter_shape and window_strides have a number for each of the {rank} "
            f"spatial axes of {x.shape}, got {tuple(filter_shape)} and {tuple(window_strides)}"
        )
    digits = "".join(builtins.map(str, range(rank)))
    x = fx.permute_dims(x, tuple(of_x.index(c) for c in f"NC{digits}"))
    ones = [1] * rank
    base, inner = list(lhs_dilation or ones), list(rhs_dilation or ones)
    sizes = [n + builtins.max(n - 1, 0) * (b - 1) for n, b in zip(x.shape[2:], base, strict=True)]
    wide = [(k - 1) * d + 1 for k, d in zip(filter_shape, inner, strict=True)]
    pairs = padding_pairs(padding, sizes, wide, window_strides)
    edges = [(*p, b - 1) for p, b in zip(pairs, base, strict=True)]
    x = pad(x, 0, [(0, 0, 0), (0, 0, 0), *edges])
    for axis, (size, step, dilation) in enumerate(zip(wide, window_strides, inner, strict=True)):
        x = fx.unfold(x, axis + 2, size, step)[..., ::dilation]
    order = (0, 1, *range(rank + 2, 2 * rank + 2), *range(2, rank + 2))
    x = fx.permute_dims(x, order)  # (N, C, *window, *places)
    return fx.reshape(x, (x.shape[0], x.shape[1] * prod(filter_shape), *x.shape[rank + 2 :]))


def conv_general_dilated_patches(
    lhs: Any, filter_shape: Sequence[int], window_strides: Sequence[int], padding: Any,
    lhs_dilation: Any = None, rhs_dilation: Any = None, dimension_numbers: Any = None,
    precision: Any = None, preferred_element_type: Any = None,
) -> Tensor:  # fmt: skip
    """The elements that a convolution's kernel sees at each place, as channels.

    Args:
        lhs: (batch, channels, *S) unless ``dimension_numbers`` tells.
        filter_shape: the kernel's, a number for each spatial axis.
        window_strides, padding, lhs_dilation, rhs_dilation: those of ``conv_general_dilated``.
        dimension_numbers: the layouts of input, kernel and result; the kernel's does not matter.
        precision: nothing here depends on it.
        preferred_element_type: the dtype of the result.

    Returns:
        (batch, channels * elements of the kernel, *places), the channel changing slowest.

    Raises:
        ShapeError: if shapes do not fit.

    Source: ``jax.lax.conv_general_dilated_patches``.

    Example:
        >>> import fx, fx.lax
        >>> x = fx.arange(4.0).reshape(1, 1, 4)
        >>> fx.lax.conv_general_dilated_patches(x, (2,), (1,), "VALID").tolist()
        [[[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]]
    """
    rank = len(filter_shape)
    of_x, _, of_out = layouts(dimension_numbers, rank)
    found = _patches(
        "conv_general_dilated_patches", lhs, filter_shape, window_strides, padding, lhs_dilation,
        rhs_dilation, of_x,
    )  # fmt: skip
    if preferred_element_type is not None:
        found = found.astype(fx.dtypes.as_dtype(preferred_element_type))
    digits = "".join(builtins.map(str, range(rank)))
    return fx.permute_dims(found, tuple(f"NC{digits}".index(c) for c in of_out))


def conv_general_dilated_local(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, filter_shape: Sequence[int],
    lhs_dilation: Any = None, rhs_dilation: Any = None, dimension_numbers: Any = None,
    precision: Any = None,
) -> Tensor:  # fmt: skip
    """A convolution with a kernel of its own at each place.

    Args:
        lhs: (batch, channels, *S) unless ``dimension_numbers`` tells.
        rhs: (out, channels * elements of the kernel, *places) unless ``dimension_numbers`` tells,
            the channel changing slowest.
        window_strides, padding, lhs_dilation, rhs_dilation: those of ``conv_general_dilated``.
        filter_shape: the kernel's, a number for each spatial axis.
        dimension_numbers: the layouts of input, kernel and result.
        precision: nothing here depends on it.

    Returns:
        (batch, out, *places) unless ``dimension_numbers`` tells.

    Raises:
        ShapeError: if shapes do not fit.

    Source: ``jax.lax.conv_general_dilated_local``.

    Example:
        >>> import fx, fx.lax
        >>> x, w = fx.ones((1, 1, 3)), fx.arange(4.0).reshape(1, 2, 2)
        >>> fx.lax.conv_general_dilated_local(x, w, (1,), "VALID", (2,)).tolist()
        [[[2.0, 4.0]]]
    """
    rank = len(filter_shape)
    of_x, of_w, of_out = layouts(dimension_numbers, rank)
    seen = _patches(
        "conv_general_dilated_local", lhs, filter_shape, window_strides, padding, lhs_dilation,
        rhs_dilation, of_x,
    )  # fmt: skip
    digits = "".join(builtins.map(str, range(rank)))
    w = argument("lax.conv_general_dilated_local", rhs)
    if w.ndim == rank + 2:
        w = fx.permute_dims(w, tuple(of_w.index(c) for c in f"OI{digits}"))
    if w.shape[1:] != seen.shape[1:]:
        sides = ", ".join(map(str, seen.shape[1:]))
        raise ShapeError(
            f"lax.conv_general_dilated_local: the kernels are (out, {sides}), got {w.shape}"
        )
    out = fx.einsum("nk...,ok...->no...", seen, w)
    return fx.permute_dims(out, tuple(f"NC{digits}".index(c) for c in of_out))
