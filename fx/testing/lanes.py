"""Laws of the batching rule: vmap of the operation and of its derivatives is the loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from fx.dtypes import INEXACT
from fx.primitive import Primitive
from fx.prims.sampling import Sample
from fx.tensor import Tensor
from fx.testing.case import (
    Arrays,
    Mismatch,
    array_of,
    as_tuple,
    differentiable_args,
    directions,
    judged,
    lanes,
    smooth,
    subsets,
    tensor,
)
from fx.testing.closeness import expect_all_close
from fx.testing.law import law
from fx.transforms import jvp, vjp, vmap

_LOOP = 1e-11  # the order of summation may differ
Function = Callable[..., tuple[Tensor, ...]]


def _along(arrays: Sequence[np.ndarray], place: str, number: int) -> tuple[np.ndarray, int]:
    """The lanes in one array, along its first axis, its last one, or one of the two."""
    last = place == "last" or (place == "mixed" and number % 2 == 1)
    axis = arrays[0].ndim if last else 0
    return np.stack(arrays, axis=axis), axis


def is_the_loop(
    function: Function, variants: list[Arrays], mapped: Sequence[int], place: str, what: str
) -> None:
    """Compare ``vmap(function)`` over the arguments ``mapped`` with a loop over the variants.

    Raises:
        Mismatch: naming the axes and the number of lanes.
    """
    first = variants[0]
    args, axes = list(first), [None] * len(first)  # type: list[np.ndarray], list[int | None]
    for i in mapped:
        args[i], axes[i] = _along([v[i] for v in variants], place, i)
    words = f"{what}, in_axes={tuple(axes)}, {len(variants)} lanes"
    out = vmap(function, tuple(axes))(*map(tensor, args))
    got = [array_of(x) for x in out]
    loop = []
    for v in variants:
        row = [v[i] if i in mapped else first[i] for i in range(len(first))]
        loop.append([array_of(x) for x in function(*map(tensor, row))])
    want = [np.stack(column) for column in zip(*loop, strict=True)]
    expect_all_close(got, want, _LOOP, words)
    for g, w in zip(got, want, strict=True):
        if g.dtype != w.dtype:
            raise Mismatch(f"{words}: dtype {g.dtype}, the loop gives {w.dtype}")


def _bound(primitive: Primitive, params: dict[str, Any]) -> Function:
    return lambda *xs: as_tuple(primitive(*xs, **params))


@law("batch", "vmap(f) = the loop over f")
def vmap_is_the_loop(primitive: Primitive, sample: Sample) -> None:
    """For every subset of mapped arguments, axes first, last and mixed, and 1 to 3 lanes."""
    function = _bound(primitive, sample.params)
    if not sample.args:
        return _never_batched(primitive, sample)
    for mapped in subsets(range(len(sample.args))):
        for count, place in ((3, "first"), (2, "last"), (1, "first"), (2, "mixed")):
            if place != "mixed" or len(mapped) > 1:
                is_the_loop(function, lanes(sample, count), mapped, place, "vmap(f)")


def _never_batched(primitive: Primitive, sample: Sample) -> None:
    """A primitive without arguments gets no tracer; its rule has to say that it is never run."""
    level = SimpleNamespace(size=2, number=2, axis_name=None)
    try:
        out = primitive.batch(level, (), (), **sample.params)
    except AssertionError:
        return
    raise Mismatch(f"a primitive without arguments was batched, and gave {out!r}")


@law("batch", "vmap(vmap(f)) = the double loop over f")
def nested_vmap_is_the_loop(primitive: Primitive, sample: Sample) -> None:
    """The inner and the outer level map all arguments, or different ones."""
    everything = tuple(range(len(sample.args)))
    function = _bound(primitive, sample.params)
    variants = lanes(sample, 3)
    plans = [(everything, everything)] if everything else []
    if len(everything) > 1:
        plans += [(everything[:1], everything[1:]), (everything[1:], everything[:1])]
    for outer, inner in plans:
        axes = tuple([0 if i in inner else None for i in everything])
        mapped = _mapped(function, axes)
        pairs = [_paired(variants[k], variants[k + 1], inner) for k in range(2)]
        what = f"vmap(vmap(f, in_axes={axes}))"
        for place in ("first", "last"):
            is_the_loop(mapped, pairs, outer, place, what)
        is_the_loop(function, variants[:2], inner, "first", "vmap(f)")


def _mapped(function: Function, axes: tuple[int | None, ...]) -> Function:
    return lambda *xs: as_tuple(vmap(function, axes)(*xs))


def _paired(one: Arrays, other: Arrays, mapped: Sequence[int]) -> Arrays:
    """Two lanes of the arguments ``mapped`` along a first axis, and one of the rest."""
    pairs = enumerate(zip(one, other, strict=True))
    return [np.stack([a, b]) if i in mapped else a for i, (a, b) in pairs]


def _with_others(sample: Sample, others: Arrays, count: int) -> list[Arrays]:
    """Lanes of the arguments followed by lanes of tangents or cotangents."""
    found = lanes(sample, count)
    return [
        [*found[k], *[(o * (1 + k)).astype(o.dtype) for o in others]] for k in range(count)
    ]  # fmt: skip


def _plans(first: int, total: int) -> list[tuple[tuple[int, ...], str]]:
    """All mapped, the arguments alone, the tangents alone."""
    return [
        (tuple(range(total)), "first"),
        (tuple(range(total)), "last"),
        (tuple(range(first)), "first"),
        (tuple(range(first, total)), "last"),
    ]


@law("batch", "vmap(jvp) = the loop over jvp", differentiable=True)
def vmap_of_jvp(primitive: Primitive, sample: Sample) -> None:
    """Arguments, tangents or both differ from lane to lane."""
    wrt = differentiable_args(primitive, sample)
    if not wrt:
        return
    count = len(sample.args)

    def pushed(*both: Tensor) -> tuple[Tensor, ...]:
        function = smooth(primitive, sample, wrt, both[:count])
        return jvp(function, tuple([both[i] for i in wrt]), both[count:])[1]  # type: ignore[no-any-return]

    tangents = directions([sample.args[i] for i in wrt], 2)
    variants = _with_others(sample, tangents, 2)
    for mapped, place in _plans(count, count + len(wrt)):
        is_the_loop(pushed, variants, mapped, place, "vmap(jvp(f))")


@law("batch", "vmap(vjp) = the loop over vjp", differentiable=True)
def vmap_of_vjp(primitive: Primitive, sample: Sample) -> None:
    """Arguments, cotangents or both differ from lane to lane."""
    wrt = differentiable_args(primitive, sample)
    if not wrt:
        return
    count = len(sample.args)

    def pulled(*both: Tensor) -> tuple[Tensor, ...]:
        function = smooth(primitive, sample, wrt, both[:count])
        return vjp(function, *[both[i] for i in wrt])[1](both[count:])  # type: ignore[no-any-return]

    outs = [o for o in judged(primitive, sample) if o.dtype in INEXACT]
    variants = _with_others(sample, directions(outs, 2), 2)
    for mapped, place in _plans(count, count + len(outs)):
        is_the_loop(pulled, variants, mapped, place, "vmap(vjp(f))")
