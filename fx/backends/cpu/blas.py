"""BLAS products on as many threads as pay, with bits that do not depend on them.

OpenBLAS puts every product of more than 64x64x64 on all cores, and its threads wait for one
another spinning: when another process holds a core, a product of 0.3 ms takes 15 ms, a time slice
of the scheduler. And its results differ in the last bits with the number of its threads. So here
BLAS itself runs on one thread, and a large product is cut into blocks of rows, columns or matrices,
by its sizes alone, which ``threads.py`` spreads over the cores.

The number of threads is NumPy's own setting and is put back when the last product of fx that runs
has ended: a user's NumPy code, and a limit that a user has set, are not touched.

ctypes rather than threadpoolctl: the calls are on the way of every layer, at 0.2 us each.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu.threads import run_chunks


class _OneThread:
    """BLAS on one thread while a block of this runs, in any thread of the process."""

    def __init__(self, get: Callable[[], int], put: Callable[[int], Any]) -> None:
        self._get, self._put = get, put
        self._lock = threading.Lock()
        self._running = 0
        self.threads = 1  # what the user's setting is

    def __enter__(self) -> _OneThread:
        with self._lock:
            self._running += 1
            if self._running == 1:
                self.threads = self._get()
                if self.threads > 1:
                    self._put(1)
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._running -= 1
            if self._running == 0 and self.threads > 1:
                self._put(self.threads)


def _setting() -> _OneThread:
    """The setting of NumPy's OpenBLAS; one thread for ever if NumPy stands on something else."""
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
            return _OneThread(get, put)
    return _OneThread(lambda: 1, lambda n: None)


_one_thread: _OneThread | None = None


def _after_fork() -> None:
    """The lock of the parent's may be held by a thread that a forked child does not have."""
    global _one_thread
    _one_thread = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def product(x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """``np.matmul(x, y, out)`` of floating x (*B, m, k) and y (*B, k, n), ndim >= 2."""
    if x.size * y.shape[-1] > limits.BLAS_SERIAL:
        return _product(x, y, out)
    if out is None and x.ndim == 2 == y.ndim:
        return np.dot(x, y)  # the same BLAS call as np.matmul, with less around it
    return np.matmul(x, y) if out is None else np.matmul(x, y, out=out)


def _product(x: np.ndarray, y: np.ndarray, out: np.ndarray | None) -> np.ndarray:
    global _one_thread
    if _one_thread is None:
        _one_thread = _setting()
    (m, k), n = x.shape[-2:], y.shape[-1]
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2]) if x.ndim > 2 or y.ndim > 2 else ()
    if lead and prod(lead) == 1:
        if out is None:
            out = np.empty((*lead, m, n), x.dtype)
        first = (0,) * len(lead)
        _product(x.reshape(m, k), y.reshape(k, n), out[first])
        return out
    blocks = min(prod(lead) * m * k * n // limits.BLAS_BLOCK, limits.BLAS_BLOCKS)
    with _one_thread as setting:
        if blocks > 1:
            cut = _cut(x, y, lead, blocks)
            if cut is not None:
                if out is None:
                    out = np.empty((*lead, m, n), x.dtype)
                _in_blocks(x, y, out, *cut, setting.threads)
                return out
        if out is None and not lead:
            return np.dot(x, y)
        return np.matmul(x, y) if out is None else np.matmul(x, y, out=out)


def _cut(
    x: np.ndarray, y: np.ndarray, lead: tuple[int, ...], blocks: int
) -> tuple[int, list[int]] | None:
    """The axis of the result that is cut, and where; None if none is long enough."""
    m, n = x.shape[-2], y.shape[-1]
    if lead and lead[0] > 1:
        axis, size, step = 0, lead[0], 1
    elif not lead and max(m, n) >= 2 * limits.BLAS_STEP:
        axis, size, step = (0, m, limits.BLAS_STEP) if m >= n else (1, n, limits.BLAS_STEP)
    else:
        return None
    blocks = min(blocks, size // step)
    places = [size * i // blocks // step * step for i in range(blocks)]
    return axis, [*places, size]


def _in_blocks(
    x: np.ndarray, y: np.ndarray, out: np.ndarray, axis: int, places: list[int], threads: int
) -> None:
    lead = out.ndim > 2
    cut_x = axis == 0 and (not lead or (x.ndim == out.ndim and x.shape[0] == out.shape[0]))
    cut_y = axis == 1 or (lead and y.ndim == out.ndim and y.shape[0] == out.shape[0])

    def block(i: int) -> None:
        part = slice(places[i], places[i + 1])
        left = x[part] if cut_x else x
        right = (y[:, part] if axis == 1 else y[part]) if cut_y else y
        np.matmul(left, right, out=out[:, part] if axis == 1 else out[part])

    run_chunks(block, len(places) - 1, threads)
