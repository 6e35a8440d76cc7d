"""The choice of placements along one axis of a mesh: a linear program in whole numbers.

Every input lies whole or cut along one of its axes; every node goes one of the ways of its
sharding rule (``fx/prims/factors.py``): along a factor, by addends, or whole. Between how a value
is made and how a node wants it flows one unit, at the price of the message. In ``y = x @ w``

    lies[x, S0] = 1, lies[w, R] = 1          inputs
    goes[matmul, M] = 1                       a way: x S0, w R -> y S0
    flow[x -> matmul, S0 -> S0] = 1           costs nothing

all terms are linear, and only ``lies`` and ``goes`` need be whole numbers. A cut that no operand
has is not made up, as when the graph is propagated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fx.distributed.planning.price import Sizes, collective_time, seconds
from fx.distributed.planning.program import Step
from fx.distributed.simulator.cluster import Cluster
from fx.graph.ir import Node, Value
from fx.prims.factors import Factors, factors_of
from fx.slotted import slotted

WHOLE, ADDENDS = "R", "P"  # and "S0", "S1", ...: cut along an axis; "Pmax", ...: by another way
_HELD = 1e-15  # seconds a byte that a rank holds: of equal plans the smaller one


@slotted(eq=False)
class Way:
    """How a node goes: what it wants of its operands, and how it leaves its results."""

    operands: tuple[str, ...]
    results: tuple[str, ...]
    letter: str = ""


class Cuts:
    """What was chosen so far: the shapes of parts, and the share of each node's work.

    Attributes:
        lies: for each input a placement an axis of the mesh.
    """

    def __init__(self, step: Step) -> None:
        values = [*step.graph.inputs, *[v for n in step.graph.nodes for v in n.outs]]
        self.shapes: dict[Value, tuple[int, ...]] = {v: v.spec.shape for v in values}
        self.share: dict[Node, float] = dict.fromkeys(step.graph.nodes, 1.0)
        self.lies: list[list[str]] = [[] for _ in step.graph.inputs]

    def shape(self, v: Value) -> tuple[int, ...]:
        """Of a part of a value; constants are whole."""
        return self.shapes.get(v, v.spec.shape)

    def nbytes(self, v: Value) -> float:
        """Of a part."""
        return float(np.prod(self.shape(v), dtype=float)) * v.spec.dtype.itemsize

    def cut(self, v: Value, placement: str, count: int) -> None:
        """Remember that a value is cut."""
        if placement.startswith("S"):
            shape = list(self.shapes[v])
            shape[int(placement[1:])] //= count
            self.shapes[v] = tuple(shape)


def ways_of(node: Node, cuts: Cuts, count: int) -> list[Way]:
    """The ways of a node along an axis of ``count`` ranks."""
    whole = Way((WHOLE,) * len(node.inputs), (WHOLE,) * len(node.outs))
    if node.primitive.effectful or node.primitive.anywhere:
        return [whole]
    told = factors_of(node.primitive, [v.spec for v in node.inputs], node.params)
    out = []
    for letter in told.letters():
        if letter != told.places and _divides(told, letter, node, cuts, count):
            out.append(_by_factor(told, letter))
    for group in told.linear:
        placed = tuple([ADDENDS if i in group else WHOLE for i in range(len(node.inputs))])
        out.append(Way(placed, (ADDENDS,) * len(node.outs)))
    return [*out, whole]


def _divides(told: Factors, letter: str, node: Node, cuts: Cuts, count: int) -> bool:
    sides = [*zip(told.operands, node.inputs), *zip(told.results, node.outs)]
    sizes = [n for names, v in sides for c, n in zip(names, cuts.shape(v)) if c == letter]
    return bool(sizes) and all(n and n % count == 0 for n in sizes)


def _by_factor(told: Factors, letter: str) -> Way:
    summed = told.summed(letter)
    addends = ADDENDS if told.op == "sum" else f"P{told.op}"
    cut = lambda names, other: f"S{names.index(letter)}" if letter in names else other
    operands = [
        cut(names, addends if summed and i in told.added else WHOLE)
        for i, names in enumerate(told.operands)
    ]
    results = [cut(names, addends if summed else WHOLE) for names in told.results]
    return Way(tuple(operands), tuple(results), letter)


class Program:
    """Variables, their costs, and equations between them, as ``scipy.optimize.milp`` takes them."""

    def __init__(self) -> None:
        self.costs: list[float] = []
        self.whole: list[int] = []
        self.rows: list[tuple[dict[int, float], float, float]] = []

    def variable(self, cost: float, whole: bool) -> int:
        """One more, from 0 to 1."""
        self.costs.append(cost)
        self.whole.append(int(whole))
        return len(self.costs) - 1

    def add(self, terms: dict[int, float], low: float, high: float) -> None:
        """One more relation: a sum lies between two numbers."""
        self.rows.append((terms, low, high))

    def solved(self, limit: float) -> Any:
        """The values of the variables; None where there are none in that time."""
        from scipy.optimize import Bounds, LinearConstraint, milp
        from scipy.sparse import csr_array

        data = [(x, i, j) for i, (terms, _, _) in enumerate(self.rows) for j, x in terms.items()]
        values, rows, columns = zip(*data, strict=True)
        shape = len(self.rows), len(self.costs)
        matrix = csr_array((values, (rows, columns)), shape=shape)
        scale = max(self.costs) or 1.0
        found = milp(
            np.array(self.costs) / scale,
            integrality=np.array(self.whole),
            bounds=Bounds(0, 1),
            constraints=LinearConstraint(
                matrix, [low for _, low, _ in self.rows], [high for _, _, high in self.rows]
            ),
            options={"time_limit": limit, "mip_rel_gap": 1e-3},
        )
        return found.x


def chosen(
    step: Step,
    cuts: Cuts,
    mesh: Sizes,
    m: int,
    cluster: Cluster,
    memory: float,
    limit: float,
    pinned: Sequence[str] | None = None,
) -> bool:
    """Choose placements along axis ``m``, and put them into ``cuts``; whether there are any.

    Args:
        memory: bytes that a rank may hold of the inputs.
        limit: seconds to look for them.
        pinned: the placements of all inputs, where those are given.
    """
    graph, count, p = step.graph, mesh.sizes[m], Program()
    made: dict[Value, dict[str, list[int]]] = {}  # by placement the variables that add up to it
    lies: list[dict[str, int]] = []
    for i, v in enumerate(graph.inputs):
        nbytes = cuts.nbytes(v)
        fits = [f"S{d}" for d, n in enumerate(cuts.shape(v)) if n and n % count == 0]
        one = {q: p.variable(_HELD * nbytes / count, True) for q in fits}
        one[WHOLE] = p.variable(_HELD * nbytes, True)
        p.add(dict.fromkeys(one.values(), 1.0), 1, 1)
        if pinned is not None:
            p.add({one[pinned[i]]: 1.0}, 1, 1)
        lies.append(one)
        made[v] = {q: [x] for q, x in one.items()}
    if memory < float("inf"):
        held: dict[int, float] = {}
        for v, one in zip(graph.inputs, lies):
            for q, x in one.items():
                held[x] = cuts.nbytes(v) / (1 if q == WHOLE else count) / memory
        p.add(held, 0, 1)

    def flow(v: Value, wanted: dict[str, list[int]]) -> dict[tuple[str, str], int]:
        """Let a value come as somebody wants it."""
        sources = made.get(v, {WHOLE: []})
        if [*sources] == [WHOLE] == [*wanted]:
            return {}
        units: dict[tuple[str, str], int] = {}
        for a in sources:
            for b in wanted:
                price = _price(a, b, cuts.nbytes(v), mesh, m, cluster)
                if price is not None:
                    units[a, b] = p.variable(price, False)
        for a, xs in sources.items():
            out = {x: 1.0 for (s, _), x in units.items() if s == a}
            constant = v not in made
            p.add({**out, **dict.fromkeys(xs, -1.0)}, float(constant), float(constant))
        for b, xs in wanted.items():
            come = {x: 1.0 for (_, t), x in units.items() if t == b}
            p.add({**come, **dict.fromkeys(xs, -1.0)}, 0, 0)
        return units

    goes: list[tuple[Node, list[Way], list[int]]] = []
    for node in graph.nodes:
        ways, work = ways_of(node, cuts, count), seconds(node, cluster) * cuts.share[node]
        xs = [p.variable(work / (count if w.letter else 1), True) for w in ways]
        p.add(dict.fromkeys(xs, 1.0), 1, 1)
        goes.append((node, ways, xs))
        units = [
            flow(v, _by_placement([w.operands[k] for w in ways], xs))
            for k, v in enumerate(node.inputs)
        ]
        for w, x in zip(ways, xs):  # who has the cut, or addends
            held_so = {
                unit: 1.0
                for k, of in enumerate(units)
                for (a, b), unit in of.items()
                if a == b != WHOLE and b == w.operands[k]
            }
            if any(q != WHOLE for q in w.operands):
                p.add({**held_so, x: -1.0}, 0, np.inf)
        for k, v in enumerate(node.outs):
            made[v] = _by_placement([w.results[k] for w in ways], xs)
    for v, i in zip(graph.outputs, step.follows, strict=True):
        if i is not None and v in made and v is not graph.inputs[i]:
            flow(v, {q: [x] for q, x in lies[i].items()})
        elif i is None and v in made:  # addends of a result are added up by whoever wants it
            for q, xs in made[v].items():
                if q.startswith(ADDENDS):
                    price = _price(q, WHOLE, cuts.nbytes(v), mesh, m, cluster)
                    for x in xs:
                        p.costs[x] += price or 0.0
    found = p.solved(limit)
    if found is None:
        return False
    for i, (v, one) in enumerate(zip(graph.inputs, lies)):
        placement = max(one, key=lambda q: found[one[q]])
        cuts.lies[i].append(placement)
        cuts.cut(v, placement, count)
    for node, ways, xs in goes:
        way = ways[int(np.argmax([found[x] for x in xs]))]
        cuts.share[node] /= count if way.letter else 1
        for v, placement in zip(node.outs, way.results):
            cuts.cut(v, placement, count)
    return True


def _by_placement(placements: Sequence[str], xs: Sequence[int]) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    for q, x in zip(placements, xs, strict=True):
        out.setdefault(q, []).append(x)
    return out


def _price(a: str, b: str, nbytes: float, mesh: Sizes, m: int, cluster: Cluster) -> float | None:
    """Seconds from one placement to another; None where nobody goes that way."""
    if a in (b, WHOLE):
        return 0.0
    time = lambda name, n: collective_time(name, n, mesh, m, cluster)
    if a.startswith(ADDENDS):
        if b == WHOLE:
            return time("psum", nbytes)
        cut = b.startswith("S")
        return time("psum_scatter", nbytes) if cut and a == ADDENDS else None
    if b.startswith("S"):
        return time("all_to_all", nbytes / mesh.sizes[m])
    return time("all_gather", nbytes) if b == WHOLE else None
