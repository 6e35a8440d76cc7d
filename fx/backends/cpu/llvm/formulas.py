"""Eager kernels of formulas: what a primitive or composite is made of, compiled for all sizes.

A formula is staged with primes for its sizes, planned as in a jitted function, and its nests are
emitted with extents that a table holds (``fx/compiler/extents.py``). ``program`` is the door: of a
key that names the formula, its parameters, dtypes, the shapes by their names and nothing of earlier
calls, it gives what runs on arrays of any size, from memory, from the disk, or made now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu.llvm import library

Shape = tuple[str, ...]  # names of sizes; an axis of size 1 is "1"
# by how many sizes there are the primes that stand for them, and so the class that plans decide for
_PRIMES = {1: (1000003,), 2: (10007, 1009), 3: (1009, 499, 1013)}
MOST_SIZES = max(_PRIMES)


class Program:
    """The steps of a formula.

    Args:
        code: object code of all.
        head: of each step its tasks, elements and nanoseconds an element; dtypes of the results;
            shapes and dtypes of what is between.
        names: of the sizes.
    """

    def __init__(self, code: bytes, head: Any, names: Sequence[str]) -> None:
        from fx.backends.cpu.llvm import engine

        loaded = engine.Loaded([code], [s["name"] for s in head["steps"]], {}, lasting=True)
        self.steps = [
            (
                library.function_of(loaded, s["name"]), _measure(names, s["tasks"], s["elements"]),
                s["rate"],
            )
            for s in head["steps"]
        ]  # fmt: skip
        self.results = [np.dtype(d) for d in head["results"]]
        self.between = [
            (_measure(names, *shape), np.dtype(dtype)) for shape, dtype in head["between"]
        ]
        if len(self.steps) == 1 and not self.between:
            self.run = _alone(*self.steps[0])  # type: ignore[method-assign]

    def run(self, arrays: list[Any], sizes: tuple[int, ...]) -> None:
        """Compute the results, which stand behind the arguments in ``arrays``."""
        arrays = arrays + [np.empty(shape(*sizes), dtype) for shape, dtype in self.between]
        for run, measure, rate in self.steps:
            tasks, elements = measure(*sizes)
            run([tasks, library.chunk_of(tasks, rate * elements / tasks), *arrays, *sizes])


def _alone(run: library.Run, measure: Any, rate: float) -> Any:
    short = limits.LIBRARY_SHORT

    def alone(arrays: list[Any], sizes: tuple[int, ...]) -> None:
        tasks, elements = measure(*sizes)
        total = rate * elements
        run(
            [tasks, 0 if total < short else library.chunk_of(tasks, total / tasks), *arrays, *sizes]
        )

    return alone


def _measure(names: Sequence[str], *formulas: str) -> Callable[..., tuple[int, ...]]:
    known = {"__builtins__": {}, "max": max, "min": min}
    text = f"lambda {', '.join(names)}: ({''.join([f'{f}, ' for f in formulas])})"
    return eval(text, known)  # type: ignore[no-any-return]


def program(
    name: str, formula: Callable[..., Any], shapes: Sequence[Shape], chars: str, params: Any = ()
) -> Program:
    """What a formula is for arguments of such shapes and dtypes.

    Args:
        name: of the formula, unique.
        formula: ``(*tensors, **params) -> tensor`` or a tuple of tensors.
        shapes: of the arguments.
        chars: their dtypes; those from the first "P" on are Python's floats, given in the dtype of
            the first argument.
        params: pairs of a word and a value.

    Raises:
        NoExtentsError: if nests with extents cannot compute it.
    """
    from fx.backends.cpu.llvm import disk_cache

    names = sorted({n for shape in shapes for n in shape} - {"1"})
    entry = disk_cache.name_of("formula", name, repr((shapes, chars, params)))
    found = None if entry is None else disk_cache.load(entry)
    if found is not None:
        return Program(found[1], found[0], names)
    code, head = _made(name, formula, shapes, chars, dict(params), names)
    if entry is not None:
        disk_cache.store(entry, head, code, b"")
    return Program(code, head, names)


def _made(
    name: str, formula: Any, shapes: Sequence[Shape], chars: str, params: Any, names: Sequence[str]
) -> tuple[bytes, Any]:
    from fx.backends.cpu.llvm import engine
    from fx.backends.cpu.llvm.loops.emit import emit_table
    from fx.backends.cpu.llvm.loops.step import LoopStep
    from fx.backends.cpu.llvm.this_cpu import this_cpu
    from fx.compiler.extents import NoExtentsError
    from fx.compiler.schedule import schedule

    sizes = dict(zip(_PRIMES[len(names)], names))
    graph = _staged(name, formula, shapes, chars, params, {n: p for p, n in sizes.items()})
    planned = schedule(graph, this_cpu(), sizes)
    places = {v: i for i, v in enumerate(graph.inputs)}
    for v in graph.outputs:
        v = planned.root(v)
        if v in places:
            raise NoExtentsError(f"{name} gives one array twice, or back")
        places[v] = len(places)
    between: list[Any] = []
    module, steps = engine.new_module(), []
    for step in planned.steps:
        if not isinstance(step, LoopStep):
            raise NoExtentsError(f"{name}: {step.name}")
        for v in step.writes:
            if v not in places:
                places[v] = len(places)
                shape = [repr(_named(n, sizes)) for n in v.spec.shape]
                between.append((shape, v.spec.dtype.name))
    for i, step in enumerate(planned.steps):
        elements = prod(step.nest.sizes)
        arrays = [places[planned.root(v)] for v in (*step.reads, *step.writes)]
        table = arrays, {n: len(places) + k for k, n in enumerate(names)}
        emit_table(step.plan, module, f"step{i}", table)
        steps.append({
            "name": f"step{i}", "tasks": repr(step.tasks), "elements": repr(elements),
            "rate": step.cost / int(elements),
        })  # fmt: skip
    return engine.compile_text(str(module)), {
        "steps": steps, "between": between, "results": [v.spec.dtype.name for v in graph.outputs]
    }  # fmt: skip


def _named(n: int, sizes: dict[int, str]) -> int:
    from fx.compiler.extents import named_size

    return named_size(n, sizes)


def _staged(
    name: str, formula: Any, shapes: Sequence[Shape], chars: str, params: Any, primes: Any
) -> Any:
    from fx.compiler.extents import NoExtentsError
    from fx.graph.manager import optimize
    from fx.graph.staging import stage
    from fx.primitive import registry
    from fx.spec import TensorSpec

    dtypes = [np.dtype("d" if c == "P" else c) for c in chars]
    specs = [
        TensorSpec(tuple([primes.get(n, 1) for n in shape]), dtype)
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]

    def flat(*xs: Any) -> Any:
        taken = [
            registry["astype"](x, dtype=dtypes[0]) if c == "P" and chars[0] != "d" else x
            for x, c in zip(xs, chars)
        ]
        out = formula(*taken, **params)
        return out if type(out) is tuple else (out,)

    graph, captured = stage(flat, specs, name)
    if captured:
        raise NoExtentsError(f"{name} takes tensors from outside")
    return optimize(graph)
