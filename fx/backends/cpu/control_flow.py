"""Kernels of control flow: loops in Python over the kernels of a body, on bare arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import asarray, ndarray

from fx.devices import moved
from fx.graph.bodies import out_specs
from fx.graph.ir import Graph
from fx.graph.walking import Values, runner
from fx.spec import TensorSpec

ARRAYS = Values(lambda p: p.cpu, lambda value: moved(value.array, "cpu"), ndarray, asarray)


def _keeps(before: Sequence[Any], after: Sequence[Any]) -> None:
    """Refuse a carry that changes; the spec rule says it in better words."""
    for a, b in zip(before, after):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise ValueError("the carry changes")


def scan(
    *arrays: Any,
    body: Graph,
    carries: int,
    mapped: int,
    length: int,
    reverse: bool,
    checkpoint: bool,
) -> tuple[Any, ...]:
    """The last carry, and the rows that came out."""
    end = carries + mapped
    carry, scanned, rest = list(arrays[:carries]), arrays[carries:end], list(arrays[end:])
    if len(arrays) != len(body.inputs) or any(len(a) != length for a in scanned):
        raise ValueError("a body of another number of inputs, or rows")
    specs = out_specs(
        body,
        [
            TensorSpec(shape, a.dtype)
            for shape, a in (
                *[(a.shape, a) for a in carry],
                *[(a.shape[1:], a) for a in scanned],
                *[(a.shape, a) for a in rest],
            )
        ],
    )
    _keeps(carry, specs)
    rows = [np.empty((length, *s.shape), s.dtype) for s in specs[carries:]]
    order = range(length - 1, -1, -1) if reverse else range(length)
    placing = body.cache.get("placing")
    if placing is not None:  # its code writes the rows where they belong
        placed = placing()
        rest = [np.ascontiguousarray(a) for a in rest]  # or each step would turn them
        for i in order:
            arrays = [*carry, *[a[i, ...] for a in scanned], *rest]
            carry = placed(arrays, [row[i, ...] for row in rows])[:carries]
        return (*[np.array(a) for a in carry], *rows)  # it may lie in a row
    run = runner(body, ARRAYS)
    for i in order:
        outs = run([*carry, *[a[i, ...] for a in scanned], *rest])
        carry = outs[:carries]
        for row, out in zip(rows, outs[carries:]):
            row[i] = out
    return (*carry, *rows)


def while_(*arrays: Any, condition: Graph, body: Graph, carries: int, read: int) -> tuple[Any, ...]:
    """The carry for which the condition does not hold."""
    end = carries + read
    carry, first, rest = list(arrays[:carries]), list(arrays[carries:end]), list(arrays[end:])
    spec = lambda a: TensorSpec(a.shape, a.dtype)
    _keeps(carry, out_specs(body, [*map(spec, carry), *map(spec, rest)]))
    (asked,) = out_specs(condition, [*map(spec, carry), *map(spec, first)])
    if asked.shape or asked.dtype != bool:
        raise ValueError("the condition is not one bool")
    holds, step = runner(condition, ARRAYS), runner(body, ARRAYS)
    while holds([*carry, *first])[0]:
        carry = step([*carry, *rest])
    return tuple(carry)


def cond(index: Any, *arrays: Any, branches: tuple[Graph, ...]) -> tuple[Any, ...]:
    """What the chosen branch gives."""
    if index.shape != () or index.dtype.kind not in "biu":
        raise ValueError("the predicate is not one bool or integer")
    specs = [TensorSpec(a.shape, a.dtype) for a in arrays]
    if len({out_specs(b, specs) for b in branches}) > 1:
        raise ValueError("the branches differ")
    chosen = branches[min(max(int(index), 0), len(branches) - 1)]
    return tuple(runner(chosen, ARRAYS)(arrays))


def unstack(x: Any, *, axis: int) -> tuple[Any, ...]:
    """The slices along an axis, views."""
    lead = (slice(None),) * axis
    return tuple([x[(*lead, i, ...)] for i in range(x.shape[axis])])


def stack(*xs: Any, axis: int) -> Any:
    """Arrays of one shape along a new axis."""
    if any(x.dtype != xs[0].dtype for x in xs):
        raise TypeError("dtypes differ")
    return np.stack(xs, axis)
