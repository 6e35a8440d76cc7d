"""Matrix products: compiled kernels for large ones, NumPy's BLAS for small and thin ones.

The compiled kernels take any sizes and strides and share the work among native threads. What BLAS
is given is arranged so that it sees what it is good at: it does outer products, one operand shared
by a batch, and integers badly.
"""

import math
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu import blas
from fx.backends.cpu._arrays import HALVES, widen
from fx.backends.cpu.formulas import dense
from fx.backends.cpu.many import of_many


def matmul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`numpy.matmul` of x (*B, m, k) and y (*B, k, n), batch dimensions broadcast: (*B, m, n).

    float16 and bfloat16 are computed in float32 and rounded once. Both operands have ndim >= 2.
    The result is C-contiguous. Raises ValueError where the shapes do not fit.
    """
    dtype = x.dtype
    if dtype is y.dtype and dtype.char in "fd":
        a, b = x.shape, y.shape
        if len(a) == 2 == len(b) and a[1] == b[0] != 1:
            small = blas.ready and x.size * b[1] <= limits.BLAS_SERIAL
            return np.dot(x, y) if small else product(x, y)
        if len(a) == 3 == len(b) and a[0] == b[0] and a[2] == b[1] > 1 < b[2]:
            work = x.size * b[2]
            if work >= min(limits.BLAS_SERIAL, limits.EAGER_GEMM_FROM) or not blas.ready:
                return product(x, y)
            return np.matmul(x, y) if b[1] < limits.EAGER_GEMM_LONG else product(x, y)
    if x.ndim < 2 or y.ndim < 2:
        raise ValueError(f"matmul takes operands of ndim >= 2, got {x.shape} and {y.shape}")
    if x.shape[-1] != y.shape[-2]:
        raise ValueError(f"matmul: {x.shape} @ {y.shape}: {x.shape[-1]} != {y.shape[-2]}")
    if x.dtype in HALVES or y.dtype in HALVES:
        out = _of_halves(x, y)
        if out is not None:
            return out
        return _product(widen(x), widen(y)).astype(np.result_type(x.dtype, y.dtype))
    return _product(x, y)


def _of_halves(x: np.ndarray, y: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray | None:
    """The product of 16-bit numbers by the tiles of the CPU, if it has them."""
    global _multiply_halves
    if x.dtype is not y.dtype or not x.size or not y.size:
        return None
    if _multiply_halves is None:
        from fx.backends.cpu.llvm.any_size.products import multiply_halves as _multiply_halves
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2]) if x.ndim > 2 or y.ndim > 2 else ()
    return _multiply_halves(x, y, lead, bias)


_multiply_halves: Any = None


def product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The product of floating x (*B, m, k) and y (*B, k, n), ndim >= 2."""
    work = x.size * y.shape[-1]
    long = x.shape[-1] >= limits.EAGER_GEMM_LONG
    wider = y.ndim > 2 and x.shape[:-2] != y.shape[:-2]  # it is more work than that
    if work >= limits.EAGER_GEMM_FROM or wider or long:
        out = _compiled(x, y)
        if out is not None:
            return out
    return blas.product(x, y)


def mv(x: np.ndarray, y: np.ndarray) -> np.ndarray | None:
    """x (m, k) @ y (k,): (m,); None where their dtypes differ."""
    if x.dtype is not y.dtype:
        return None
    if x.dtype.char in "fd" and len(y) > 1 and x.size <= limits.BLAS_SERIAL and blas.ready:
        return np.dot(x, y)
    return matmul(x, y.reshape(-1, 1)).reshape(-1)


def linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None = None) -> Any:
    """x (..., k) @ weight (n, k) transposed + bias (n,); None if a reference is to do it."""
    dtype = x.dtype
    if x.ndim < 2 or weight.ndim != 2 or x.shape[-1] != weight.shape[1]:
        return None
    if weight.dtype is not dtype or (bias is not None and bias.dtype is not dtype):
        return None
    n, k = weight.shape
    if k < 2 or not x.size or (bias is not None and bias.shape != (n,)):
        return None
    flat = x if x.ndim == 2 else x.reshape(-1, k)
    out = None
    work = flat.size * n
    if dtype.char not in "fd":
        if dtype not in HALVES:
            return None
        out = _of_halves(flat, weight.T, None if bias is None else dense(bias))
        if out is None:  # no tiles: rounded once, after the bias
            wide = linear(widen(flat), widen(weight), None if bias is None else widen(bias))
            out = wide.astype(dtype)
        return out if x.ndim == 2 else out.reshape(*x.shape[:-1], n)
    if work >= limits.EAGER_GEMM_FROM:  # the weight has to be turned
        out = _compiled(flat, weight.T, None if bias is None else dense(bias))
    if out is None:
        small = blas.ready and work <= limits.BLAS_SERIAL
        out = np.dot(flat, weight.T) if small else blas.product(flat, weight.T)
        if bias is not None:
            out += bias
    return out if x.ndim == 2 else out.reshape(*x.shape[:-1], n)


def _compiled(x: np.ndarray, y: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray | None:
    """The product by compiled kernels, if its sizes and dtype are theirs."""
    (m, k), n = x.shape[-2:], y.shape[-1]
    if m < 2 or n < 4 or x.dtype.char not in "fd" or x.dtype is not y.dtype:
        return None
    long = k >= limits.EAGER_GEMM_LONG
    if m < limits.EAGER_GEMM_ROWS and not long:
        return None
    lead = x.shape[:-2] if x.ndim >= y.ndim else y.shape[:-2]
    if x.ndim > 2 < y.ndim and x.shape[:-2] != y.shape[:-2]:
        lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    least = limits.EAGER_GEMM_FROM
    if long:  # a factor that has to be turned pays later; BLAS is exact there
        dense = y.strides[-1] == y.itemsize
        least = 0 if dense else least if m >= limits.EAGER_GEMM_ROWS else 4 * least
    if math.prod(lead) * m * k * n < least:
        return None
    from fx.backends.cpu.llvm.any_size.products import multiply

    return multiply(x, y, lead, bias)


def _product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    m, k = x.shape[-2:]
    n = y.shape[-1]
    if k == 1:
        with np.errstate(all="ignore"):
            out = _outer(x, y)  # (*B, m, n): 3 to 4 times faster than BLAS
    elif x.dtype.kind in "iu" and y.dtype.kind in "iu" and m * n * k >= limits.EINSUM_FROM:
        out = np.einsum("...ik,...kj->...ij", x, y)
    elif x.ndim > 2 and x.ndim >= y.ndim and _is_one(y) and x.flags.c_contiguous:
        # One right operand shared by the batch: all rows in one product.
        rows = x.reshape(math.prod(x.shape[:-1]), k)  # (B*m, k)
        out = product(rows, y.reshape(k, n)).reshape(*x.shape[:-1], n)
    elif n == 1 and y.ndim > 2 and y.ndim >= x.ndim and _is_one(x) and y.flags.c_contiguous:
        # One matrix and a batch of vectors, as vmap of a matrix-vector product gives.
        vectors = y.reshape(math.prod(y.shape[:-2]), k)  # (B, k)
        out = product(vectors, x.reshape(m, k).T).reshape(*y.shape[:-2], m, 1)
    else:
        out = product(x, y)
    return out if out.flags.c_contiguous else np.ascontiguousarray(out)


_outer = of_many("multiply", np.multiply)


def _is_one(x: np.ndarray) -> bool:
    """Whether x is one matrix, perhaps with leading dimensions of size 1."""
    return x.ndim == 2 or math.prod(x.shape[:-2]) == 1
