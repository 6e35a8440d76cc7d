"""Products, convolutions and Fourier transforms by the names of ``jax.lax``."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import fx
from fx.errors import ArgumentError, ShapeError
from fx.lax.elements import convert_element_type
from fx.lax.order import padding_pairs
from fx.lax.shapes import pad
from fx.ops.operands import argument
from fx.tensor import Tensor

# ((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs))
DotDimensionNumbers = tuple[
    tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]
]


def dot(lhs: Any, rhs: Any, precision: Any = None, preferred_element_type: Any = None) -> Tensor:
    """The product of vectors and matrices; ``precision`` changes nothing here."""
    return fx.matmul(lhs, rhs, preferred_element_type=preferred_element_type)


def dot_general(
    lhs: Any, rhs: Any, dimension_numbers: Any, precision: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:  # fmt: skip
    """Products summed along axes.

    Args:
        lhs, rhs: tensors.
        dimension_numbers: ((contracted axes of lhs, of rhs), (batch axes of lhs, of rhs)).
        precision: nothing here depends on it.
        preferred_element_type: the dtype to compute in.

    Returns:
        The batch axes, then what is left of lhs, then of rhs.
    """
    x, y = argument("dot_general", lhs), argument("dot_general", rhs)
    if preferred_element_type is not None:
        x, y = (convert_element_type(v, preferred_element_type) for v in (x, y))
    (cx, cy), (bx, by) = [[list(side) for side in pair] for pair in dimension_numbers]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    of_x, of_y = [next(letters) for _ in x.shape], [next(letters) for _ in y.shape]
    for i, j in [*zip(cx, cy, strict=True), *zip(bx, by, strict=True)]:
        of_y[j] = of_x[i]
    out = [of_x[i] for i in bx]
    out += [c for i, c in enumerate(of_x) if i not in (*cx, *bx)]
    out += [c for j, c in enumerate(of_y) if j not in (*cy, *by)]
    return fx.einsum(f"{''.join(of_x)},{''.join(of_y)}->{''.join(out)}", x, y)


def ragged_dot(
    lhs: Any, rhs: Any, group_sizes: Any, precision: Any = None,
    preferred_element_type: Any = None, group_offset: Any = None,
) -> Tensor:  # fmt: skip
    """Groups of rows, each times a matrix of its own, as a mixture of experts computes.

    Each matrix is multiplied by all rows, of which its group's are kept, so sizes may be known only
    when it runs; ``fx.nn.functional.grouped_mm`` cuts the rows where they are known before.

    Args:
        lhs: (m, k).
        rhs: (groups, k, n).
        group_sizes: (groups,), integers: how many rows the groups have, one behind the other.
        precision: nothing here depends on it.
        preferred_element_type: the dtype to compute in.
        group_offset: None.

    Returns:
        (m, n), zeros behind the last group.

    Raises:
        ShapeError: if shapes do not fit.
        ArgumentError: for a ``group_offset``.

    Source: ``jax.lax.ragged_dot``.

    Example:
        >>> import fx, fx.lax
        >>> w = fx.tensor([[[1.0]], [[10.0]]])
        >>> fx.lax.ragged_dot(fx.ones((4, 1)), w, fx.tensor([1, 2])).tolist()
        [[1.0], [10.0], [10.0], [0.0]]
    """
    x, w, sizes = (argument("lax.ragged_dot", v) for v in (lhs, rhs, group_sizes))
    if group_offset is not None:
        raise ArgumentError("lax.ragged_dot takes no group_offset; cut rhs and group_sizes before")
    if (x.ndim, w.ndim) != (2, 3) or x.shape[1] != w.shape[1] or sizes.shape != w.shape[:1]:
        raise ShapeError(
            f"lax.ragged_dot takes (m, k), (groups, k, n) and (groups,), got {x.shape}, {w.shape} "
            f"and {sizes.shape}"
        )
    if preferred_element_type is not None:
        x, w = (convert_element_type(v, preferred_element_type) for v in (x, w))
    ends = fx.cumsum(sizes.astype(fx.int64), 0)
    rows = fx.arange(x.shape[0], dtype=fx.int64, device=x.device)[:, None]
    out = fx.zeros((x.shape[0], w.shape[2]), dtype=fx.result_type(x, w), device=x.device)
    for g in range(w.shape[0]):
        inside = (rows < ends[g]) & (rows >= (ends[g] - sizes[g]))
        out = fx.where(inside, fx.where(inside, x, 0.0).astype(x.dtype) @ w[g], out)
    return out


def layouts(numbers: Any, rank: int) -> tuple[str, str, str]:
    """Letters of lhs, rhs and the result: N, C, spatial digits; O, I."""
    digits = "".join(builtins.map(str, range(rank)))
    default = (f"NC{digits}", f"OI{digits}", f"NC{digits}")
    if numbers is None:
        return default
    left, right, out = numbers
    spatial = [c for c in right if c not in "OI"]
    put = lambda text: "".join(str(spatial.index(c)) if c in spatial else c for c in text)
    return put(left), put(right), put(out)


def conv_general_dilated(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, lhs_dilation: Any = None,
    rhs_dilation: Any = None, dimension_numbers: Any = None, feature_group_count: int = 1,
    batch_group_count: int = 1, precision: Any = None, preferred_element_type: Any = None,
) -> Tensor:  # fmt: skip
    """A convolution of one to three spatial axes.

    Args:
        lhs, rhs: the input and the kernel, of (batch, channels, *S) and (out, in, *K) unless
            ``dimension_numbers`` tells, such as ("NHWC", "HWIO", "NHWC").
        window_strides, lhs_dilation, rhs_dilation: a number for each spatial axis.
        padding: "SAME", "SAME_LOWER", "VALID" or pairs, which may be negative.
        feature_group_count: in how many groups channels come.
        batch_group_count: 1.
        precision: nothing here depends on it.
        preferred_element_type: the dtype to compute in.

    Raises:
        ArgumentError: for groups of the batch.
    """
    x, w = argument("conv_general_dilated", lhs), argument("conv_general_dilated", rhs)
    if batch_group_count != 1:
        raise ArgumentError(
            "lax.conv_general_dilated takes no groups of the batch; cut it and write one a group"
        )
    if preferred_element_type is not None:
        x, w = (convert_element_type(v, preferred_element_type) for v in (x, w))
    rank = x.ndim - 2
    of_x, of_w, of_out = layouts(dimension_numbers, rank)
    digits = "".join(builtins.map(str, range(rank)))
    x = fx.permute_dims(x, tuple(of_x.index(c) for c in f"NC{digits}"))
    w = fx.permute_dims(w, tuple(of_w.index(c) for c in f"OI{digits}"))
    ones = [1] * rank
    base, inner = list(lhs_dilation or ones), list(rhs_dilation or ones)
    sizes = [n + builtins.max(n - 1, 0) * (b - 1) for n, b in zip(x.shape[2:], base, strict=True)]
    wide = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], inner, strict=True)]
    pairs = padding_pairs(padding, sizes, wide, window_strides)
    edges = [(*p, b - 1) for p, b in zip(pairs, base, strict=True)]
    x = pad(x, 0, [(0, 0, 0), (0, 0, 0), *edges])
    function = getattr(fx.nn.functional, f"conv{rank}d")
    out = function(x, w, None, tuple(window_strides), 0, tuple(inner), feature_group_count)
    return fx.permute_dims(out, tuple(f"NC{digits}".index(c) for c in of_out))


def conv_dimension_numbers(lhs_shape: Any, rhs_shape: Any, dimension_numbers: Any) -> Any:
    """The layouts of input, kernel and result as three texts, such as ("NHWC", "HWIO", "NHWC").

    Raises:
        ShapeError: if a layout does not have as many letters as its shape has axes.
    """
    if dimension_numbers is None:
        return layouts(None, len(lhs_shape) - 2)
    numbers = tuple(dimension_numbers)
    for text, shape in zip(numbers, (lhs_shape, rhs_shape, lhs_shape), strict=True):
        if len(text) != len(shape):
            raise ShapeError(f"lax.conv_dimension_numbers: {text!r} is no layout of {shape}")
    return numbers


def conv(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, precision: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:  # fmt: skip
    """``conv_general_dilated`` without dilations."""
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, preferred_element_type=preferred_element_type
    )


def conv_with_general_padding(
    lhs: Any, rhs: Any, window_strides: Sequence[int], padding: Any, lhs_dilation: Any,
    rhs_dilation: Any,
) -> Tensor:  # fmt: skip
    """``conv_general_dilated`` of the usual layouts."""
    return conv_general_dilated(lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation)


def conv_transpose(
    lhs: Any, rhs: Any, strides: Sequence[int], padding: Any, rhs_dilation: Any = None,
    dimension_numbers: Any = None, transpose_kernel: bool = False, precision: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:  # fmt: skip
    """The convolution with the input spread by ``strides``.

    The layouts are (batch, *S, channels) and (*K, in, out) unless ``dimension_numbers`` tells. With
    ``transpose_kernel`` it is the derivative of a convolution by that kernel: its spatial axes are
    reversed, and what goes in comes out.
    """
    x, w = argument("conv_transpose", lhs), argument("conv_transpose", rhs)
    if preferred_element_type is not None:
        x, w = (convert_element_type(v, preferred_element_type) for v in (x, w))
    rank = x.ndim - 2
    digits = "".join(builtins.map(str, range(rank)))
    numbers = dimension_numbers or (f"N{digits}C", f"{digits}IO", f"N{digits}C")
    of_w = layouts(numbers, rank)[1]
    if transpose_kernel:
        w = fx.flip(w, tuple(of_w.index(c) for c in digits))
        w = fx.swapaxes(w, of_w.index("I"), of_w.index("O"))
    inner = list(rhs_dilation or [1] * rank)
    if isinstance(padding, str):
        pairs = []
        for i, (s, d) in enumerate(zip(strides, inner, strict=True)):
            k = (w.shape[of_w.index(str(i))] - 1) * d + 1
            total = k + s - 2
            if padding.upper() == "SAME":
                low = k - 1 if s > k - 1 else -(-total // 2)
            else:
                low, total = k - 1, total + builtins.max(k - s, 0)
            pairs.append((low, total - low))
        padding = pairs
    return conv_general_dilated(x, w, [1] * rank, padding, list(strides), inner, numbers)


def fft(x: Any, fft_type: Any, fft_lengths: Sequence[int]) -> Tensor:
    """The transform FFT, IFFT, RFFT or IRFFT along as many last axes as there are lengths."""
    kind = str(getattr(fft_type, "name", fft_type)).rpartition(".")[2].lower()
    if kind not in ("fft", "ifft", "rfft", "irfft"):
        raise ArgumentError(f"lax.fft: the type is FFT, IFFT, RFFT or IRFFT, got {fft_type!r}")
    axes = tuple(range(-len(fft_lengths), 0))
    return getattr(fx.fft, f"{kind}n")(x, s=tuple(fft_lengths), axes=axes)  # type: ignore[no-any-return]
