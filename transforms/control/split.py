"""The reverse mode of a body: one graph that goes forward and back, split in two.

The body is staged together with its pullback. What does not depend on cotangents is the forward
half; of it, the backward half needs some values. Those that follow cheaply from what is at hand
anyway are computed again; the others are the residuals.

A rule of the user's own (``custom_vjp``) computes results and residuals together, and these results
are what an outer transform differentiates. So the forward half gives the results as well, as the
recorded run computed them: those of the body itself would have the rule for a derivative.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fx.backward_pass import backward_pass
from fx.config import modes
from fx.graph.bodies import Specs, extract, live_nodes, out_specs
from fx.graph.cost import cheap
from fx.graph.ir import Graph, Node, Value
from fx.graph.passes.effects import effectful, is_effectful
from fx.levels import Level
from fx.slotted import slotted
from fx.tape import GradTracer, Leaf, grad_tracer
from fx.tensor import Tensor
from fx.transforms._arguments import leave
from fx.transforms.control.graphs import Flags, derive


@slotted(eq=False)
class Split:
    """The two halves of a body and its pullback.

    Attributes:
        forward: from all inputs of the body to the residuals.
        whole: from the same to the results of the recorded run, followed by the residuals.
        backward: from residuals, the inputs ``used``, and the cotangents, to the gradients.
        stored: for each residual the input of the body that it is, or None.
        used: the inputs that the backward half reads, which are at hand.
        found: which of the active inputs get a gradient; that of the others is zero.
    """

    forward: Graph
    whole: Graph
    backward: Graph
    stored: tuple[int | None, ...]
    used: tuple[int, ...]
    found: Flags


def split(
    graph: Graph,
    specs: Specs,
    active: Flags,
    weighted: Flags,
    at_hand: Flags,
    fixed: Flags,
    again: bool = False,
) -> Split:
    """Stage the pullback of a body and split it.

    Args:
        graph: the body.
        specs: of its inputs.
        active: the inputs that want a gradient.
        weighted: the outputs that have a cotangent.
        at_hand: the inputs that the backward half gets without storing them.
        fixed: those of them that are the same in every run of the body: what depends on nothing
            else is never stored.
        again: keep inputs only, and compute everything else again.
    """
    key = ("split", specs, active, weighted, at_hand, fixed, again)
    found: Split | None = graph.cache.get(key)
    if found is None:
        every, ahead, gradients = _joint(graph, specs, active, weighted)
        results = len(graph.outputs)
        found = graph.cache[key] = _split(
            every, ahead, len(specs), results, gradients, at_hand, fixed, again
        )
    return found


def _joint(graph: Graph, specs: Specs, active: Flags, weighted: Flags) -> tuple[Graph, int, Flags]:
    """The graph from inputs and cotangents to results and gradients, and which of these exist.

    Between them how many of its nodes with effects belong to the body; the pullback's come after.
    """
    gradients: list[bool] = []
    ahead: list[int] = []

    def run(*xs: Tensor) -> list[Tensor]:
        cts = iter(xs[len(specs) :])
        with Level("vjp") as level:
            number = level.number
            leaves = [Leaf(number) if a else None for a in active]
            outs = graph.run(
                *[x if n is None else grad_tracer(number, x, n) for x, n in zip(xs, leaves)]
            )
            ahead.append(sum(map(is_effectful, modes.stage.nodes)))
            outs = [leave(o, number) for o in outs]
            mine = [isinstance(o, GradTracer) and o.level == number for o in outs]
            nodes = [o._node if m else None for o, m in zip(outs, mine)]
            results = [o.value if m else o for o, m in zip(outs, mine)]
        roots = [(n, next(cts)) if w else None for n, w in zip(nodes, weighted)]
        wanted = [n for n in leaves if n is not None]
        found = backward_pass(
            [r for r in roots if r is not None and r[0] is not None],
            level=number, inputs=wanted, accumulate=False,
        )  # fmt: skip
        gradients.extend([n in found for n in wanted])
        return [*results, *[found[n] for n in wanted if n in found]]

    extra = [s for s, w in zip(out_specs(graph, specs), weighted) if w]
    every = derive(run, (*specs, *extra), f"vjp of {graph.name}")
    return every, ahead[0], tuple(gradients)


def _split(
    every: Graph,
    ahead: int,
    count: int,
    results: int,
    gradients: Flags,
    at_hand: Flags,
    fixed: Flags,
    again: bool,
) -> Split:
    wanted = every.outputs[results:]
    effects = list(effectful(every))
    early, late = effects[:ahead], dict.fromkeys(effects[ahead:])
    nodes = live_nodes(every, wanted, effects=late)
    joint = Graph(every.inputs, nodes, wanted, every.name)
    inputs = joint.inputs[:count]
    free = {v for v, f in zip(inputs, at_hand) if f}
    still = {v for v, f in zip(inputs, fixed) if f}
    moving = set(joint.inputs[count:])  # what depends on cotangents
    again_from = set(free) | (set(inputs) if again else set())  # what can be computed again
    for node in joint.nodes:
        if node in late or not moving.isdisjoint(node.inputs):
            moving.update(node.outs)
            continue
        known = all(v.constant is not None or v in again_from for v in node.inputs)
        unmoved = all(v.constant is not None or v in still for v in node.inputs)
        if unmoved:
            still.update(node.outs)
        if again or unmoved or (known and cheap(node)):
            again_from.update(node.outs)
    stored = _residuals(joint, moving, again_from, late)
    if again:
        reached = _reached(joint, stored, late)
        stored = {v: None for v in inputs if v in reached and v not in free}
    backward_nodes = live_nodes(joint, joint.outputs, stored, effects=late)
    reads = {v for node in backward_nodes for v in node.inputs} | set(joint.outputs)
    used = [i for i, v in enumerate(inputs) if v in free and v in reads]
    kept = list(stored)
    backward = extract(
        [*kept, *[inputs[i] for i in used], *joint.inputs[count:]],
        backward_nodes, joint.outputs, joint.name,
    )  # fmt: skip
    forward = extract(inputs, live_nodes(joint, kept), kept, f"residuals of {joint.name}")
    given = [*every.outputs[:results], *kept]
    whole = extract(inputs, live_nodes(every, given, effects=early), given, forward.name)
    places = {v: i for i, v in enumerate(inputs)}
    where = tuple([places.get(v) for v in kept])
    return Split(forward, whole, backward, where, tuple(used), gradients)


def _residuals(
    joint: Graph, moving: set[Value], again_from: set[Value], late: Collection[Node]
) -> dict[Value, None]:
    """What nodes that depend on cotangents need and cannot compute again from what is there.

    Args:
        late: the pullback's nodes with effects, which belong to these.
    """
    reads: dict[Value, None] = {}
    wanted = set(joint.outputs)
    for v in joint.outputs:
        reads[v] = None
    for node in reversed(joint.nodes):
        needed = not (wanted.isdisjoint(node.outs) or moving.isdisjoint(node.outs))
        if not needed and node not in late:
            continue
        wanted.update(node.inputs)
        reads.update(dict.fromkeys(node.inputs))
    stored = {
        v: None for v in reads if v.constant is None and v not in moving and v not in again_from
    }
    changed = True
    while changed:
        changed = False
        for node in reversed(joint.nodes):
            for v in node.outs:
                if v not in stored or not cheap(node):
                    continue
                missing = [
                    u for u in dict.fromkeys(node.inputs)
                    if u.constant is None and u not in again_from and u not in stored
                ]  # fmt: skip
                if sum([u.spec.nbytes for u in missing]) < v.spec.nbytes:
                    del stored[v]
                    stored.update(dict.fromkeys(missing))
                    changed = True
    return stored


def _reached(joint: Graph, stored: dict[Value, None], late: Collection[Node]) -> set[Value]:
    nodes = live_nodes(joint, joint.outputs, effects=late)
    return {v for node in nodes for v in node.inputs} | set(joint.outputs) | set(stored)


def filled(found: Sequence[bool], values: Sequence[Tensor]) -> list[Tensor | None]:
    """One entry a flag: the next value, or None."""
    rest = iter(values)
    return [next(rest) if f else None for f in found]
