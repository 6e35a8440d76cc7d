"""Loops over time whose step is staged once for all lengths, and compiled where that pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fx.dtypes import float32, float64
from fx.graph.ir import Graph
from fx.spec import TensorSpec
from fx.tensor import Tensor
from fx.transforms.control.graphs import derive
from fx.transforms.control.scan_primitive import scan

# A step with smaller tensors runs one primitive after the other: compiling would cost more than it
# saves. Only shapes decide, so that the same call gives the same bits every time.
COMPILED_FROM = 256

bodies: dict[Any, Graph] = {}


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
    inner = [x.spec for x in (*carry, *rows, *rest)]
    for i in range(len(carry), len(carry) + len(rows)):
        inner[i] = inner[i].with_(shape=inner[i].shape[1:])
    specs = tuple(inner)
    body = bodies.get((key, specs))
    if body is None:
        body = bodies[key, specs] = _staged(key, step, specs)
    found = scan(
        *carry, *rows, *rest, body=body, carries=len(carry), mapped=len(rows),
        length=rows[0].shape[0], reverse=reverse, checkpoint=False,
    )  # fmt: skip
    return list(found)


def _staged(key: Any, step: Callable[..., Any], specs: tuple[TensorSpec, ...]) -> Graph:
    body = derive(step, specs, "_".join(str(part) for part in key[:2]))
    state = specs[0]
    size = max(s.shape[-1] for s in specs) * state.shape[0]
    if state.dtype in (float32, float64) and state.device == "cpu" and size >= COMPILED_FROM:
        body.cache["runner"] = _compiling(body)
    return body


def _compiling(body: Graph) -> Callable[[list[Any]], list[Any]]:
    """Runs a body on arrays: compiled when it is first run."""

    def run(arrays: list[Any]) -> list[Any]:
        from fx.transforms.jitting.compiled import executable_of

        compiled = body.cache["runner"] = executable_of(body).run
        return compiled(arrays)  # type: ignore[no-any-return]

    return run
