"""The short way of a call: one generated function a program, from arguments to results.

A program of one segment needs no environment and no tree of branches: its arguments are checked,
the arrays of its cells are collected, the native code runs, and cells and results get what came
out. That is straight Python code with nothing in it but what this program needs, written when the
program has run once.

A cell that is rebound lends its memory to its next value, if nobody else holds the tensor or its
array: then the new value is written in place, and the cell's own tensor is given what came out.
Gradients that are replaced lend theirs in the same way. The look at who holds what, the run and the
handing out are one builtin (``fx/backends/cpu/llvm/commit``), so that nothing comes in between.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from fx.away import pause
from fx.config import modes
from fx.graph.ir import Graph, Value, input_value
from fx.graph.manager import optimize
from fx.tensor import Tensor, _new
from fx.transforms.jitting.compiled import executable_of, without_calls
from fx.transforms.jitting.donation import Gone, give_away
from fx.transforms.jitting.handled import PLAN
from fx.transforms.jitting.program import (
    Argument,
    Captured,
    Counted,
    Gathered,
    Held,
    Program,
    lazily,
    lengths_of,
)
from fx.transforms.jitting.short.alone import shared_outputs
from fx.transforms.jitting.short.elsewhere import is_elsewhere, step_of
from fx.transforms.jitting.short.inputs import (
    MISS,
    Code,
    arguments,
    fetch_input,
    fetch_numbers,
    settings,
)
from fx.transforms.jitting.short.outputs import (
    computed_after,
    effects_of,
    elements_of,
    items_of,
    kept_whole,
    numbers_among,
    numbers_of,
    results_of,
    stores_of,
)


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
    if modes.record0 and any(x._node is not None for x in signature.tensors):
        return None  # it may look at that, and two of them may be one leaf
    if any(x.level >= 0 or x.device.name not in _SHORT for x in signature.tensors):
        return None
    if modes.journal is not None or modes.stage is not None:
        return None
    if any(leaf.number and leaf.value is None for _, _, leaf in finish.numbers):
        return None  # a number that no output holds is stored
    if any(x.number and program.table.time(x.number.place) for x in finish.leaves):
        return None  # one is given back that a scheduler has changed
    cells = {id(c()): c for c, _ in finish.rebinds}
    owners = [owner for owner, _ in (*finish.grads, *program.gathered)]
    if any(type(owner) is not ref or getattr(owner(), "leaf", None) is None for owner in owners):
        return None  # the gradient of an argument
    given = {signature.parts[i][1] for i in signature.donated if signature.parts[i][0] == "tensor"}
    graph, sources = _graph_of(program)
    replaced = [id(owner()) for owner, v in finish.grads if v is not None]  # type: ignore[operator]
    inputs = list(graph.inputs)
    if any(type(s) is Captured and v not in inputs for v, s in sources.items()):
        return None  # a tensor that the function asks for its shape alone
    results = [v for node in graph.nodes for v in node.outs]
    if any(v.spec.device != "cpu" for v in (*inputs, *graph.outputs, *results)):
        return _elsewhere(jitted, program, signature, graph, sources)
    lent = [input_value(v.spec) for _, v in finish.grads if v is not None]
    donated = []
    for i, v in enumerate(inputs):
        s = sources[v]
        if (
            (type(s) is Held and id(s.cell()) in cells)
            or (type(s) is Gathered and id(s.owner()) in replaced)
            or (type(s) is Argument and s.number in given)
        ):
            donated.append(i)
    donated += range(len(inputs), len(inputs) + len(lent))
    whole = Graph([*inputs, *lent], graph.nodes, graph.outputs, program.name)
    whole.cache["dynamic"] = jitted.sizes_vary
    program.graphs.append(whole)
    kin = None
    if program.axes or lengths_of(program):
        kin = lazily("short.lengths").kin_of(jitted, program, signature, whole)
    executable = executable_of(whole, tuple(donated), optimized=True)
    if not getattr(executable, "native", False):  # Python runs in between: nothing may be lent
        donated = []
        executable = executable_of(whole, (), optimized=True)
    return _write(jitted, program, signature, whole, sources, executable, set(donated), kin)


class GivenNow(NamedTuple):
    """The arguments of a call that goes the short way."""

    tensors: tuple[Any, ...]
    objects: tuple[Any, ...]


_SHORT = ("cpu", "mesh")


def _elsewhere(
    jitted: Any, program: Program, signature: Any, graph: Graph, sources: dict[Value, Any]
) -> Any:
    """The short way of a program of another device; with shared results it goes the long way."""
    values = [leaf.value for leaf in program.root.finish.leaves if leaf.value is not None]  # type: ignore[union-attr]
    if any(v.spec.device not in _SHORT for v in (*graph.inputs, *graph.outputs)):
        return None
    if shared_outputs(values, graph.outputs) or signature.donated:
        return None
    graph.cache["dynamic"] = jitted.sizes_vary
    program.graphs.append(graph)
    executable = executable_of(graph, (), optimized=True)
    return _write(jitted, program, signature, graph, sources, executable, set(), apart=step_of)


def _graph_of(program: Program) -> tuple[Graph, dict[Value, Any]]:
    """The program as one optimised graph of what it needs, results in the order of ``Finish``."""
    segment = program.root
    assert segment is not None and segment.finish is not None
    finish = segment.finish
    outputs = [leaf.value for leaf in finish.leaves if leaf.value is not None]
    outputs += [v for _, v in finish.rebinds]
    outputs += [v for _, v in finish.grads if v is not None]
    outputs += [leaf.value for _, _, leaf in finish.numbers if leaf.value is not None]
    outputs += elements_of(program)
    whole = Graph(list(program.sources), segment.nodes, outputs, program.name)
    varied = program.varied or bool(lengths_of(program))
    graph = optimize(without_calls(whole), varied=varied)
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
    kin: Any = None,
    apart: Any = None,
) -> Any:
    from fx.backends.cpu.llvm.commit import stepper

    assert program.root is not None and program.root.finish is not None
    finish = program.root.finish
    code = Code()
    names = code.names
    names.update(
        Tensor=Tensor, new=_new, modes=modes, array=np.array, MISS=MISS, get=dict.__getitem__,
        pause=pause, float=float, type=type, int=int, len=len, id=id,
    )  # fmt: skip
    settings(code, program)
    if apart is not None:
        code.require(f"now['joined'] == {modes.joined!r}")
    lengths = None if kin is None else lazily("short.lengths").serves_all(kin, executable)
    varies = () if lengths is None else lengths.places
    read = {s.number for v in graph.inputs if type(s := sources.get(v)) is Argument}
    arguments(
        code,
        jitted,
        program,
        signature,
        read if getattr(executable, "native", False) else set(),
        varies,
    )
    if program.guards is not None:
        code.names["F"] = jitted.function
        objects = "".join(
            f"l{i}, " for i, part in enumerate(signature.parts) if part[0] == "object"
        )
        code.add(f"O = ({objects})")
        code.require(f"{code.name('hold', program.guards.hold)}(F, O)")
        if program.lies:
            lying, given = code.name("lies", jitted.lie_so), code.name("given", GivenNow)
            tensors = [f"l{i}, " for i, part in enumerate(signature.parts) if part[0] == "tensor"]
            code.require(f"{lying}(program, {given}(({''.join(tensors)}), O))")
    counted = {v: s for v in graph.inputs if type(s := sources.get(v)) is Counted}
    before, after = numbers_among(program)
    fetched = fetch_numbers(
        code, program, counted, before, () if lengths is None else lengths.asked
    )
    leaves = {place: f"l{i}" for i, (kind, place) in enumerate(signature.parts) if kind == "tensor"}
    listed, forget = [], []
    for i, value in enumerate(graph.inputs):
        source = sources.get(value)
        if source is None or type(source) in (Held, Gathered):
            listed.append("None")
        elif i in donated:  # the tensor itself; nobody but it may hold its array
            listed.append(leaves[source.number])
            forget.append(f"x{source.number} = None")
        else:
            listed.append(fetched.get(value) or fetch_input(code, program, value, source))
    first = len(graph.outputs) - len(elements_of(program))
    computed = computed_after(code, program, after, before, fetched, first)
    lines, results, outputs, count = results_of(code, finish, fetched, graph, leaves)
    lines = [*computed, *lines]
    own = None if program.guards is None else program.guards.settings
    stores = stores_of(code, finish.stores, results, own)
    items = items_of(program, graph, sources, donated, count) if apart is None else []
    numbers = numbers_of(finish, count)
    gone = Gone(program.name, "a call of it")
    effects = program.root.effects

    def caller_of(executable: Any) -> Any:
        if apart is not None:
            return apart(program, graph, sources, executable.run, count, bool(stores))
        native = executable.native if donated else False
        return stepper(items, numbers, executable.run, native, gone, bool(stores))

    if items or numbers or effects or apart is not None:
        step = caller_of(executable)
        constants = [leaf.held for _, _, leaf in finish.numbers if leaf.value is None]
        if step is None or (effects and not listed) or None in constants:
            return None
        _runs(code, "step", step, program, lengths, caller_of)
        code.add(*forget, f"list = [{', '.join(listed)}]")
        again = ["    drawn.put_back()"] if program.table.draws else []
        tried = [
            *_refused(code, effects_of(code, effects, "out = step(list)")),
            f"if out is False: return {code.miss}",
            *["if out is None:", *again, "    pause()", "    continue"],
        ]
        code.add(*kept_whole(code, tried, [*lines, *stores]) if stores else [*tried, *lines])
    else:
        _runs(code, "run", executable.run, program, lengths, attrgetter("run"))
        code.add(
            "list = []" if stores else "", *_refused(code, [f"out = run([{', '.join(listed)}])"])
        )
        code.add(*lines, *stores)
    code.names["program"] = program  # what is told to drop the program finds it while this serves
    code.names["tally"] = program.tally
    code.add("tally[0] += 1")
    tensors = [f"l{i}" for i in sorted(signature.donated) if signature.parts[i][0] == "tensor"]
    if tensors:
        code.names["give_away"] = give_away
        code.add(f"give_away(({''.join(f'{t}, ' for t in tensors)}), {program.name!r})")
    code.add(f"return {outputs}")
    body = "\n        ".join(["def plan(args, kwargs):\n    while True:", *code.lines])
    scope: dict[str, Any] = names
    exec(compile(body, f"{PLAN}{program.name}>", "exec"), scope)
    return scope["plan"]


def _runs(
    code: Code, name: str, run: Any, program: Program, lengths: Any, made: Callable[..., Any]
) -> None:
    """Name what runs: always the same, or what belongs to the lengths of a call."""
    if lengths is None:
        code.names[name] = run
        return
    found = lazily("short.lengths").ByLength(lengths, made)
    found.known[lengths.own] = run
    program.lengths = found.known
    code.names.update(runs=found.known.get, more=found.more)
    shapes = "".join([f"x{place}.shape, " for place in lengths.places])
    open_ = "*lengths, " if lengths.asked else ""
    key = f"({open_}{shapes})" if lengths.places else "lengths"
    code.add(
        f"key = {key}", f"{name} = runs(key) or more(key)", f"if {name} is None: return {code.miss}"
    )


def _refused(code: Code, lines: list[str]) -> list[str]:
    """What runs compiled code, which refuses arrays of another device before it does anything."""
    code.names["elsewhere"] = is_elsewhere
    return [
        "try:",
        *[f"    {line}" for line in lines],
        "except TypeError:",
        "    if not elsewhere(args, kwargs): raise",
        f"    return {code.miss}",
    ]
