"""The law of layouts: where the elements of an operand lie, or what makes them, changes no result.

A sample is laid out again: the same values as columns of something wider, every other element, read
backwards ...; and other values, where the layout says what they are: one row for all, overlapping
windows, a count. What lies between the elements is poison. The kernel of dense operands is the
reference, and where it refuses the values there is nothing to compare.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

import fx
from fx import limits
from fx.dtypes import FLOATING, bfloat16, float16, float32, float64
from fx.primitive import Primitive
from fx.prims.sampling import Sample
from fx.spec import TensorSpec
from fx.testing.case import Arrays, Mismatch, array_of, as_tuple, call, taken_in, tensor
from fx.testing.closeness import expect_close
from fx.testing.compiled import TOLERANCE
from fx.testing.law import Law
from fx.transforms import jit

Shape = tuple[int, ...]


class Layout(NamedTuple):
    """A way for an operand to lie.

    Attributes:
        source: the array that it is made from, given the values that are wanted.
        view: the operand, from that array (or tensor), the functions of its library, and the shape.
    """

    source: Callable[[np.ndarray], np.ndarray]
    view: Callable[[Any, Any, Shape], Any]


def _poisoned(shape: Shape, dtype: Any) -> np.ndarray:
    """What must never be read: NaN, or the largest number."""
    if dtype.kind in "iu":
        return np.full(shape, np.iinfo(dtype).max, dtype)
    return np.full(shape, True if dtype.kind == "b" else math.nan, dtype)


def _between(x: np.ndarray, shape: Shape, place: Any) -> np.ndarray:
    wide = _poisoned(shape, x.dtype)
    wide[place] = x
    return wide


def _every_other(x: np.ndarray) -> np.ndarray:
    if not x.ndim:
        return x
    return _between(x, (*x.shape[:-1], 2 * x.shape[-1] + 1), np.s_[..., 1::2])


def _inside(x: np.ndarray) -> np.ndarray:
    return _between(x, tuple(n + 3 for n in x.shape), tuple(slice(1, n + 1) for n in x.shape))


def _line(x: np.ndarray) -> np.ndarray:
    """As many elements as windows of the last axis need, one further for each row."""
    if not x.ndim or not x.size:
        return x
    return np.resize(x, x.size // x.shape[-1] + x.shape[-1] - 1)


def _windows(xp: Any, line: Any, shape: Shape) -> Any:
    if not math.prod(shape) or not shape:
        return line
    n, rows = shape[-1], math.prod(shape[:-1])
    if xp is np:
        found = np.lib.stride_tricks.sliding_window_view(line, n)
        return found.reshape(shape) if rows == 1 or len(shape) != 2 else found
    return xp.reshape(xp.stack([line[i : i + n] for i in range(rows)]), shape)


def _count(xp: Any, one: Any, shape: Shape) -> Any:
    """Numbers that a loop makes: 0, 1, 2 ..., and as fractions where they are floating."""
    size = math.prod(shape)
    dtype = one.dtype
    whole = xp.reshape(xp.arange(size), shape)
    if dtype.kind in "biu":
        return whole.astype(dtype)
    return ((whole + 1).astype(dtype) * 2.0 ** -(size + 1).bit_length()).astype(dtype)


LAYOUTS: dict[str, Layout] = {  # of the sample's own values
    "transposed": Layout(
        lambda x: x.T.copy("C"),
        lambda xp, y, shape: xp.permute_dims(y, tuple(range(len(shape)))[::-1]),
    ),
    "steps": Layout(_every_other, lambda xp, y, shape: y[..., 1::2] if shape else y),
    "columns": Layout(
        lambda x: _between(x, (*x.shape, 3), np.s_[..., 1]), lambda xp, y, shape: y[..., 1]
    ),
    "inside": Layout(
        _inside, lambda xp, y, shape: y[tuple(slice(1, n + 1) for n in shape)] if shape else y
    ),
    "reversed": Layout(lambda x: np.flip(x).copy("C"), lambda xp, y, shape: xp.flip(y)),
}

VALUES: dict[str, Layout] = {  # with values of their own
    "broadcast": Layout(
        lambda x: x[:1] if x.ndim else x, lambda xp, y, shape: xp.broadcast_to(y, shape)
    ),
    "windows": Layout(_line, _windows),
    "count": Layout(lambda x: x[(slice(1),) * x.ndim], _count),
    "one number": Layout(
        lambda x: x[(slice(1),) * x.ndim],
        lambda xp, y, shape: xp.full(shape, 1, dtype=y.dtype),
    ),
    "empty": Layout(lambda x: x[:0] if x.ndim else x, lambda xp, y, shape: y),
}


class Laid(NamedTuple):
    """A sample in one layout: sources, what makes the operands of them, and the dense results."""

    name: str
    sources: Arrays
    views: Callable[[Any, Sequence[Any]], list[Any]]
    want: Arrays


def laid_out(primitive: Primitive, sample: Sample) -> list[Laid]:
    """The sample in every layout in which the kernel takes it."""
    several = len(sample.args) > 1
    found = [_laid(primitive, sample, name, [x] * len(sample.args)) for name, x in _every().items()]
    if several:
        own = list(LAYOUTS.values())
        turned = [own[i % len(own)] for i in range(len(sample.args))]
        found.append(_laid(primitive, sample, "each in its own", turned))
    return [laid for laid in found if laid is not None]


def _every() -> dict[str, Layout]:
    return {**LAYOUTS, **VALUES}


def _laid(
    primitive: Primitive, sample: Sample, name: str, layouts: Sequence[Layout]
) -> Laid | None:
    shapes = [(0, *a.shape[1:]) if name == "empty" and a.ndim else a.shape for a in sample.args]
    sources = [layout.source(a) for layout, a in zip(layouts, sample.args, strict=True)]

    def views(xp: Any, ys: Sequence[Any]) -> list[Any]:
        return [lay.view(xp, y, s) for lay, y, s in zip(layouts, ys, shapes, strict=True)]

    dense = [np.array(a, order="C") for a in views(np, sources)]
    if any(a.shape != s for a, s in zip(dense, shapes)):
        return None
    try:
        primitive.spec(*[TensorSpec(a.shape, a.dtype) for a in dense], **sample.params)
        want = _reference(primitive, dense, sample.params)
    except Exception:  # values, or sizes, that are not the primitive's
        return None
    return Laid(name, sources, views, want)


def _reference(primitive: Primitive, dense: Arrays, params: dict[str, Any]) -> Arrays:
    """What the kernel gives under normal limits, in memory that is nobody else's."""
    with limits.normal():
        return [np.array(x) for x in call(primitive, dense, params)]


def _compare(got: Sequence[np.ndarray], want: Sequence[np.ndarray], what: str) -> None:
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        if g.dtype != w.dtype:
            raise Mismatch(f"{what}: {g.dtype.name}, expected {w.dtype.name}")
        expect_close(g, w, TOLERANCE.get(w.dtype, 0.0), f"{what}, output {i}")


def _eager(primitive: Primitive, sample: Sample) -> None:
    for dtype, given in taken_in(primitive, sample, (float64, float32, bfloat16, float16)):
        for laid in laid_out(primitive, given):
            got = call(primitive, laid.views(np, laid.sources), given.params)
            _compare(got, laid.want, f"{dtype.name}, {laid.name}")
        if not any(a.dtype in FLOATING for a in sample.args):
            return


def _compiled(primitive: Primitive, sample: Sample) -> None:
    listed = (float32, float64, bfloat16, float16)
    taken = list(taken_in(primitive, sample, listed))
    dtype, given = taken[crc32(primitive.name.encode()) % len(taken)]
    every = laid_out(primitive, given)

    def function(*sources: Any) -> Any:
        rest, out = list(sources), []
        for laid in every:
            mine = [rest.pop(0) for _ in laid.sources]
            out.append(as_tuple(primitive(*laid.views(fx, mine), **given.params)))
        constants = [tensor(a) for a in given.args]
        return (*out, as_tuple(primitive(*constants, **given.params)))

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what runs uncompiled says so
        found = jit(function)(*[tensor(a) for laid in every for a in laid.sources])
    names = [*[laid.name for laid in every], "constants"]
    wants = [*[laid.want for laid in every], _reference(primitive, given.args, given.params)]
    for name, got, want in zip(names, found, wants, strict=True):
        _compare([array_of(x) for x in got], want, f"{dtype.name}, {name}")


kernel_on_any_layout = Law(
    "kernel_on_any_layout", "cpu", "f(x in any layout) = f(x)", _eager, False
)
compiled_on_any_layout = Law(
    "compiled_on_any_layout", "cpu", "jit(f)(x in any layout) = f(x)", _compiled, False
)
