"""Matrix products: NumPy's BLAS calls, arranged so that BLAS sees what it is good at.

Batches of small matrices need no kernel of their own: OpenBLAS multiplies them at about 100
GFLOP/s a core. What it does badly is left: outer products, one operand shared by a batch, integers.
"""

import math

import numpy as np

from fx.backends.cpu._arrays import is_narrow, widen
from fx.backends.cpu.blas import SERIAL, product

# Below this many multiplications a matrix, np.matmul's plain integer loop beats np.einsum's set-up.
_EINSUM_FROM = 4096


def matmul(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`numpy.matmul` of x (*B, m, k) and y (*B, k, n), batch dimensions broadcast: (*B, m, n).

    float16 and bfloat16 are computed in float32 and rounded once. Both operands have ndim >= 2.
    The result is C-contiguous. Raises ValueError where the shapes do not fit.
    """
    plain = x.ndim == 2 == y.ndim and x.dtype.kind == "f" and x.itemsize > 2 and x.dtype is y.dtype
    if plain and x.shape[1] == y.shape[0] != 1:
        return np.dot(x, y) if x.size * y.shape[1] <= SERIAL else product(x, y)
    if x.ndim < 2 or y.ndim < 2:
        raise ValueError(f"matmul takes operands of ndim >= 2, got {x.shape} and {y.shape}")
    if x.shape[-1] != y.shape[-2]:
        raise ValueError(f"matmul: {x.shape} @ {y.shape}: {x.shape[-1]} != {y.shape[-2]}")
    if is_narrow(x.dtype) or is_narrow(y.dtype):
        return _product(widen(x), widen(y)).astype(np.result_type(x.dtype, y.dtype))
    return _product(x, y)


def _product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    m, k = x.shape[-2:]
    n = y.shape[-1]
    if k == 1:
        with np.errstate(all="ignore"):
            out = np.multiply(x, y)  # (*B, m, n): 3 to 4 times faster than BLAS
    elif x.dtype.kind in "iu" and y.dtype.kind in "iu" and m * n * k >= _EINSUM_FROM:
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


def _is_one(x: np.ndarray) -> bool:
    """Whether x is one matrix, perhaps with leading dimensions of size 1."""
    return x.ndim == 2 or math.prod(x.shape[:-2]) == 1
