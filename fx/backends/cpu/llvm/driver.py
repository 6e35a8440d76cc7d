"""compile_graph: a graph to an executable, compiled once a process, or found on disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakValueDictionary

from fx.backends.cpu.llvm import disk_cache, engine, stored
from fx.backends.cpu.llvm.executable import Executable, Program
from fx.backends.cpu.llvm.families import Families
from fx.backends.cpu.llvm.recipe import array_of
from fx.compiler.step import Schedule
from fx.graph.ir import Graph
from fx.graph.key import constants_of, graph_key


def compile_graph(
    graph: Graph,
    donated: Sequence[int] = (),
    scheduler: Callable[[Graph], Schedule] | None = None,
    dynamic: bool = False,
) -> Executable:
    """Compile a graph for this CPU.

    Args:
        graph: what to compute.
        donated: positions of inputs whose memory the results may take over; the caller must own
            them, and use none of them afterwards except through the results.
        scheduler: ``schedule`` of this package unless told.
        dynamic: whether a program for any size may serve it, once graphs have come that are the
            same but for their sizes.

    Raises:
        CompileError: if LLVM refuses what a kernel emitted. Nothing is kept of it.

    Example:
        >>> import fx, numpy as np
        >>> from fx.backends.cpu.llvm.driver import compile_graph
        >>> graph = fx.make_graph(lambda x: fx.exp(x) + 1)(fx.ones(3))
        >>> compile_graph(graph).run([np.zeros(3, np.float32)])
        [array([2., 2., 2.], dtype=float32)]
    """
    key = graph_key(graph)
    found = _known(key, donated, graph) if scheduler is None else None
    if found is not None:
        sized = None
        if dynamic and graph.cache.get("open"):  # its sizes may be others in the next call
            sized = _families.executable_of(graph, donated)
        elif dynamic:
            _families.found(graph, donated)
        return found if sized is None else sized
    from fx.backends.cpu.llvm.builder import Builder  # a graph that is known needs neither

    if scheduler is None and dynamic:
        sized = _families.executable_of(graph, donated)
        if sized is not None:
            return sized
    if scheduler is not None:
        program, python = Builder(scheduler(graph), graph, donated).build()
        return _finish(program, graph, python)
    from fx.backends.cpu.llvm.this_cpu import this_cpu
    from fx.compiler.schedule import schedule

    name = stored.name_of(donated, key)
    with disk_cache.making(name) as made:
        found = _known(key, donated, graph) if made else None
        if found is not None:
            return found
        builder = Builder(schedule(graph, this_cpu()), graph, donated)
        program, python = builder.build()
        if builder.shareable and stored.is_whole(program.recipe):
            _keep(key, donated, program)
            if name is not None:
                stored.store(name, program, builder.code, builder.listing)
    return _finish(program, graph, python)


# Programs of this process by key: those in use, and the last few, so that a function that is jitted
# again and again is compiled and linked once. Constants and Python steps are each graph's own.
_programs: WeakValueDictionary[Any, Program] = WeakValueDictionary()
_latest: deque[Program] = deque(maxlen=16)


def forget() -> None:
    """Forget the programs of this process and their modules; those on disk stay."""
    _programs.clear()
    _latest.clear()
    _families.clear()
    engine.forget()


_families = Families()


def _known(key: str, donated: Sequence[int], graph: Graph) -> Executable | None:
    """The executable whose program is in this process or on disk."""
    program = _programs.get((key, tuple(donated)))
    name = None
    if program is None:
        name = stored.name_of(donated, key)
        found = None if name is None else stored.load(name, len(graph.inputs))
        if found is None:
            return None
        program = found[0]
    try:
        nodes = [s.node for s in program.recipe.segments if s.part is None]
        executable = _finish(program, graph, [_in_python(graph.nodes[i]) for i in nodes])
    except (ValueError, IndexError):
        if name is not None:
            disk_cache.drop(name)
        return None
    _keep(key, donated, program)
    return executable


def _keep(key: str, donated: Sequence[int], program: Program) -> None:
    _programs[key, tuple(donated)] = program
    _latest.append(program)


def _finish(program: Program, graph: Graph, python: Sequence[Callable[..., Any]]) -> Executable:
    """The executable of a program, with this graph's constants."""
    known = constants_of(graph) if program.recipe.constants else []
    constants = [
        known[c].array if isinstance(c, int) else array_of(c) for c in program.recipe.constants
    ]
    return Executable(program, constants, python)


def _in_python(node: Any) -> Callable[..., Any]:
    """What a node does in Python; the scheduler is imported only where a graph has such nodes."""
    from fx.compiler.step import python_step

    return python_step(node).run
