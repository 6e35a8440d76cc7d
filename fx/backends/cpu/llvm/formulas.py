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
from fx.backends.cpu.llvm import any_size

Shape = tuple[str, ...]  # names of sizes; an axis of size 1 is "1"
# by how many sizes there are the primes that stand for them, and so what plans decide for
_PRIMES = {1: (1000003,), 2: (10007, 16381), 3: (31, 1009, 1013), 4: (29, 97, 101, 103)}
CLASSES = {"short": 61, "usual": None, "long": 16000057}  # those of one of them
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

        steps = head["steps"]
        wanted = [s["name"] for s in steps]
        loaded = engine.Loaded([code], [*wanted, "all"], {}, lasting=True)
        self.whole = any_size.function_of(loaded, "all")
        self.steps = [
            (any_size.function_of(loaded, s["name"]), _measure(names, s["tasks"])) for s in steps
        ]
        self.results = [np.dtype(d) for d in head["results"]]
        cost = " + ".join([f"{s['rate']} * {s['elements']}" for s in steps])  # nanoseconds
        self.cost = _measure(names, cost)
        self.between = [
            (np.zeros(1, dtype), _measure(names, f"[{', '.join(shape)}]"))
            for shape, dtype in head["between"]
        ]

    def at(self, sizes: tuple[int, ...]) -> tuple[any_size.Run, list[int]]:
        """What computes the results for axes of such sizes, under the limits of now.

        It takes a list of two words of its own, the arguments, the results and the list that is
        given with it, and may change that list.
        """
        cost, whole = self.cost(*sizes), self.whole
        between = [[like, *shape(*sizes)] for like, shape in self.between]
        steps = None
        if cost >= limits.EAGER_SHORT:
            counts = [(run, count(*sizes)) for run, count in self.steps]
            steps = [(run, [n, any_size.chunk_of(n, cost / n)]) for run, n in counts]
        elif not between:
            return whole, [*sizes]

        def run(words: list[Any]) -> None:
            words += map(any_size.empty, between)
            words += sizes
            if steps is None:
                whole(words)
                return
            for step, tasks in steps:
                words[:2] = tasks
                step(words)

        return run, []


def _measure(names: Sequence[str], formula: str) -> Callable[..., Any]:
    known = {"__builtins__": {}, "max": max, "min": min}
    source = f"lambda {', '.join(names)}: {formula}"
    return eval(compile(source, __file__, "eval"), known)  # type: ignore[no-any-return]  # fx's code


def program(
    name: str, formula: Callable[..., Any], shapes: Sequence[Shape], chars: str,
    along: int = 0, kind: str = "usual",
) -> Program | None:  # fmt: skip
    """What a formula is for arguments of such shapes and dtypes.

    None if nests with extents cannot compute it.

    Args:
        name: of the formula, unique.
        formula: ``(*tensors) -> tensor`` or a tuple of tensors.
        shapes: of the arguments.
        chars: their dtypes; those from the first "P" on are Python's floats, given in the dtype of
            the first argument.
        along: which of the sizes, in the order of their names, is of a class of its own.
        kind: the class, of ``CLASSES``.
    """
    from fx.backends.cpu.llvm import disk_cache

    names = sorted({n for shape in shapes for n in shape} - {"1"})
    entry = disk_cache.name_of("formula", name, repr((shapes, chars, along, kind)))

    def make() -> tuple[Any, bytes]:
        from fx.compiler.extents import NoExtentsError  # what is on disk needs no compiler

        try:
            return _made(name, formula, shapes, chars, along, kind, names)
        except NoExtentsError as error:
            raise _RefusedError from error

    try:
        head, code = disk_cache.kept(entry, make)
    except _RefusedError:
        return None
    return Program(code, head, names)


class _RefusedError(Exception):
    """A formula that has no such program."""


def _made(
    name: str,
    formula: Any,
    shapes: Sequence[Shape],
    chars: str,
    along: int,
    kind: str,
    names: Sequence[str],
) -> tuple[Any, bytes]:
    from fx.backends.cpu.llvm import engine
    from fx.backends.cpu.llvm.entry.eager import MOST
    from fx.backends.cpu.llvm.loops.emit import emit_all, emit_table
    from fx.backends.cpu.llvm.loops.step import LoopStep
    from fx.backends.cpu.llvm.this_cpu import this_cpu
    from fx.compiler.extents import NoExtentsError, Sizes
    from fx.compiler.schedule import schedule

    primes = list(_PRIMES[len(names)])
    primes[along] = CLASSES[kind] or primes[along]
    sizes = Sizes(dict(zip(primes, names)))
    graph = _staged(name, formula, shapes, chars, dict(zip(names, primes)))
    planned = schedule(graph, this_cpu(), sizes)
    places = {v: i for i, v in enumerate(graph.inputs)}
    for v in planned.graph.outputs:
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
                shape = [repr(sizes.extent(n)) for n in v.spec.shape]
                between.append((shape, v.spec.dtype.name))
    words = {n: len(places) + k for k, n in enumerate(names)}
    if 2 + len(places) + len(names) > MOST:
        raise NoExtentsError(f"{name} has {len(between)} arrays between its steps")
    for i, step in enumerate(planned.steps):
        elements = prod(step.nest.sizes)
        arrays = [places[planned.root(v)] for v in (*step.reads, *step.writes)]
        emit_table(step.plan, module, f"step{i}", (arrays, words))
        steps.append({
            "name": f"step{i}", "tasks": repr(step.tasks), "elements": repr(elements),
            "rate": step.cost / int(elements),
        })  # fmt: skip
    emit_all(module, "all", [(f"step{i}", s.tasks) for i, s in enumerate(planned.steps)], words)
    results = [v.spec.dtype.name for v in graph.outputs]
    head = {"steps": steps, "between": between, "results": results}
    return head, engine.compile_text(str(module))


def _staged(name: str, formula: Any, shapes: Sequence[Shape], chars: str, primes: Any) -> Any:
    from fx.compiler.extents import NoExtentsError
    from fx.dtypes import bfloat16, float64
    from fx.graph.manager import optimize
    from fx.graph.staging import stage
    from fx.primitive import registry
    from fx.spec import TensorSpec

    special = {"P": float64, "E": bfloat16}
    dtypes = [special.get(c) or np.dtype(c) for c in chars]
    specs = [
        TensorSpec(tuple([primes.get(n, 1) for n in shape]), dtype)
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]

    def flat(*xs: Any) -> Any:
        taken = [
            registry["astype"](x, dtype=dtypes[0]) if c == "P" and chars[0] != "d" else x
            for x, c in zip(xs, chars)
        ]
        out = formula(*taken)
        return out if type(out) is tuple else (out,)

    graph, captured = stage(flat, specs, name)
    if captured:
        raise NoExtentsError(f"{name} takes tensors from outside")
    return optimize(graph)
