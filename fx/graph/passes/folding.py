"""Constant folding: what depends on constants alone is computed once, now."""

from __future__ import annotations

from typing import Any

from fx import limits
from fx.graph.ir import Graph, Node, Rewriter, Value, constant_value
from fx.graph.passes.effects import is_effectful
from fx.graph.passes.rewriting import finish, run_primitive, tensor_of
from fx.graph.passes.simplification import may_count
from fx.graph.printing import subgraphs
from fx.primitive import registry

TINY = 1  # elements up to which ``full`` and ``iota`` become constants
_SPREADS = ("elementwise", "view", "strided")  # give one number where they are given one
LIGHT = 6  # operations an element up to which what is counted is computed where it is used


def fold(graph: Graph, varied: bool = False) -> Graph:
    """The graph with constants in place of small results that depend on constants alone.

    ``full`` and ``iota`` stay as they are unless they have one element, since code makes them
    faster than memory gives them, and so do masks that compare what is counted; other nodes see
    their values. So do positions: light arithmetic on what is counted.

    Args:
        graph: what to compute.
        varied: whether other graphs are the same but for sizes, which code is to serve too: what
            may be other values at other sizes stays then, as what is made of counted numbers, and
            sums. ``arange(n) < 12`` is true of all sizes up to 12, and no constant.

    Example:
        >>> import fx
        >>> from fx.graph.passes import dce, fold
        >>> graph = fx.make_graph(lambda x: x * fx.exp(fx.zeros(())))(fx.ones(3))
        >>> print(str(dce(fold(graph))).splitlines()[1].split("#")[0].strip())
        %1: float32[3] = multiply(%0, 1.0)
    """
    rewriter = Rewriter(graph)
    folder = _Folder(rewriter, varied)
    for value in graph.constants():
        folder.look_at(value)
    for node in graph.nodes:
        outs = folder.folded(node)
        if outs is None:
            rewriter.keep(node)
        else:
            changed = [(old, new) for old, new in zip(node.outs, outs) if new is not old]
            rewriter.env.update(changed)
    return finish(rewriter)


class _Folder:
    """What is known about the values of one graph."""

    def __init__(self, rewriter: Rewriter, varied: bool) -> None:
        self.rewriter, self.varied = rewriter, varied
        self.arrays: dict[Value, Any] = {}  # of nodes that stay, where somebody asked
        self.weights: dict[Value, int] = {}  # of what is made of ``iota`` and stays

    def look_at(self, value: Value) -> None:
        """A constant whose elements are all the same becomes ``full``."""
        if TINY < value.spec.size <= limits.FOLD_RESULT and _on_cpu(value):
            array = value.array
            if uniform(array) is not None:
                self.rewriter.replace(value, self.constant(array, ""))

    def folded(self, node: Node) -> list[Value] | None:
        """The constants that a node gives, None for a node that stays."""
        if sum([v.spec.size for v in node.outs]) > limits.FOLD_RESULT or not node.outs:
            return None
        primitive = node.primitive
        if primitive.kind == "creation":
            if node.out.spec.size > TINY or not _on_cpu(node.out):
                return None
        elif not all(self.is_known(v) for v in node.inputs) or not node.inputs:
            return None
        if self.varied and not self.is_of_no_size(node):
            return None
        if registry.get(primitive.name) is not primitive or is_effectful(node):
            return None
        if subgraphs(node.params):  # a loop may run for ever
            return None
        arrays = [self.array(v) for v in node.inputs]
        if any(a is None for a in arrays) or sum([a.size for a in arrays]) > limits.FOLD_OPERANDS:
            return None
        found = run_primitive(primitive, arrays, node.params)
        if found is None or [(a.shape, a.dtype) for a in found] != [
            (v.spec.shape, v.spec.dtype) for v in node.outs
        ]:
            return None
        weight = self.weight(node)
        if weight is not None and found[0].size > TINY and uniform(found[0]) is None:
            out = self.rewriter.keep(node).out
            self.arrays[out], self.weights[out] = found[0], weight
            return [out]
        return [self.constant(a, node.line) for a in found]

    def is_of_no_size(self, node: Node) -> bool:
        """Whether what a node of known inputs gives is the same whatever sizes are.

        So is what is done to numbers that count nothing, repeated or not, element by element.
        """
        if node.primitive.name == "full":
            return True
        if not node.inputs or node.primitive.kind not in _SPREADS:
            return False
        arrays = [self.array(v) for v in node.inputs if self.is_number(v)]
        known = [a.reshape(-1)[0].item() for a in arrays if a is not None and a.size]
        return len(known) == len(node.inputs) and not any(map(may_count, known))

    def is_number(self, value: Value) -> bool:
        """Whether a value is a number, or one repeated."""
        value = self.rewriter.get(value)
        if value.constant is not None:
            return value.spec.size == 1
        return value.node is not None and value.node.primitive.name == "full"

    def weight(self, node: Node) -> int | None:
        """Of what is made of counted numbers and stays; None for what is no such thing."""
        kind = node.primitive.kind
        if len(node.outs) > 1 or kind not in ("view", "elementwise"):
            return None
        given = [self.rewriter.get(v) for v in node.inputs]
        weights = [self.weights[v] for v in given if v in self.weights]
        weights += [0 for v in given if v.node and v.node.primitive.name == "iota"]
        weight = sum(weights) + (0 if kind == "view" else node.primitive.weight)
        return weight if weights and weight <= LIGHT else None

    def constant(self, array: Any, line: str) -> Value:
        """The constant of an array; ``full`` where all its elements are the same."""
        if array.size > TINY:
            value = uniform(array)
            if value is not None:
                full = registry["full"]
                params = dict(shape=array.shape, value=value, dtype=array.dtype, device="cpu")
                return self.rewriter.add(full, line=line, **params)  # type: ignore[no-any-return]
        return constant_value(tensor_of(array))

    def is_known(self, value: Value) -> bool:
        """Whether the value can be known without much work."""
        value = self.rewriter.get(value)
        if value.constant is not None:
            return _on_cpu(value)
        if value in self.weights:
            return True
        node = value.node
        if node is None or node.primitive.kind != "creation":
            return False
        return value.spec.size <= limits.FOLD_RESULT and _on_cpu(value)

    def array(self, value: Value) -> Any:
        """The array of a value that is known."""
        value = self.rewriter.get(value)
        if value.constant is not None:
            return value.array
        found = self.arrays.get(value)
        if found is None:
            node = value.node
            made = run_primitive(node.primitive, (), node.params)  # type: ignore[union-attr]
            found = self.arrays[value] = None if made is None else made[0]
        return found


def uniform(array: Any) -> Any:
    """The Python number that every element of an array is, to the bit; None if they differ."""
    first = array.reshape(-1)[:1]
    if array.tobytes() != first.tobytes() * array.size:
        return None
    value = first.item()
    if type(value) is complex and not value:  # ``full`` has one zero for complex numbers
        return None
    return value if isinstance(value, (bool, int, float, complex)) else float(value)


def _on_cpu(value: Value) -> bool:
    return value.spec.device == "cpu"
