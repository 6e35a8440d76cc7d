"""Cost: what nodes and graphs compute and move, and which values are cheap to compute again.

The figures are estimates by specs alone: operations on elements (an addition is 1, an ``exp`` about
10), and bytes as if every node ran by itself. Fusion moves fewer bytes; that is the point of it.
"""

from __future__ import annotations

from typing import Any

from fx.graph.ir import Graph, Node, Value
from fx.graph.printing import subgraphs
from fx.slotted import slotted

CHEAPEST = 26  # operations an element up to which a value is cheap: about a trip to memory and back
# where (*arguments, result) hold the output of the forward convolution, and its weight
_CONVOLUTIONS = {"conv": (2, 1), "conv_input_grad": (0, 1), "conv_weight_grad": (1, 2)}
# the first of query, key and value among arguments, and products of all scores with one of them
_ATTENTIONS = {"attention": (0, 2), "attention_grad": (1, 5)}


@slotted(frozen=True)
class Cost:
    """What is computed and moved.

    Attributes:
        flops: operations on elements.
        read: bytes.
        written: bytes.
        peak: the most bytes of results that are alive at once; of a whole graph only.
    """

    flops: int
    read: int
    written: int
    peak: int = 0

    @property
    def bytes(self) -> int:
        """Bytes read and written."""
        return self.read + self.written

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.read + other.read,
            self.written + other.written,
            max(self.peak, other.peak),
        )

    def __mul__(self, times: int) -> Cost:
        return Cost(self.flops * times, self.read * times, self.written * times, self.peak)


_NOTHING = Cost(0, 0, 0)


def cost_of(node: Node) -> Cost:
    """The cost of a node: its operations, the bytes of its arguments and of its results.

    A loop costs its body as often as it runs, where that is known, and a branch its dearest side.

    Example:
        >>> import fx
        >>> from fx.graph.cost import cost_of
        >>> graph = fx.make_graph(lambda x, y: x @ y)(fx.ones((8, 16)), fx.ones((16, 4)))
        >>> cost_of(graph.nodes[0])
        Cost(flops=1024, read=768, written=128, peak=0)
    """
    name = node.primitive.name
    if node.primitive.kind == "view":
        return _NOTHING
    read = sum([v.spec.nbytes for v in dict.fromkeys(node.inputs)])
    written = sum([v.spec.nbytes for v in node.outs])
    if name == "slice":
        read = written
    nested = subgraphs(node.params)
    if nested:
        return Cost(0, read, written) + _of_bodies(node, [g for _, g in nested])
    return Cost(_flops(node, name), read, written)


def _flops(node: Node, name: str) -> int:
    primitive = node.primitive
    if primitive.kind in ("strided", "move") or not node.outs:
        return 0
    size = sum([v.spec.size for v in node.outs])
    if name == "matmul":
        return 2 * size * node.inputs[0].spec.shape[-1]
    if name in _CONVOLUTIONS:
        gradient, weight = [(*node.inputs, node.out)[k].spec for k in _CONVOLUTIONS[name]]
        return 2 * gradient.size * (weight.size // max(1, weight.shape[0]))
    if name in _ATTENTIONS:
        first, products = _ATTENTIONS[name]
        q, k, v = [x.spec for x in node.inputs[first : first + 3]]
        return products * q.size * k.shape[2] * (q.shape[3] + v.shape[3]) // max(1, q.shape[3])
    if primitive.kind not in ("elementwise", "creation"):
        size = max([size, *[v.spec.size for v in node.inputs]])
    return primitive.weight * size


def _of_bodies(node: Node, bodies: list[Graph]) -> Cost:
    costs = [cost_of_graph(g) for g in bodies]
    if node.primitive.name == "cond":
        return max(costs, key=lambda c: (c.flops, c.bytes))
    total = costs[0]
    for cost in costs[1:]:
        total = total + cost
    times = node.params.get("length", 1)
    return total * times if isinstance(times, int) else total


def cost_of_graph(graph: Graph) -> Cost:
    """The sum of the costs of the nodes, and the peak of live bytes; ``graph.cost()``.

    Example:
        >>> import fx
        >>> cost = fx.make_graph(lambda x: fx.sum(fx.exp(x) * 2))(fx.ones(1000)).cost()
        >>> cost.flops, cost.bytes, cost.peak
        (12000, 20008, 8000)
    """
    found = graph.cache.get("cost")
    if found is None:
        flops = read = written = 0
        for node in graph.nodes:
            cost = cost_of(node)
            flops, read, written = flops + cost.flops, read + cost.read, written + cost.written
        peak = max(live_bytes(graph), default=0)
        found = graph.cache["cost"] = Cost(flops, read, written, peak)
    return found


def live_bytes(graph: Graph) -> list[int]:
    """For each node the bytes of all results that are alive while it runs, its own among them.

    Inputs and constants belong to others and do not count; views share the bytes of what they show.
    """
    end = last_uses(graph)
    count = len(graph.nodes)
    change = [0] * (count + 1)
    for i, node in enumerate(graph.nodes):
        if node.primitive.kind == "view":
            continue
        for value in node.outs:
            change[i] += value.spec.nbytes
            change[min(end.get(value, i), count - 1) + 1] -= value.spec.nbytes
    total, out = 0, []
    for i in range(count):
        total += change[i]
        out.append(total)
    return out


def last_uses(graph: Graph) -> dict[Value, int]:
    """The last node that needs the bytes of each result; of outputs, the number of nodes."""
    end: dict[Value, int] = {}
    for value in graph.outputs:
        end[value] = len(graph.nodes)
    for i in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[i]
        for value in node.inputs:
            end.setdefault(value, i)
        if node.primitive.kind == "view":  # it keeps what it shows
            source = node.inputs[0]
            end[source] = max(end[source], end.get(node.outs[0], i))
    return end


def cheap(node: Node) -> bool:
    """Whether computing a node again costs about as little as loading its result from memory.

    So it is for what is elementwise and not too long, for views, and for ``full`` and ``iota``.

    Example:
        >>> import fx
        >>> from fx.graph.cost import cheap
        >>> graph = fx.make_graph(lambda x: fx.tanh(x) @ x)(fx.ones((4, 4)))
        >>> [cheap(node) for node in graph.nodes]
        [True, False]
    """
    if node.primitive.kind == "elementwise":
        return node.primitive.weight <= CHEAPEST
    return node.primitive.kind in ("view", "creation")


def flops_of(graph: Graph) -> dict[Any, int]:
    """Operations by primitive, the dearest first."""
    found: dict[Any, int] = {}
    for node in graph.nodes:
        name = node.primitive.name
        found[name] = found.get(name, 0) + cost_of(node).flops
    return dict(sorted(found.items(), key=lambda item: -item[1]))
