"""GraphCall: a graph bound as one operation. Its rules are graphs that are derived from it, once.

Its derivative runs forward and backward graphs: what the backward one needs of the forward one and
cannot cheaply compute again is an extra output of the latter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fx.config import modes, writing
from fx.dtypes import INEXACT
from fx.errors import BackwardError
from fx.graph.bodies import closed
from fx.graph.ir import Graph, Node, Value
from fx.graph.manager import optimize
from fx.graph.passes.effects import has_effects
from fx.graph.staging import StageTracer, stage
from fx.levels import Tracer, check_live
from fx.prims.compare import astype, stop_gradient
from fx.prims.creation import zeros_like_spec
from fx.tensor import Tensor, new_tensor
from fx.transforms.application import Application, Pullback, lanes_first
from fx.transforms.batching import BatchTracer
from fx.transforms.forward import jvp
from fx.transforms.jitting.derived import Split, halves_of, split_of
from fx.transforms.jitting.program import GiveUp


class GraphCall(Application):
    """A graph as an operation; ``call_of(graph)`` gives the one of a graph."""

    def __init__(self, graph: Graph) -> None:
        super().__init__("jit_call", "Jit")
        self.graph = graph

    def __call__(self, *args: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        if any(x.level > 0 for x in args):
            top = max(args, key=lambda x: x.level)
            if type(top) is StageTracer:
                check_live(top)
                return tuple([_other_than(args, x) for x in self.graph.run(*args)])
            late = tuple([x.level == top.level for x in args])
            if isinstance(top, Tracer) and not top.known:
                return self._apart(args, late)
            if type(top) is BatchTracer and not all(late):  # some results may have no lanes
                parts = _parts(self.graph, late)
                if parts is not None and parts[2]:
                    return self._apart(args, late)
        elif modes.stage is not None and not args:
            return tuple(self.graph.run())
        return super().__call__(*args)

    def _apart(self, args: Sequence[Tensor], late: tuple[bool, ...]) -> tuple[Tensor, ...]:
        """What does not depend on the ``late`` arguments at once, and the rest by itself."""
        parts = _parts(self.graph, late)
        if parts is None:
            return super().__call__(*args)
        first, second, known = parts
        found = iter(call_of(first)(*[x for x, later in zip(args, late) if not later]))
        outs = {i: next(found) for i in known}
        moving = [x for x, later in zip(args, late) if later]
        rest = iter(call_of(second)(*found, *moving) if second.outputs else ())
        return tuple([outs[i] if i in outs else next(rest) for i in range(len(self.graph.outputs))])

    def run(self, *args: Tensor) -> Sequence[Tensor]:
        arrays = [x._a for x in args]
        return [new_tensor(a) for a in run_arrays(self.graph, arrays)]

    def spec(self, *specs: Any) -> Any:
        return self.graph.specs

    def forward(self, args: Sequence[Tensor], needs: Sequence[Any]) -> tuple[Any, Pullback]:
        matters = _that_matter(self.graph, (True,) * len(self.graph.outputs))
        wanted = tuple(
            [n is not None and x.dtype in INEXACT and m for n, x, m in zip(needs, args, matters)]
        )
        try:
            split = split_of(self.graph, wanted)
        except BackwardError as error:  # a loop of which nobody knows how often it runs
            raise GiveUp(str(error), lasting=False) from error
        found = call_of(split.forward)(*args)
        count = len(self.graph.outputs)
        outs, residuals = found[:count], [found[i] for i in split.kept]
        passed = [args[i] for i in split.inputs]
        return list(outs), GraphPullback(self.graph, wanted, split, passed, residuals)

    def cotangent_specs(self, outs: Sequence[Tensor]) -> tuple[Any, ...]:
        return (None,) * len(outs)  # the pullback is told which results got none

    def _placed(self, level: int, out: Tensor, node: Any, index: int) -> Tensor:
        if not _reached(self.graph, tuple([p is not None for p in node.parents]))[index]:
            return out
        return super()._placed(level, out, node, index)

    def jvp(self, primals: Sequence[Tensor], tangents: Sequence[Tensor | None]) -> Any:
        """The rule of a primitive."""
        given = tuple([t is not None for t in tangents])
        pushed, moving = _pushed(self.graph, given)
        out = call_of(pushed)(*primals, *[t for t in tangents if t is not None])
        count = len(self.graph.outputs)
        found = dict(zip(moving, out[count:]))
        return out[:count], tuple([found.get(i) for i in range(count)])

    def lanes(self, size: int, axis_name: Any, dims: Sequence[int | None]) -> Application:
        key = ("lanes", size, axis_name, tuple(dims))
        found = self.graph.cache.get(key)
        if found is None:
            specs = [
                v.spec if d is None else v.spec.with_(_inserted(v.spec.shape, d, size))
                for v, d in zip(self.graph.inputs, dims)
            ]
            batched = lanes_first(lambda *xs: self.graph.run(*xs), size, axis_name, dims)
            found = self.graph.cache[key] = closed(*stage(batched, specs, self.graph.name))
        return call_of(found)


class GraphPullback:
    """The pullback of a graph: a compiled graph, and what it takes besides the cotangents."""

    __slots__ = ("graph", "passed", "residuals", "split", "wanted")

    def __init__(
        self,
        graph: Graph,
        wanted: tuple[bool, ...],
        split: Split,
        passed: list[Tensor],
        residuals: list[Tensor],
    ) -> None:
        self.graph, self.wanted, self.split = graph, wanted, split
        self.passed, self.residuals = passed, residuals

    def __call__(self, cts: Sequence[Any], *saved: Tensor) -> list[Tensor | None]:
        found = call_of(self.split.backward)(*self._operands(cts))
        active = [i for i, w in enumerate(self.wanted) if w]
        return self._placed(cts, zip(active, found))

    def _operands(self, cts: Sequence[Any]) -> list[Tensor]:
        given = [(i, cts[i]) for i in self.split.cotangents]
        outputs = self.graph.outputs
        filled = [zeros_like_spec(outputs[i].spec) if ct is None else ct for i, ct in given]
        return [*self.passed, *self.residuals, *filled]

    def _placed(
        self, cts: Sequence[Any], found: Iterable[tuple[int, Tensor]]
    ) -> list[Tensor | None]:
        """One entry an argument: what was found, where it is not zero for certain."""
        matters = _that_matter(self.graph, tuple([ct is not None for ct in cts]))
        grads: list[Tensor | None] = [None] * len(self.wanted)
        for i, g in found:
            grads[i] = g if matters[i] else None
        return grads

    def halves(
        self, cts: Sequence[Any], first: frozenset[int]
    ) -> tuple[list[Tensor | None], Callable[..., list[Tensor | None]]] | None:
        """The cotangents of the arguments ``first``, and a pullback that gives those of the others.

        What both need is computed once. None where effects fix an order.
        """
        backward = self.split.backward
        if has_effects(backward):
            return None
        active = [i for i, w in enumerate(self.wanted) if w]
        now, later = [i for i in active if i in first], [i for i in active if i not in first]
        ahead, rest, taken = halves_of(backward, tuple([i in first for i in active]))
        operands = self._operands(cts)
        found = call_of(ahead)(*operands) if ahead.outputs else ()
        kept = [*[operands[i] for i in taken], *found[len(now) :]]

        def other(cts: Sequence[Any], *saved: Tensor) -> list[Tensor | None]:
            return self._placed(cts, zip(later, call_of(rest)(*kept) if rest.outputs else ()))

        return self._placed(cts, zip(now, found)), other


def _other_than(args: Sequence[Tensor], out: Tensor) -> Tensor:
    """A result: never an argument itself, which the stage around the call would take it for."""
    return astype(out, dtype=out.dtype) if any(x is out for x in args) else out


def _that_matter(graph: Graph, results: tuple[bool, ...]) -> list[bool]:
    """For each input whether some results depend on it: the gradient of another is None, not 0."""
    key = ("matter", results)
    found = graph.cache.get(key)
    if found is None:
        outputs = [v for v, is_one in zip(graph.outputs, results) if is_one]
        used = {v for v in outputs if v.spec.dtype.kind not in "iub"}
        for node in reversed(graph.nodes):
            if node.primitive is not stop_gradient and any(v in used for v in node.outs):
                used.update(v for v in node.inputs if v.spec.dtype.kind not in "iub")
        found = graph.cache[key] = [v in used for v in graph.inputs]
    return found  # type: ignore[no-any-return]


def _reached(graph: Graph, given: tuple[bool, ...]) -> list[bool]:
    """For each result whether it depends on some inputs: another one requires no grad."""
    key = ("reached", given)
    found = graph.cache.get(key)
    if found is None:
        known = {v for v, is_one in zip(graph.inputs, given) if is_one and _flows(v)}
        for node in graph.nodes:
            if node.primitive is not stop_gradient and not known.isdisjoint(node.inputs):
                known.update(filter(_flows, node.outs))
        found = graph.cache[key] = [v in known for v in graph.outputs]
    return found  # type: ignore[no-any-return]


def _flows(value: Value) -> bool:
    return value.spec.dtype.kind not in "iub"


def _inserted(shape: tuple[int, ...], dim: int, size: int) -> tuple[int, ...]:
    return (*shape[:dim], size, *shape[dim:])


def call_of(graph: Graph) -> GraphCall:
    """The operation of a graph."""
    found = graph.cache.get("call")
    if found is None:
        found = graph.cache["call"] = GraphCall(graph)
    return found  # type: ignore[no-any-return]


def run_arrays(graph: Graph, arrays: list[Any]) -> list[Any]:
    """Run a graph on arrays of one device: compiled on the CPU, by its specs on ``meta``."""
    from fx.transforms.jitting.compiled import executable_of

    outs = executable_of(graph).run(arrays)
    for i in graph.cache["fixed"] if writing.enabled else ():
        outs[i] = outs[i].copy()  # each call gives memory of its own
    return outs  # type: ignore[no-any-return]


# forward mode -----------------------------------------------------------------------------------


def _pushed(graph: Graph, given: tuple[bool, ...]) -> tuple[Graph, list[int]]:
    """The graph of results and tangents, and which results have one."""
    key = ("jvp", given)
    found = graph.cache.get(key)
    if found is None:
        active = [i for i, g in enumerate(given) if g]
        moving = [i for i, v in enumerate(graph.outputs) if v.spec.dtype in INEXACT]
        floating, count = set(moving), len(graph.outputs)

        def push(*xs: Tensor) -> list[Tensor]:
            primals, tangents = xs[: len(given)], xs[len(given) :]

            def of_active(*moved: Tensor) -> Any:
                args = list(primals)
                for i, x in zip(active, moved):
                    args[i] = x
                outs = graph.run(*args)
                rest = [x for i, x in enumerate(outs) if i not in floating]
                return [outs[i] for i in moving], rest

            outs, pushed, rest = jvp(
                of_active, tuple([primals[i] for i in active]), tangents, has_aux=True
            )
            floats, others = iter(outs), iter(rest)
            every = [next(floats if i in floating else others) for i in range(count)]
            return [*every, *pushed]

        specs = [v.spec for v in graph.inputs]
        specs += [graph.inputs[i].spec for i in active]
        found = graph.cache[key] = (closed(*stage(push, specs, graph.name)), moving)
    return found  # type: ignore[no-any-return]


def _parts(graph: Graph, late: tuple[bool, ...]) -> tuple[Graph, Graph, list[int]] | None:
    """The graph in two, and the results that the first gives; None if that one computes nothing.

    The first takes the inputs that are not ``late``, and gives the results that depend on none that
    is, then what the second takes besides the late ones.
    """
    key = ("parts", late)
    if key not in graph.cache:
        graph.cache[key] = None if has_effects(graph) else _parted(graph, late)
    return graph.cache[key]  # type: ignore[no-any-return]


def _parted(graph: Graph, late: tuple[bool, ...]) -> tuple[Graph, Graph, list[int]] | None:
    whole = optimize(graph, keep_derivatives=True)
    moving = {v for v, later in zip(whole.inputs, late) if later}
    first: list[Node] = []
    second: list[Node] = []
    for node in whole.nodes:
        if moving.isdisjoint(node.inputs):
            first.append(node)
        else:
            moving.update(node.outs)
            second.append(node)
    known = [i for i, v in enumerate(whole.outputs) if v not in moving]
    if not first and not known:
        return None
    asked = {v: None for node in second for v in node.inputs}
    kept = [v for v in asked if v.constant is None and v not in moving]
    start = [v for v, later in zip(whole.inputs, late) if not later]
    end = [v for v, later in zip(whole.inputs, late) if later]
    return (
        Graph(start, first, [*[whole.outputs[i] for i in known], *kept], graph.name),
        Graph([*kept, *end], second, [v for v in whole.outputs if v in moving], graph.name),
        known,
    )
