"""The pass manager: which passes run, in which order, and until when."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from fx.errors import FxError, GraphError, RegistrationError
from fx.frames import is_of_handler
from fx.graph import passes
from fx.graph.ir import Graph
from fx.graph.passes.rewriting import map_nested, own_inputs
from fx.slotted import slotted

Pass = Callable[[Graph], Graph]
_ROUNDS = 8  # times that the pipeline goes round before it stops, changed or not
always_validate = False  # the tests set it


@slotted(frozen=True)
class Entry:
    """A registered pass.

    Attributes:
        name: unique.
        function: a pure function from graph to graph.
        once: whether it runs in the first round only.
        keeps_derivatives: whether the new graph may be differentiated in place of the old one.
        varied: the pass for graphs of which others are the same but for sizes, if it is another.
    """

    name: str
    function: Pass
    once: bool = False
    keeps_derivatives: bool = True
    varied: Pass | None = None


def _own(name: str, **options: Any) -> Pass:
    """A pass of this package, loaded when it first runs."""
    return lambda graph: getattr(passes, name)(graph, **options)


_pipeline: list[Entry] = [
    Entry("inline", _own("inline"), once=True),
    Entry("simplify", _own("simplify"), varied=_own("simplify", varied=True)),
    Entry("strength", _own("strength"), varied=_own("strength", varied=True)),
    Entry("fold", _own("fold"), varied=_own("fold", varied=True)),
    Entry("decompose", _own("decompose"), False, False, _own("decompose", varied=True)),
    Entry("control", _own("control")),
    Entry("cse", _own("cse")),
    Entry("dce", _own("dce")),
]
_version = 0


def pipeline() -> tuple[str, ...]:
    """The names of the passes in the order in which they run.

    Example:
        >>> from fx.graph.manager import pipeline
        >>> pipeline()
        ('inline', 'simplify', 'strength', 'fold', 'decompose', 'control', 'cse', 'dce')
    """
    return tuple([entry.name for entry in _pipeline])


def register_pass(
    name: str,
    function: Pass,
    before: str | None = None,
    after: str | None = None,
    once: bool = False,
    keeps_derivatives: bool = True,
) -> None:
    """Add a pass of your own to the pipeline, at its end unless told where.

    Graphs nested in others (bodies of loops and branches) are given to it as well. It should return
    the graph itself where it changes nothing: the pipeline goes round until no pass changes it.

    Args:
        name: unique; messages name it.
        function: takes a graph and returns one with the same inputs and output specs.
        before: the pass before which it runs.
        after: the pass after which it runs.
        once: whether it runs in the first round only.
        keeps_derivatives: whether the new graph has the derivatives of the old one.

    Raises:
        RegistrationError: if the name is taken, or there is no pass ``before`` or ``after``.

    Example:
        A pass that computes ``exp(x) * exp(y)`` as ``exp(x + y)``:

        >>> import fx
        >>> from fx.graph import Rewriter, optimize, register_pass, unregister_pass
        >>> from fx.primitive import registry
        >>> exp, add, multiply = registry["exp"], registry["add"], registry["multiply"]
        >>> def merge_exponentials(graph):
        ...     new = Rewriter(graph)
        ...     for node in graph.nodes:
        ...         makers = [v.node.primitive if v.node else None for v in node.inputs]
        ...         if node.primitive is multiply and makers == [exp, exp]:
        ...             x, y = [new.get(v.node.inputs[0]) for v in node.inputs]
        ...             total = new.add(add, x, y, line=node.line)
        ...             new.replace(node.out, new.add(exp, total, line=node.line))
        ...         else:
        ...             new.keep(node)
        ...     return new.done() if new.env else graph
        >>> register_pass("merge_exponentials", merge_exponentials, before="cse")
        >>> graph = fx.make_graph(lambda x, y: fx.exp(x) * fx.exp(y))(fx.ones(3), fx.ones(3))
        >>> optimize(graph).nodes
        (<node add>, <node exp>)
        >>> unregister_pass("merge_exponentials")
    """
    global _version
    names = pipeline()
    if name in names:
        raise RegistrationError(
            f"a pass named {name!r} exists already; unregister_pass({name!r}) removes it"
        )
    if before is not None and after is not None:
        raise RegistrationError(f"register_pass({name!r}): give before or after, not both")
    anchor = before if before is not None else after
    if anchor is not None and anchor not in names:
        raise RegistrationError(
            f"register_pass({name!r}): there is no pass {anchor!r}; the passes are {list(names)}"
        )
    at = len(names) if anchor is None else names.index(anchor) + (before is None)
    _pipeline.insert(at, Entry(name, function, once, keeps_derivatives))
    _version += 1


def unregister_pass(name: str) -> None:
    """Take a pass out of the pipeline.

    Raises:
        RegistrationError: if there is no pass of that name.
    """
    global _version
    names = pipeline()
    if name not in names:
        raise RegistrationError(f"there is no pass {name!r}; the passes are {list(names)}")
    del _pipeline[names.index(name)]
    _version += 1


def version() -> int:
    """A number that changes whenever the pipeline does: part of the key of what was compiled."""
    return _version


def optimize(
    graph: Graph,
    passes: Iterable[str | Pass] | None = None,
    keep_derivatives: bool = False,
    varied: bool = False,
) -> Graph:
    """The graph after the passes, which go round until none changes it.

    Its inputs are those of ``graph``; where one of these is the result of a node of another graph,
    of which ``graph`` is a part, a new input stands in its place.

    Args:
        graph: to optimise; graphs nested in it are optimised too.
        passes: names or functions, in order, instead of the whole pipeline.
        keep_derivatives: leave out the passes after which derivatives would be others: for graphs
            that will be differentiated.
        varied: whether other graphs are the same but for sizes: no number is computed that may be
            another at other sizes.

    Raises:
        GraphError: naming the pass that failed; with ``FX_DEBUG=2`` also one that returned a graph
            that is not valid.

    Example:
        >>> import fx
        >>> from fx.graph import optimize
        >>> graph = fx.make_graph(lambda x: fx.sin(x) * fx.sin(x) * 1)(fx.ones(3))
        >>> optimize(graph).nodes
        (<node sin>, <node multiply>)
    """
    entries = list(_pipeline) if passes is None else [_entry(p) for p in passes]
    if keep_derivatives:
        entries = [entry for entry in entries if entry.keeps_derivatives]
    if varied:
        entries = [_for_all_sizes(entry) for entry in entries]
    from fx.debug import level

    checked = always_validate or level() >= 2
    collects = gc.isenabled()
    gc.disable()  # thousands of objects are made and all are kept: looking for garbage is in vain
    try:
        return _optimized(graph, entries, checked, {})
    finally:
        if collects:
            gc.enable()


@cache
def _for_all_sizes(entry: Entry) -> Entry:
    return entry if entry.varied is None else Entry(entry.name, entry.varied, entry.once)


def _entry(which: Any) -> Entry:
    if callable(which):
        return Entry(getattr(which, "__name__", "a pass"), which)
    for entry in _pipeline:
        if entry.name == which:
            return entry
    raise RegistrationError(f"there is no pass {which!r}; the passes are {list(pipeline())}")


def _optimized(
    graph: Graph, entries: list[Entry], checked: bool, known: dict[Graph, Graph]
) -> Graph:
    """``known`` holds nested graphs that were optimised: bodies are shared."""

    def nested(inner: Graph) -> Graph:
        found = known.get(inner)
        if found is None:
            found = known[inner] = _optimized(inner, entries, checked, known)
            known[found] = found
        return found

    graph = own_inputs(graph)
    settled: dict[Entry, Graph] = {}  # what a pass left as it was: it need not see that again
    for round_ in range(_ROUNDS):
        before = graph
        for entry in entries:
            if settled.get(entry) is graph or (entry.once and round_):
                continue
            new = _run(entry, graph, checked)
            if new is graph:
                settled[entry] = graph
            graph = new
        graph = map_nested(graph, nested)
        if graph is before:
            break
    return graph


def _run(entry: Entry, graph: Graph, checked: bool) -> Graph:
    try:
        new = entry.function(graph)
    except FxError as error:
        raise GraphError(f"pass {entry.name!r} on {graph.name}: {error}") from error
    except Exception as error:
        if is_of_handler(error):  # it is for who called
            raise
        kind = type(error).__name__
        raise GraphError(f"pass {entry.name!r} on {graph.name}: {kind}: {error}") from error
    if not isinstance(new, Graph):
        raise GraphError(f"pass {entry.name!r} returned {type(new).__name__}, expected a Graph")
    if new is not graph and (new.inputs != graph.inputs or new.specs != graph.specs):
        raise GraphError(
            f"pass {entry.name!r} changed what {graph.name} is: from "
            f"{[v.spec for v in graph.inputs]} -> {list(graph.specs)} to "
            f"{[v.spec for v in new.inputs]} -> {list(new.specs)}; a pass keeps the input values "
            f"and the specs of the outputs"
        )
    if checked and new is not graph:
        from fx.graph.validation import validate

        try:
            validate(new)
        except GraphError as error:
            raise GraphError(
                f"pass {entry.name!r} made a graph that is not valid: {error}"
            ) from None
    return new
