"""Sums of floats along any axes: added up in float64, in blocks of which sizes alone decide.

The rows that are added up are cut into chunks, each a task with one float64 result; the chunks'
results are added up in the same way. Of float32 four numbers are added up before float64 takes
them (``llvm/any_size/sums.py``): along one of the axes, the *lead*, which sizes alone choose, so
that an array has the same sum however it lies. Without a compiler NumPy does the same.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu._arrays import narrowed, widen
from fx.backends.cpu.llvm import any_size
from fx.backends.cpu.llvm.formulas import Program, program
from fx.primitive import registry

Axes = tuple[int, ...]

BLOCK, APART = any_size.BLOCK, any_size.APART
_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)
_add = np.add.reduce
_LIKE = {dtype: np.zeros(1, dtype) for dtype in (_F32, _F64)}


def total(x: np.ndarray, axes: Axes, keepdims: bool = False, lead: int | None = None) -> Any:
    """The sum over ``axes`` (sorted, not negative) in the dtype of ``x``, which may be any.

    ``lead`` is given where the axes stand in another order than those of whoever asks.
    """
    dtype = x.dtype
    if dtype is _F32 or dtype is _F64:
        flags = x.flags
        if flags.c_contiguous and flags.aligned:
            passes = _passes.get((x.shape, axes, keepdims, dtype, lead))
            if passes is None:
                passes = _known_passes(x.shape, axes, keepdims, dtype, lead)
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


def _lead(shape: tuple[int, ...], axes: Axes) -> int:
    """The axis whose numbers float64 takes up by four: a long last one or the longest; -1: none."""
    last = axes[-1]
    if shape[last] < _LONG and shape[last] % BLOCK:
        last = max(axes, key=lambda a: (shape[a], a))
    return last if shape[last] >= BLOCK else -1


_compiler = any_size.available


def _by_numpy(x: np.ndarray, axes: Axes, keepdims: bool) -> Any:
    if x.dtype is _F64:
        x = np.ascontiguousarray(x)  # NumPy's order follows how it lies
    lead = _lead(x.shape, axes) if x.dtype is _F32 else -1
    if lead < 0:
        return cast(_add(x, axes, _F64, None, keepdims), x.dtype)
    near = x.shape[lead] // BLOCK * BLOCK
    before = (slice(None),) * lead
    blocks = x[(*before, slice(near))]
    blocks = blocks.reshape(*x.shape[:lead], -1, *_TREE, *x.shape[lead + 1 :])  # no copy
    a, b, c, d = [blocks[(*before, slice(None), k)] for k in range(_TREE[0])]
    with np.errstate(all="ignore"):
        trees = (a + b) + (c + d)
        over = (*[i for i in axes if i <= lead], *[i + 1 for i in axes if i >= lead])
        found = _add(trees, over, _F64) + _add(x[(*before, slice(near, None))], axes, _F64)
        found = cast(found, x.dtype)
    return np.expand_dims(found, axes) if keepdims else found


def cast(x: Any, dtype: np.dtype) -> Any:
    """In another dtype; what is too large for it becomes infinite."""
    return x if x.dtype == dtype else x.astype(dtype)


def _turned(x: np.ndarray, axes: Axes, keepdims: bool) -> Any:
    """The sum of an array that is not dense, in an order of its axes in which it is, or copied.

    So is one whose rows lie apart, or the elements of its rows.

    A sum of float32 has room for another order beside that of its trees: it is added up in float64
    and rounded in the end.
    """
    if x.dtype is _F64 or x.size < limits.SUM_APART:
        return total(x.copy("C"), axes, keepdims)
    order = sorted(range(x.ndim), key=lambda i: -abs(x.strides[i]))
    turned = x.transpose(order)
    lead = _lead(x.shape, axes)
    lead = order.index(lead) if lead >= 0 else lead
    over = tuple(sorted([order.index(a) for a in axes]))
    if turned.flags.c_contiguous and turned.flags.aligned:
        out = total(turned, over, True, lead)
    else:
        lie = _lie(turned) if lead == x.ndim - 1 else None
        if lie is None:
            if x.size > limits.SUM_COPIED:
                return _by_numpy(x, axes, keepdims)
            return total(x.copy("C"), axes, keepdims)
        out = turned
        told = turned.shape, over, True, _F32, lead, lie
        for run, spec, before, behind in _passes.get(told) or _known_passes(*told):
            sums = any_size.empty(spec)
            run([*before, out, sums, *behind])
            out = sums
    out = out.transpose([order.index(i) for i in range(x.ndim)])
    return out if keepdims else out.squeeze(axes)


def _lie(x: np.ndarray) -> tuple[int, int] | None:
    """How far rows and the elements of a row lie apart, if that is the same for all."""
    size, steps, shape = x.itemsize, x.strides, x.shape
    outer = [(n, step) for n, step in zip(shape[:-1], steps) if n != 1]
    inner, whole = steps[-1], all(step % size == 0 for step in steps)
    if not (x.flags.aligned and whole and size <= inner <= any_size.MOST_APART * size):
        return None
    if any(a != n * b for (_, a), (n, b) in pairwise(outer)):
        return None
    return (outer[-1][1] if outer else 0) // size, inner // size


# one run of a kernel: it, the likeness of the sums, its words before the array and the sums,
# and those behind them
Pass = tuple[any_size.Run, list[Any], list[int], list[int]]


def _known_passes(
    shape: tuple[int, ...], axes: Axes, keepdims: bool, dtype: np.dtype, lead: int | None,
    lie: tuple[int, int] | None = None,
) -> list[Pass]:  # fmt: skip
    """The passes of a sum of a dense array, kept; none where NumPy has to do it.

    ``lie`` is how far rows, of which ``lead`` is the axis, and their elements lie apart.
    """
    if not axes or 0 in shape or axes[-1] >= len(shape) or not _compiler():
        return []
    if len(_passes) >= _MOST:
        _passes.clear()
    found = _planned(
        shape, axes, keepdims, dtype, _lead(shape, axes) if lead is None else lead, lie
    )
    behind = () if lie is None else (lie,)
    _passes[shape, axes, keepdims, dtype, lead, *behind] = found
    return found


def _planned(
    shape: tuple[int, ...], axes: Axes, keepdims: bool, dtype: np.dtype, lead: int,
    lie: tuple[int, int] | None,
) -> list[Pass]:  # fmt: skip
    if keepdims:
        kept = [1 if i in axes else n for i, n in enumerate(shape)]
    else:
        kept = [n for i, n in enumerate(shape) if i not in axes]
    passes: list[Pass] = []
    kind = dtype  # of what is added up
    lead = lead if dtype is _F32 else -1
    while axes:
        low, last, near, apart = _first(shape, axes, lead, lie is not None)
        n, outer, inner = prod(shape[low : last + 1]), prod(shape[:low]), prod(shape[last + 1 :])
        alone = len(axes) == last + 1 - low
        # another order of float64 would show beside other rows
        most = min(limits.SUM_ACROSS, BLOCK - 1) if dtype is _F32 else limits.ROW_SHORT
        if not passes and not lie and alone and inner == 1 and n <= most:
            found = _short_rows(dtype.char, (outer, n))
            if found is not None:
                run, sizes = found
                return [(run, [_LIKE[dtype], *kept], [1, 0], sizes)]
        name, before, behind, parts = _cut(kind, outer, n, inner, near, apart, lie or (n, 1))
        final = parts == 1 and alone
        out = dtype if final and name != "wide" else _F64
        to = kept if final else [outer, parts, inner]
        passes.append((_kernel(name, kind.char, out.char), [_LIKE[out], *to], before, behind))
        # what is left of the axes from low to last is one of the parts, if there are some
        one = [parts] if parts > 1 else []
        gone = last + 1 - low - len(one)
        axes = (
            *[i for i in axes if i < low], *[low] * len(one), *[i - gone for i in axes if i > last]
        )  # fmt: skip
        shape = (*shape[:low], *one, *shape[last + 1 :])
        kind, lead, lie = _F64, -1, None
    return passes


def _first(shape: tuple[int, ...], axes: Axes, lead: int, alone: bool) -> tuple[int, int, int, int]:
    """What is summed next as one axis: the first and the last of axes side by side.

    And how many of its numbers are taken up by four, and how far those four are apart. ``alone``
    says that the rows lie apart.
    """
    last = axes[-1] if lead < 0 else lead
    low = last
    if not alone and (
        lead < 0 or shape[lead] % BLOCK == 0
    ):  # else a block would go on in the next row
        while low - 1 in axes:
            low -= 1
    if lead < 0:
        return low, last, 0, APART
    near, rest = prod(shape[low : last + 1]) // BLOCK * BLOCK, prod(shape[last + 1 :])
    if all(i in axes for i in range(last, len(shape))):  # rows of rows
        return low, len(shape) - 1, near * rest, APART * rest
    return low, last, near, APART


def _cut(
    dtype: np.dtype, outer: int, n: int, inner: int, near: int, apart: int, lie: tuple[int, int]
) -> tuple[str, list[int], list[int], int]:
    """How (outer, n, inner) is summed over n: the kernel, its words, and how many parts it has."""
    size = dtype.itemsize
    if inner == 1:
        whole = BLOCK // APART * apart
        chunk = max(1, limits.SUM_ROW // whole) * whole if size == 4 else limits.SUM_ROW >> 3
        parts = -(-n // chunk)
        tasks = outer * parts
        pitch, step = lie
        few = size == 4 and apart == APART and outer > any_size.LINES and n <= limits.SUM_LINE
        if few and step == 1:
            tasks = -(-outer // any_size.LINES)
            many = any_size.chunk_of(tasks, 0.05 * size * n * any_size.LINES)
            return "lines", [tasks, many], [n, near, outer, pitch], 1
        many = any_size.chunk_of(tasks, 0.05 * size * min(n, chunk))
        name = "rows" if step == 1 else f"rows{step}"
        return name, [tasks, many], [n, chunk, parts, near, apart, pitch], parts
    block = _block(dtype.char)
    most = limits.SUM_ROWS // BLOCK * BLOCK if size == 4 else limits.SUM_ROWS >> 2
    small = n * inner < limits.SUM_BESIDE and (size == 8 or n <= most)
    if small:
        beside = 1  # rows that share vectors
    elif near:
        beside = _beside(inner, block)
    else:
        beside = max(1, block // inner)
    whole = BLOCK if near else 32
    rows = most if small else min(most, max(whole, limits.SUM_AREA // (beside * inner) & -whole))
    chunk = beside * rows
    chunks = -(-n // chunk)
    each = 0.06 * size * min(chunk, n) * inner
    tasks = outer * chunks
    if inner >= 4 * block and outer * n * inner * size > limits.SUM_NEAR:
        before = [tasks, any_size.chunk_of(tasks, each)]
        return "wide", before, [n, inner, chunk, chunks, near], chunks * beside
    blocks = -(-beside * inner // block)
    before = [tasks * blocks, any_size.chunk_of(tasks * blocks, each / blocks)]
    behind = [n, inner, beside * inner, chunk, chunks, blocks, near]
    return "columns", before, behind, chunks * beside


def _beside(inner: int, block: int) -> int:
    """How many rows share vectors, a part of those of a tree, so that few lanes stay empty."""
    ways = [k for k in (1, 2, 4, 8, APART) if k * inner <= 4 * block]
    return min(ways, key=lambda k: (-(-k * inner // block) / k, k), default=1)


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
_LONG = 256  # numbers, from which an axis leads even if the last of them are no whole block
_TREE = BLOCK // APART, APART
_passes: dict[tuple[Any, ...], list[Pass]] = {}
limits.on_change(_passes.clear)
limits.on_change(_kernel.cache_clear)
limits.on_change(_short_program.cache_clear)
limits.on_change(_block.cache_clear)
