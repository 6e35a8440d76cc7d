"""The short way of a call: one generated function a program, from arguments to results.

A program of one segment needs no environment and no tree of branches: its arguments are checked,
the arrays of its cells are collected, the native code runs, and cells and results get what came
out. That is straight Python code with nothing in it but what this program needs, written when the
program has run once.

A cell that is rebound lends its memory to its next value, if nobody else holds the tensor or its
array: then the new value is written in place, and the cell's own tensor is given what came out.
Gradients that are replaced lend theirs in the same way.
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any
from weakref import ref

import numpy as np

from fx import tree
from fx.config import _Defaults, modes
from fx.graph.ir import Graph, Value, input_value
from fx.numbers import number_dtype
from fx.tensor import Tensor, _new
from fx.transforms.jitting.compiled import executable_of
from fx.transforms.jitting.donation import give_away
from fx.transforms.jitting.program import Argument, Captured, Counted, Gathered, Held, Program

MISS = object()  # what a plan returns where it does not serve a call


class _Code:
    """Lines of a function, and the names that they use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}

    def add(self, *lines: str) -> None:
        self.lines += lines

    def name(self, prefix: str, value: Any) -> str:
        """A name for a value that the code refers to."""
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def require(self, condition: str) -> None:
        """Go the long way unless ``condition`` holds."""
        self.add(f"if not ({condition}): return MISS")


def make_plan(jitted: Any, program: Program, signature: Any) -> Any:
    """The short way of a program that has run; None where there is none."""
    segment = program.root
    if segment is None or segment.finish is None or any(e.values for e in segment.effects):
        return None
    if any(type(s) is Counted and s.time for s in program.sources.values()):
        return None  # a number that is read after a scheduler has changed it
    if jitted.static_argnums or jitted.static_argnames:
        return None
    finish = segment.finish
    if modes.record0 and any(leaf.differentiable for leaf in finish.leaves):
        return None
    if any(x.level >= 0 or x.device.name != "cpu" for x in signature.tensors):
        return None
    if modes.journal is not None or modes.stage is not None:
        return None
    cells = {id(c()): c for c, _ in finish.rebinds}
    owners = [owner for owner, _ in (*finish.grads, *program.gathered)]
    if any(type(owner) is not ref or getattr(owner(), "leaf", None) is None for owner in owners):
        return None  # the gradient of an argument
    graph, sources = _graph_of(program)
    spaces = [v for _, v in finish.grads if v is not None]
    inputs = [v for v in graph.inputs]
    lent = [input_value(v.spec) for v in spaces]
    donated = [
        i
        for i, v in enumerate(inputs)
        if (type(s := sources[v]) is Held and id(s.cell()) in cells) or type(s) is Gathered
    ]
    donated += range(len(inputs), len(inputs) + len(lent))
    given = {
        signature.parts[i][1] for i in signature.donated if signature.parts[i][0] == "tensor"
    }
    donated += [
        i for i, v in enumerate(inputs) if type(s := sources[v]) is Argument and s.number in given
    ]
    whole = Graph([*inputs, *lent], graph.nodes, graph.outputs, program.name)
    executable = executable_of(whole, tuple(donated), optimized=True)
    return _write(jitted, program, signature, whole, sources, executable, set(donated))


def _graph_of(program: Program) -> tuple[Graph, dict[Value, Any]]:
    """The program as one optimised graph of what it needs, results in the order of ``Finish``."""
    from fx.transforms.jitting.compiled import optimize

    segment = program.root
    assert segment is not None and segment.finish is not None
    finish = segment.finish
    outputs = [leaf.value for leaf in finish.leaves if leaf.value is not None]
    outputs += [v for _, v in finish.rebinds]
    outputs += [v for _, v in finish.grads if v is not None]
    outputs += [leaf.value for _, _, leaf in finish.numbers if leaf.value is not None]
    graph = optimize(Graph(list(program.sources), segment.nodes, outputs, program.name))
    used = set(graph.uses())
    inputs = [v for v in graph.inputs if v in used]
    return Graph(inputs, graph.nodes, graph.outputs, program.name), program.sources


def _write(
    jitted: Any,
    program: Program,
    signature: Any,
    graph: Graph,
    sources: dict[Value, Any],
    executable: Any,
    donated: set[int],
) -> Any:
    assert program.root is not None and program.root.finish is not None
    finish = program.root.finish
    code = _Code()
    names = code.names
    names.update(
        Tensor=Tensor, new=_new, modes=modes, refs=getrefcount, empty=np.empty, array=np.array,
        MISS=MISS, get=dict.__getitem__, put=dict.__setitem__, run=executable.run, float=float,
        type=type, int=int, len=len, id=id,
    )  # fmt: skip
    _settings(code, program)
    _arguments(code, jitted, signature)
    if program.guards is not None:
        code.names["F"] = jitted.function
        objects = "".join(f"l{i}, " for i, part in enumerate(signature.parts) if part[0] == "object")
        code.add(f"O = ({objects})")
        code.require(f"{code.name('hold', program.guards.hold)}(F, O)")
    _numbers(code, program)
    arrays: dict[Value, str] = {}
    state = (Held, Gathered)
    for i, value in enumerate(graph.inputs):
        if value in sources and type(sources[value]) not in state:
            arrays[value] = _input(code, program, value, sources[value], False)
            if i in donated:
                x = arrays[value]  # 3: its tensor, the variable, the argument of getrefcount
                code.add(f"if refs({x}) != 3 or {x}.base is not None: {x} = {x}.copy()")
    lines, outputs, count = _results(code, finish)
    lines += _numbers_after(code, finish, count + len(finish.rebinds) + len(_spaces(finish)))
    lines += [f"{code.name('effect', effect.run)}()" for effect in program.root.effects]
    code.names["tally"] = program.tally
    lines.append("tally[0] += 1")
    tensors = [f"l{i}" for i in sorted(signature.donated) if signature.parts[i][0] == "tensor"]
    if tensors:
        code.names["give_away"] = give_away
        lines.append(f"give_away(({''.join(f'{t}, ' for t in tensors)}), {program.name!r})")
    lines.append(f"return {outputs}")
    _at_once(code, program, graph, sources, donated, arrays, executable, count, lines)
    for i, value in enumerate(graph.inputs):
        if value in sources and type(sources[value]) in state:
            arrays[value] = _input(code, program, value, sources[value], i in donated)
    _unused_checks(code, program, graph, sources)
    after = _rebinds(code, finish, count)
    after += _gradients(code, finish, arrays, graph, sources, count + len(finish.rebinds))
    listed = ", ".join(arrays[v] for v in graph.inputs)
    code.add(f"out = run([{listed}])", *after, *lines)
    body = "\n    ".join(["def plan(args, kwargs):", *code.lines])
    scope: dict[str, Any] = names
    exec(compile(body, f"<plan of {program.name}>", "exec"), scope)
    return scope["plan"]


def _settings(code: _Code, program: Program) -> None:
    records = modes.record0
    code.require(
        f"modes.stage is None and modes.record0 is {records} and not modes.axes "
        f"and modes.journal is None and modes.inference is {modes.inference}"
    )
    code.require(f"modes.device is {code.name('device', modes.device)}")
    code.names["defaults"] = _Defaults
    code.require(f"defaults.dtype is {code.name('dtype', _Defaults.dtype)}")
    code.require(f"defaults.device == {_Defaults.device!r}")
    if program.random:
        code.require("not modes.lanes and modes.turn is None")


def _arguments(code: _Code, jitted: Any, signature: Any) -> None:
    """Check the arguments; the arrays of tensors become ``x0``, ``x1`` …"""
    treedef, parts = signature.treedef, signature.parts
    flat, plain = tree.flatten((tuple([0] * len(parts)), {}))
    if treedef == plain:  # every argument is a leaf, none has a keyword
        code.require(f"not kwargs and len(args) == {len(parts)}")
        if parts:
            code.add(f"({''.join(f'l{i}, ' for i in range(len(parts)))}) = args")
    else:
        code.names["flatten"] = tree.flatten
        from fx.transforms.jitting.function import holds_state

        code.names["holds_state"] = holds_state
        code.add("leaves, treedef = flatten((args, kwargs), holds_state)")
        code.require(f"treedef == {code.name('treedef', treedef)}")
        if parts:
            code.add(f"({''.join(f'l{i}, ' for i in range(len(parts)))}) = leaves")
    for i, (kind, place) in enumerate(parts):
        if kind == "tensor":
            spec = signature.tensors[place].spec
            code.require(f"type(l{i}) is Tensor and l{i}._node is None")
            code.add(f"x{place} = l{i}._a")
            dtype = code.name("dtype", spec.dtype)
            code.require(f"x{place}.dtype is {dtype} and x{place}.shape == {spec.shape!r}")
        elif kind == "number":
            code.require(f"type(l{i}) is {type(signature.numbers[place]).__name__}")
            code.add(f"a{place} = l{i}")
        else:
            held = code.name("object", signature.objects[place])
            if isinstance(signature.objects[place], bool | str | bytes | complex | type(None)):
                code.require(f"l{i} is {held} or (type(l{i}) is type({held}) and l{i} == {held})")
            else:
                code.names[held] = _weakly(signature.objects[place])
                code.require(f"l{i} is {held}()")


def _weakly(x: Any) -> Any:
    """What gives an object without keeping it alive, where there is such a thing."""
    try:
        return ref(x)
    except TypeError:
        return lambda: x


def _numbers(code: _Code, program: Program) -> None:
    """Fetch the Python numbers; what is assumed of them is asked again when one has changed."""
    if not program.numbers:
        return
    for i, (owner, key, kind) in enumerate(program.numbers):
        if owner == "argument":
            code.add(f"n{i} = a{key}")
        else:
            code.add(f"n{i} = get({code.name('held', owner)}, {code.name('key', key)})")
            code.require(f"type(n{i}) is {kind.__name__}")
    if program.predicates:
        predicates = tuple(program.predicates)
        known: list[Any] = [None]

        def holds(numbers: tuple[Any, ...]) -> bool:
            if all(p.holds(numbers) for p in predicates):  # type: ignore[arg-type]
                known[0] = numbers
                return True
            return False

        listed = "".join(f"n{i}, " for i in range(len(program.numbers)))
        code.add(f"numbers = ({listed})")
        code.require(f"numbers == {code.name('known', known)}[0] or {code.name('ask', holds)}(numbers)")


def _input(code: _Code, program: Program, value: Value, source: Any, donated: bool) -> str:
    """The array of an input; the name of the variable that holds it."""
    kind, spec = type(source), value.spec
    if kind is Argument:
        return f"x{source.number}"
    i = len(code.names)
    dtype = code.name("dtype", spec.dtype)
    if kind is Counted:
        wide = number_dtype(program.numbers[source.number][2](0))
        code.add(f"b{i} = array(n{source.number}, {code.name('dtype', wide)})")
        return f"b{i}"
    if kind is Captured:
        find = code.name("find", source.find)
        code.add(f"t{i} = {find}(F, O)")
        code.require(f"type(t{i}) is Tensor and t{i}._node is None")
    elif kind is Held:
        code.add(f"c{i} = {code.name('cell', source.cell)}()")
        code.require(f"c{i} is not None")
        code.add(f"t{i} = c{i}.value")
        code.require(f"type(t{i}) is Tensor")
        code.names[f"place of {id(source.cell)}"] = i
    else:
        code.add(f"c{i} = {code.name('owner', source.owner)}()")
        code.require(f"c{i} is not None")
        code.add(f"t{i} = c{i}.leaf.grad")
        code.require(f"type(t{i}) is Tensor")
    code.add(f"b{i} = t{i}._a")
    code.require(f"b{i}.dtype is {dtype} and b{i}.shape == {spec.shape!r}")
    if donated:  # 2: the holder, and the argument of getrefcount; 3: the variable too
        code.add(
            f"s{i} = refs(t{i}) == 3 and refs(b{i}) == 3 and b{i}.base is None",
            f"if not s{i}: b{i} = b{i}.copy()",
        )
    return f"b{i}"


def _unused_checks(code: _Code, program: Program, graph: Graph, sources: dict[Value, Any]) -> None:
    """What the program assumes of cells and gradients besides the inputs that it uses."""
    used = set(graph.inputs)
    for value, source in sources.items():
        if value not in used and type(source) is Held:
            i = len(code.names)
            code.add(f"c{i} = {code.name('cell', source.cell)}()")
            code.require(f"c{i} is not None")
            code.names[f"place of {id(source.cell)}"] = i
            code.add(f"t{i} = c{i}.value")
            code.require(f"type(t{i}) is Tensor")
            dtype = code.name("dtype", value.spec.dtype)
            code.require(f"t{i}._a.dtype is {dtype} and t{i}._a.shape == {value.spec.shape!r}")
            code.add(f"s{i} = False")
    for owner, had in program.gathered:
        name = code.name("owner", owner)
        code.require(f"({name}().leaf.grad is not None) is {had}")


def _spaces(finish: Any) -> list[Value]:
    """The gradients that come out."""
    return [v for _, v in finish.grads if v is not None]


def _results(code: _Code, finish: Any) -> tuple[list[str], str, int]:
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


def _numbers_after(code: _Code, finish: Any, place: int) -> list[str]:
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


def _at_once(
    code: _Code,
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
    held = {id(s.cell()): i for i, v in enumerate(graph.inputs) if type(s := sources.get(v)) is Held}
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
            owner = source.cell if kind is Held else next(owners) if source is None else source.owner
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


def _rebinds(code: _Code, finish: Any, place: int) -> list[str]:
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


def _gradients(
    code: _Code,
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
