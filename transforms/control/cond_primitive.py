"""The primitive ``cond``: one of several branches, chosen by a bool or an integer.

Arguments: the predicate (bool: the first branch for False, the second for True; or an integer, cut
off at both ends), and the operands, which every branch takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import fx.prims.compare as compare
import fx.prims.indexing as indexing
import fx.prims.reduction as reduction
import fx.prims.shape as shape_prims
from fx.dtypes import INTEGRAL, bool_
from fx.errors import DTypeError, ShapeError
from fx.graph.bodies import distinct, out_specs, used_inputs
from fx.graph.ir import Graph
from fx.graph.passes.effects import can_fail
from fx.primitive import define
from fx.prims.creation import constant_like, zeros_like_spec
from fx.prims.families import to_front
from fx.spec import TensorSpec
from fx.tensor import Tensor
from fx.transforms.control import samples
from fx.transforms.control.graphs import (
    Flags,
    batched_graph,
    derive,
    is_linear,
    is_smooth,
    jvp_graph,
    specs_of,
    spread_lanes,
    spread_smooth,
    tangents_alone,
    values_alone,
)
from fx.transforms.control.split import filled, split


def _merge(flags: Sequence[Flags]) -> Flags:
    """What holds for some branch."""
    return tuple([any(column) for column in zip(*flags)])


# spec --------------------------------------------------------------------------------------------


def _spec(index, *specs, branches):
    if index.shape != ():
        raise ShapeError(f"cond: the predicate must be a scalar, got shape {index.shape}")
    if index.dtype != bool_ and index.dtype not in INTEGRAL:
        raise DTypeError(f"cond: the predicate must be bool or an integer, got {index.dtype.name}")
    if any(len(specs) != len(b.inputs) for b in branches):
        raise ShapeError(f"cond: a branch does not take {len(specs)} operands")
    outs = [out_specs(b, specs) for b in branches]
    for other in outs[1:]:
        if other != outs[0]:
            raise ShapeError(f"cond: the branches give {outs[0]} and {other}; make them the same")
    return outs[0]


# derivatives --------------------------------------------------------------------------------------


def _jvp(primals, tangents, *, branches):
    index, *operands = primals
    specs = specs_of(operands)
    moving = tuple([t is not None for t in tangents[1:]])
    smooth = _merge([spread_smooth(b, specs, moving) for b in branches])
    both = tuple([jvp_graph(b, specs, moving, smooth)[0] for b in branches])
    pushed = jvp_graph(branches[0], specs, moving, smooth)[1]
    count, ts = len(pushed), [t for t in tangents[1:] if t is not None]
    if all(is_linear(b, moving, (), count) for b in both):
        places = set(range(len(specs), len(specs) + len(ts)))
        for b in both:
            read = used_inputs(b, b.outputs[count:])
            places.update([i for i, v in enumerate(b.inputs) if v in read])
        alone = tuple([tangents_alone(b, tuple(sorted(places)), count) for b in both])
        args = [*operands, *ts]
        values = tuple([values_alone(b, len(specs), count) for b in both])
        outs = cond(index, *operands, branches=values)
        found = cond(index, *[args[i] for i in sorted(places)], branches=alone)
        return outs, tuple(filled(pushed, found))
    found = cond(index, *operands, *ts, branches=both)
    return found[:count], tuple(filled(pushed, found[count:]))


def _planned(needs, operands, branches):
    """How to go back, which results have a cotangent, and the specs of these; None if none."""
    specs = specs_of(operands)
    active = tuple([n is not None and is_smooth(s) for n, s in zip(needs[1:], specs)])
    smooth = _merge([spread_smooth(b, specs, active) for b in branches])
    if not any(smooth):
        return None, smooth, []
    outs = [s for s, w in zip(out_specs(branches[0], specs), smooth) if w]
    return _plan(branches, specs, active, smooth), smooth, outs


def _vjp(needs, index, *operands, branches):
    plan, smooth, outs = _planned(needs, operands, branches)
    if plan is None:
        return None
    ahead = [operands[i] for i in plan.forward_args]
    used = [operands[i] for i in plan.used]

    def residuals():
        return cond(index, *ahead, branches=plan.forward) if plan.residuals else ()

    return _pullback(plan, needs, smooth, outs, index, used, residuals)


def _forward(needs, index, *operands, branches):
    """Results, residuals and the pullback, from one branch forwards."""
    plan, smooth, outs = _planned(needs, operands, branches)
    if plan is None:
        return cond(index, *operands, branches=branches), None
    every, count = cond(index, *operands, branches=plan.both), len(branches[0].outputs)
    results, stored = every[:count], every[count:]
    used = [operands[i] for i in plan.used]
    return results, _pullback(plan, needs, smooth, outs, index, used, lambda: stored)


def _pullback(plan, needs, smooth, outs, index, used, residuals):
    count = len(needs)

    def pullback(cts):
        wanted = [ct for ct, w in zip(cts, smooth) if w]
        wanted = [zeros_like_spec(s) if ct is None else ct for s, ct in zip(outs, wanted)]
        found = cond(index, *residuals(), *used, *wanted, branches=plan.backward)
        grads: list[Any] = [None] * count
        for i, ct in zip(plan.gradients, found):
            grads[i + 1] = ct
        return grads

    return pullback


class _Plan:
    """How the pullback of a cond is computed: a cond for the residuals, and one back."""

    both: tuple[Graph, ...]  # the branches as they are recorded, and residuals as further results
    forward: tuple[Graph, ...]  # from the operands ``forward_args`` to residuals, padded
    forward_args: list[int]
    residuals: int  # how many there are
    backward: tuple[Graph, ...]  # from residuals, operands ``used`` and cotangents
    used: list[int]
    gradients: list[int]  # the operand of each result of the way back


def _plan(branches, specs, active, smooth):
    key = ("cond vjp", branches, specs, active, smooth)
    found = branches[0].cache.get(key)
    if found is None:
        found = branches[0].cache[key] = _make_plan(branches, specs, active, smooth)
    return found


def _make_plan(branches, specs, active, smooth):
    here = (True,) * len(specs)
    nothing = (False,) * len(specs)
    halves = [split(b, specs, active, smooth, here, nothing) for b in branches]
    slots: list[TensorSpec] = []  # a residual's place is shared by branches, one each of a spec
    places = []
    for h in halves:
        free = list(range(len(slots)))
        mine = []
        for v in h.forward.outputs:
            at = next((k for k in free if slots[k] == v.spec), None)
            if at is None:
                at = len(slots)
                slots.append(v.spec)
            else:
                free.remove(at)
            mine.append(at)
        places.append(mine)
    plan = _Plan()
    plan.residuals = len(slots)
    plan.used = sorted({i for h in halves for i in h.used})
    inputs = [{i for i, v in enumerate(h.forward.inputs) if v in _read(h.forward)} for h in halves]
    plan.forward_args = sorted(set().union(*inputs))
    wanted = [i for i, a in enumerate(active) if a]
    some = _merge([h.found for h in halves])
    plan.gradients = [i for i, f in zip(wanted, some) if f]

    def ahead(h, mine):
        def run(*xs):
            every: list[Any] = [zeros_like_spec(s) for s in specs]
            for i, x in zip(plan.forward_args, xs):
                every[i] = x
            found = dict(zip(mine, h.forward.run(*every)))
            return [found[k] if k in found else zeros_like_spec(s) for k, s in enumerate(slots)]

        return derive(run, [specs[i] for i in plan.forward_args], h.forward.name)

    def back(branch, h, mine):
        outs = [s for s, w in zip(out_specs(branch, specs), smooth) if w]

        def run(*xs):
            residuals = [xs[k] for k in mine]
            given = dict(zip(plan.used, xs[len(slots) :]))
            cts = xs[len(slots) + len(plan.used) :]
            found = h.backward.run(*residuals, *[given[i] for i in h.used], *cts)
            grads = dict(zip(wanted, filled(h.found, found)))
            return [
                zeros_like_spec(specs[i]) if grads[i] is None else grads[i] for i in plan.gradients
            ]

        ins = [*slots, *[specs[i] for i in plan.used], *outs]
        return derive(run, ins, h.backward.name)

    def whole(branch, h, mine):
        count = len(branch.outputs)

        def run(*xs):
            every = h.whole.run(*xs)
            found = dict(zip(mine, every[count:]))
            more = [found[k] if k in found else zeros_like_spec(s) for k, s in enumerate(slots)]
            return [*every[:count], *more]

        both = derive(run, specs, branch.name)
        return distinct(both, range(len(specs)), both.outputs)

    plan.both = tuple([whole(b, h, m) for b, h, m in zip(branches, halves, places)])
    plan.forward = tuple([ahead(h, mine) for h, mine in zip(halves, places)])
    plan.backward = tuple([back(b, h, m) for b, h, m in zip(branches, halves, places)])
    return plan


def _read(graph):
    return {v for node in graph.nodes for v in node.inputs} | set(graph.outputs)


# lanes --------------------------------------------------------------------------------------------


def _batch(level, args, dims, *, branches):
    index, *operands = args
    mapped = tuple([d is not None for d in dims[1:]])
    operands = [to_front(x, d) if d is not None else x for x, d in zip(operands, dims[1:])]
    specs = tuple(
        [
            TensorSpec(x.shape[1:] if m else x.shape, x.dtype, x.device.name)
            for x, m in zip(operands, mapped)
        ]
    )
    if dims[0] is None:
        lanes = _merge([spread_lanes(b, mapped, level.number) for b in branches])
        wide = [batched_graph(b, specs, mapped, lanes, level) for b in branches]
        found = cond(index, *operands, branches=tuple([g for g, _ in wide]))
        return found, tuple([0 if at else None for at in wide[0][1]])
    out: list[Tensor] | None = None
    for k, branch in enumerate(branches):
        mask = _takes(index, k, len(branches))  # (lanes,)
        everywhere = (True,) * len(branch.outputs)
        wide_graph, _ = batched_graph(branch, specs, mapped, everywhere, level)
        given = [
            gated(mask, x) if m and needs_gate(branch, x) else x for x, m in zip(operands, mapped)
        ]
        some = reduction.any(mask, axes=(0,), keepdims=False)
        blank = _zeros_of(wide_graph, tuple([x.spec for x in given]))
        results = cond(some, *given, branches=(blank, wide_graph))
        out = (
            list(results)
            if out is None
            else [select_lanes(mask, new, old) for new, old in zip(results, out)]
        )
    return tuple(out or ()), (0,) * len(out or ())


def _takes(index: Tensor, k: int, count: int) -> Tensor:
    """Which lanes take branch ``k``."""
    if index.dtype == bool_:
        if count == 1:
            return compare.equal(index, index)
        return index if k == 1 else compare.logical_not(index)
    at = constant_like(k, index)
    if count == 1:
        return compare.equal(index, index)
    if k == 0:
        return compare.less_equal(index, at)
    return compare.greater_equal(index, at) if k == count - 1 else compare.equal(index, at)


def needs_gate(graph: Graph, x: Tensor) -> bool:
    """Whether lanes that do not count may do harm: derivatives of 0 * inf, errors."""
    return is_smooth(x) or can_fail(graph)


def gated(mask: Tensor, x: Tensor) -> Tensor:
    """``x`` in the lanes of ``mask``, in the others what one of those has, without a derivative.

    So what is computed for the others is as harmless as what is computed for that one, and no
    0 * inf comes back from it.
    """
    if not mask.shape[0]:
        return x
    chosen = reduction.argmax(mask, axis=0, keepdims=False)
    safe = indexing.take(compare.stop_gradient(x), chosen, axis=0)
    return select_lanes(mask, x, shape_prims.broadcast_to(safe, shape=x.shape))


def select_lanes(mask: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """``x`` in the lanes of ``mask`` (lanes,), ``y`` in the others."""
    wide = shape_prims.reshape(mask, shape=(*mask.shape, *[1] * (x.ndim - 1)))
    return compare.where(wide, x, y)


def _zeros_of(graph: Graph, specs: tuple[TensorSpec, ...]) -> Graph:
    """A graph of the same signature that gives zeros."""
    found = graph.cache.get(("zeros", specs))
    if found is None:
        outs = out_specs(graph, specs)
        found = graph.cache["zeros", specs] = derive(
            lambda *xs: [zeros_like_spec(s) for s in outs], specs, "nothing"
        )
    return found  # type: ignore[no-any-return]


cond = define(
    "cond", spec=_spec, multiple=True,
    jvp=_jvp,
    vjp=_vjp, forward=_forward,
    batch=_batch,
    sample=samples.cond,
)  # fmt: skip
