"""Laws of what is recorded: residuals, the tape under ``.backward()``, ``create_graph``."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fx.backward_pass import backward_pass
from fx.dtypes import FLOATING, INEXACT, bool_
from fx.primitive import Primitive
from fx.prims.sampling import Sample
from fx.tape import Leaf, Node
from fx.tensor import Tensor
from fx.testing.case import (
    Arrays,
    Mismatch,
    array_of,
    as_tuple,
    call,
    differentiable_args,
    directions,
    draw,
    judged,
    lanes,
    numeric,
    smooth,
    subsets,
    tensor,
)
from fx.testing.closeness import expect_all_close
from fx.testing.derivatives import pull
from fx.testing.law import law
from fx.transforms import vjp

_SAME = 1e-12


def recorded(arrays: Sequence[np.ndarray], wrt: Sequence[int]) -> list[Tensor]:
    """Plain tensors, those of ``wrt`` leaves of the tape under ``.backward()``."""
    out = [tensor(a) for a in arrays]
    for i in wrt:
        out[i]._node = Leaf()
    return out


@law("vjp", "a result lives no longer than its last user", differentiable=True)
def results_are_freed(primitive: Primitive, sample: Sample) -> None:
    """Without the cyclic collector, on the tape of ``.backward()`` and through the transform."""
    wrt = differentiable_args(primitive, sample)
    enabled = gc.isenabled()
    gc.disable()
    try:
        if wrt:
            _freed_on_the_tape(primitive, sample, wrt)
            _freed_after_the_transform(primitive, sample, wrt)
    finally:
        if enabled:
            gc.enable()


def _freed_on_the_tape(primitive: Primitive, sample: Sample, wrt: Sequence[int]) -> None:
    xs = recorded(sample.args, wrt)
    outs = as_tuple(primitive(*xs, **sample.params))
    alive = [weakref.ref(o) for o in outs]
    leaves = [weakref.ref(x._node) for x in xs if x._node is not None]
    del outs, xs
    held = [i for i, o in enumerate(alive) if o() is not None]
    if held:
        raise Mismatch(
            f"outputs {held} are kept alive by their own pullback; "
            f"name them in saves=(...) and take them as arguments of the pullback"
        )
    if any(leaf() is not None for leaf in leaves):
        raise Mismatch("the graph of a dropped result is still alive")


def _freed_after_the_transform(primitive: Primitive, sample: Sample, wrt: Sequence[int]) -> None:
    args = [np.array(a) for a in sample.args]
    alive = [weakref.ref(a) for a in args]
    function = smooth(primitive, sample, wrt, list(map(tensor, args)))
    outs, pullback = vjp(function, *[tensor(args[i]) for i in wrt])
    grads = pullback(tuple(map(tensor, directions(list(map(array_of, outs)), 2))))
    del args, function, outs, pullback, grads
    if any(a() is not None for a in alive):
        raise Mismatch("the arguments of a dropped vjp are still alive")


@law("vjp", "the pullback keeps only what it needs", differentiable=True)
def residuals(primitive: Primitive, sample: Sample) -> None:
    """An argument that a pullback keeps alive, or an output it saves, changes what it gives.

    For every subset of arguments that want a cotangent. Whether a kept array is needed is found out
    by changing it, in this sample and in others (a sum over an axis of one element may need
    nothing): when no change of its values ever changes a cotangent, it is kept for nothing.
    """
    for wanted in subsets(differentiable_args(primitive, sample)):
        for i in _kept(primitive, sample, wanted):
            if not any(_matters(primitive, s, wanted, i) for s in _and_more(primitive, sample)):
                raise Mismatch(
                    f"with needs {wanted} the pullback keeps argument {i}, on which it does not "
                    f"depend; keep its shape or dtype in a variable of the rule instead"
                )
    for i in primitive.saves:
        if not any(_saved_matters(primitive, s, i) for s in _and_more(primitive, sample)):
            raise Mismatch(f"saves={primitive.saves}, but the pullback does not use output {i}")


def _and_more(primitive: Primitive, sample: Sample) -> Iterator[Sample]:
    """The sample, and others with as many arguments."""
    yield sample
    for seed in range(40):
        other = draw(primitive, random.Random(seed))
        if len(other.args) == len(sample.args):
            yield other


def _cotangents(primitive: Primitive, sample: Sample) -> list[Any]:
    outs = call(primitive, sample.args, sample.params)
    return [tensor(u) if u.dtype in INEXACT else None for u in directions(outs, 1)]


def _saved_matters(primitive: Primitive, sample: Sample, i: int) -> bool:
    """Whether the pullback gives something else when output ``i`` has other values."""
    wrt = differentiable_args(primitive, sample)
    args = [tensor(a) for a in sample.args]
    outs = as_tuple(primitive(*args, **sample.params))
    cotangents = _cotangents(primitive, sample)
    given = cotangents if primitive.multiple else cotangents[0]
    needs = tuple([Leaf() if k in wrt else None for k in range(len(args))])
    pullback: Any = primitive.vjp(needs, *args, **sample.params) if wrt else None

    def pulled(output: Tensor) -> Arrays:
        saved = [output if k == i else outs[k] for k in primitive.saves]
        return [array_of(g) for g in pullback(given, *saved) if g is not None]

    if pullback is None:
        return False
    before, a = pulled(outs[i]), array_of(outs[i])
    return _changes(before, pulled, [-a, a + 100, a - 100, a + 1])


def _changes(before: Arrays, pulled: Callable[[Tensor], Arrays], others: Arrays) -> bool:
    for other in others:
        try:
            after = pulled(tensor(other))
        except Exception:  # a value out of range: it is looked at
            return True
        if not all(map(np.array_equal, before, after)):
            return True
    return False


def _kept(primitive: Primitive, sample: Sample, wanted: Sequence[int]) -> list[int]:
    """The arguments whose memory is alive after everybody but the pullback let go of them."""
    args = [np.array(a) for a in sample.args]
    alive = [weakref.ref(a) for a in args]
    needs = tuple([Leaf() if i in wanted else None for i in range(len(args))])
    xs = [tensor(a) for a in args]
    pullback = primitive.vjp(needs, *xs, **sample.params)
    del args, xs
    held = [i for i, a in enumerate(alive) if a() is not None]
    del pullback
    return held


def _matters(primitive: Primitive, sample: Sample, wanted: Sequence[int], i: int) -> bool:
    """Whether the pullback gives something else when argument ``i`` has other values."""
    a = sample.args[i]
    cotangents = _cotangents(primitive, sample)
    others = [v[i] for v in lanes(sample, 3)[1:]]
    if a.dtype in FLOATING:
        others += [-a, a + 100, a - 100, a * 1000, a / 1000]
    else:
        others += [~a] if a.dtype == bool_ else [a + 1]

    def pulled(value: Tensor) -> Arrays:
        args = [value if k == i else tensor(b) for k, b in enumerate(sample.args)]
        grads = pull(primitive, args, sample.params, wanted, cotangents) or ()
        return [array_of(g) for g in grads if g is not None]

    return _changes(pulled(tensor(a)), pulled, others)


def _roots(outs: Sequence[Tensor], weights: Arrays) -> list[tuple[Node, Tensor]]:
    return [(o._node, tensor(w)) for o, w in zip(outs, weights, strict=True) if o._node is not None]


@law("vjp", "the tape of .backward() = the vjp transform, in first and second order", True)
def tape_is_the_transform(primitive: Primitive, sample: Sample) -> None:
    """One engine, two faces: the same numbers, and the same again through ``create_graph``."""
    wrt = differentiable_args(primitive, sample)
    if not wrt:
        return
    at = [sample.args[i] for i in wrt]
    outs = [o for o in judged(primitive, sample) if o.dtype in INEXACT]
    us, ws = directions(outs, 2), directions(at, 3)
    function = smooth(primitive, sample, wrt)

    def pulled(*xs: Tensor) -> tuple[Tensor, ...]:
        return vjp(function, *xs)[1](tuple(map(tensor, us)))  # type: ignore[no-any-return]

    def taped(create_graph: bool) -> tuple[list[Tensor], list[Tensor | None]]:
        xs = recorded(at, range(len(at)))
        leaves = [x._node for x in xs]
        found = backward_pass(
            _roots(function(*xs), us), level=0, inputs=leaves, accumulate=False,
            create_graph=create_graph, keep=create_graph,
        )  # fmt: skip
        return xs, [found.get(leaf) for leaf in leaves]

    first = numeric(pulled)(*at)
    for create_graph in (False, True):
        xs, grads = taped(create_graph)
        expect_all_close(_or_zeros(grads, at), first, _SAME, f"create_graph={create_graph}")
    second = numeric(lambda *ts: vjp(pulled, *ts)[1](tuple(map(tensor, ws))))(*at)
    pairs = [(g, w) for g, w in zip(grads, ws, strict=True) if g is not None]
    leaves = [x._node for x in xs]
    found = backward_pass(
        _roots([g for g, _ in pairs], [w for _, w in pairs]), level=0, inputs=leaves,
        accumulate=False,
    )  # fmt: skip
    got = _or_zeros([found.get(leaf) for leaf in leaves], at)
    expect_all_close(got, second, _SAME, "a second backward through create_graph")


def _or_zeros(grads: Sequence[Tensor | None], like: Arrays) -> Arrays:
    return [
        np.zeros_like(a) if g is None else array_of(g) for g, a in zip(grads, like, strict=True)
    ]
