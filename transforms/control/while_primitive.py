"""The primitive ``while``: a body that runs as long as a condition on its carry holds.

Arguments: the carry, what the condition reads besides, and what the body reads besides. Results:
the last carry.
"""

from __future__ import annotations

from typing import Any

import fx.prims.compare as compare
import fx.prims.reduction as reduction
from fx.dtypes import bool_
from fx.errors import DTypeError, ShapeError
from fx.graph.bodies import out_specs
from fx.graph.ir import Graph, input_value
from fx.primitive import define
from fx.prims.creation import zeros_like_spec
from fx.prims.families import to_front
from fx.spec import TensorSpec
from fx.tensor import Tensor
from fx.transforms.batching import lanes_to
from fx.transforms.control import samples, while_reverse
from fx.transforms.control.cond_primitive import gated, needs_gate, select_lanes
from fx.transforms.control.graphs import (
    batched_graph,
    derive,
    fixpoint,
    jvp_graph,
    specs_of,
    spread_lanes,
    spread_smooth,
)
from fx.transforms.control.split import filled

# spec --------------------------------------------------------------------------------------------


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
                gated(going, x) if m and needs_gate(wide, x) else x
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
    "while", spec=_spec, multiple=True,
    jvp=_jvp,
    vjp=while_reverse.vjp, forward=while_reverse.forward,
    batch=_batch,
    sample=samples.while_,
)  # fmt: skip
