"""Loops over time whose step is staged once for all lengths, and compiled where that pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from fx import limits
from fx.dtypes import float32, float64
from fx.graph.ir import Graph, input_value
from fx.tensor import Tensor
from fx.transforms.control.graphs import derive
from fx.transforms.control.scan_primitive import scan

# A step with a smaller state runs one primitive after the other: compiling would cost more than it
# saves. Only shapes decide, so that the same call gives the same bits every time.

bodies: dict[Any, Graph] = {}
limits.on_change(bodies.clear)


def steps(
    key: Any,
    step: Callable[..., Sequence[Tensor]],
    carry: Sequence[Tensor],
    rows: Sequence[Tensor],
    rest: Sequence[Tensor],
    reverse: bool = False,
) -> list[Tensor]:
    """``step`` along the first axis of ``rows``, as one operation.

    Args:
        key: what ``step`` depends on besides the specs of its arguments.
        step: takes the carry, a row of each of ``rows``, and ``rest``; returns the next carry and
            any further tensors.
        carry: at the start.
        rows: (time, ...) each.
        rest: the same in every step.
        reverse: whether to start with the last row.

    Returns:
        the carry at the end, and the further tensors of all steps, (time, ...) each.
    """
    fixed = [(x._shape, x._dtype) for x in (*carry, *rest)]
    place = key, *fixed, *[(x._shape[1:], x._dtype) for x in rows], rows[0].device.name
    body = bodies.get(place)
    if body is None:
        body = bodies[place] = _staged(key, step, carry, rows, rest)
    found = scan(
        *carry, *rows, *rest, body=body, carries=len(carry), mapped=len(rows),
        length=rows[0]._shape[0], reverse=reverse, checkpoint=False,
    )  # fmt: skip
    return list(found)


def _staged(
    key: Any,
    step: Callable[..., Any],
    carry: Sequence[Tensor],
    rows: Sequence[Tensor],
    rest: Sequence[Tensor],
) -> Graph:
    specs = [x.spec for x in (*carry, *rows, *rest)]
    for i in range(len(carry), len(carry) + len(rows)):
        specs[i] = specs[i].with_(shape=specs[i].shape[1:])
    body = derive(step, specs, "_".join(str(part) for part in key[:2]))
    state = specs[0]
    large = prod(state.shape) >= limits.STEPS_FROM
    if large and state.dtype in (float32, float64) and state.device == "cpu":
        body.cache["placing"] = _placing(body, len(carry))
    return body


def _placing(
    body: Graph, carries: int
) -> Callable[[], Callable[[list[Any], list[Any]], list[Any]]]:
    """``run(arrays, slots)`` of a compiled body, made when it is first asked for.

    What comes after the carry lies in ``slots`` then. For the code those are inputs that nobody
    reads and whose memory results may take over; which one a result takes is known beforehand.
    """
    made: list[Any] = []

    def make() -> Callable[[list[Any], list[Any]], list[Any]]:
        if made:
            return made[0]  # type: ignore[no-any-return]
        from fx.transforms.jitting.compiled import executable_of

        count, rows = len(body.inputs), body.outputs[carries:]
        slots = [input_value(v.spec) for v in rows]
        wide = Graph([*body.inputs, *slots], body.nodes, body.outputs, body.name)
        compiled = executable_of(wide, tuple(range(count, count + len(slots))))
        run = compiled.run
        taken: dict[int, int] = {}  # for each slot of the code, the row that lies there
        copied = list(range(len(rows)))
        for output, place in getattr(compiled, "reuse", {}).items():
            value = body.outputs[output]
            row = next((j for j in copied if rows[j] is value), None)
            if row is not None and place >= count:
                taken[place - count] = row
                copied.remove(row)
        order = [(taken.get(k), v.spec.shape, v.spec.dtype) for k, v in enumerate(rows)]

        def placed(arrays: list[Any], given: list[Any]) -> list[Any]:
            # a slot without a row may become the carry, which the next step reads: a new one
            arrays += [np.empty(n, dtype) if j is None else given[j] for j, n, dtype in order]
            outs = run(arrays)
            for j in copied:
                given[j][...] = outs[carries + j]
            return outs  # type: ignore[no-any-return]

        made.append(placed)
        return placed

    return make
