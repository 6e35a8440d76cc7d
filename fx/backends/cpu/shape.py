"""Shape kernels: views wherever the layout allows one; tensors never change, so views are safe."""

from __future__ import annotations

import builtins
from builtins import sum as sum_of
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu import sums
from fx.backends.cpu._arrays import zero_of
from fx.backends.cpu.formulas import Rows
from fx.backends.cpu.llvm import any_size
from fx.primitive import registry

_WHOLE, _BACK = builtins.slice(None), builtins.slice(None, None, -1)


def reshape(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    """A view if the layout allows it."""
    return x.reshape(shape)


def transpose(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
    """A view."""
    return x.transpose(axes)


def broadcast_to(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A view with strides 0; a small array from a scalar is filled, which later kernels prefer."""
    own = x.shape
    if not own and prod(shape) <= limits.FILL:
        out = np.empty(shape, x.dtype)
        out[...] = x
        return out
    if x.dtype.kind in "fbiu" and x.flags.c_contiguous and x.size:
        # NumPy's own broadcast_to makes the same view ten times slower
        return np.ndarray(shape, x.dtype, x, 0, _steps(own, x.strides, shape))
    return np.broadcast_to(x, shape)


@lru_cache(1024)
def _steps(own: tuple[int, ...], steps: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array of shape ``own`` and such strides, broadcast to ``shape``."""
    strides = [0] * (len(shape) - len(own)) + list(steps)
    i = len(strides)
    if i > len(shape):
        raise ValueError(f"{own} does not broadcast to {shape}")
    for n in reversed(own):
        i -= 1
        if n != shape[i]:
            if n != 1:
                raise ValueError(f"{own} does not broadcast to {shape}")
            strides[i] = 0
    return tuple(strides)


def sum_to(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    """Sum over the axes that ``broadcast_to(y, x.shape)`` would stretch."""
    lead = x.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(
        i + lead for i, n in enumerate(shape) if n == 1 and x.shape[i + lead] != 1
    )
    found: np.ndarray = sums.total(x, axes).reshape(shape)
    return found


def slice(x: np.ndarray, *, start: Any, stop: Any, step: Any, drop: Any = ()) -> np.ndarray:
    """A view, without the axes ``drop``."""
    index: list[Any] = list(map(builtins.slice, start, stop, step))
    for axis in drop:
        index[axis] = start[axis]
    return x[tuple(index)]


def pad(x: np.ndarray, value: np.ndarray, *, low: Any, high: Any, inside: Any) -> np.ndarray:
    """Constant borders, and ``inside`` constants between neighbours."""
    shape, at = [], []
    for n, a, b, i in zip(x.shape, low, high, inside, strict=True):
        reach = n + (n - 1) * i if i and n else n
        shape.append(reach + a + b)
        at.append(builtins.slice(a, a + reach, i + 1))
    some = any(value.tobytes())  # -0.0 is no zero here
    out = np.full(shape, value, x.dtype) if some else np.zeros(shape, x.dtype)
    out[tuple(at)] = x
    return out


Widths = tuple[tuple[int, int], ...]


def bordered(x: np.ndarray, *, widths: Widths, mode: str) -> np.ndarray:
    """Borders made of the array's own elements, one axis after the other, in place."""
    out = np.empty([n + a + b for n, (a, b) in zip(x.shape, widths, strict=True)], x.dtype)
    out[_inner(x.shape, widths)] = x
    for _, border, source in _borders(x.shape, widths, mode):
        out[border] = out[source]
    return out


def bordered_grad(ct: np.ndarray, *, widths: Widths, mode: str) -> np.ndarray:
    """The transpose: what lies in a border is added to the elements that it is made of."""
    shape = tuple([n - a - b for n, (a, b) in zip(ct.shape, widths, strict=True)])
    out = ct.copy("C")
    for axis, border, source in reversed(_borders(shape, widths, mode)):
        part = out[border]
        if mode == "edge":
            part = np.add.reduce(part, axis, ct.dtype, keepdims=True)
        out[source] += part
    return np.ascontiguousarray(out[_inner(shape, widths)])


def _inner(shape: tuple[int, ...], widths: Widths) -> tuple[Any, ...]:
    return tuple([builtins.slice(a, a + n) for n, (a, _) in zip(shape, widths, strict=True)])


@lru_cache(256)
def _borders(shape: tuple[int, ...], widths: Widths, mode: str) -> list[tuple[int, Any, Any]]:
    """Of each border its axis, where it lies and what it is made of, in an array that has it.

    The borders of an axis reach over those of the axes before it.
    """
    found = []
    inner = _inner(shape, widths)
    for axis, (n, (a, b)) in enumerate(zip(shape, widths, strict=True)):
        first, last = a, a + n - 1  # the outermost elements
        if mode == "edge":
            sources = builtins.slice(first, a + 1), builtins.slice(last, a + n)
        elif mode == "wrap":
            sources = builtins.slice(n, n + a), builtins.slice(a, a + b)
        else:
            skip = int(mode == "reflect")
            first, last = first + skip, last - skip
            end = last - b
            sources = (
                builtins.slice(first + a - 1, first - 1 if first else None, -1),
                builtins.slice(last, end if end >= 0 else None, -1),
            )
        borders = builtins.slice(0, a), builtins.slice(a + n, a + n + b)
        for width, border, source in zip((a, b), borders, sources):
            if not width:
                continue
            parts = [(border, source)]
            if axis == len(shape) - 1 and width <= _FEW:
                parts = _columns(border, source, a + n + b)
            for part in parts:
                found.append((axis, *[(*[_WHOLE] * axis, at, *inner[axis + 1 :]) for at in part]))
    return found


_FEW = 4  # columns, which are copied faster than rows as short


def _columns(border: Any, source: Any, count: int) -> list[tuple[Any, Any]]:
    """The columns of a border, and the one that each is made of."""
    targets, sources = range(count)[border], range(count)[source]
    if len(sources) == 1:
        sources = [sources[0]] * len(targets)
    return [
        (builtins.slice(i, i + 1), builtins.slice(j, j + 1))
        for i, j in zip(targets, sources, strict=True)
    ]


def roll(x: np.ndarray, *, cuts: tuple[int, ...]) -> np.ndarray:
    """What is before the cut of an axis behind the rest: each part goes to its place."""
    out = np.empty_like(x)  # which lies as x does
    for source, target in _rolled(x.shape, cuts):
        out[target] = x[source]
    return out


@lru_cache(256)
def _rolled(shape: tuple[int, ...], cuts: tuple[int, ...]) -> list[tuple[Any, Any]]:
    """From where to where each part goes."""
    ways = []
    for cut, n in zip(cuts, shape, strict=True):
        way = [(builtins.slice(cut, n), builtins.slice(0, n - cut))]
        if cut:
            way.append((builtins.slice(0, cut), builtins.slice(n - cut, n)))
        ways.append(way)
    parts = [zip(*parts) for parts in product(*ways)]
    return [(source, target) for source, target in parts]


def concatenate(*arrays: np.ndarray, axis: int) -> np.ndarray:
    """One after another along ``axis``."""
    x = arrays[0]
    if axis and x.size >= limits.RUNS_FROM and x.dtype.kind in "fiub":
        found = _by_runs(arrays, axis)
        if found is not None:
            return found
    return np.concatenate(arrays, axis=axis)


def _by_runs(arrays: Sequence[np.ndarray], axis: int) -> np.ndarray | None:
    """The same by runs of elements, each copied as one item: NumPy takes short ones to pieces.

    None where NumPy does as well, or has words for what does not fit.
    """
    shape = arrays[0].shape
    if axis >= len(shape) or prod(shape[:axis]) < limits.RUNS:
        return None
    lead, behind = shape[:axis], shape[axis + 1 :]
    for a in arrays:
        flags, own = a.flags, a.shape
        runs = flags.c_contiguous or (axis == len(own) - 1 and a.strides[-1] == a.itemsize)
        if a.dtype is not arrays[0].dtype or not (runs and flags.aligned):
            return None
        if len(own) != len(shape) or own[:axis] != lead or own[axis + 1 :] != behind or not a.size:
            return None
    inner = prod(behind)
    widths = [a.shape[axis] * inner for a in arrays]
    out = any_size.empty([arrays[0], *lead, sum_of(widths) // inner, *behind])
    lines, end = out.reshape(*lead, -1), 0
    for a, n in zip(arrays, widths):
        start, end = end, end + n
        run = f"V{n * a.itemsize}"
        lines[..., start:end].view(run)[...] = a.reshape(*lead, n).view(run)
    return out


def flip(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
    """A view with negative strides."""
    index = [_WHOLE] * x.ndim
    for axis in axes:
        index[axis] = _BACK
    return x[tuple(index)]


def triangle(x: np.ndarray, *, k: int, upper: bool) -> np.ndarray:
    """Matrices x (*B, n, m) with zeros below their diagonal ``k``, or above it."""
    if x.size > _KEPT:
        *lead, n, m = x.shape
        found = _triangles[upper]((x, np.array(k)), (prod(lead), n, m), (x.shape,))
        if found is not None:
            return found  # type: ignore[no-any-return]
    out = x.copy("C")
    kind = (x.shape[-2:], k, upper)
    outside = _masks.get(kind)
    _copyto(out, zero_of(x.dtype), where=_outside(*kind) if outside is None else outside)
    return out


def _triangle_formula(x: Any, k: Any, upper: bool) -> Any:
    """Of x (batch, n, m) and a number k."""
    _, n, m = x.shape
    where = {"start": 0, "step": 1, "dtype": k.dtype, "device": "cpu"}
    rows = registry["iota"](shape=(1, n, 1), axis=1, **where) + k
    columns = registry["iota"](shape=(1, 1, m), axis=2, **where)
    kept = columns >= rows if upper else columns <= rows
    zero = registry["full"](shape=(), value=0, dtype=x.dtype, device="cpu")
    return registry["where"](kept, x, zero)


_triangles = {
    upper: Rows(
        f"triangle, {upper}", partial(_triangle_formula, upper=upper), "abc :l", along="c",
        keeps=False,
    ).call
    for upper in (False, True)
}  # fmt: skip


def _outside(shape: tuple[int, ...], k: int, upper: bool) -> np.ndarray:
    """Where matrices get zeros; of small ones, which masks of attention are, kept."""
    n, m = shape
    rows, columns = np.arange(k, n + k)[:, None], np.arange(m)
    found = columns < rows if upper else columns > rows
    if n * m <= _KEPT:
        if len(_masks) > _MASKS:
            _masks.clear()
        _masks[shape, k, upper] = found
    return found


_copyto = np.copyto
_masks: dict[tuple[tuple[int, ...], int, bool], np.ndarray] = {}
_MASKS, _KEPT = 64, 4096  # masks, and elements of one
