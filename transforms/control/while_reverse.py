"""The reverse mode of ``while``: going back needs the number of runs, which is counted first.

Where the count has a value, the pullback is that of a ``scan`` of so many runs. Where it has none,
inside a staged graph, a fixed number of carries is kept, equally far from one another, and the way
back computes those between them again.
"""

from __future__ import annotations

from typing import Any

import fx.prims.compare as compare
import fx.prims.elementwise as ew
import fx.prims.indexing as indexing
import fx.prims.reduction as reduction
import fx.transforms.control.while_primitive as primitive
from fx import limits
from fx.devices import moved
from fx.dtypes import int64
from fx.graph.bodies import distinct, extract, live_nodes, used_inputs
from fx.graph.ir import Graph
from fx.graph.passes.effects import has_effects
from fx.graph.staging import StageTracer, evaluate
from fx.levels import Tracer
from fx.prims.creation import constant, zeros_like_spec
from fx.spec import TensorSpec
from fx.tensor import Tensor
from fx.transforms.batching import BatchTracer
from fx.transforms.control.cond_primitive import cond
from fx.transforms.control.graphs import (
    derive,
    fixpoint,
    is_smooth,
    specs_of,
    spread_smooth,
)
from fx.transforms.control.scan_primitive import planned, scan
from fx.transforms.control.split import filled, split


def vjp(needs, *args, condition, body, carries, read):
    """The rule of the primitive."""
    return _pullback(needs, args, condition, body, carries, read, recorded=False)


def forward(needs, *args, condition, body, carries, read):
    """Results as the recorded body computes them (see ``split``), and the pullback."""
    params = {"condition": condition, "carries": carries, "read": read}
    pullback = _pullback(needs, args, **params, body=body, recorded=True)
    if pullback is None:
        return primitive.while_(*args, **params, body=body), None
    end = carries + read
    specs = specs_of([*args[:carries], *args[end:]])
    active = _active([*needs[:carries], *needs[end:]], specs, body, carries)
    seen = _seen(body, carries, specs, active)
    return primitive.while_(*args, **params, body=seen), pullback


def _active(needs, specs, body, carries):
    """Which inputs of the body have a gradient, directly or through the carry."""
    given = [n is not None and is_smooth(s) for n, s in zip(needs, specs)]
    return fixpoint(carries, given, lambda f: spread_smooth(body, specs, f))[0]


def _halves(body, carries, specs, active):
    every = (True,) * len(specs)
    return split(body, specs, active, active[:carries], every, (False,) * len(specs), True)


def _seen(body, carries, specs, active):
    """The body as it is recorded, without residuals."""
    key = ("seen", carries, specs, active)
    found = body.cache.get(key)
    if found is None:
        whole = _halves(body, carries, specs, active).whole
        found = body.cache[key] = distinct(whole, range(len(specs)), whole.outputs[:carries])
    return found


def _quiet(body):
    """The body for the runs on the way back: its effects were had on the way forward."""
    if not has_effects(body):
        return body
    found = body.cache.get("quiet")
    if found is None:
        nodes = live_nodes(body, body.outputs)
        found = body.cache["quiet"] = extract(body.inputs, nodes, body.outputs, body.name)
    return found


def _pullback(needs, args, condition, body, carries, read, recorded):
    end, total = carries + read, len(needs)
    specs, body = specs_of(args), _quiet(body)
    masked = any(_is_below(x, BatchTracer) for x in args)
    places = [*range(carries), *(range(carries, end) if masked else ()), *range(end, total)]
    looped = _masked(condition, body, carries, read, specs) if masked else body
    inner = tuple([specs[i] for i in places])
    wants = [needs[i] if i < carries or i >= end else None for i in places]
    *_, plan = planned(wants, inner, body=looped, carries=carries, mapped=0, again=False)
    if plan is None:
        return None
    counter, counted = _counter(condition, body, carries, read, specs)
    if recorded or any(_is_below(x, StageTracer) for x in args):
        kept = dict(enumerate(args))  # the way back may take all of them
    else:
        kept = {i: args[i] for i in {*counted, *[places[i] for i in plan.reads]}}

    def pullback(cts):
        have = [kept[i] if i in kept else zeros_like_spec(s) for i, s in enumerate(specs)]
        count = _count(have, counter)
        length = _known(count)
        if length is None:
            return _between(needs, have, cts, count, body, carries, read, recorded)
        given = [have[i] for i in places]
        params = {
            "body": looped, "carries": carries, "mapped": 0,
            "length": length, "reverse": False, "checkpoint": False,
        }  # fmt: skip
        if recorded:
            _, pull = scan.forward(wants, *given, **params)
        else:
            pull = scan.vjp(wants, *given, **params)
        grads: list[Any] = [None] * total
        for i, ct in zip(places, pull(cts)):
            grads[i] = ct
        return grads

    return pullback


def _is_below(x: Tensor, kind: type) -> bool:
    """Whether a tracer of that kind is among those of which ``x`` is made."""
    while isinstance(x, Tracer):
        if isinstance(x, kind):
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
            "condition": derive(holds, [*first, *[specs[i] for i in own]], condition.name, False),
            "body": derive(step, [*first, *[specs[i] for i in behind]], body.name, False),
            "carries": 1 + len(handed), "read": len(own),
        }  # fmt: skip
        found = body.cache[key] = (params, [*handed, *own, *behind]), {*handed, *own, *behind}
    return found


def _count(args: list[Tensor], counter: Any) -> Tensor:
    """The number of runs, int64 ()."""
    params, places = counter
    device = args[0].device.name if args else "cpu"
    given = [compare.stop_gradient(args[i]) for i in places]
    found: Tensor = primitive.while_(constant(0, int64, device), *given, **params)[0]
    return found


def _known(count: Any) -> int | None:
    """The number of runs where it has a value: that of the lane with the most."""
    while isinstance(count, Tracer):
        if isinstance(count, BatchTracer):
            count = reduction.max(count.value, axes=(count.dim,), keepdims=False)
        elif isinstance(count, StageTracer):
            count = evaluate(count.ref)
        else:
            count = getattr(count, "value", None)
    return None if count is None or count.device.name == "meta" else int(moved(count._a, "cpu"))


# a number of runs without a value -----------------------------------------------------------------


def _between(
    needs: Any,
    args: list[Tensor],
    cts: Any,
    count: Tensor,
    body: Graph,
    carries: int,
    read: int,
    recorded: bool,
) -> list[Any]:
    """The cotangents from carries that are kept every so many runs, the others computed again."""
    end = carries + read
    carry, rest = args[:carries], args[end:]
    specs = specs_of([*carry, *rest])
    wants = [*needs[:carries], *needs[end:]]
    given = [n is not None and is_smooth(s) for n, s in zip(wants, specs)]
    active = _active(wants, specs, body, carries)
    nbytes = sum([s.nbytes for s in specs[:carries]])
    slots = max(limits.WHILE_LEAST, min(limits.WHILE_MOST, limits.WHILE_BYTES // max(nbytes, 1)))
    device = specs[0].device

    def number(n: int) -> Tensor:
        return constant(n, int64, device)

    most = ew.add(count, number(slots - 1))
    stride = ew.maximum(ew.floor_divide(most, number(slots)), number(1))
    keep, back, wanted, sums = _loops(body, carries, specs, active, slots, recorded)
    room = [zeros_like_spec(s.with_(shape=(slots, *s.shape))) for s in specs[:carries]]
    kept = primitive.while_(number(0), *carry, *room, stride, count, stride, count, *rest, **keep)
    kept = kept[1 + carries :]
    moving = [zeros_like_spec(s) if ct is None else ct for ct, s in zip(cts, specs)]
    found = primitive.while_(
        ew.subtract(count, number(1)), *[moving[i] for i in wanted if i < carries],
        *[zeros_like_spec(specs[i]) for i in sums], stride, *kept, *rest, **back,
    )[1:]  # fmt: skip
    grads: list[Any] = [None] * len(needs)
    for i, ct in zip([*[i for i in wanted if i < carries], *sums], found):
        if given[i]:
            grads[i if i < carries else i + read] = ct
    return grads


def _loops(body: Graph, carries: int, specs: Any, active: Any, slots: int, recorded: bool) -> Any:
    """The loop that keeps carries and the one that goes back, as parameters of ``while``."""
    key = ("between", carries, specs, active, slots, recorded)
    found = body.cache.get(key)
    if found is not None:
        return found
    device = specs[0].device
    one = TensorSpec((), int64, device)
    held = [s.with_(shape=(slots, *s.shape)) for s in specs[:carries]]
    rest = list(specs[carries:])
    halves = _halves(body, carries, specs, active)
    step = _seen(body, carries, specs, active) if recorded else body
    wanted = [i for i, a in enumerate(active) if a]
    sums = [i for i in wanted if i >= carries]
    moving = [i for i in wanted if i < carries]

    def add_one(n: Tensor) -> Tensor:
        return ew.add(n, constant(1, int64, n.device.name))

    ahead = {
        "condition": derive(
            lambda *xs: [compare.less(xs[0], xs[-1])], [one, *specs[:carries], one], "not there"
        ),
        "body": derive(
            lambda n, *xs: [add_one(n), *step.run(*xs)], [one, *specs], body.name
        ),
        "carries": 1 + carries, "read": 1,
    }  # fmt: skip

    def advanced(carry: Any, start: Tensor, stop: Tensor, rest: Any) -> Any:
        return primitive.while_(start, *carry, stop, *rest, **ahead)[1:]

    def more(s: Tensor, *xs: Tensor) -> Any:
        return [compare.less(ew.multiply(s, xs[-2]), xs[-1])]

    def keep(s: Tensor, *xs: Tensor) -> Any:
        carry, room = xs[:carries], xs[carries : 2 * carries]
        stride, count, *others = xs[2 * carries :]
        room = [indexing.scatter(r, s, c, axis=0, mode="set") for r, c in zip(room, carry)]
        left = ew.subtract(count, ew.multiply(s, stride))
        zero = constant(0, int64, s.device.name)
        carry = advanced(carry, zero, ew.minimum(stride, left), others)
        return [add_one(s), *carry, *room]

    def going(k: Tensor, *xs: Tensor) -> Any:
        return [compare.greater_equal(k, constant(0, int64, k.device.name))]

    def back(k: Tensor, *xs: Tensor) -> Any:
        cts, so_far = xs[: len(moving)], xs[len(moving) : len(wanted)]
        stride, *others = xs[len(wanted) :]
        room, others = others[:carries], others[carries:]
        s = ew.floor_divide(k, stride)
        carry = [indexing.take(r, s, axis=0) for r in room]
        carry = advanced(carry, ew.multiply(s, stride), k, others)
        at = [*carry, *others]
        given = [at[i] for i in halves.used]
        grads = dict(zip(wanted, filled(halves.found, halves.backward.run(*given, *cts))))
        new = [zeros_like_spec(specs[i]) if grads[i] is None else grads[i] for i in wanted]
        added = [ew.add(a, b) for a, b in zip(so_far, new[len(moving) :])]
        return [ew.subtract(k, constant(1, int64, k.device.name)), *new[: len(moving)], *added]

    kept = [one, *specs[:carries], *held]
    gone = [one, *[specs[i] for i in moving], *[specs[i] for i in sums]]
    found = body.cache[key] = (
        {
            "condition": derive(more, [*kept, one, one], "more to keep"),
            "body": derive(keep, [*kept, one, one, *rest], body.name),
            "carries": len(kept), "read": 2,
        },
        {
            "condition": derive(going, gone, "more to go back"),
            "body": derive(back, [*gone, one, *held, *rest], f"vjp of {body.name}"),
            "carries": len(gone), "read": 0,
        },
        wanted,
        sums,
    )  # fmt: skip
    return found
