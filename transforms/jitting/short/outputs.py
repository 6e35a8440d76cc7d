"""The second half of a short way: what becomes of the arrays that come out."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from fx import tree
from fx.graph.ir import Graph, Value
from fx.tape import freed_node
from fx.transforms.jitting.program import Anew, Gathered, Given, Held, Leaf, Program
from fx.transforms.jitting.recording.host import Host
from fx.transforms.jitting.short.alone import shared_outputs
from fx.transforms.jitting.short.inputs import Code
from fx.versions import changes, fresh


def results_of(
    code: Code, finish: Any, numbers: dict[Any, str], graph: Graph, leaves: dict[int, str]
) -> tuple[list[str], list[str], str, int]:
    """The lines that make the results, those, what the call returns, how many values that takes.

    ``numbers`` are the variables that hold those that are Python numbers, ``leaves`` those of
    the arguments that are tensors.
    """
    values = [leaf.value for leaf in finish.leaves if leaf.value is not None]
    shared = shared_outputs(values, graph.outputs)
    place = 0
    results = []
    lines = []
    for leaf in finish.leaves:
        if leaf.number is not None:
            results.append(numbers[id(leaf)])
            continue
        if leaf.value is None:
            results.append(_held(code, leaf))
            continue
        i = len(results)
        copy = ".copy()" if place in shared else ""
        node = "None"
        if leaf.freed is not None:
            node = f"{code.name('freed', freed_node)}({code.name('of', leaf.freed)})"
        lines.append(f"r{i} = new(Tensor); r{i}._a = out[{place}]{copy}; r{i}._node = {node}")
        results.append(f"r{i}")
        place += 1
    for i, alias in finish.aliases.items():
        base = alias.base
        if type(base) is int:
            x = results[base]
        elif type(base) is Given:
            x = leaves[base.number]
        else:
            x = _held(code, base)
        lines.append(f"r{i} = {code.name('view', alias.taken)}({x})")
        results[i] = f"r{i}"
    returned = _built(code, finish.treedef, results[: finish.treedef.num_leaves])
    return lines, results, returned, place


def _held(code: Code, leaf: Leaf) -> str:
    """What gives a Python object, or a tensor from outside."""
    if type(leaf.held) is Anew:
        return f"{code.name('held', leaf.held.get)}(F, O, args, kwargs)"
    return code.name("held", leaf.held)


def numbers_among(program: Program) -> tuple[list[Any], list[Any]]:
    """The numbers that are known before the step runs, as leaves; and the leaves that come after.

    Among the first are those that the others are computed of.
    """
    assert program.root is not None and program.root.finish is not None
    table, given = program.table, [x for x in program.root.finish.leaves if x.number]
    after = [x for x in given if table.items_of(x.number.place)]
    before = [x for x in given if not table.items_of(x.number.place)]
    places = {at for x in after for at in table.steps(x.number.place)}
    late = {at for at in places if table.items_of(at)}
    needed = {at for place in late for staged, at in table.entries[place][1] if staged} - late
    return [*before, *[Leaf(None, number=Host(table, at)) for at in sorted(needed)]], after


def elements_of(program: Program) -> list[Value]:
    """The values whose elements are numbers among the results."""
    table = program.table
    _, after = numbers_among(program)
    places = {at for x in after for at in table.items_of(x.number.place)}
    return [table.items[at] for at in sorted(places)]


def computed_after(
    code: Code,
    program: Program,
    after: list[Any],
    before: list[Any],
    numbers: dict[Any, str],
    first: int,
) -> list[str]:
    """The lines that compute numbers of what came out; their variables go to ``numbers``.

    Args:
        after: the leaves that they are.
        before: those that are known before, whose variables are in ``numbers``.
        first: the place of the first of ``elements_of`` among the outputs.
    """
    table = program.table
    known = {x.number.place: numbers[id(x)] for x in before}
    outputs = {value: first + i for i, value in enumerate(elements_of(program))}
    lines = []
    for at in sorted({at for x in after for at in table.steps(x.number.place)}):
        if not table.items_of(at):
            continue
        name = known[at] = f"e{at}"
        if at in table.items:
            lines.append(f"{name} = out[{outputs[table.items[at]]}].item()")
            continue
        function, args = table.entries[at]
        given = [known[x] if staged else code.name("c", x) for staged, x in args]
        lines.append(f"{name} = {code.name('f', function)}({', '.join(given)})")
    numbers.update({id(x): known[x.number.place] for x in after})
    return lines


def _built(code: Code, treedef: Any, leaves: list[str]) -> str:
    if treedef.is_leaf():
        return leaves[0]
    if treedef == tree.flatten_in_order(tuple([0] * len(leaves)))[1]:
        return f"({''.join(f'{x}, ' for x in leaves)})"
    unflatten, structure = code.name("unflatten", tree.unflatten), code.name("treedef", treedef)
    return f"{unflatten}({structure}, [{', '.join(leaves)}])"


def stores_of(
    code: Code, stores: Sequence[Any], results: list[str], settings: Any = None
) -> list[str]:
    """The lines that change Python's state, all at once; what is changed is found before the step.

    They leave the list of a step empty, which says that all has happened. What they store in
    Modules counts as a change for all but ``settings``, those of this program, if nothing else has
    changed since these were looked at.
    """
    if not stores:
        return []
    calls = []
    for store in stores:
        target, run = f"s{len(code.names)}", code.name("run", store.run)
        code.add(f"{target} = {code.name('target', store.find)}(F, O, args, kwargs)")
        code.require(f"{target} is not None")
        values = [
            results[at[0]] if t is None else _built(code, t, [results[i] for i in at])
            for t, at in store.values
        ]
        keys = "".join(f"{code.name('key', key)}, " for key in store.key)
        given = f"[{', '.join(values)}]" if store.several else values[0]
        part = ".__dict__" if store.part else ""
        calls.append(f"({run}, ({target}{part}, {keys}{given}))")
    from fx.transforms.jitting.recording.effects import perform

    noted, before, after = any(store.noted for store in stores), [], []
    if noted:
        at, own = code.name("changes", changes), code.name("settings", settings)
        # with no Python in between: the count that was there, and the new one
        calls.append(f"({code.name('count', attrgetter('count'))}, ({at},))")
        calls.append(f"({code.name('set', setattr)}, ({at}, 'count', fresh))")
        before = [f"fresh = {code.name('fresh', fresh)}()"]
        after = [f"if found[-3] == {own}.seen: {own}.seen = fresh"] if settings else []
    clear = code.name("clear", list.clear)
    done = f"{code.name('perform', perform)}([{', '.join(calls)}, ({clear}, (list,))])"
    return [*before, f"found = {done}", *after]


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
    code.names.update(kept=kept, put_back=put_back, changed=held, is_stored=is_stored)
    calls = [f"    {code.name('effect', effect.run)}()" for effect in effects]
    return [
        "before = kept(changed)",
        "try:",
        *calls,
        f"    {step}",
        "finally:",
        # a step that has stored its results has emptied it, or left them there for what follows
        "    if list and not is_stored(list): put_back(before)",
    ]


def kept_whole(code: Code, tried: list[str], stores: list[str]) -> list[str]:
    """A step and the stores after it: both happen, or neither.

    What comes between them, from a signal handler, finds the step's outputs in its list.
    """
    code.names.update(is_stored=is_stored)
    return [
        "try:",
        *[f"    {line}" for line in (*tried, *stores)],
        "except BaseException:",
        "    if is_stored(list):",
        "        out = list[0]",
        *[f"        {line}" for line in stores],
        "    raise",
    ]


def is_stored(given: list[Any]) -> bool:
    """Whether the list of a step says that it has stored its results, and gives them."""
    return len(given) == 1 and type(given[0]) is list


def kept(held: Sequence[dict[Any, Any]]) -> list[tuple[dict[Any, Any], dict[Any, Any]]]:
    """Dicts, each with what it holds now."""
    return [(d, dict(dict.items(d))) for d in held]


def put_back(before: Sequence[tuple[dict[Any, Any], dict[Any, Any]]]) -> None:
    """Let dicts hold what they held."""
    for d, was in before:
        dict.clear(d)
        dict.update(d, was)
