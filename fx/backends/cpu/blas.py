"""BLAS products on as many threads as pay.

OpenBLAS puts every product of more than 64x64x64 on all cores, and its threads wait for one another
spinning. That gains little below a millisecond; when another process holds a core, a product of
0.3 ms takes 15 ms, a time slice of the scheduler. So medium products run on one thread here, and
only large ones on all. The choice depends on the sizes alone, because the bits of a result depend
on the number of threads. The setting is NumPy's own and is put back after each call: a user's NumPy
code, and a limit that a user has set, are not touched.

ctypes rather than threadpoolctl: the three calls are on the way of every layer, at 0.2 us each.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

SERIAL = 9216  # multiply-adds up to which OpenBLAS itself takes one thread, for vectors too
_PAYS = 1 << 26  # from here (about 1 ms on one core) all threads are worth their meeting

_Setting = tuple[Callable[[], int], Callable[[int], Any]]


def _setting() -> _Setting | None:
    """The functions that read and set the number of threads of NumPy's OpenBLAS, if it is that."""
    library = ctypes.CDLL(np._core._multiarray_umath.__file__)
    for prefix in ("scipy_openblas", "openblas"):
        for suffix in ("64_", ""):
            try:
                get = getattr(library, f"{prefix}_get_num_threads{suffix}")
                put = getattr(library, f"{prefix}_set_num_threads{suffix}")
            except AttributeError:
                continue
            get.restype, get.argtypes = ctypes.c_int, ()
            put.restype, put.argtypes = None, (ctypes.c_int,)
            return get, put
    return None


_found: tuple[_Setting | None] | None = None


def product(x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """``np.matmul(x, y, out)`` of x (*B, m, k) and y (*B, k, n), ndim >= 2."""
    flat = out is None and x.ndim == 2 == y.ndim
    run: Any = np.dot if flat else np.matmul  # the same BLAS call, with less around it
    if x.size * y.shape[-1] > SERIAL:
        return _product(run, x, y, out)
    return run(x, y) if out is None else run(x, y, out=out)


def _product(run: Any, x: np.ndarray, y: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    global _found
    arguments = {} if out is None else {"out": out}
    m, k = x.shape[-2:]
    if m * k * y.shape[-1] >= _PAYS:
        return run(x, y, **arguments)
    if _found is None:
        _found = (_setting(),)
    if _found[0] is None:
        return run(x, y, **arguments)
    get, put = _found[0]
    threads = get()
    if threads <= 1:
        return run(x, y, **arguments)
    put(1)
    try:
        return run(x, y, **arguments)
    finally:  # another thread that read 1 in between puts nothing back, so this one always does
        put(threads)
