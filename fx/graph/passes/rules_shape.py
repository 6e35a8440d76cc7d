"""Rules of what moves elements: reshape, transpose, broadcasts, slices, pads, concatenations."""

from __future__ import annotations

import itertools
from typing import Any

from fx.graph.ir import Value
from fx.graph.passes.simplification import Rule, Simplifier, made_by


def _same(s: Simplifier, inputs: Any, params: Any, spec: Any) -> Value | None:
    """What gives its argument's own shape is the argument."""
    return inputs[0] if inputs[0].spec.shape == spec.shape else None


def _of_full(s: Simplifier, inputs: Any, params: Any, spec: Any) -> Value | None:
    """What only moves elements that are all the same."""
    x = inputs[0]
    if x.constant is not None and spec.size <= 1:
        return None  # folding does it
    number = s.number(x)
    return None if number is None or not spec.shape else s.full(number, spec)


# reshape and transpose --------------------------------------------------------------------------


def _reshape_of_reshape(s: Simplifier, inputs: Any, params: Any, spec: Any) -> Value | None:
    node = made_by(inputs[0], "reshape")
    return None if node is None else s.reshape(node.inputs[0], spec.shape)


def _reshape_of_ones(s: Simplifier, inputs: Any, params: Any, spec: Any) -> Value | None:
    """reshape(broadcast_to(x)) where x has one element, or where only ones are put in front."""
    node = made_by(inputs[0], "broadcast_to")
    if node is None:
        return None
    x = node.inputs[0]
    if x.spec.size == 1:
        return s.broadcast(s.reshape(x, ()), spec.shape)
    return None


def _reshape_of_reduction(s: Simplifier, inputs: Any, params: Any, spec: Any) -> Value | None:
    """Axes that a reduction dropped and a reshape puts back were better kept."""
    node = inputs[0].node
    if node is None or node.params.get("keepdims") is not False or not s.used_once(inputs[0]):
        return None
    if made_by(inputs[0], node.primitive.name) is None or "axes" not in node.params:
        return None
    source, axes = node.inputs[0], node.params["axes"]
    kept = tuple([1 if i in axes else n for i, n in enumerate(source.spec.shape)])
    if kept != spec.shape or not axes:
        return None
    return s.make(node.primitive.name, source, axes=axes, keepdims=True)


def _transpose_of_nothing(s: Simplifier, inputs: Any, params: Any, spec: Any) -> Value | None:
    """The identity, or a reshape: axes of size 1 may stand anywhere."""
    axes, x = params["axes"], inputs[0]
    if axes == tuple(range(len(axes))):
        return x  # type: ignore[no-any-return]
    shape = x.spec.shape
    long = [a for a in axes if shape[a] != 1]
    if all(a < b for a, b in itertools.pairwise(long)):
        return s.reshape(x, spec.shape)
    return None


def _transpose_of_transpose(s: Simplifier, inputs: Any, params: Any, spec: Any) -> Value | None:
    node = made_by(inputs[0], "transpose")
    if node is None:
        return None
    inner = node.params["axes"]
    return s.make("transpose", node.inputs[0], axes=tuple([inner[a] for a in params["axes"]]))


def swaps_last(axes: tuple[int, ...]) -> bool:
    """Whether a permutation exchanges the last two axes and nothing else."""
    n = len(axes)
    return n >= 2 and axes == (*range(n - 2), n - 1, n - 2)


def _transpose_of_matmul(s: Simplifier, inputs: Any, params: Any, spec: Any) -> Value | None:
    """(x @ y).T is y.T @ x.T, whose transposes cost nothing: a product reads through them."""
    node = made_by(inputs[0], "matmul")
    if node is None or not swaps_last(params["axes"]) or not s.used_once(inputs[0]):
        return None
    x, y = node.inputs
    return s.make("matmul", swap_last(s, y), swap_last(s, x))


def swap_last(s: Simplifier, x: Value) -> Value:
    """x with the last two axes exchanged."""
    n = len(x.spec.shape)
    return s.make("transpose", x, axes=(*range(n - 2), n - 1, n - 2))


# broadcasts -------------------------------------------------------------------------------------


def _broadcast_of_view(s: Simplifier, inputs: Any, params: Any, spec: Any) -> Value | None:
    x = inputs[0]
    node = made_by(x, "broadcast_to")
    if node is not None:
        return s.broadcast(node.inputs[0], spec.shape)
    node = made_by(x, "reshape")
    if node is None:
        return None
    source = node.inputs[0]
    if source.spec.size == 1 and source.spec.shape != ():
        return s.broadcast(s.reshape(source, ()), spec.shape)
    ones = len(x.spec.shape) - len(source.spec.shape)
    if ones >= 0 and x.spec.shape == (1,) * ones + source.spec.shape:
        return s.broadcast(source, spec.shape)
    return None


# slices and pads --------------------------------------------------------------------------------


def _ranges(params: Any) -> Any:
    return zip(params["start"], params["stop"], params["step"])


def _whole_slice(s: Simplifier, inputs: Any, params: Any, spec: Any) -> Value | None:
    """A slice that leaves nothing out; of one that drops axes, a reshape."""
    x = inputs[0]
    if all((a, b) == (0, n) and c == 1 for (a, b, c), n in zip(_ranges(params), x.spec.shape)):
        return s.reshape(x, spec.shape)
    return None


def _slice_of_slice(s: Simplifier, inputs: Any, params: Any, spec: Any) -> Value | None:
    node = made_by(inputs[0], "slice")
    if node is None or node.params.get("drop"):
        return None
    start, stop, step = [], [], []
    for (a, b, c), (a0, _, c0) in zip(_ranges(params), _ranges(node.params)):
        count = -(-(b - a) // c)
        start.append(a0 + a * c0 if count else 0)
        step.append(c * c0)
        stop.append(start[-1] + (count - 1) * step[-1] + 1 if count else 0)
    return s.make(
        "slice", node.inputs[0], start=tuple(start), stop=tuple(stop), step=tuple(step),
        drop=params.get("drop", ()),
    )  # fmt: skip


def _slice_of_concatenate(s: Simplifier, inputs: Any, params: Any, spec: Any) -> Value | None:
    """A slice that lies within one of the pieces is a slice of that piece."""
    node = made_by(inputs[0], "concatenate")
    if node is None:
        return None
    axis = node.params["axis"]
    a, b = params["start"][axis], params["stop"][axis]
    begin = 0
    for piece in node.inputs:
        n = piece.spec.shape[axis]
        if begin <= a <= b <= begin + n and n:
            start, stop = list(params["start"]), list(params["stop"])
            start[axis], stop[axis] = a - begin, b - begin
            return s.make("slice", piece, **{**params, "start": tuple(start), "stop": tuple(stop)})
        begin += n
    return None


def _pad_by_nothing(s: Simplifier, inputs: Any, params: Any, spec: Any) -> Value | None:
    x = inputs[0]
    if x.spec.shape == spec.shape and x.spec.size:
        return x  # type: ignore[no-any-return]
    if not x.spec.size:  # nothing but what is put around it
        return s.broadcast(inputs[1], spec.shape)
    number = s.number(x)
    if number is not None and spec.shape:
        value = s.number(inputs[1])
        if value is not None and repr(value) == repr(number):
            return s.full(number, spec)
    return None


# concatenations and flips -----------------------------------------------------------------------


def _concatenate(s: Simplifier, inputs: Any, params: Any, spec: Any) -> Value | None:
    axis = params["axis"]
    if len(inputs) == 1:
        return inputs[0]  # type: ignore[no-any-return]
    pieces: list[Value] = []
    for x in inputs:
        node = made_by(x, "concatenate")
        if node is not None and node.params["axis"] == axis and s.used_once(x):
            pieces += node.inputs
        elif x.spec.shape[axis]:
            pieces.append(x)
    if not pieces or (len(pieces) == len(inputs) and all(a is b for a, b in zip(pieces, inputs))):
        return None
    return s.make("concatenate", *pieces, axis=axis)


def _flip(s: Simplifier, inputs: Any, params: Any, spec: Any) -> Value | None:
    x, axes = inputs[0], params["axes"]
    kept = tuple([a for a in axes if spec.shape[a] > 1])
    if not kept:
        return x  # type: ignore[no-any-return]
    node = made_by(x, "flip")
    if node is not None:
        both = tuple(sorted(set(kept) ^ set(node.params["axes"])))
        return s.make("flip", node.inputs[0], axes=both)
    return None if kept == axes else s.make("flip", x, axes=kept)


# reading matrices through what does not change them ---------------------------------------------


def _matmul_of_broadcasts(s: Simplifier, inputs: Any, params: Any, spec: Any) -> Value | None:
    """A product broadcasts its leading axes by itself."""
    x, y = [_without_lead(v) for v in inputs]
    if x is inputs[0] and y is inputs[1]:
        return None
    lead = spec.shape[:-2]
    a, b = x.spec.shape[:-2], y.spec.shape[:-2]
    if _broadcast(a, b) != lead:
        return None
    return s.make("matmul", x, y)


def _broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    return tuple([m if n == 1 else n for n, m in zip(a, b)])


def _without_lead(x: Value) -> Value:
    """What ``x`` is broadcast from, if only along leading axes."""
    node = made_by(x, "broadcast_to")
    if node is None:
        return x
    source = node.inputs[0]
    return source if source.spec.shape[-2:] == x.spec.shape[-2:] else x


RULES: dict[str, list[Rule]] = {
    "reshape": [_same, _of_full, _reshape_of_reshape, _reshape_of_ones, _reshape_of_reduction],
    "transpose": [
        _transpose_of_nothing, _of_full, _transpose_of_transpose, _transpose_of_matmul
    ],
    "broadcast_to": [_same, _of_full, _broadcast_of_view],
    "slice": [_whole_slice, _of_full, _slice_of_slice, _slice_of_concatenate],
    "pad": [_pad_by_nothing],
    "concatenate": [_concatenate],
    "flip": [_of_full, _flip],
    "matmul": [_matmul_of_broadcasts],
}  # fmt: skip
