"""What a jitted function is compiled to, as data, and as the debug ladder shows it."""

from __future__ import annotations

from typing import Any

from fx.debug import level, log
from fx.errors import StagingError
from fx.graph.ir import Graph
from fx.tensor import Tensor
from fx.transforms.jitting.compiled import executable_of, without_calls
from fx.transforms.jitting.program import Program, Segment


class Lowered:
    """What a jitted function is compiled to for some arguments; ``f.lower(*args)`` makes it.

    Attributes:
        graphs: of the parts that these arguments go through, optimised.
        executables: what runs them.
    """

    def __init__(self, graphs: list[Graph], executables: list[Any]) -> None:
        self.graphs = graphs
        self.executables = executables

    @property
    def graph(self) -> Graph:
        """The graph of the first part: of the whole function, unless it asks for values."""
        return self.graphs[0]

    @property
    def schedule(self) -> Any:
        """Which kernels run in which order; prints as text."""
        return self._of("schedule")

    @property
    def memory(self) -> Any:
        """Where values live, and how much memory that takes; prints as text."""
        return self._of("memory")

    def code(self, asm: bool = False) -> str:
        """The generated LLVM code, or the assembly."""
        return "\n".join([e.code(asm=asm) for e in self.executables if hasattr(e, "code")])

    def _of(self, name: str) -> Any:
        found = [getattr(e, name, None) for e in self.executables]
        return found[0] if len(found) == 1 else found

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.graphs))

    def __repr__(self) -> str:
        return f"<lowered: {', '.join(map(repr, self.graphs))}>"


def lowered(program: Program, path: list[tuple[Segment, Any]]) -> Lowered:
    """What the segments of a path, and the one that follows it, are compiled to."""
    from fx.transforms.jitting.short.plan import _graph_of

    if program.root is not None and program.root.finish is not None:
        graph = _graph_of(program)[0]
        return Lowered([graph], [executable_of(graph, optimized=True)])
    segments = [segment for segment, _ in path]
    question = segments[-1].question
    assert question is not None
    last = question.branches[path[-1][1]].follows
    assert last is not None
    graphs, executables = [], []
    for segment in (*segments, last):
        executable_of(segment.graph)
        graphs.append(segment.graph)
        executables.append(executable_of(segment.graph))
    return Lowered([_optimized(g) for g in graphs], executables)


def _optimized(graph: Graph) -> Graph:
    from fx.graph.manager import optimize

    found = graph.cache.get("optimized")
    if found is None:
        found = graph.cache["optimized"] = optimize(without_calls(graph))
    return found  # type: ignore[no-any-return]


def report(jitted: Any, program: Program, path: list[tuple[Segment, Any]]) -> None:
    """Write what was compiled, and why, as ``FX_DEBUG`` asks."""
    if not level():
        return
    why = program.history[-1] if program.history else program.reason
    log(1, f"jit: {program.name} at {program.line}: {why} ({program.seconds or 0:.3f} s)")
    if level() >= 2:
        found = lowered(program, path)
        for graph, executable in zip(found.graphs, found.executables):
            log(2, str(graph))
            for at, name in ((3, "schedule"), (3, "memory")):
                log(at, str(getattr(executable, name, f"no {name}: it is interpreted")))
            if hasattr(executable, "code") and level() >= 4:
                log(4, executable.code())


def refuse_tracers(name: str, leaves: list[Any]) -> None:
    """Refuse to lower for values of a running transform.

    Raises:
        StagingError: if there is one.
    """
    for x in leaves:
        if isinstance(x, Tensor) and x.level >= 0:
            raise StagingError(
                f"lower of {name}: {x.spec!r} is a value inside a running transform; call lower "
                f"outside of it, with tensors"
            )
