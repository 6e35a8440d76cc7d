"""Recomputation: cheap values are computed again near their late uses, where that saves memory."""

from __future__ import annotations

from collections.abc import Callable

from fx import limits
from fx.graph.cost import cheap as is_cheap
from fx.graph.cost import last_uses, live_bytes
from fx.graph.ir import Graph, Node, Value
from fx.graph.passes.effects import is_effectful
from fx.graph.passes.rewriting import copy_node

_ROUNDS = 12


def recompute(graph: Graph, budget: int = 0, cheap: Callable[[Node], bool] | None = None) -> Graph:
    """The graph with a lower peak of live bytes, where running cheap nodes twice gives that.

    A value that is alive at the peak but used there by nobody is dropped and computed again before
    the first use after it, from what is alive then anyway. This is done at the peak, then at the
    next one, until nothing is gained or the peak is within ``budget``.

    Args:
        graph: to rewrite; its results keep their bits.
        budget: bytes at which to stop; 0 for as few as possible.
        cheap: whether a node may run twice; ``fx.graph.cost.cheap`` unless given.

    Example:
        >>> import fx
        >>> from fx.graph.passes import recompute
        >>> def f(x, w):
        ...     big = fx.exp(fx.broadcast_to(x, (64, 64)))
        ...     return fx.sum(big * fx.sum(fx.tanh((big @ w) @ w.mT)))
        >>> graph = fx.make_graph(f)(fx.ones(64), fx.ones((64, 64)))
        >>> recompute(graph).cost().peak < graph.cost().peak
        True
    """
    allowed = is_cheap if cheap is None else cheap
    for _ in range(_ROUNDS):
        live = live_bytes(graph)
        peak = max(live, default=0)
        if peak <= budget:
            break
        new = _relieved(graph, live.index(peak), allowed)
        if new is None:
            break
        after = live_bytes(new)
        if (max(after), after.count(max(after))) >= (peak, live.count(peak)):
            break
        graph = new
    return graph


def _relieved(graph: Graph, peak: int, cheap: Callable[[Node], bool]) -> Graph | None:
    """The graph with what passes over node ``peak`` computed again after it."""
    nodes = graph.nodes
    order = {v: i for i, v in enumerate(v for node in nodes for v in node.outs)}
    end = last_uses(graph)
    uses: dict[Value, list[int]] = {}
    for i, node in enumerate(nodes):
        for value in node.inputs:
            uses.setdefault(value, []).append(i)

    def available(value: Value, at: int) -> bool:
        """Whether a value is there at node ``at`` whatever this pass does."""
        return end.get(value, -1) >= at and value not in dropped

    outputs = set(graph.outputs)
    here = set(nodes[peak].inputs)
    pinned: set[Value] = set()  # what is computed again relies on them
    dropped: set[Value] = set()
    chains: dict[int, list[Node]] = {}  # by the node before which they run again
    across = [
        v
        for node in nodes[:peak]
        for v in node.outs
        if end.get(v, -1) > peak and v not in outputs and v not in here
    ]
    for value in sorted(across, key=lambda v: (-v.spec.nbytes, order[v])):
        later = [i for i in uses.get(value, ()) if i > peak]
        if not later or value in pinned:  # or only a view of it is used, which may be dropped
            continue
        chain = _chain(value, later[0], cheap, available)
        if chain is not None:
            dropped.add(value)
            chains.setdefault(later[0], []).extend(chain)
            pinned.update([v for node in chain for v in node.inputs])
    return _rebuilt(graph, peak, chains, dropped) if dropped else None


def _chain(
    value: Value,
    at: int,
    cheap: Callable[[Node], bool],
    available: Callable[[Value, int], bool],
) -> list[Node] | None:
    """The nodes, at most a few and all cheap, that compute a value from what is there at ``at``."""
    order: list[Node] = []
    done: set[Node] = set()
    stack: list[tuple[Node, bool]] = [(value.node, False)]  # type: ignore[list-item]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            order.append(node)
            continue
        if node in done:
            continue
        done.add(node)
        if len(done) > limits.RECOMPUTED or not cheap(node) or is_effectful(node):
            return None
        stack.append((node, True))
        for source in node.inputs:
            if source.node is not None and not available(source, at):
                stack.append((source.node, False))
    return order


def _rebuilt(graph: Graph, peak: int, chains: dict[int, list[Node]], dropped: set[Value]) -> Graph:
    again: dict[Value, Value] = {}  # what is used after the peak
    env: dict[Value, Value] = {}  # what changed because its arguments did
    new: list[Node] = []
    for i, node in enumerate(graph.nodes):
        for old in chains.get(i, ()):
            if old.outs[0] in again:
                continue
            made = copy_node(old, tuple([again.get(v, env.get(v, v)) for v in old.inputs]))
            new.append(made)
            again.update(zip(old.outs, made.outs))
        inputs = tuple(
            [
                again[v] if i > peak and v in dropped and v in again else env.get(v, v)
                for v in node.inputs
            ]
        )
        if inputs == node.inputs:
            new.append(node)
            continue
        made = copy_node(node, inputs)
        new.append(made)
        env.update(zip(node.outs, made.outs))
    outputs = [env.get(v, v) for v in graph.outputs]
    return Graph(graph.inputs, new, outputs, graph.name)
