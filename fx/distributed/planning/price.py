"""What a step costs by given placements: the graph of a rank's parts, priced node by node.

The graph is what the placements would be compiled to (``propagation.py``), so that messages are
those that will be sent. Operations and bytes are those of ``graph.cost()``, messages those of the
simulator's links.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from fx.distributed.placed import Placed
from fx.distributed.placements import Placements, local_shape
from fx.distributed.planning.program import Step
from fx.distributed.propagation import Nodes, Part, Unfit
from fx.distributed.simulator.cluster import Cluster
from fx.graph.cost import cost_of, live_bytes
from fx.graph.ir import Graph, Node, input_value
from fx.graph.passes.effects import effect_of
from fx.prims.collective import MESSAGES
from fx.slotted import slotted
from fx.spec import TensorSpec


class Ranks:
    """An axis of a mesh that nobody need be on."""

    def __init__(self, key: str, size: int) -> None:
        self.key, self.size, self.index, self.group = key, size, 0, None


class Sizes:
    """A mesh by its sizes, seen from its first rank, whose parts are the largest."""

    def __init__(self, mesh: Any) -> None:
        self.axis_names, self.sizes = tuple(mesh.axis_names), tuple(mesh.sizes)
        self.place = (0,) * len(self.sizes)
        self.devices = np.arange(prod(self.sizes)).reshape(self.sizes)
        self._ranks = [Ranks(f"plan/{m}", n) for m, n in enumerate(self.sizes)]

    def ranks(self, m: int) -> Ranks:
        """Those along an axis."""
        return self._ranks[m]

    def apart(self, m: int) -> int:
        """How far the numbers of neighbours along an axis are apart."""
        return prod(self.sizes[m + 1 :])


@slotted(frozen=True)
class Message:
    """One that a rank sends in a step: its collective, axis, bytes, user's line and seconds."""

    name: str
    axis: Any
    nbytes: int
    line: str
    time: float


@slotted(eq=False)
class Priced:
    """What a step costs by some placements.

    Attributes:
        placements: one a mesh axis, for each input.
        computing: seconds.
        messages: in the order in which they are sent.
        memory: bytes of a rank: its parts of the inputs, and the most that is alive besides.
        wrong: why no rank could compile it; "" where it could.
    """

    placements: list[Placements]
    computing: float = 0.0
    messages: tuple[Message, ...] = ()
    memory: float = 0.0
    wrong: str = ""

    @property
    def sending(self) -> float:
        """Seconds of messages."""
        return sum([m.time for m in self.messages])

    @property
    def time(self) -> float:
        """Seconds of a step, which sends when it does not compute."""
        return self.computing + self.sending


def priced(step: Step, mesh: Sizes, cluster: Cluster, placements: Sequence[Placements]) -> Priced:
    """What the step costs where its inputs lie so."""
    found = Priced(list(placements))
    try:
        local, state = _of_parts(step, mesh, placements)
    except Unfit as error:
        found.wrong = f"it would run kernel by kernel: {error}"
        return found
    found.computing = sum([seconds(n, cluster) for n in local.nodes if not _sends(n)])
    messages = [_message(n, mesh, cluster) for n in local.nodes if _sends(n)]
    found.messages = tuple([m for m in messages if m is not None])
    # what takes the place of an input is written into its memory
    apart = Graph(local.inputs, local.nodes, [v for v in local.outputs if v not in state])
    held = sum([v.spec.nbytes for v in local.inputs])
    found.memory = held + max(live_bytes(apart), default=0)
    return found


def _of_parts(step: Step, mesh: Sizes, placements: Sequence[Placements]) -> tuple[Graph, Any]:
    nodes, env, inputs = Nodes(), {}, []
    for v, p in zip(step.graph.inputs, placements, strict=True):
        local = local_shape(v.spec.shape, p, mesh.sizes, mesh.place)
        value = input_value(TensorSpec(local, v.spec.dtype))
        inputs.append(value)
        env[v] = Part(value, v.spec.shape, mesh, p, nodes)
    nodes.walk(step.graph, env)
    outputs, state = [], []
    for v, i in zip(step.graph.outputs, step.follows, strict=True):
        x = nodes.read(env, v)
        if i is not None:
            whole = x if isinstance(x, Placed) else Part(x, v.spec.shape, None, (), nodes)
            x = whole.moved(mesh, placements[i])
            state.append(x.local)
        outputs.append(x.local if isinstance(x, Placed) else x)
    ordered, made = nodes.ordered()
    graph = Graph(inputs, ordered, [made.get(v, v) for v in outputs], step.graph.name)
    return graph, {made.get(v, v) for v in state}


def seconds(node: Node, cluster: Cluster) -> float:
    """The larger of what a node computes and what it moves."""
    cost = cost_of(node)
    return max(cost.flops / cluster.flops, cost.bytes / cluster.bandwidth)


def _sends(node: Node) -> bool:
    return bool(effect_of(node) == MESSAGES)


def _message(node: Node, mesh: Sizes, cluster: Cluster) -> Message | None:
    if "axis" not in node.params or node.primitive.name == "ranks_agree":
        return None
    m = int(node.params["axis"].removeprefix("plan/"))
    sent = node.outs if node.primitive.name == "all_gather" else node.inputs
    nbytes = sum([v.spec.nbytes for v in sent if v.spec.ndim or len(sent) == 1 or _several(node)])
    name = node.primitive.name
    time = collective_time(name, nbytes, mesh, m, cluster)
    return Message(name, mesh.axis_names[m], nbytes, node.line, time)


def _several(node: Node) -> bool:
    return bool(node.primitive.name == "psum")  # others take the rank's place besides


def collective_time(name: str, nbytes: float, mesh: Sizes, m: int, cluster: Cluster) -> float:
    """Seconds of a collective along an axis: of the whole, or of what each rank gives."""
    n, apart = mesh.sizes[m], mesh.apart(m)
    if name in ("psum", "pmax", "pmin"):
        return cluster.all_reduce(nbytes, n, apart)
    if name == "all_gather":
        return cluster.all_gather(nbytes, n, apart)
    return cluster.reduce_scatter(nbytes, n, apart)  # as many bytes leave and come
