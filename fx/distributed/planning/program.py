"""A step as planning sees it: one graph, its inputs, and which results take their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx import tree
from fx.errors import ArgumentError
from fx.graph.ir import Graph
from fx.graph.manager import optimize
from fx.slotted import slotted
from fx.tensor import Tensor


@slotted(eq=False)
class Step:
    """A step that was staged.

    Attributes:
        graph: of whole tensors.
        names: of its inputs.
        cells: for each input the cell that holds it; None for an argument.
        follows: for each result the input whose place it takes in the next step; None.
        batch: the inputs that are arguments which no result follows: data.
        labels: the names of all tensors among the arguments.
    """

    graph: Graph
    names: list[str]
    cells: list[Any]
    follows: list[int | None]
    batch: list[int]
    labels: list[str]


def staged(function: Callable[..., Any], args: tuple[Any, ...], state: int) -> Step:
    """Stage a step for some arguments, without running it.

    Args:
        state: how many of the first arguments the first results take the place of.

    Raises:
        ArgumentError: if the step asks for values, or results do not fit the arguments.
    """
    from fx.transforms.jitting.compiled import without_calls
    from fx.transforms.jitting.function import Jitted, jit
    from fx.transforms.jitting.program import Argument, Captured, Held

    jitted = function if isinstance(function, Jitted) else jit(function)
    program, path = jitted.program_of(*args)
    if path or program.root is None or program.root.finish is None:
        raise ArgumentError(
            "plan: the step asks for values of tensors (if, int(), item()), so that what it does "
            "is not one graph; plan the part of it that trains"
        )
    finish, sources = program.root.finish, program.sources
    results = [leaf.value for leaf in finish.leaves]
    rebinds = [(cell(), v) for cell, v in finish.rebinds]
    outputs = [v for v in results if v is not None] + [v for _, v in rebinds]
    graph = Graph(list(sources), program.root.nodes, outputs, program.name)
    graph = optimize(without_calls(graph))
    uses = set(graph.uses()) | set(graph.outputs)
    graph = Graph([v for v in graph.inputs if v in uses], graph.nodes, graph.outputs, graph.name)
    labels, carried = _labels(args), len(tree.leaves(args[:state]))
    names, cells, place_of = [], [], {}
    for i, v in enumerate(graph.inputs):
        source = sources[v]
        if type(source) is Argument:
            names.append(labels.get(source.number, f"argument {source.number}"))
            cells.append(None)
            place_of["argument", source.number] = i
        elif type(source) is Held:
            cell = source.cell()
            names.append(source.name)
            cells.append(cell)
            place_of["cell", id(cell)] = i
        else:
            names.append(source.name if type(source) is Captured else "a number")
            cells.append(None)
    names = _apart(names)
    follows: list[int | None] = []
    for k, v in enumerate(results):
        if v is not None:
            follows.append(place_of.get(("argument", k)) if k < carried else None)
    follows += [place_of.get(("cell", id(cell))) for cell, _ in rebinds]
    for v, i in zip(graph.outputs, follows, strict=True):
        if i is not None and v.spec.shape != graph.inputs[i].spec.shape:
            raise ArgumentError(
                f"plan: with state={state} a result of shape {v.spec.shape} takes the place of "
                f"{names[i]}, of shape {graph.inputs[i].spec.shape}"
            )
    kept = {i for i in follows if i is not None}
    arguments = [i for (kind, _), i in place_of.items() if kind == "argument"]
    data = [i for i in arguments if i not in kept]
    return Step(graph, names, cells, follows, data, [*labels.values()])


def _apart(names: list[str]) -> list[str]:
    """Names that are told apart: of equal ones the second is ``name #2``."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name} #{seen[name]}")
    return out


def _labels(args: tuple[Any, ...]) -> dict[int, str]:
    """The paths of tensors among arguments, by their numbers."""
    out: dict[int, str] = {}
    for path, leaf in tree.leaves_with_path(args):
        if isinstance(leaf, Tensor):
            first, *rest = path
            number = getattr(first, "idx", getattr(first, "key", first))
            out[len(out)] = f"argument {number}" + "".join(map(str, rest))
    return out
