"""Kernels of fused primitives: compiled ones from a few hundred elements, NumPy's below.

The sizes and the dtype decide which, and whether there is a compiler. None says that there is no
kernel for these arguments.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fx.backends.cpu.llvm import library

_COMPILED_FROM = 256  # elements
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_INT64 = np.dtype(np.int64)
_BLOCK = 2048  # elements of a task of an elementwise kernel, as in ``library/maps.py``
_BLOCKS = 32  # of rows, at most, that have sums of their own
_ROWS_OF_BLOCK = 8


def compiled(x: np.ndarray) -> bool:
    """Whether an array is for the compiled kernels."""
    return x.size >= _COMPILED_FROM and x.dtype in _FLOATS and library.available()


def dense(x: np.ndarray) -> np.ndarray:
    """The array, C-contiguous and aligned."""
    flags = x.flags
    return x if flags.c_contiguous and flags.aligned else x.copy("C")


def chunk_of(tasks: int, each: float) -> int:
    """How many tasks of so many nanoseconds a thread takes at once; 0: all, and with the GIL."""
    total = tasks * each
    if total < 10_000:
        return 0
    return tasks if total < 80_000 else max(1, int(30_000 / each))


def along_rows(name: str, arrays: tuple[np.ndarray, ...], each: float) -> np.ndarray:
    """A kernel that takes each row of arrays of one shape to a row of the result."""
    x = arrays[0]
    n = x.shape[-1]
    out = library.empty([x, *x.shape])
    rows = x.size // n
    library.kernel("rows", name, x.dtype.char)(
        [rows, chunk_of(rows, each * n * x.itemsize / 4), *map(dense, arrays), out, n]
    )
    return out


def elementwise(name: str, arrays: tuple[np.ndarray, ...], each: float) -> np.ndarray:
    """A kernel that takes elements of arrays of one shape to elements of the result."""
    x = arrays[0]
    out = library.empty([x, *x.shape])
    n = x.size
    tasks = -(-n // _BLOCK)
    library.kernel("maps", name, x.dtype.char)(
        [
            tasks,
            chunk_of(tasks, each * min(n, _BLOCK) * x.itemsize / 4),
            *map(dense, arrays),
            out,
            n,
        ]
    )
    return out


# activations ------------------------------------------------------------------------------------


def map_of(name: str, each: float) -> Callable[..., np.ndarray | None]:
    """The kernel of an elementwise function: ``each`` is nanoseconds a float32."""

    def kernel(*arrays: np.ndarray) -> np.ndarray | None:
        x = arrays[0]
        if not compiled(x) or arrays[-1].dtype is not x.dtype or arrays[-1].shape != x.shape:
            return None
        return elementwise(name, arrays, each)

    return kernel


gelu, gelu_grad = map_of("gelu", 0.4), map_of("gelu_grad", 0.7)
gelu_tanh, gelu_tanh_grad = map_of("gelu_tanh", 0.4), map_of("gelu_tanh_grad", 0.5)
silu, silu_grad = map_of("silu", 0.3), map_of("silu_grad", 0.4)


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
    if x.dtype not in _FLOATS or y.dtype is not _INT64 or not x.size:
        return None
    used = y != ignore_index
    if compiled(x):
        rows, n = x.shape
        losses, wrong = np.empty(rows, x.dtype), np.zeros(1, np.int64)
        chunk = chunk_of(rows, 0.5 * n * x.itemsize / 4)
        library.kernel("rows", "cross_entropy", x.dtype.char)(
            [rows, chunk, dense(x), dense(y), losses, wrong, n, ignore_index]
        )
        if wrong[0]:
            raise IndexError("a class outside of the logits")
    else:
        losses = np.zeros(x.shape[0], x.dtype)
        with np.errstate(all="ignore"):
            rest = x - x.max(1, keepdims=True)
            places = np.flatnonzero(used)
            targets = y[places]
            if targets.size and (targets.min() < 0 or targets.max() >= x.shape[1]):
                raise IndexError("a class outside of the logits")
            losses[places] = np.log(np.exp(rest).sum(1))[places] - rest[places, targets]
    if reduction == "none":
        return losses
    total = losses.sum()
    if reduction == "mean":
        with np.errstate(all="ignore"):
            total = total / x.dtype.type(np.count_nonzero(used))
    return np.asarray(total)


def cross_entropy_grad(
    ct: np.ndarray, x: np.ndarray, y: np.ndarray, *, ignore_index: int, reduction: str
) -> np.ndarray | None:
    """The cotangent of the logits."""
    if x.dtype not in _FLOATS or ct.dtype is not x.dtype or y.dtype is not _INT64 or not x.size:
        return None
    if reduction == "mean":
        with np.errstate(all="ignore"):
            ct = np.asarray(ct / x.dtype.type(np.count_nonzero(y != ignore_index)))
    if compiled(x):
        rows, n = x.shape
        out = library.empty([x, rows, n])
        chunk = chunk_of(rows, 0.7 * n * x.itemsize / 4)
        library.kernel("rows", "cross_entropy_grad", x.dtype.char)(
            [rows, chunk, dense(ct), dense(x), dense(y), out, n, ignore_index, ct.ndim]
        )
        return out
    used = y != ignore_index
    with np.errstate(all="ignore"):
        factor = np.where(used, ct, x.dtype.type(0))
        out = np.exp(x - x.max(1, keepdims=True))
        out /= out.sum(1, keepdims=True)
        out *= factor[:, None]
    places = np.flatnonzero(used)
    out[places, y[places]] -= factor[places]
    return out


# layer norm -------------------------------------------------------------------------------------


def _normalised(x: np.ndarray, eps: float) -> tuple[np.ndarray, np.ndarray]:
    """x (rows, n) with mean 0 and variance 1, and what it was multiplied with."""
    n = x.dtype.type(x.shape[1])
    out = x - np.add.reduce(x, 1, None, None, True) / n
    variance = np.add.reduce(out * out, 1, None, None, True) / n
    scale = 1 / np.sqrt(variance + x.dtype.type(eps))
    out *= scale
    return out, scale


def _takes(x: np.ndarray, *others: np.ndarray) -> bool:
    return x.dtype in _FLOATS and x.size > 0 and all(a.dtype is x.dtype for a in others)


def layer_norm(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, *, eps: float
) -> np.ndarray | None:
    """x (..., *sizes) over the axes of weight and bias (*sizes)."""
    if not _takes(x, weight, bias):
        return None
    n = weight.size
    rows = x.size // n
    if compiled(x):
        out = library.empty([x, *x.shape])
        chunk = chunk_of(rows, 0.2 * n * x.itemsize / 4)
        library.kernel("rows", "layer_norm", x.dtype.char)(
            [rows, chunk, dense(x), dense(weight), dense(bias), out, n, eps]
        )
        return out
    with np.errstate(all="ignore"):
        out, _ = _normalised(x.reshape(rows, n), eps)
        out = out.reshape(x.shape)
        out *= weight
        out += bias
    return out


def layer_norm_grad(
    ct: np.ndarray, x: np.ndarray, weight: np.ndarray, *, eps: float
) -> tuple[np.ndarray, ...] | None:
    """The cotangents of x, weight and bias."""
    if not _takes(x, weight, ct):
        return None
    n = weight.size
    rows = x.size // n
    if compiled(x):
        out = library.empty([x, *x.shape])
        block = max(_ROWS_OF_BLOCK, -(-rows // _BLOCKS))
        tasks = -(-rows // block)
        sums = library.empty([x, tasks, 2, n])
        chunk = chunk_of(tasks, 0.5 * block * n * x.itemsize / 4)
        library.kernel("rows", "layer_norm_grad", x.dtype.char)(
            [tasks, chunk, dense(ct), dense(x), dense(weight), out, sums, n, eps, rows, block]
        )
        found = sums[0] if tasks == 1 else np.add.reduce(sums, 0)
        return out, found[0].reshape(weight.shape), found[1].reshape(weight.shape)
    with np.errstate(all="ignore"):
        y, scale = _normalised(x.reshape(rows, n), eps)
        flat = ct.reshape(rows, n)
        for_weight, for_bias = np.add.reduce(flat * y, 0), np.add.reduce(flat, 0)
        g = flat * weight.reshape(n)
        count = x.dtype.type(n)
        out = g - np.add.reduce(g, 1, None, None, True) / count
        out -= y * (np.add.reduce(g * y, 1, None, None, True) / count)
        out *= scale
    return out.reshape(x.shape), for_weight.reshape(weight.shape), for_bias.reshape(weight.shape)
