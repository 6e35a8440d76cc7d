"""The second half of a short way: what becomes of the arrays that come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx import tree
from fx.graph.ir import Graph, Value
from fx.transforms.jitting.fast_inputs import Code
from fx.transforms.jitting.program import Anew, Gathered, Held, Program


def results_of(code: Code, finish: Any, numbers: dict[Any, str]) -> tuple[list[str], str, int]:
    """The lines that make the results, what the call returns, and how many values that takes.

    ``numbers`` are the variables that hold those that are Python numbers.
    """
    place = 0
    results = []
    lines = []
    for leaf in finish.leaves:
        if leaf.number is not None:
            results.append(numbers[id(leaf)])
            continue
        if leaf.value is None:
            held = code.name("held", leaf.held.get if type(leaf.held) is Anew else leaf.held)
            results.append(f"{held}(F, O, args, kwargs)" if type(leaf.held) is Anew else held)
            continue
        i = len(results)
        lines.append(f"r{i} = new(Tensor); r{i}._a = out[{place}]; r{i}._node = None")
        results.append(f"r{i}")
        place += 1
    if finish.treedef.is_leaf():
        returned = results[0]
    elif finish.treedef == tree.flatten_in_order(tuple([0] * len(results)))[1]:
        returned = f"({''.join(f'{r}, ' for r in results)})"
    else:
        unflatten = code.name("unflatten", tree.unflatten)
        treedef = code.name("treedef", finish.treedef)
        returned = f"{unflatten}({treedef}, [{', '.join(results)}])"
    return lines, returned, place


def items_of(
    program: Program, graph: Graph, sources: dict[Value, Any], donated: set[int], count: int
) -> list[Any]:
    """What the step looks at, gathers and gives new values: cells, gradients, given arguments."""
    from fx.backends.cpu.llvm.commit import Item
    from fx.backends.cpu.llvm.commit import records as kinds

    assert program.root is not None and program.root.finish is not None
    finish = program.root.finish
    places = {id(cell()): i for i, (cell, _) in enumerate(finish.rebinds, count)}
    spaces = iter(
        enumerate([owner for owner, v in finish.grads if v is not None], count + len(places))
    )
    items = [Item(kinds.PRESENT if had else kinds.ABSENT, owner) for owner, had in program.gathered]
    seen = set()
    for i, value in enumerate(graph.inputs):
        source, spec, owned = sources.get(value), value.spec, i in donated
        known = {"dtype": spec.dtype, "shape": spec.shape, "position": i}
        if source is None:
            place, owner = next(spaces)
            items.append(Item(kinds.SPACE, owner, owned=True, place=place, **known))
        elif type(source) is Held:
            seen.add(id(source.cell()))
            place = places.get(id(source.cell()), kinds.NOWHERE)
            items.append(Item(kinds.CELL, source.cell, owned=owned, place=place, **known))
        elif type(source) is Gathered:
            items.append(Item(kinds.GATHERED, source.owner, owned=owned, **known))
        elif owned:
            items.append(Item(kinds.GIVEN, owned=True, place=kinds.TAKEN, **known))
    for value, source in sources.items():  # cells that are not needed, as they were when staged
        if type(source) is Held and id(source.cell()) not in seen:
            seen.add(id(source.cell()))
            place = places.get(id(source.cell()), kinds.NOWHERE)
            dtype, shape = value.spec.dtype, value.spec.shape
            items.append(Item(kinds.CELL, source.cell, dtype, shape, place=place))
    for cell, _ in finish.rebinds:
        if id(cell()) not in seen:  # it is rebound without being read
            items.append(Item(kinds.CELL, cell, place=places[id(cell())], checked=False))
    for owner, value in finish.grads:
        if value is None:
            items.append(Item(kinds.CLEARED, owner, place=kinds.NOTHING))
    return items


def numbers_of(finish: Any, count: int) -> list[tuple[Any, Any, Any, int]]:
    """The Python numbers that the step stores: dict, key, and the number or the output it is."""
    place = count + len(finish.rebinds) + sum(v is not None for _, v in finish.grads)
    found = []
    for held, key, leaf in finish.numbers:
        found.append((held, key, leaf.held if leaf.value is None else None, place))
        place += leaf.value is not None
    return found


def effects_of(code: Code, effects: Sequence[Any], step: str) -> list[str]:
    """The step with what is done to Python numbers around it: all of it, or nothing."""
    if not effects:
        return [step]
    held = tuple([d for effect in effects for d in effect.held])
    code.names.update(kept=kept, put_back=put_back, changed=held)
    calls = [f"    {code.name('effect', effect.run)}()" for effect in effects]
    return [
        "before = kept(changed)",
        "try:",
        *calls,
        f"    {step}",
        "finally:",
        "    if list: put_back(before)",  # a step that has stored its results has emptied it
    ]


def kept(held: Sequence[dict[Any, Any]]) -> list[tuple[dict[Any, Any], dict[Any, Any]]]:
    """Dicts, each with what it holds now."""
    return [(d, dict(dict.items(d))) for d in held]


def put_back(before: Sequence[tuple[dict[Any, Any], dict[Any, Any]]]) -> None:
    """Let dicts hold what they held."""
    for d, was in before:
        dict.clear(d)
        dict.update(d, was)
