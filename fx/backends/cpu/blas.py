"""BLAS products on as many threads as pay, with bits that do not depend on them.

OpenBLAS puts every product of more than 64x64x64 on all cores, and its threads wait for one
another spinning: when another process holds a core, a product of 0.3 ms takes 15 ms, a time slice
of the scheduler. And its results differ in the last bits with the number of its threads. So here
BLAS itself runs on one thread, and a large product is cut into blocks of rows, columns or matrices,
by its sizes alone, which ``threads.py`` spreads over the cores.

The number of threads is NumPy's own setting and is put back when the last product of fx that runs
has ended: a user's NumPy code, and a limit that a user has set, are not touched.

ctypes rather than threadpoolctl: the calls are on the way of every layer, at 0.2 us each.

Each thread that is inside OpenBLAS has a buffer of 32 MiB there, made when one is first needed and
kept. Where there is no memory for it OpenBLAS ends the process. So the buffers are asked for before
the first product, after a look whether they can be had: a MemoryError is an answer.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from fx import forking, limits
from fx.backends.cpu.threads import get_num_threads, run_chunks


class _Buffers:
    """The buffers that NumPy's OpenBLAS keeps, one for each thread that is inside it."""

    BYTES = 32 << 20

    def __init__(self, library: ctypes.CDLL) -> None:
        self.ready = 0
        self.lock = forking.instant(threading.Lock())
        try:
            self._take, self._give = library.blas_memory_alloc, library.blas_memory_free
        except AttributeError:  # another library, or another way to have memory
            self.ready = _UNKNOWN
            return
        self._take.restype, self._take.argtypes = ctypes.c_void_p, (ctypes.c_int,)
        self._give.restype, self._give.argtypes = None, (ctypes.c_void_p,)

    def have(self, wanted: int) -> int:
        """See that there are ``wanted`` buffers, or as many as memory has room for; how many.

        Raises:
            MemoryError: if there is not room for one.
        """
        with self.lock:
            held: list[int] = []
            try:
                while self.ready < wanted and _room(self.BYTES):  # others may hold the ready ones
                    held.append(self._take(0))
                    self.ready = max(self.ready, len(held))
            finally:
                for buffer in held:
                    self._give(buffer)
        if not self.ready:
            raise MemoryError("no memory for the buffer of a product")
        return self.ready


_UNKNOWN = 1 << 20  # buffers


def _room(nbytes: int) -> bool:
    """Whether the process can have more memory, and a little beside it."""
    try:
        mmap.mmap(-1, nbytes + (1 << 20)).close()
    except (OSError, ValueError, MemoryError):
        return False
    return True


class _OneThread:
    """BLAS on one thread while a block of this runs, in any thread of the process."""

    def __init__(self, get: Callable[[], int], put: Callable[[int], Any]) -> None:
        self._get, self._put = get, put
        self._lock = threading.Lock()
        self.running = 0
        self.threads = 1  # what the user's setting is

    def __enter__(self) -> _OneThread:
        with self._lock:
            self.running += 1
            if self.running == 1:
                self.threads = self._get()
                if self.threads > 1:
                    self._put(1)
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self.running -= 1
            if self.running == 0 and self.threads > 1:
                self._put(self.threads)


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(np._core._multiarray_umath.__file__)


def _setting() -> _OneThread:
    """The setting of NumPy's OpenBLAS; one thread for ever if NumPy stands on something else."""
    library = _library()
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
_buffers: _Buffers | None = None
ready = False  # whether there is a buffer for the thread that comes


def _after_fork() -> None:
    """The lock of the parent's may be held by a thread that a forked child does not have."""
    global _one_thread
    _one_thread = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def prepared(threads: int = 1) -> int:
    """See that so many threads can be in a product at a time; how many can.

    Raises:
        MemoryError: if none can.
    """
    global _buffers, ready
    if _buffers is None:
        _buffers = _Buffers(_library())
    if not ready:
        _buffers.have(max(get_num_threads(), 2, threads))
        ready = True
    return _buffers.ready if _buffers.ready >= threads else _buffers.have(threads)


def product(x: np.ndarray, y: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """``np.matmul(x, y, out)`` of floating x (*B, m, k) and y (*B, k, n), ndim >= 2."""
    if x.size * y.shape[-1] > limits.BLAS_SERIAL:
        return _product(x, y, out)
    if not ready:
        prepared()
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
        threads = min(setting.threads, prepared(setting.running + blocks - 1))
        if blocks > 1:
            cut = _cut(x, y, lead, blocks)
            if cut is not None:
                if out is None:
                    out = np.empty((*lead, m, n), x.dtype)
                _in_blocks(x, y, out, *cut, threads)
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
