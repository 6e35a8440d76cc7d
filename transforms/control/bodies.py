"""Staging the body of a loop or a branch, with the cells that it rebinds.

A cell that a body rebinds (a running mean, the state of a generator) is one more value that it
takes and gives: a loop carries it, and every branch of a ``cond`` returns it. Afterwards the cell
holds what came out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import fx.prims.reduction as reduction
from fx.errors import StagingError
from fx.graph.ir import Graph, Value, input_value
from fx.graph.staging import Stage
from fx.graph.surroundings import Outside
from fx.levels import Level
from fx.spec import TensorSpec
from fx.tensor import Tensor
from fx.transforms.batching import BatchTracer


class BodyStage(Stage):
    """A body that is being staged."""

    def __init__(self, name: str, level: Level, encloses: bool) -> None:
        super().__init__(name, level)
        self.encloses = encloses
        self.first: dict[int, Value] = {}  # the input of each cell
        self.rebound: dict[int, tuple[Any, Tensor]] = {}

    def read(self, cell: Any) -> Tensor:
        """The tensor that a cell holds; of a cell from outside, an input of its own at first."""
        known = self.cells.get(id(cell))
        if known is not None or cell.born >= self.number:
            return super().read(cell)
        with Outside(self):
            value = cell.read()
        found = input_value(TensorSpec(value.shape, value.dtype, value.device.name))
        self.captured["cell", id(cell)] = (value, found)  # type: ignore[index]
        self.first[id(cell)] = found
        known = self.cells[id(cell)] = (cell, self.tracer(found))
        return known[1]

    def rebind(self, cell: Any, value: Tensor) -> None:
        """Note what a cell from outside holds from here on.

        Raises:
            StagingError: if that has another shape or dtype.
        """
        before = self.read(cell)
        value = self.lower(value)
        if value.shape != before.shape or value.dtype != before.dtype:
            raise StagingError(
                f"{cell.name or 'a cell'} {before.spec!r} is rebound to {value.spec!r} inside "
                f"{self.name}; there it keeps its shape and dtype"
            )
        self.rebound[id(cell)] = (cell, value)
        self.cells[id(cell)] = (cell, value)


class Body:
    """A body that was staged.

    Attributes:
        graph: its inputs are the arguments, then what was captured; its outputs are the results,
            then what the rebound cells hold at the end.
        captured: the tensors from outside.
        keys: for each of these what it is: equal for equal ones of several bodies.
        cells: the rebound cells.
        inputs: for each cell that was read or rebound, by its id, the input that is its value.
    """

    __slots__ = ("captured", "cells", "graph", "inputs", "keys")

    graph: Graph
    captured: list[Tensor]
    keys: list[Any]
    cells: list[Any]
    inputs: dict[int, Value]


def stage_body(
    function: Callable[..., Sequence[Tensor]],
    specs: Sequence[TensorSpec],
    name: str,
    encloses: bool = False,
) -> Body:
    """Stage a function of flat tensors; see ``fx.graph.staging.stage``."""
    with Level("jit") as level, BodyStage(name, level, encloses) as staged:
        inputs = [input_value(spec) for spec in specs]
        outs = list(function(*[staged.tracer(v) for v in inputs]))
        cells = list(staged.rebound.values())
        outs += [value for _, value in cells]
        outputs = [staged.value_of(staged.lower(x)) for x in outs]
    body = Body()
    values = [value for _, value in staged.captured.values()]
    body.graph = Graph([*inputs, *values], staged.nodes, outputs, name)
    body.captured = [x for x, _ in staged.captured.values()]
    body.keys = list(staged.captured)
    body.cells = [cell for cell, _ in cells]
    body.inputs = staged.first
    return body


def hold(cells: Sequence[Any], values: Sequence[Tensor]) -> None:
    """Rebind cells to what came out of a loop or a branch.

    Lanes that ran differently leave a generator where the one is that drew most.
    """
    for cell, value in zip(cells, values):
        if cell.name == "generator":
            while isinstance(value, BatchTracer) and value.level > cell.born:
                value = reduction.max(value.value, axes=(value.dim,), keepdims=False)
        cell.rebind(value)


def carried(body: Body, carries: int, mapped: int) -> tuple[Graph, list[Tensor], list[Tensor]]:
    """A loop's body with its rebound cells behind the carry.

    Returns:
        the graph: carry, cells, rows, the rest in; carry, cells, rows out; what the cells hold at
        the start; and the rest of what was captured.
    """
    graph, end = body.graph, carries + mapped
    mine = [body.inputs[id(cell)] for cell in body.cells]
    taken = set(mine)
    pairs = list(zip(graph.inputs[end:], body.captured))
    rest = [(v, x) for v, x in pairs if v not in taken]
    start = dict(pairs)
    ins = [*graph.inputs[:carries], *mine, *graph.inputs[carries:end], *[v for v, _ in rest]]
    last = len(graph.outputs) - len(mine)
    outs = [*graph.outputs[:carries], *graph.outputs[last:], *graph.outputs[carries:last]]
    return (
        Graph(ins, graph.nodes, outs, graph.name),
        [start[v] for v in mine],
        [x for _, x in rest],
    )
