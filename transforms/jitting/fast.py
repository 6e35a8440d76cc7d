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

from fx.config import modes
from fx.graph.ir import Graph, Value, input_value
from fx.graph.manager import optimize
from fx.tensor import Tensor, _new
from fx.transforms.jitting.compiled import executable_of
from fx.transforms.jitting.donation import give_away
from fx.transforms.jitting.fast_inputs import (
    MISS,
    Code,
    arguments,
    fetch_input,
    fetch_numbers,
    settings,
    unused_checks,
)
from fx.transforms.jitting.fast_outputs import (
    at_once,
    rebind_cells,
    results_of,
    spaces_of,
    store_gradients,
    store_numbers,
)
from fx.transforms.jitting.program import Argument, Counted, Gathered, Held, Program


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
    inputs = list(graph.inputs)
    lent = [input_value(v.spec) for v in spaces]
    donated = [
        i
        for i, v in enumerate(inputs)
        if (type(s := sources[v]) is Held and id(s.cell()) in cells) or type(s) is Gathered
    ]
    donated += range(len(inputs), len(inputs) + len(lent))
    given = {signature.parts[i][1] for i in signature.donated if signature.parts[i][0] == "tensor"}
    donated += [
        i for i, v in enumerate(inputs) if type(s := sources[v]) is Argument and s.number in given
    ]
    whole = Graph([*inputs, *lent], graph.nodes, graph.outputs, program.name)
    executable = executable_of(whole, tuple(donated), optimized=True)
    return _write(jitted, program, signature, whole, sources, executable, set(donated))


def _graph_of(program: Program) -> tuple[Graph, dict[Value, Any]]:
    """The program as one optimised graph of what it needs, results in the order of ``Finish``."""
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
    code = Code()
    names = code.names
    names.update(
        Tensor=Tensor, new=_new, modes=modes, refs=getrefcount, empty=np.empty, array=np.array,
        MISS=MISS, get=dict.__getitem__, put=dict.__setitem__, run=executable.run, float=float,
        type=type, int=int, len=len, id=id,
    )  # fmt: skip
    settings(code, program)
    arguments(code, jitted, signature)
    if program.guards is not None:
        code.names["F"] = jitted.function
        objects = "".join(
            f"l{i}, " for i, part in enumerate(signature.parts) if part[0] == "object"
        )
        code.add(f"O = ({objects})")
        code.require(f"{code.name('hold', program.guards.hold)}(F, O)")
    fetch_numbers(code, program)
    arrays: dict[Value, str] = {}
    state = (Held, Gathered)
    for i, value in enumerate(graph.inputs):
        if value in sources and type(sources[value]) not in state:
            arrays[value] = fetch_input(code, program, value, sources[value], False)
            if i in donated:
                x = arrays[value]  # 3: its tensor, the variable, the argument of getrefcount
                code.add(f"if refs({x}) != 3 or {x}.base is not None: {x} = {x}.copy()")
    lines, outputs, count = results_of(code, finish)
    lines += store_numbers(code, finish, count + len(finish.rebinds) + len(spaces_of(finish)))
    lines += [f"{code.name('effect', effect.run)}()" for effect in program.root.effects]
    code.names["tally"] = program.tally
    lines.append("tally[0] += 1")
    tensors = [f"l{i}" for i in sorted(signature.donated) if signature.parts[i][0] == "tensor"]
    if tensors:
        code.names["give_away"] = give_away
        lines.append(f"give_away(({''.join(f'{t}, ' for t in tensors)}), {program.name!r})")
    lines.append(f"return {outputs}")
    at_once(code, program, graph, sources, donated, arrays, executable, count, lines)
    for i, value in enumerate(graph.inputs):
        if value in sources and type(sources[value]) in state:
            arrays[value] = fetch_input(code, program, value, sources[value], i in donated)
    unused_checks(code, program, graph, sources)
    after = rebind_cells(code, finish, count)
    after += store_gradients(code, finish, arrays, graph, sources, count + len(finish.rebinds))
    listed = ", ".join(arrays[v] for v in graph.inputs)
    code.add(f"out = run([{listed}])", *after, *lines)
    body = "\n    ".join(["def plan(args, kwargs):", *code.lines])
    scope: dict[str, Any] = names
    exec(compile(body, f"<plan of {program.name}>", "exec"), scope)
    return scope["plan"]
