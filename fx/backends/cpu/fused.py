"""Kernels of fused primitives: compiled ones.

None says that there is no kernel for these arguments. The sizes and the dtype decide, and whether
there is a compiler, but no earlier call.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu import sums
from fx.backends.cpu.formulas import dense
from fx.backends.cpu.llvm import library

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_INT64 = np.dtype(np.int64)


def compiled(x: np.ndarray) -> bool:
    """Whether an array is for the compiled kernels."""
    return x.size >= limits.FUSED_FROM and x.dtype in _FLOATS and library.available()


def along_rows(name: str, arrays: tuple[np.ndarray, ...], each: float) -> np.ndarray:
    """A kernel that takes each row of arrays of one shape to a row of the result."""
    x = arrays[0]
    n = x.shape[-1]
    out = library.empty([x, *x.shape])
    rows = x.size // n
    library.kernel("rows", name, x.dtype.char)(
        [rows, library.chunk_of(rows, each * n * x.itemsize / 4), *map(dense, arrays), out, n]
    )
    return out


# softmax ----------------------------------------------------------------------------------------


def _on_last(x: np.ndarray, axis: int) -> bool:
    return axis == x.ndim - 1 and compiled(x) and x.shape[-1] > 0


def softmax(x: np.ndarray, axis: int, log: bool = False) -> np.ndarray | None:
    """Softmax or its logarithm."""
    if not _on_last(x, axis):
        return None
    return along_rows("log_softmax" if log else "softmax", (x,), 0.5)


def softmax_grad(ct: np.ndarray, y: np.ndarray, *, axis: int) -> np.ndarray | None:
    """The cotangent of softmax's argument, from that of its result y."""
    if not _on_last(y, axis) or ct.shape != y.shape or ct.dtype is not y.dtype:
        return None
    return along_rows("softmax_grad", (ct, y), 0.2)


def log_softmax_grad(ct: np.ndarray, y: np.ndarray, *, axis: int) -> np.ndarray | None:
    """The same for its logarithm."""
    if not _on_last(y, axis) or ct.shape != y.shape or ct.dtype is not y.dtype:
        return None
    return along_rows("log_softmax_grad", (ct, y), 0.4)


# cross-entropy ----------------------------------------------------------------------------------


def cross_entropy(
    x: np.ndarray, y: np.ndarray, *, ignore_index: int, reduction: str
) -> np.ndarray | None:
    """The loss of logits x (rows, classes) at the classes y int64 (rows,).

    Raises:
        IndexError: for a class that there is not.
    """
    if not compiled(x) or y.dtype is not _INT64:
        return None
    rows, n = x.shape
    losses, wrong = np.empty(rows, x.dtype), np.zeros(1, np.int64)
    library.kernel("rows", "cross_entropy", x.dtype.char)(
        [rows, library.chunk_of(rows, 0.12 * n * x.itemsize), dense(x), dense(y), losses, wrong, n,
         ignore_index]
    )  # fmt: skip
    if wrong.item():
        raise IndexError("a class outside of the logits")
    if reduction == "none":
        return losses
    total = np.asarray(sums.total(losses, (0,)))
    if reduction == "mean":
        np.divide(total, _count(y, ignore_index), total)
    return total


def _count(y: np.ndarray, ignore_index: int) -> float:
    """How many targets count; 0 of them divide without a warning."""
    if y.size <= _FEW:
        ignored = y.tolist().count(ignore_index)
    else:
        ignored = int(np.count_nonzero(y == ignore_index))
    return float(y.size - ignored) or math.nan


_FEW = 64  # targets that are counted faster as Python's numbers


def cross_entropy_grad(
    ct: np.ndarray, x: np.ndarray, y: np.ndarray, *, ignore_index: int, reduction: str
) -> np.ndarray | None:
    """The cotangent of the logits."""
    if not compiled(x) or ct.dtype is not x.dtype or y.dtype is not _INT64:
        return None
    if reduction == "mean":
        ct = np.asarray(ct / x.dtype.type(_count(y, ignore_index)))
    rows, n = x.shape
    out = library.empty([x, rows, n])
    library.kernel("rows", "cross_entropy_grad", x.dtype.char)(
        [rows, library.chunk_of(rows, 0.18 * n * x.itemsize), dense(ct), dense(x), dense(y), out, n,
         ignore_index, ct.ndim]
    )  # fmt: skip
    return out


# variance ---------------------------------------------------------------------------------------


def variance(
    x: np.ndarray, *, axes: tuple[int, ...], freedom: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """The sum of the squares about the mean over ``freedom``, and the mean; their axes are kept."""
    if not compiled(x) or not axes or freedom <= 0:
        return None
    count = math.prod([x.shape[a] for a in axes])
    with np.errstate(all="ignore"):
        mean = sums.total(x, axes, True) / x.dtype.type(count)
        gap = np.subtract(x, mean)
        left = sums.total(gap, axes, True)
        spread = sums.total(np.multiply(gap, gap, out=gap), axes, True)
        spread -= np.minimum(left * left / x.dtype.type(count), spread)
        spread /= x.dtype.type(freedom)
    return spread, mean


# layer norm -------------------------------------------------------------------------------------


def layer_norm(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, *, eps: float
) -> np.ndarray | None:
    """x (..., *sizes) over the axes of weight and bias (*sizes)."""
    dtype = x.dtype
    if not compiled(x) or weight.dtype is not dtype or bias.dtype is not dtype:
        return None
    n = weight.size
    rows = x.size // n
    out = library.empty([x, *x.shape])
    library.kernel("rows", "layer_norm", dtype.char)(
        [rows, library.chunk_of(rows, 0.05 * n * x.itemsize), dense(x), dense(weight), dense(bias),
         out, n, eps]
    )  # fmt: skip
    return out


def layer_norm_grad(
    ct: np.ndarray, x: np.ndarray, weight: np.ndarray, *, eps: float
) -> tuple[np.ndarray, ...] | None:
    """The cotangents of x, weight and bias."""
    dtype = x.dtype
    if not compiled(x) or weight.dtype is not dtype or ct.dtype is not dtype:
        return None
    n = weight.size
    rows = x.size // n
    out = library.empty([x, *x.shape])
    block = max(limits.FUSED_ROWS, -(-rows // limits.FUSED_BLOCKS))
    block = min(block, limits.FUSED_MOST_ROWS)
    tasks = -(-rows // block)
    parts = library.empty([x, tasks, 2, n])
    library.kernel("rows", "layer_norm_grad", dtype.char)(
        [tasks, library.chunk_of(tasks, 0.12 * block * n * x.itemsize), dense(ct), dense(x),
         dense(weight), out, parts, n, eps, rows, block]
    )  # fmt: skip
    found = parts[0] if tasks == 1 else sums.total(parts, (0,))
    return out, found[0].reshape(weight.shape), found[1].reshape(weight.shape)


# batch norm -------------------------------------------------------------------------------------


def _lines(x: np.ndarray) -> tuple[np.ndarray, tuple[int, int, int]]:
    """x (batch, channels, ...) dense, and its shape as (batch, channels, positions).

    Where there is one position, the batch stands in its place, so that there are lines to go along.
    """
    batch, channels = x.shape[:2]
    if x.size == batch * channels:
        return np.ascontiguousarray(x.reshape(batch, channels).T), (1, channels, batch)
    return dense(x), (batch, channels, x.size // (batch * channels))


def _over_channels(name: str, arrays: list[Any], shape: tuple[int, int, int], each: float) -> None:
    batch, channels, n = shape
    cost = each * batch * n * arrays[0].itemsize
    words = [channels, library.chunk_of(channels, cost), *arrays, *shape]
    library.kernel("channels", name, arrays[0].dtype.char)(words)


def _back(out: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A result in the order of ``_lines`` as an array of that shape."""
    return np.ascontiguousarray(out.T).reshape(shape) if out.ndim == 2 else out


def _same(x: np.ndarray, *others: np.ndarray) -> bool:
    return compiled(x) and all(a.dtype is x.dtype for a in others)


def moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Mean and biased variance of each channel of x (batch, channels, ...)."""
    if not compiled(x):
        return None
    lines, shape = _lines(x)
    mean, variance = np.empty(shape[1], x.dtype), np.empty(shape[1], x.dtype)
    _over_channels("moments", [lines, mean, variance], shape, 0.06)
    return mean, variance


def batch_norm(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, mean: np.ndarray, variance: np.ndarray,
    *, eps: float,
) -> np.ndarray | None:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias, channel by channel."""
    if not _same(x, weight, bias, mean, variance):
        return None
    lines, shape = _lines(x)
    out = library.empty([x, *lines.shape])
    vectors = map(dense, (weight, bias, mean, variance))
    _over_channels("batch_norm", [lines, *vectors, out, eps], shape, 0.05)
    return _back(out, x.shape)


normalised = batch_norm


def batch_norm_grad(
    ct: np.ndarray, x: np.ndarray, weight: np.ndarray, mean: np.ndarray, variance: np.ndarray,
    *, eps: float,
) -> tuple[np.ndarray, ...] | None:  # fmt: skip
    """The cotangents of x, weight and bias, where mean and variance are those of x."""
    if not _same(x, ct, weight, mean, variance):
        return None
    (lines, shape), (given, _) = _lines(x), _lines(ct)
    out = library.empty([x, *lines.shape])
    for_weight, for_bias = np.empty(shape[1], x.dtype), np.empty(shape[1], x.dtype)
    vectors = map(dense, (weight, mean, variance))
    arrays = [given, lines, *vectors, out, for_weight, for_bias, eps]
    _over_channels("batch_norm_grad", arrays, shape, 0.12)
    return _back(out, x.shape), for_weight, for_bias
