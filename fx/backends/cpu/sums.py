"""Sums of floats along any axes: added up in float64, in blocks of which sizes alone decide.

The rows that are added up are cut into chunks, each a task with one float64 result; the chunks'
results are added up in the same way. Without a compiler NumPy adds up in float64.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu._arrays import narrowed, widen
from fx.backends.cpu.llvm import any_size
from fx.backends.cpu.llvm.formulas import Program, program
from fx.primitive import registry

Axes = tuple[int, ...]

_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_add = np.add.reduce
_LIKE = {dtype: np.zeros(1, dtype) for dtype in (_F32, _F64)}


def total(x: np.ndarray, axes: Axes, keepdims: bool = False) -> Any:
    """The sum over ``axes`` (sorted, not negative) in the dtype of ``x``, which may be any."""
    dtype = x.dtype
    if dtype is _F32 or dtype is _F64:
        flags = x.flags
        if flags.c_contiguous and flags.aligned:
            passes = _passes.get((x.shape, axes, keepdims, dtype))
            if passes is None:
                passes = _known_passes(x.shape, axes, keepdims, dtype)
            for run, spec, before, behind in passes:
                sums = any_size.empty(spec)
                run([*before, x, sums, *behind])
                x = sums
            if passes:
                return x if x.dtype is dtype else cast(x, dtype)
        if not (axes and x.size and axes[-1] < x.ndim):  # NumPy says which axis is none
            return _add(x, axes, dtype, None, keepdims)
        return _turned(x, axes, keepdims) if _compiler() else _by_numpy(x, axes, keepdims)
    if dtype.itemsize == 2 and dtype.kind not in "iu":
        return narrowed(total(widen(x), axes, keepdims), dtype)
    if dtype == np.complex64:
        return cast(_add(x, axes, np.complex128, None, keepdims), dtype)
    if dtype in (_F32, _F64):  # the object of an unpickled array
        return total(x.view(_F32 if dtype == _F32 else _F64), axes, keepdims)
    return _add(x, axes, dtype, None, keepdims)


_compiler = any_size.available


def _by_numpy(x: np.ndarray, axes: Axes, keepdims: bool) -> Any:
    if x.dtype is _F64:
        x = np.ascontiguousarray(x)  # NumPy's order follows how it lies
    return cast(_add(x, axes, _F64, None, keepdims), x.dtype)


def cast(x: Any, dtype: np.dtype) -> Any:
    """In another dtype; what is too large for it becomes infinite."""
    return x if x.dtype == dtype else x.astype(dtype)


def _turned(x: np.ndarray, axes: Axes, keepdims: bool) -> Any:
    """The sum of an array that is not dense, in an order of its axes in which it is, or copied.

    A sum of float32 has room for another order: it is added up in float64 and rounded in the end.
    """
    if x.dtype is _F64 or (x.ndim == 1 and x.size <= limits.SUM_COPIED):
        return total(x.copy("C"), axes, keepdims)
    order = sorted(range(x.ndim), key=lambda i: -abs(x.strides[i]))
    turned = x.transpose(order)
    if not (turned.flags.c_contiguous and turned.flags.aligned):
        if x.size > limits.SUM_COPIED:
            return _by_numpy(x, axes, keepdims)
        return total(x.copy("C"), axes, keepdims)
    out = total(turned, tuple(sorted([order.index(a) for a in axes])), True)
    out = out.transpose([order.index(i) for i in range(x.ndim)])
    return out if keepdims else out.squeeze(axes)


# one run of a kernel: it, the likeness of the sums, its words before the array and the sums,
# and those behind them
Pass = tuple[any_size.Run, list[Any], list[int], list[int]]


def _known_passes(
    shape: tuple[int, ...], axes: Axes, keepdims: bool, dtype: np.dtype
) -> list[Pass]:
    """The passes of a sum of a dense array, kept; none where NumPy has to do it."""
    if not axes or 0 in shape or axes[-1] >= len(shape) or not _compiler():
        return []
    if len(_passes) >= _MOST:
        _passes.clear()
    found = _passes[shape, axes, keepdims, dtype] = _planned(shape, axes, keepdims, dtype)
    return found


def _planned(shape: tuple[int, ...], axes: Axes, keepdims: bool, dtype: np.dtype) -> list[Pass]:
    if keepdims:
        kept = [1 if i in axes else n for i, n in enumerate(shape)]
    else:
        kept = [n for i, n in enumerate(shape) if i not in axes]
    passes: list[Pass] = []
    kind = dtype  # of what is added up
    while axes:
        last, k = axes[-1], len(axes) - 1
        low = last
        while k and axes[k - 1] == low - 1:  # axes side by side are one
            k -= 1
            low -= 1
        axes, n = axes[:k], prod(shape[low : last + 1])
        outer, inner = prod(shape[:low]), prod(shape[last + 1 :])
        shape = (*shape[:low], *shape[last + 1 :])
        parts = 0
        # another order of float64 would show beside other rows
        most = limits.SUM_ACROSS if dtype is _F32 else limits.ROW_SHORT
        if kind is dtype and not axes and inner == 1 and n <= most:
            found = _short_rows(dtype.char, (outer, n))
            if found is not None:
                run, sizes = found
                return [(run, [_LIKE[dtype], *kept], [1, 0], sizes)]
        while parts != 1:
            name, before, behind, parts = _cut(kind, outer, n, inner)
            final = parts == 1 and not axes
            out = dtype if final and name != "wide" else _F64
            to = kept if final else [outer, parts, inner]
            run = _kernel(name, kind.char, out.char)
            passes.append((run, [_LIKE[out], *to], before, behind))
            n, kind = parts, out
    return passes


def _cut(dtype: np.dtype, outer: int, n: int, inner: int) -> tuple[str, list[int], list[int], int]:
    """How (outer, n, inner) is summed over n: the kernel, its words, and how many parts it has."""
    size = dtype.itemsize
    if inner == 1:
        chunk = limits.SUM_ROW if size == 4 else limits.SUM_ROW >> 3
        parts = -(-n // chunk)
        tasks = outer * parts
        many = any_size.chunk_of(tasks, 0.05 * size * min(n, chunk))
        return "rows", [tasks, many], [n, chunk, parts], parts
    block = _block(dtype.char)
    small = n * inner < limits.SUM_BESIDE
    most = limits.SUM_ROWS if size == 4 else limits.SUM_ROWS >> 2
    beside = 1 if small else max(1, block // inner)  # rows that share vectors
    rows = most if small else min(most, max(32, limits.SUM_AREA // (beside * inner) & -32))
    chunk = beside * rows
    chunks = -(-n // chunk)
    each = 0.06 * size * min(chunk, n) * inner
    tasks = outer * chunks
    if inner >= 4 * block and outer * n * inner * size > limits.SUM_NEAR:
        before = [tasks, any_size.chunk_of(tasks, each)]
        return "wide", before, [n, inner, chunk, chunks], chunks * beside
    blocks = -(-beside * inner // block)
    before = [tasks * blocks, any_size.chunk_of(tasks * blocks, each / blocks)]
    behind = [n, inner, beside * inner, chunk, chunks, blocks]
    return "columns", before, behind, chunks * beside


def _short_rows(char: str, sizes: tuple[int, int]) -> tuple[any_size.Run, list[int]] | None:
    """What adds up rows so short that vectors lie across them, and its words behind the sums."""
    if prod(sizes) < limits.SUM_SHORT:
        return None
    made = _short_program(char)
    return None if made is None else made.at(sizes)


@cache
def _short_program(char: str) -> Program | None:
    def formula(x: Any) -> Any:
        return registry["sum"](x, axes=(1,), keepdims=False)

    return program("sum of short rows", formula, [("a", "b")], char, 1, "short")


@cache
def _kernel(name: str, char: str, out: str) -> any_size.Run:
    return any_size.kernel("sums", f"{name}_to_{'float64' if out == 'd' else 'float32'}", char)


@cache
def _block(char: str) -> int:
    from fx.backends.cpu.llvm.any_size import sums

    return sums.block_of(4 if char == "f" else 8)


_MOST = 1024
_passes: dict[tuple[tuple[int, ...], Axes, bool, np.dtype], list[Pass]] = {}
limits.on_change(_passes.clear)
limits.on_change(_kernel.cache_clear)
limits.on_change(_short_program.cache_clear)
limits.on_change(_block.cache_clear)
