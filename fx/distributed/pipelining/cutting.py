"""Cutting a function into stages: it is staged as one graph, and ``pipe_split`` notes the places.

A stage is the nodes between two cuts. What it takes from earlier stages passes through all those in
between, and so does what is only made of arguments. What is made of constants and buffers alone, as
a mask is, each stage makes for itself; parameters are read in each stage that uses them.

```
forward:   a = x @ w1;  pipe_split();  b = a * a;  pipe_split();  c = b + x @ w1
stages:    x -> (x, a)                 (x, a) -> (x, b)           (x, b) -> c       w1 is tied
```
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fx.config import modes, no_grad
from fx.errors import ArgumentError, StagingError
from fx.graph.bodies import extract
from fx.graph.ir import Graph, Node, Value, input_value
from fx.graph.passes.effects import is_effectful
from fx.graph.staging import Stage
from fx.levels import Level
from fx.random.generator import current_generator
from fx.spec import TensorSpec
from fx.tensor import Tensor


class Part(NamedTuple):
    """One stage of a function that was cut.

    Attributes:
        graph: from what passes in, then the cells and the other tensors that it reads, to what
            passes on, then the new values of cells.
        cells, captured: what it reads from outside.
        rebound: the cells that get new values.
    """

    graph: Graph
    cells: list[Any]
    captured: list[Tensor]
    rebound: list[Any]


class Cut(NamedTuple):
    """A function in parts; ``results`` says where in the last one's results each of its own is."""

    parts: list[Part]
    results: list[int]


class _Cutting(Stage):
    """A function that is being staged and cut."""

    def __init__(self, name: str, level: Level) -> None:
        super().__init__(name, level)
        self.cuts: list[int] = []
        self.read_at: dict[Value, Any] = {}  # what stands for a cell, and the cell
        self.rebound: list[dict[int, tuple[Any, Value]]] = [{}]  # by stage

    def cut(self) -> None:
        """Another stage begins, in another process: cells that were rebound are its own."""
        self.cuts.append(len(self.nodes))
        for key in self.rebound[-1]:
            del self.cells[key]
        self.rebound.append({})

    def read(self, cell: Any) -> Tensor:
        if cell.born >= self.number:
            return cell.value  # type: ignore[no-any-return]
        known = self.cells.get(id(cell))
        if known is None:
            modes.stage = self.outer
            try:
                held = cell.read()
            finally:
                modes.stage = self
            value = input_value(TensorSpec(held.shape, held.dtype, held.device.name))
            self.read_at[value] = cell
            known = self.cells[id(cell)] = (cell, self.tracer(value))
        return known[1]

    def rebind(self, cell: Any, value: Tensor) -> None:
        ref = self.value_of(self.lower(value))
        self.rebound[-1][id(cell)] = (cell, ref)
        self.cells[id(cell)] = (cell, self.tracer(ref))


def pipe_split() -> None:
    """Here one stage of a pipeline ends and the next begins; nothing outside of ``pipeline``.

    Raises:
        StagingError: in the body of a loop or branch, or in a function that is compiled by itself.

    Example:
        >>> import fx
        >>> from fx.distributed.pipelining import pipe_split, pipeline
        >>> class Two(fx.nn.Module):
        ...     def forward(self, x):
        ...         x = x * 2
        ...         pipe_split()
        ...         return x + 1
        >>> pipeline(Two(), (fx.ones(3),)).num_stages
        2
    """
    stage = modes.stage
    while stage is not None and type(stage) is not _Cutting:
        stage = stage.outer
    if stage is None:
        return
    if stage is not modes.stage:
        raise StagingError(
            "pipe_split() is in the body of a loop or branch, or in a jitted function, which is "
            "part of one stage; split before or after it"
        )
    stage.cut()


def cut(
    function: Callable[..., Sequence[Any]],
    specs: Sequence[TensorSpec],
    name: str,
    policy: Callable[[Graph], Sequence[int]] | None = None,
) -> Cut:
    """Stage a function of flat tensors and cut it.

    Args:
        function: takes one tensor a spec, and returns a sequence of tensors.
        specs: of the arguments.
        name: what messages call it.
        policy: gives the numbers of the nodes with which stages begin; None: ``pipe_split`` says.

    Raises:
        StagingError: if it asks for a value that is not known.
        ArgumentError: if a stage would be empty.
    """
    with Level("jit") as level, no_grad(), _Cutting(name, level) as staged:
        inputs = [input_value(spec) for spec in specs]
        outs = function(*[staged.tracer(v) for v in inputs])
        outputs = [staged.value_of(staged.lower(x)) for x in outs]
    cuts = staged.cuts
    if policy is not None:
        cuts, staged.rebound = _by_policy(policy, staged, inputs, outputs)
    bounds = [0, *cuts, len(staged.nodes)]
    for k, (a, b) in enumerate(itertools.pairwise(bounds)):
        if a == b:
            raise ArgumentError(
                f"{name}: nothing is computed in stage {k} of {len(bounds) - 1}; split where "
                f"something comes before and after it"
            )
    captured = {v: x for x, v in staged.captured.values()}
    return _parts(staged, bounds, inputs, outputs, captured)


def _by_policy(policy: Any, staged: _Cutting, inputs: Any, outputs: Any) -> Any:
    """Where a policy cuts, and what each stage rebinds."""
    outside = [*staged.read_at, *[v for _, v in staged.captured.values()]]
    graph = Graph([*inputs, *outside], staged.nodes, outputs, staged.name)
    cuts = [int(n) for n in policy(graph)]
    if cuts != sorted(set(cuts)) or any(not 0 < n < len(staged.nodes) for n in cuts):
        raise ArgumentError(
            f"split_policy gave {cuts}; expected growing numbers of nodes, from 1 to "
            f"{len(staged.nodes) - 1}"
        )
    rebound: list[dict[int, Any]] = [{} for _ in range(len(cuts) + 1)]
    for key, (cell, value) in staged.rebound[0].items():
        at = staged.nodes.index(value.node) if value.node is not None else 0
        rebound[sum([n <= at for n in cuts])][key] = (cell, value)
    return cuts, rebound


def _parts(
    staged: _Cutting,
    bounds: list[int],
    inputs: list[Value],
    outputs: list[Value],
    captured: dict[Value, Tensor],
) -> Cut:
    changed = {id(cell) for rebound in staged.rebound for cell, _ in rebound.values()}
    outside = set(captured) | {v for v, c in staged.read_at.items() if id(c) not in changed}
    free = _free(staged, outside)
    home = dict.fromkeys(inputs, 0)
    for k, (a, b) in enumerate(itertools.pairwise(bounds)):
        home.update({v: k for node in staged.nodes[a:b] for v in node.outs})
    count = len(bounds) - 1
    bodies = [
        _with_free(staged.nodes, free, staged.nodes[a:b], outputs if k == count - 1 else ())
        for k, (a, b) in enumerate(itertools.pairwise(bounds))
    ]
    made = [{v for node in body for v in node.outs} for body in bodies]
    news = [[v for _, v in rebound.values()] for rebound in staged.rebound]
    wanted = [
        {v for node in body for v in node.inputs}.union(new) for body, new in zip(bodies, news)
    ]
    wanted[-1].update(outputs)
    home.update(_homes_of_changing(staged, wanted, outside))
    order = {v: i for i, v in enumerate(home)}
    passing: list[list[Value]] = []  # into each stage
    for k in range(count):
        later = set().union(*[w - m for w, m in zip(wanted[k:], made[k:])])
        taken = [v for v in later if v in home and home[v] < k and v not in free]
        passing.append(sorted([*(inputs if k == 0 else taken)], key=order.__getitem__))
    last = list(dict.fromkeys(outputs))
    parts = []
    for k in range(count):
        on = passing[k + 1] if k + 1 < count else last
        reads = wanted[k].union(on) - made[k] - set(passing[k])
        cells = [v for v in staged.read_at if v in reads]
        others = [v for v in captured if v in reads]
        graph = extract(
            [*passing[k], *cells, *others], bodies[k], [*on, *news[k]], f"{staged.name}, stage {k}"
        )
        parts.append(
            Part(
                graph,
                [staged.read_at[v] for v in cells],
                [captured[v] for v in others],
                [cell for cell, _ in staged.rebound[k].values()],
            )
        )
    return Cut(parts, [last.index(v) for v in outputs])


def _homes_of_changing(
    staged: _Cutting, wanted: list[set[Value]], outside: set[Value]
) -> dict[Value, int]:
    """The stages of what stands for cells that get new values.

    Raises:
        ArgumentError: if a buffer is of several, none of which would see what another one stores.
    """
    users: dict[int, tuple[Any, set[int]]] = {}
    for k, rebound in enumerate(staged.rebound):
        for key, (cell, _) in rebound.items():
            users.setdefault(key, (cell, set()))[1].add(k)
    home = {}
    for v, cell in staged.read_at.items():
        if v not in outside:
            using = [k for k, values in enumerate(wanted) if v in values]
            if using:
                home[v] = using[0]
            if cell is current_generator().cell:
                _one_draws(staged, using)
            else:
                users[id(cell)][1].update(using)
    for cell, stages in users.values():
        if len(stages) > 1 and cell is not current_generator().cell:
            raise ArgumentError(
                f"{staged.name}: {cell.name or 'a buffer'} {cell.spec!r} gets new values, and is "
                f"used in stages {sorted(stages)}, each of which would have its own; split so that "
                f"one stage has it"
            )
    return home


def _one_draws(staged: _Cutting, using: list[int]) -> None:
    """Refuse stages that draw from a state of the generator that another one moves on.

    Raises:
        ArgumentError: the next micro-batch would get the same numbers.
    """
    moved = [id(current_generator().cell) in staged.rebound[k] for k in using]
    if len(using) > 1 or not all(moved):
        raise ArgumentError(
            f"{staged.name}: split_policy cuts between random draws, whose stages would draw from "
            f"one state; split with split_spec or pipe_split()"
        )


def _free(staged: _Cutting, outside: set[Value]) -> dict[Value, Node]:
    """What is made of constants, buffers and tensors from outside alone, and by which node."""
    known = {v for v in outside if v not in staged.read_at or not staged.read_at[v].requires_grad}
    found: dict[Value, Node] = {}
    for node in staged.nodes:
        fixed = all(v.constant is not None or v in known for v in node.inputs)
        if fixed and not is_effectful(node):
            known.update(node.outs)
            found.update(dict.fromkeys(node.outs, node))
    return found


def _with_free(
    nodes: Sequence[Node], free: dict[Value, Node], own: Sequence[Node], results: Sequence[Value]
) -> list[Node]:
    """The nodes of a stage, and those that it runs again."""
    mine = set(own)
    stack = [v for node in own for v in node.inputs] + list(results)
    while stack:
        node = free.get(stack.pop())
        if node is not None and node not in mine:
            mine.add(node)
            stack.extend(node.inputs)
    return [node for node in nodes if node in mine]
