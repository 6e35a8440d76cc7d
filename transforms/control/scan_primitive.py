"""The primitive ``scan``: a body that runs a fixed number of times, its carry handed on.

Arguments: the carry, the tensors whose rows are scanned, and what is the same in every run.
Results: the last carry, and the rows that the body gave, stacked. The body's graph takes and gives
the same for one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx.errors import ShapeError
from fx.graph.bodies import distinct, out_specs, used_inputs
from fx.graph.ir import Graph, Node, Value
from fx.primitive import define
from fx.prims.creation import zeros_like_spec
from fx.spec import TensorSpec
from fx.tensor import Tensor
from fx.transforms.batching import lanes_to
from fx.transforms.control import samples
from fx.transforms.control.graphs import (
    batched_graph,
    derive,
    fixpoint,
    is_linear,
    is_smooth,
    jvp_graph,
    spread_lanes,
    spread_smooth,
    tangents_alone,
    values_alone,
)
from fx.transforms.control.split import Split, filled, split


def _inner(specs: Sequence[TensorSpec], carries: int, mapped: int) -> list[TensorSpec]:
    """The specs that the body gets: of rows where the arguments are scanned."""
    end = carries + mapped
    rows = [s.with_(shape=s.shape[1:]) for s in specs[carries:end]]
    return [*specs[:carries], *rows, *specs[end:]]


def _inner_specs(args: Sequence[Tensor], carries: int, mapped: int) -> tuple[TensorSpec, ...]:
    return tuple(_inner([x.spec for x in args], carries, mapped))


# spec --------------------------------------------------------------------------------------------


def _spec(*specs, body, carries, mapped, length, reverse, checkpoint):
    if len(specs) != len(body.inputs):
        raise ShapeError(f"scan: {body.name} takes {len(body.inputs)} tensors, got {len(specs)}")
    for s in specs[carries : carries + mapped]:
        if s.shape[:1] != (length,):
            raise ShapeError(
                f"scan: {s!r} is scanned over {length} rows, but its first axis has another size"
            )
    outs = out_specs(body, _inner(specs, carries, mapped))
    for i, (before, after) in enumerate(zip(specs[:carries], outs)):
        if before != after:
            raise ShapeError(
                f"scan: carry {i} comes in as {before!r} and goes out as {after!r}; "
                f"the carry keeps its shape and dtype"
            )
    return (*outs[:carries], *[s.with_(shape=(length, *s.shape)) for s in outs[carries:]])


# derivatives --------------------------------------------------------------------------------------


def _jvp(primals, tangents, *, body, carries, mapped, length, **flags):
    specs = _inner_specs(primals, carries, mapped)
    given = [t is not None for t in tangents]
    moving, outs = fixpoint(carries, given, lambda f: spread_smooth(body, specs, f))
    wanted = (*moving[:carries], *[False] * (len(outs) - carries))
    both, pushed = jvp_graph(body, specs, moving, wanted)
    ts = [
        zeros_like_spec(x.spec) if t is None else t
        for x, t, m in zip(primals, tangents, moving)
        if m
    ]
    end = carries + mapped
    kinds = [0] * carries + [1] * mapped + [2] * (len(primals) - end)
    moved = [k for k, m in zip(kinds, moving) if m]
    count, args = len(body.outputs), [*primals, *ts]
    if is_linear(both, moving, range(carries), count):
        read = used_inputs(both, both.outputs[count:])
        places = [i for i, v in enumerate(both.inputs) if i >= len(primals) or v in read]
        every = [*kinds, *moved]
        inputs = sorted(places, key=lambda i: every[i])
        alone = tangents_alone(both, tuple(inputs), count)
        values = values_alone(both, len(primals), count)
        outs = scan(*primals, body=values, carries=carries, mapped=mapped, length=length, **flags)
        found = scan(
            *[args[i] for i in inputs], body=alone, carries=moved.count(0),
            mapped=[every[i] for i in inputs].count(1), length=length, **flags,
        )  # fmt: skip
        return outs, tuple(filled(pushed, found))
    # carry, tangents of the carry; rows, tangents of rows; the rest
    inputs = _merged(kinds, moved)
    out_kinds = [0] * carries + [1] * (count - carries)
    outputs = _merged(out_kinds, [k for k, p in zip(out_kinds, pushed) if p])
    arranged = _arranged(both, inputs, outputs)
    found = scan(
        *[args[i] for i in inputs], body=arranged, carries=carries + moved.count(0),
        mapped=mapped + moved.count(1), length=length, **flags,
    )  # fmt: skip
    back: list[Any] = [None] * len(outputs)
    for place, x in zip(outputs, found):
        back[place] = x
    return tuple(back[:count]), tuple(filled(pushed, back[count:]))


def _merged(kinds, more):
    """The places of two lists in one, those of a kind together."""
    both = list(enumerate([*kinds, *more]))
    return [i for kind in (0, 1, 2) for i, k in both if k == kind]


def _arranged(graph, inputs, outputs):
    """The graph with its inputs and outputs in another order."""
    key = ("arranged", tuple(inputs), tuple(outputs))
    found = graph.cache.get(key)
    if found is None:
        found = graph.cache[key] = Graph(
            [graph.inputs[i] for i in inputs], graph.nodes, [graph.outputs[i] for i in outputs],
            graph.name,
        )  # fmt: skip
    return found


def planned(needs, specs, *, body, carries, mapped, again):
    """Which inputs of the body want a gradient, which outputs have one, and the plan; or None."""
    given = [n is not None and is_smooth(s) for n, s in zip(needs, specs)]
    active, smooth = fixpoint(carries, given, lambda f: spread_smooth(body, specs, f))
    if not any(smooth):
        return given, smooth, None
    key = ("scan vjp", carries, mapped, specs, active, smooth, again)
    plan = body.cache.get(key)
    if plan is None:
        plan = body.cache[key] = _make_plan(body, carries, mapped, specs, active, smooth, again)
    return given, smooth, plan


def _vjp(needs, *args, body, carries, mapped, length, reverse, checkpoint):
    specs = _inner_specs(args, carries, mapped)
    given, _, plan = planned(
        needs, specs, body=body, carries=carries, mapped=mapped, again=checkpoint
    )
    if plan is None:
        return None
    kept = {i: args[i] for i in plan.reads}

    def residuals():
        if plan.residuals is None:
            return ()
        found = scan(
            *[kept[i] for i in plan.forward_args], body=plan.residuals,
            carries=plan.forward_carries, mapped=plan.forward_mapped, length=length,
            reverse=reverse, checkpoint=checkpoint,
        )  # fmt: skip
        return found[plan.forward_carries :]

    return _pullback(plan, needs, given, specs, body, kept, residuals, length, reverse, checkpoint)


def _forward(needs, *args, body, carries, mapped, length, reverse, checkpoint):
    """Results, residuals and the pullback, from one scan forwards."""
    params = {"mapped": mapped, "length": length, "reverse": reverse, "checkpoint": checkpoint}
    specs = _inner_specs(args, carries, mapped)
    given, _, plan = planned(
        needs, specs, body=body, carries=carries, mapped=mapped, again=checkpoint
    )
    if plan is None:
        return scan(*args, body=body, carries=carries, **params), None
    every = scan(*args, body=plan.both, carries=carries, **params)
    outs, found = every[: len(body.outputs)], every[len(body.outputs) :]
    kept = {i: args[i] for i in [*plan.rows, *plan.rest]}
    pullback = _pullback(
        plan, needs, given, specs, body, kept, lambda: found, length, reverse, checkpoint
    )
    return outs, pullback


def _pullback(plan, needs, given, specs, body, kept, residuals, length, reverse, checkpoint):
    """The scan back over the residuals, which ``residuals()`` gives."""
    carries = plan.carries
    outs = out_specs(body, specs)
    shapes = [*outs[:carries], *[s.with_(shape=(length, *s.shape)) for s in outs[carries:]]]
    sums = [specs[i] for i in plan.accumulators]

    def pullback(cts):
        stored = residuals()
        cts = [zeros_like_spec(s) if ct is None else ct for s, ct in zip(shapes, cts)]
        carry = [cts[i] for i in plan.carry_cts] + [zeros_like_spec(s) for s in sums]
        found = scan(
            *carry, *[cts[i] for i in plan.row_cts], *stored, *[kept[i] for i in plan.rows],
            *[kept[i] for i in plan.rest], body=plan.backward, carries=len(carry),
            mapped=len(plan.row_cts) + len(stored) + len(plan.rows), length=length,
            reverse=not reverse, checkpoint=checkpoint,
        )  # fmt: skip
        grads = [None] * len(needs)
        for i, ct in zip(plan.gradients, found):
            if given[i]:
                grads[i] = ct
        return grads

    return pullback


class _Plan:
    """How the pullback of a scan is computed: a scan for the residuals, and one back."""

    carries: int
    both: Graph  # the body as it is recorded, with the residuals as further results
    residuals: Graph | None  # from the arguments ``forward_args`` to the residuals
    forward_args: list[int]
    forward_carries: int
    forward_mapped: int
    backward: Graph
    carry_cts: list[int]  # the results whose cotangents start the carry
    row_cts: list[int]  # the results whose cotangents are scanned
    accumulators: list[int]  # the arguments whose gradients add up
    rows: list[int]  # the scanned arguments that the way back reads
    rest: list[int]  # the same of the others
    gradients: list[int]  # the argument of each result of the way back
    reads: list[int]  # all arguments that are kept


def _make_plan(body, carries, mapped, specs, active, smooth, again):
    count, end = len(specs), carries + mapped
    weighted = (*active[:carries], *smooth[carries:])
    at_hand = tuple([i >= carries for i in range(count)])
    fixed = tuple([i >= end for i in range(count)])
    halves = split(body, specs, active, weighted, at_hand, fixed, again)
    plan = _Plan()
    plan.carries = carries
    plan.carry_cts = [i for i in range(carries) if active[i]]
    plan.row_cts = [i for i in range(carries, len(smooth)) if smooth[i]]
    plan.accumulators = [i for i in range(end, count) if active[i]]
    plan.rows = [i for i in halves.used if i < end]
    plan.rest = [i for i in halves.used if i >= end]
    scanned = [i for i in range(carries, end) if active[i]]
    plan.gradients = [*plan.carry_cts, *plan.accumulators, *scanned]
    plan.backward = _backward(body, halves, plan, specs, active, weighted)
    plan.both = distinct(halves.whole, range(count), halves.whole.outputs)
    plan.residuals = None
    plan.forward_args, plan.forward_carries, plan.forward_mapped = [], 0, 0
    if halves.stored:
        _plan_forward(plan, body, halves, carries, mapped)
    plan.reads = sorted({*plan.forward_args, *plan.rows, *plan.rest})
    return plan


def _backward(body, halves, plan, specs, active, weighted):
    """The body of the way back: cotangents of the carry and sums in, the same out, then rows."""
    places = [i for i, a in enumerate(active) if a]  # of the gradients, if found
    outs = [v.spec for v in halves.backward.inputs[len(halves.stored) + len(halves.used) :]]
    results = [i for i, w in enumerate(weighted) if w]
    by_result = dict(zip(results, outs))
    stored = [v.spec for v in halves.backward.inputs[: len(halves.stored)]]
    sums = [specs[i] for i in plan.accumulators]
    ins = [
        *[by_result[i] for i in plan.carry_cts], *sums, *[by_result[i] for i in plan.row_cts],
        *stored, *[specs[i] for i in plan.rows], *[specs[i] for i in plan.rest],
    ]  # fmt: skip
    n, m, r = len(plan.carry_cts), len(sums), len(plan.row_cts)

    def run(*xs):
        so_far = dict(zip(plan.accumulators, xs[n : n + m]))
        cts = [*xs[:n], *xs[n + m : n + m + r]]
        after = n + m + r
        found = halves.backward.run(*xs[after : after + len(stored) + len(halves.used)], *cts)
        grads = dict(zip(places, filled(halves.found, found)))
        results = []
        for i in plan.gradients:
            ct = grads[i]
            if i in so_far:
                ct = so_far[i] if ct is None else so_far[i] + ct
            results.append(zeros_like_spec(specs[i]) if ct is None else ct)
        return results

    return derive(run, ins, halves.backward.name)


def _plan_forward(plan, body, halves: Split, carries, mapped):
    """The scan that gives the residuals: of the body only what they need."""
    # the residuals' graph has inputs of its own, in the order of the body's: one body of both
    env = dict(zip(halves.forward.inputs, body.inputs))
    nodes = [*body.nodes]
    for node in halves.forward.nodes:
        new = Node(
            node.primitive, [env.get(v, v) for v in node.inputs], node.params,
            [v.spec for v in node.outs], node.line,
        )  # fmt: skip
        nodes.append(new)
        env.update(zip(node.outs, new.outs))
    wanted = [env.get(v, v) for v in halves.forward.outputs]
    whole = Graph(body.inputs, nodes, [*body.outputs[:carries], *wanted], halves.forward.name)
    needed: set[Value] = set()
    outputs = list(wanted)
    while True:
        grown = used_inputs(whole, outputs)
        if grown == needed:
            break
        needed = grown
        handed = [body.outputs[i] for i in range(carries) if body.inputs[i] in needed]
        outputs = [*handed, *wanted]
    args = [i for i, v in enumerate(body.inputs) if v in needed]
    plan.forward_args = args
    plan.forward_carries = len([i for i in args if i < carries])
    plan.forward_mapped = len([i for i in args if carries <= i < carries + mapped])
    plan.residuals = distinct(whole, args, outputs)


# lanes --------------------------------------------------------------------------------------------


def _batch(level, args, dims, *, body, carries, mapped, length, **flags):
    end, size = carries + mapped, level.size
    given = [d is not None for d in dims]
    have, outs = fixpoint(carries, given, lambda f: spread_lanes(body, f, level.number))
    args = [
        x if not h else lanes_to(x, d, 1 if carries <= i < end else 0, size)
        for i, (x, d, h) in enumerate(zip(args, dims, have))
    ]
    specs = []
    for i, (x, h) in enumerate(zip(args, have)):
        shape, scanned = x.shape, carries <= i < end
        if scanned:
            shape = shape[1:]
        specs.append(TensorSpec(shape[1:] if h else shape, x.dtype, x.device.name))
    forced = (*have[:carries], *[False] * (len(outs) - carries))
    wide, lanes = batched_graph(body, tuple(specs), have, forced, level)
    found = scan(*args, body=wide, carries=carries, mapped=mapped, length=length, **flags)
    places = [0] * carries + [1] * (len(outs) - carries)
    return found, tuple([p if at else None for p, at in zip(places, lanes)])


scan = define(
    "scan", spec=_spec, multiple=True,
    jvp=_jvp,
    vjp=_vjp, forward=_forward,
    batch=_batch,
    sample=samples.scan,
)  # fmt: skip
