"""Paths: the steps that lead from one array to another in its memory."""

from __future__ import annotations

from typing import Any

from fx.dtypes import FLOATING, INTEGRAL
from fx.prims.complex import part
from fx.prims.shape import broadcast_to, reshape, transpose
from fx.writing.layouts import on_array

Path = tuple[tuple[Any, dict[str, Any]], ...]

selections: dict[str, Any] = {}  # those of ``views`` and ``dtype_views``, which put them here
_IN_BITS = FLOATING | INTEGRAL  # what has bits that another dtype may read


def steps(r: Any, m: Any) -> Path | None:
    """The view primitives that lead from one array to another in its memory; None if none do."""
    if m.dtype != r.dtype:
        return _of_other_dtype(r, m)
    for way in (_same, _cut, _strided):
        path = way(r, m)
        if path is not None and _leads(path, r, m):
            return path
    return None


def _of_other_dtype(r: Any, m: Any) -> Path | None:
    """Steps to the parts of complex numbers, from their parts to them, or to bits as wide."""
    both = {r.dtype, m.dtype}
    if r.dtype.itemsize == m.dtype.itemsize and both <= _IN_BITS:
        bits = selections["bits"](r.dtype, m.dtype)
        rest = steps(bits.cpu(r), m)
        return None if rest is None else ((bits, {}), *rest)
    pairs, numbers = selections["pairs"], selections["numbers"]
    if r.dtype.kind == "c" and m.dtype == r.real.dtype:
        for turn in (0, 1):
            rest = steps(r.imag if turn else r.real, m)
            if rest is not None:
                return ((part, {"turn": turn}), *rest)
        rest = steps(pairs.cpu(r), m)
        return None if rest is None else ((pairs, {}), *rest)
    if m.dtype.kind != "c" or r.dtype != m.real.dtype or r.shape[-1:] != (2,):
        return None
    rest = steps(numbers.cpu(r), m)
    return None if rest is None else ((numbers, {}), *rest)


def _leads(path: Path, r: Any, m: Any) -> bool:
    for primitive, params in path:
        r = on_array(primitive, r, params)
    return r.shape == m.shape and _place(r) == _place(m)


def _place(a: Any) -> Any:
    """Where an array lies: the steps of axes of one element do not matter."""
    return a.ctypes.data, [s for n, s in zip(a.shape, a.strides) if n > 1]


def _same(r: Any, m: Any) -> Path | None:
    """The same elements, in another shape perhaps."""
    dense = r.flags.c_contiguous and m.flags.c_contiguous
    if r.size != m.size or not (dense or (r.shape, r.strides) == (m.shape, m.strides)):
        return None
    return ((reshape, {"shape": m.shape}),)


def _cut(r: Any, m: Any) -> Path | None:
    """Slices of axes, in another order, with axes of one element among them."""
    rest = m.ctypes.data - r.ctypes.data
    start = [0] * r.ndim
    for a in sorted(range(r.ndim), key=lambda a: -r.strides[a]):
        if r.shape[a] > 1 and r.strides[a] > 0:
            start[a], rest = divmod(rest, r.strides[a])
            if not 0 <= start[a] < r.shape[a]:
                return None
    index: list[Any] = list(start)
    order = []  # the axes of r, as those of m come
    for n, stride in zip(m.shape, m.strides):
        if n == 1 or stride == 0:
            continue
        fits = [
            a
            for a in range(r.ndim)
            if a not in order
            and r.strides[a] > 0
            and stride % r.strides[a] == 0
            and 0 <= start[a] + (n - 1) * (stride // r.strides[a]) < r.shape[a]
        ]
        if not fits:
            return None
        a = max(fits, key=lambda a: (r.shape[a] > 1, r.strides[a]))
        step = stride // r.strides[a]
        order.append(a)
        end = start[a] + (n - 1) * step + (1 if step > 0 else -1)
        index[a] = slice(start[a], None if end < 0 else end, step)
    path: list[Any] = []
    whole = [i == slice(0, n, 1) for i, n in zip(index, r.shape)]
    if not all(whole):
        path.append((selections["index_of"], {"index": tuple(index)}))
    kept = sorted(order)
    if order != kept:
        path.append((transpose, {"axes": tuple(map(kept.index, order))}))
    ones = tuple([1 if s == 0 else n for n, s in zip(m.shape, m.strides)])
    if len(ones) != len(order):
        path.append((reshape, {"shape": ones}))
    if ones != m.shape:
        path.append((broadcast_to, {"shape": m.shape}))
    return tuple(path) or ((reshape, {"shape": m.shape}),)


def _strided(r: Any, m: Any) -> Path | None:
    """Steps over the elements in the order of memory, where that has no gaps."""
    order = sorted(range(r.ndim), key=lambda a: -r.strides[a])
    flat = r.transpose(order)
    if not flat.flags.c_contiguous or min(m.strides, default=0) < 0:
        return None
    first, odd = divmod(m.ctypes.data - r.ctypes.data, r.itemsize)
    last = first + sum((n - 1) * s // r.itemsize for n, s in zip(m.shape, m.strides))
    if odd or first < 0 or last >= r.size or any(s % r.itemsize for s in m.strides):
        return None
    path: list[Any] = []
    if order != list(range(r.ndim)):
        path.append((transpose, {"axes": tuple(order)}))
    stride = tuple([s // r.itemsize for s in m.strides])
    ones = tuple([n if s else 1 for n, s in zip(m.shape, stride)])
    path.append((selections["strided"], {"size": ones, "stride": stride, "storage_offset": first}))
    if ones != m.shape:
        path.append((broadcast_to, {"shape": m.shape}))
    return tuple(path)
