"""The second half of a short way: what becomes of the arrays that come out."""

from __future__ import annotations

from typing import Any

from fx import tree
from fx.graph.ir import Graph, Value
from fx.transforms.jitting.fast_inputs import Code
from fx.transforms.jitting.program import Gathered, Held, Program


def spaces_of(finish: Any) -> list[Value]:
    """The gradients that come out."""
    return [v for _, v in finish.grads if v is not None]


def results_of(code: Code, finish: Any) -> tuple[list[str], str, int]:
    """The lines that make the results, what the call returns, and how many values that takes."""
    place = 0
    results = []
    lines = []
    for leaf in finish.leaves:
        if leaf.value is None:
            results.append(code.name("held", leaf.held))
            continue
        if leaf.number is not None:
            results.append(f"out[{place}].item()")
        else:
            i = len(results)
            lines.append(f"r{i} = new(Tensor); r{i}._a = out[{place}]; r{i}._node = None")
            results.append(f"r{i}")
        place += 1
    if finish.treedef.is_leaf():
        returned = results[0]
    elif finish.treedef == tree.structure(tuple([0] * len(results))):
        returned = f"({''.join(f'{r}, ' for r in results)})"
    else:
        unflatten = code.name("unflatten", tree.unflatten)
        treedef = code.name("treedef", finish.treedef)
        returned = f"{unflatten}({treedef}, [{', '.join(results)}])"
    return lines, returned, place


def store_numbers(code: Code, finish: Any, place: int) -> list[str]:
    """The lines that store Python numbers."""
    lines = []
    for held, key, leaf in finish.numbers:
        owner, name = code.name("held", held), code.name("key", key)
        if leaf.value is None:
            lines.append(f"put({owner}, {name}, {code.name('number', leaf.held)})")
        else:
            lines.append(f"put({owner}, {name}, out[{place}].item())")
            place += 1
    return lines


def at_once(
    code: Code,
    program: Program,
    graph: Graph,
    sources: dict[Value, Any],
    donated: set[int],
    arrays: dict[Value, str],
    executable: Any,
    count: int,
    lines: list[str],
) -> None:
    """The way of a step that finds everything as the last one left it: one builtin collects it."""
    assert program.root is not None and program.root.finish is not None
    finish = program.root.finish
    used = set(graph.inputs)
    held = {
        id(s.cell()): i for i, v in enumerate(graph.inputs) if type(s := sources.get(v)) is Held
    }
    if (
        any(type(s) is Held and v not in used for v, s in sources.items())
        or any(not had for _, had in program.gathered)
        or any(id(cell()) not in held for cell, _ in finish.rebinds)
        or any(value is None for _, value in finish.grads)
        or not hasattr(executable, "reuse")
    ):
        return
    from fx.backends.cpu.llvm.collect import Item, collector

    owners = iter([owner for owner, _ in finish.grads])
    items, gradients = [], {}
    for i, value in enumerate(graph.inputs):
        source, spec = sources.get(value), value.spec
        kind = type(source)
        if kind in (Held, Gathered) or source is None:
            owner = (
                source.cell if kind is Held else next(owners) if source is None else source.owner
            )
            if source is None:
                gradients[id(owner())] = i
            items.append(Item(owner, kind is not Held, spec.dtype, spec.shape, i, i in donated))
    collect = collector(items) if items else None
    if collect is None:
        return
    listed = ", ".join(arrays.get(v, "None") for v in graph.inputs)
    code.add(f"list = [{listed}]", f"if {code.name('collect', collect)}(list):")
    code.add("    out = run(list)")
    own = executable.reuse
    for place, (cell, _) in enumerate(finish.rebinds, count):
        if own.get(place) != held[id(cell())]:  # its value came to lie in another one's memory
            code.add(f"    {code.name('cell', cell)}().value._a = out[{place}]")
    for place, (owner, _) in enumerate(finish.grads, count + len(finish.rebinds)):
        if own.get(place) != gradients.get(id(owner())):
            code.add(f"    {code.name('owner', owner)}().leaf.grad._a = out[{place}]")
    code.add(*[f"    {line}" for line in lines], "list = None")


def rebind_cells(code: Code, finish: Any, place: int) -> list[str]:
    """The lines that give cells their new values."""
    after = []
    for cell, _ in finish.rebinds:
        i = code.names.get(f"place of {id(cell)}")
        if i is None:  # it is rebound without being read
            name = code.name("cell", cell)
            i = len(code.names)
            code.add(f"c{i} = {name}()")
            code.require(f"c{i} is not None")
            code.add(f"s{i} = False", f"t{i} = None")
        after.append(f"if s{i}: t{i}._a = out[{place}]")
        after.append(
            f"else: t{i} = new(Tensor); t{i}._a = out[{place}]; t{i}._node = c{i}.leaf; "
            f"c{i}.value = t{i}"
        )
        place += 1
    return after


def store_gradients(
    code: Code,
    finish: Any,
    arrays: dict[Value, str],
    graph: Graph,
    sources: dict[Value, Any],
    place: int,
) -> list[str]:
    """The memory that gradients are written into, and the lines that store them."""
    after = []
    spaces = iter([v for v in graph.inputs if v not in sources])
    for owner, value in finish.grads:
        i = len(code.names)
        code.add(f"f{i} = {code.name('owner', owner)}()")
        code.require(f"f{i} is not None")
        if value is None:
            after.append(f"f{i}.leaf.grad = None")
            continue
        code.add(f"f{i} = f{i}.leaf", f"g{i} = f{i}.grad", f"h{i} = None")
        space = next(spaces)
        dtype = code.name("dtype", value.spec.dtype)
        code.add(
            f"if type(g{i}) is Tensor and g{i}._node is None and refs(g{i}) == 3:",
            f"    h{i} = g{i}._a",
            f"    if refs(h{i}) != 3 or h{i}.base is not None or h{i}.dtype is not {dtype} "
            f"or h{i}.shape != {value.spec.shape!r}: h{i} = None",
            f"e{i} = empty({value.spec.shape!r}, {dtype}) if h{i} is None else h{i}",
        )
        arrays[space] = f"e{i}"
        after.append(f"if h{i} is None: g{i} = new(Tensor); g{i}._node = None; f{i}.grad = g{i}")
        after.append(f"g{i}._a = out[{place}]")
        place += 1
    return after
