"""The primitive ``while``: a body that runs as long as a condition on its carry holds.

Arguments: the carry, what the condition reads besides, and what the body reads besides. Results:
the last carry. Going back needs the number of runs, which only a call with values knows: the
pullback counts them, and is then that of a ``scan``.
"""

from __future__ import annotations

from typing import Any

import fx.prims.compare as compare
import fx.prims.elementwise as ew
import fx.prims.reduction as reduction
from fx.dtypes import bool_, int64
from fx.errors import BackwardError, DTypeError, ShapeError
from fx.graph.ir import Graph, input_value
from fx.graph.staging import StageTracer, evaluate
from fx.levels import Tracer
from fx.primitive import define
from fx.prims.creation import constant, zeros_like_spec
from fx.prims.families import to_front
from fx.spec import TensorSpec
from fx.tensor import Tensor
from fx.transforms.batching import BatchTracer, lanes_to
from fx.transforms.control import samples
from fx.transforms.control.cond_primitive import cond, gated, select_lanes
from fx.transforms.control.graphs import (
    batched_graph,
    derive,
    fixpoint,
    jvp_graph,
    out_specs,
    specs_of,
    spread_lanes,
    spread_smooth,
    used_inputs,
)
from fx.transforms.control.runner import fits, runner
from fx.transforms.control.scan_primitive import planned, scan
from fx.transforms.control.split import filled

# spec and kernel ----------------------------------------------------------------------------------


def _spec(*specs, condition, body, carries, read):
    end = carries + read
    carry, first, rest = specs[:carries], specs[carries:end], specs[end:]
    if len(specs) - read != len(body.inputs) or end != len(condition.inputs):
        raise ShapeError(f"while: {len(specs)} tensors do not fit the condition and the body")
    (holds,) = out_specs(condition, [*carry, *first])
    if holds.shape != () or holds.dtype != bool_:
        raise DTypeError(f"while: the condition must give one bool, it gives {holds!r}")
    outs = out_specs(body, [*carry, *rest])
    for i, (before, after) in enumerate(zip(carry, outs)):
        if before != after:
            raise ShapeError(
                f"while: carry {i} comes in as {before!r} and goes out as {after!r}; "
                f"the carry keeps its shape and dtype"
            )
    return outs


def _cpu(*arrays, condition, body, carries, read):
    end = carries + read
    carry, first, rest = list(arrays[:carries]), list(arrays[carries:end]), list(arrays[end:])
    if not fits(body, [*carry, *rest]) or not fits(condition, [*carry, *first]):
        _spec(
            *[TensorSpec(a.shape, a.dtype) for a in arrays],
            condition=condition, body=body, carries=carries, read=read,
        )  # fmt: skip
    holds, step = runner(condition), runner(body)
    while holds([*carry, *first])[0]:
        carry = step([*carry, *rest])
    return tuple(carry)


# forward mode -------------------------------------------------------------------------------------


def _jvp(primals, tangents, *, condition, body, carries, read):
    end = carries + read
    values = [*primals[:carries], *primals[end:]]
    given = [t is not None for t in (*tangents[:carries], *tangents[end:])]
    specs = specs_of(values)
    moving, _ = fixpoint(carries, given, lambda f: spread_smooth(body, specs, f))
    if not any(moving[:carries]):
        return while_(
            *primals, condition=condition, body=body, carries=carries, read=read
        ), (None,) * carries  # fmt: skip
    both, _ = jvp_graph(body, specs, moving, moving[:carries])
    ts = [
        zeros_like_spec(x.spec) if t is None else t
        for x, t, m in zip(values, [*tangents[:carries], *tangents[end:]], moving)
        if m
    ]
    extra = sum(moving[:carries])
    found = while_(
        *primals[:carries], *ts[:extra], *primals[carries:], *ts[extra:],
        condition=_ignoring(condition, carries, tuple([t.spec for t in ts[:extra]])),
        body=_interleaved(both, carries, len(values), extra), carries=carries + extra, read=read,
    )  # fmt: skip
    return found[:carries], tuple(filled(moving[:carries], found[carries:]))


def _ignoring(condition: Graph, place: int, specs: tuple[TensorSpec, ...]) -> Graph:
    """The condition with inputs at ``place`` that it does not look at."""
    key = ("ignoring", place, specs)
    found = condition.cache.get(key)
    if found is None:
        more = [input_value(s) for s in specs]
        inputs = [*condition.inputs[:place], *more, *condition.inputs[place:]]
        found = Graph(inputs, condition.nodes, condition.outputs, condition.name)
        condition.cache[key] = found
    return found  # type: ignore[no-any-return]


def _interleaved(graph: Graph, carries: int, count: int, extra: int) -> Graph:
    """Values and tangents of the carry first, then those of the rest."""
    key = ("interleaved", carries, count, extra)
    found = graph.cache.get(key)
    if found is None:
        ins, end = graph.inputs, count + extra
        inputs = [*ins[:carries], *ins[count:end], *ins[carries:count], *ins[end:]]
        found = graph.cache[key] = Graph(inputs, graph.nodes, graph.outputs, graph.name)
    return found  # type: ignore[no-any-return]


# reverse mode -------------------------------------------------------------------------------------


def _vjp(needs, *args, condition, body, carries, read):
    end, total = carries + read, len(needs)
    specs = specs_of(args)
    masked = any(_has_lanes(x) for x in args)
    places = [*range(carries), *(range(carries, end) if masked else ()), *range(end, total)]
    looped = _masked(condition, body, carries, read, specs) if masked else body
    inner = tuple([specs[i] for i in places])
    wants = [needs[i] if i < carries or i >= end else None for i in places]
    *_, plan = planned(wants, inner, body=looped, carries=carries, mapped=0, again=False)
    if plan is None:
        return None
    counter, counted = _counter(condition, body, carries, read, specs)
    kept: dict[int, Tensor] = {i: args[i] for i in {*counted, *[places[i] for i in plan.reads]}}

    def pullback(cts):
        have = [kept[i] if i in kept else zeros_like_spec(s) for i, s in enumerate(specs)]
        length = _count(have, counter, carries)
        pull = scan.vjp(
            wants, *[have[i] for i in places], body=looped, carries=carries, mapped=0,
            length=length, reverse=False, checkpoint=False,
        )  # fmt: skip
        grads: list[Any] = [None] * total
        for i, ct in zip(places, pull(cts)):
            grads[i] = ct
        return grads

    return pullback


def _has_lanes(x: Tensor) -> bool:
    while isinstance(x, Tracer):
        if isinstance(x, BatchTracer):
            return True
        below = getattr(x, "value", None)
        if below is None:
            return False
        x = below
    return False


def _masked(condition: Graph, body: Graph, carries: int, read: int, specs: Any) -> Graph:
    """One run of the body where the condition holds, none where it does not."""
    key = ("masked", condition, specs)
    found = body.cache.get(key)
    if found is None:
        end = carries + read
        kept = [*specs[:carries], *specs[end:]]
        idle = derive(lambda *xs: xs[:carries], kept, "nothing")

        def run(*xs: Tensor) -> Any:
            (holds,) = condition.run(*xs[:end])
            return cond(holds, *xs[:carries], *xs[end:], branches=(idle, body))

        found = body.cache[key] = derive(run, specs, body.name)
    return found  # type: ignore[no-any-return]


def _counter(condition: Graph, body: Graph, carries: int, read: int, specs: Any) -> Any:
    """The loop that counts runs: its parameters, and the arguments that it needs."""
    key = ("counter", condition, specs)
    found = body.cache.get(key)
    if found is None:
        end = carries + read
        needed: set[int] = set()
        outputs: list[Any] = []
        while True:
            asked = used_inputs(condition, condition.outputs)
            mine = {i for i, v in enumerate(condition.inputs[:carries]) if v in asked}
            rest = used_inputs(body, outputs)
            mine |= {i for i, v in enumerate(body.inputs[:carries]) if v in rest}
            if mine == needed and outputs:
                break
            needed = mine
            outputs = [body.outputs[i] for i in sorted(needed)]
            if not needed:
                break
        own = [i for i, v in enumerate(condition.inputs) if i >= carries and v in asked]
        free = [i for i, v in enumerate(body.inputs) if i >= carries and v in rest]
        handed = sorted(needed)

        def holds(n: Tensor, *xs: Tensor) -> Any:
            every = [zeros_like_spec(s) for s in specs[:end]]
            for i, x in zip([*handed, *own], xs):
                every[i] = x
            return condition.run(*every)

        def step(n: Tensor, *xs: Tensor) -> Any:
            every = [zeros_like_spec(s) for s in [*specs[:carries], *specs[end:]]]
            for i, x in zip([*handed, *free], xs):
                every[i] = x
            outs = body.run(*every)
            return [ew.add(n, constant(1, int64, n.device.name)), *[outs[i] for i in handed]]

        start = TensorSpec((), int64, specs[0].device if specs else "cpu")
        first = [start, *[specs[i] for i in handed]]
        behind = [i + read for i in free]
        params = {
            "condition": derive(holds, [*first, *[specs[i] for i in own]], condition.name),
            "body": derive(step, [*first, *[specs[i] for i in behind]], body.name),
            "carries": 1 + len(handed), "read": len(own),
        }  # fmt: skip
        found = body.cache[key] = (params, [*handed, *own, *behind]), {*handed, *own, *behind}
    return found


def _count(args: list[Tensor], counter: Any, carries: int) -> int:
    """The number of runs; where lanes differ, that of the longest."""
    params, places = counter
    device = args[0].device.name if args else "cpu"
    if device == "meta":
        raise BackwardError(_DYNAMIC)
    given = [compare.stop_gradient(args[i]) for i in places]
    count = while_(constant(0, int64, device), *given, **params)[0]
    while isinstance(count, Tracer):
        if isinstance(count, BatchTracer):
            count = reduction.max(count.value, axes=(count.dim,), keepdims=False)
            continue
        if isinstance(count, StageTracer):
            known = evaluate(count.ref)
            if known is None:
                raise BackwardError(_DYNAMIC)
            count = known
            continue
        below = getattr(count, "value", None)
        if below is None:
            raise BackwardError(_DYNAMIC)
        count = below
    return int(count._a)


_DYNAMIC = (
    "while_loop: going back through a loop (grad, vjp, .backward()) needs its number of runs, "
    "which is not known while a function is staged. Write fx.fori_loop(0, n, body, init) with a "
    "bound that is a Python int, or fx.scan(f, init, xs); or go forward with fx.jvp"
)


# lanes --------------------------------------------------------------------------------------------


def _batch(level, args, dims, *, condition, body, carries, read):
    end, size = carries + read, level.size
    given = [d is not None for d in dims]
    inner = [*given[:carries], *given[end:]]
    have, _ = fixpoint(carries, inner, lambda f: spread_lanes(body, f, level.number))
    several = spread_lanes(condition, [*have[:carries], *given[carries:end]], level.number)[0]
    carried = (True,) * carries if several else have[:carries]
    mapped = (*carried, *given[carries:])
    args = [
        lanes_to(x, d, 0, size) if i < carries and m else to_front(x, d) if d is not None else x
        for i, (x, d, m) in enumerate(zip(args, dims, mapped))
    ]
    specs = [
        TensorSpec(x.shape[1:] if m else x.shape, x.dtype, x.device.name)
        for x, m in zip(args, mapped)
    ]
    own = batched_graph(
        condition, tuple(specs[:end]), mapped[:end], (several,), level
    )[0]  # fmt: skip
    wide = batched_graph(
        body, (*specs[:carries], *specs[end:]), (*carried, *mapped[end:]), carried, level
    )[0]
    if not several:
        found = while_(*args, condition=own, body=wide, carries=carries, read=read)
        return found, tuple([0 if c else None for c in carried])
    holds, step = _until_all(own, wide, carries, read, mapped, specs_of(args))
    (first,) = own.run(*args[:end])
    found = while_(
        first, *args[:carries], *args[end:], *args[carries:end],
        condition=holds, body=step, carries=carries + 1, read=0,
    )  # fmt: skip
    return found[1:], (0,) * carries


def _until_all(own: Graph, wide: Graph, carries: int, read: int, mapped: Any, specs: Any) -> Any:
    """The loop that goes on while some lane does, and leaves the others as they are."""
    key = ("until all", own, mapped, specs)
    found = wide.cache.get(key)
    if found is None:
        end = carries + read
        size = specs[0].shape[0] if carries else own.specs[0].shape[0]
        mask = TensorSpec((size,), bool_, specs[0].device if specs else "cpu")

        def holds(going: Tensor, *xs: Tensor) -> Any:
            return [reduction.any(going, axes=(0,), keepdims=False)]

        def step(going: Tensor, *xs: Tensor) -> Any:
            carry, rest, first = xs[:carries], xs[carries : len(xs) - read], xs[len(xs) - read :]
            safe = [
                gated(going, x) if m else x
                for x, m in zip([*carry, *rest], [*mapped[:carries], *mapped[end:]])
            ]
            new = [select_lanes(going, a, b) for a, b in zip(wide.run(*safe), carry)]
            (more,) = own.run(*new, *first)
            return [compare.logical_and(going, more), *new]

        carry = [mask, *specs[:carries]]
        found = wide.cache[key] = (
            derive(holds, carry, own.name),
            derive(step, [*carry, *specs[end:], *specs[carries:end]], wide.name),
        )
    return found


while_ = define(
    "while", cpu=_cpu, spec=_spec, multiple=True,
    jvp=_jvp,
    vjp=_vjp,
    batch=_batch,
    sample=samples.while_,
)  # fmt: skip
