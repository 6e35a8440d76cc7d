"""Algebraic simplification: rules of the form "this primitive on such arguments is that value".

A rule never changes a floating result: it holds for every input, NaN, infinities and -0.0 among
them. The rules stand in ``rules_*.py``, in a table by primitive.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import copysign, isnan
from typing import Any

from fx.dtypes import COMPLEX, FLOATING
from fx.graph.ir import Graph, Node, Rewriter, Value, constant_value
from fx.graph.passes.rewriting import finish
from fx.primitive import Primitive, registry
from fx.prims.creation import constant
from fx.spec import TensorSpec

# a value, values where the primitive has several, or None
Rule = Callable[["Simplifier", tuple[Value, ...], dict[str, Any], TensorSpec], Any]
_DEEPEST = 16  # rewrites of what a rewrite made


class Simplifier(Rewriter):
    """A rewriter that gives nodes, new ones too, to the rules first.

    Args:
        graph: to go through.
        rules: by primitive, in the order in which they are tried.
        varied: whether other graphs are the same but for sizes, so that no number may be made of
            sizes, nor of what may count elements.

    Attributes:
        uses: how often each value is used in the old graph.
    """

    __slots__ = ("_depth", "_line", "_numbers", "rules", "uses", "varied")

    def __init__(self, graph: Graph, rules: dict[Any, list[Rule]], varied: bool = False) -> None:
        super().__init__(graph)
        self.rules, self.varied = rules, varied
        self.uses = graph.use_counts()
        self._numbers: dict[Value, Any] = {}
        self._depth = 0
        self._line = ""

    # going through ------------------------------------------------------------------------------

    def visit(self, node: Node) -> None:
        """Keep a node, or put a simpler value in its place."""
        rules = self.rules.get(node.primitive)
        if rules is not None:
            inputs = tuple([self.env.get(v, v) for v in node.inputs])
            self._line = node.line
            for rule in rules:
                found = rule(self, inputs, node.params, node.outs[0].spec)
                if found is not None:
                    for old, new in zip(node.outs, found if type(found) is tuple else (found,)):
                        self.env[old] = new
                        self.uses[new] = self.uses.get(new, 0) + self.uses.get(old, 0)
                    return
        kept = self.keep(node)
        if kept is not node:
            for old, out in zip(node.outs, kept.outs):
                self.uses[out] = self.uses.get(old, 0)

    def make(self, name: str, *inputs: Value, **params: Any) -> Any:
        """The value of a primitive on new values, simplified; the values where it has several."""
        primitive = registry[name]
        spec = primitive.spec(*[v.spec for v in inputs], **params)
        specs = spec if primitive.multiple else (spec,)
        if self._depth < _DEEPEST:
            self._depth += 1
            try:
                for rule in self.rules.get(primitive, ()):
                    found = rule(self, inputs, params, specs[0])
                    if found is not None:
                        return found
            finally:
                self._depth -= 1
        return self.add(primitive, *inputs, line=self._line, specs=specs, **params)

    # what rules ask -----------------------------------------------------------------------------

    def number(self, value: Value) -> Any:
        """The Python number that all elements of a value are; None where that is not known."""
        if value.constant is None:
            node = value.node
            if node is None or node.primitive.name != "full":
                return None
        elif value.spec.size != 1:
            return None
        if value not in self._numbers:
            self._numbers[value] = self._number(value)
        return self._numbers[value]

    def _number(self, value: Value) -> Any:
        spec = value.spec
        if spec.device != "cpu":
            return None
        if value.constant is not None:
            array = value.array
        else:
            try:
                array = constant(value.node.params["value"], spec.dtype)._a  # type: ignore
            except (TypeError, ValueError, OverflowError):
                return None
        found = array.item()
        if type(found) is complex and not found and "-" in repr(found):
            return None  # ``full`` has one zero for complex numbers
        return found if isinstance(found, (bool, int, float, complex)) else float(found)

    def scalar(self, number: Any, like: TensorSpec) -> Value:
        """A 0-d constant."""
        return constant_value(constant(number, like.dtype, like.device))

    def full(self, number: Any, spec: TensorSpec) -> Value:
        """A value whose elements all are ``number``."""
        if not spec.shape:
            return self.scalar(number, spec)
        return self.make(
            "full", shape=spec.shape, value=number, dtype=spec.dtype, device=spec.device
        )

    def broadcast(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The value broadcast to a shape, itself where it has it."""
        if value.spec.shape == shape:
            return value
        return self.make("broadcast_to", value, shape=shape)

    def reshape(self, value: Value, shape: tuple[int, ...]) -> Value:
        """The value in a shape, itself where it has it."""
        if value.spec.shape == shape:
            return value
        return self.make("reshape", value, shape=shape)

    def used_once(self, value: Value) -> bool:
        """Whether one use of the value is all that the old graph has."""
        return self.uses.get(value, 1) <= 1


def made_by(value: Value, name: str) -> Node | None:
    """The node of a value if it applies the primitive of that name."""
    node = value.node
    if node is None or node.primitive.name != name:
        return None
    if not (type(node.primitive) is Primitive or getattr(node.primitive, "is_view", False)):
        return None
    return node


def is_zero(number: Any) -> bool:
    """Whether a number is the floating 0.0 or -0.0."""
    return type(number) is float and number == 0.0


def is_exactly(number: Any, wanted: float) -> bool:
    """Whether a real number is ``wanted``, its sign at zero included."""
    if number is None or type(number) is complex or number != wanted:
        return False
    return type(number) is not float or copysign(1.0, number) == copysign(1.0, wanted)


def never_minus_zero(s: Simplifier, value: Value) -> bool:
    """Whether no element of a real value can be -0.0."""
    if value.spec.dtype not in FLOATING:
        return value.spec.dtype not in COMPLEX
    number = s.number(value)
    if number is not None:
        return not (is_zero(number) and copysign(1.0, number) < 0) and not isnan(number)
    node = value.node
    if node is None:
        return False
    name = node.primitive.name
    if node.primitive.no_minus_zero:
        return True
    if name == "add":  # -0.0 only as -0.0 + -0.0
        return any(never_minus_zero_number(s.number(v)) for v in node.inputs)
    if name == "multiply":
        return node.inputs[0] is node.inputs[1]
    return False


def never_minus_zero_number(number: Any) -> bool:
    """Whether it is a number, and not -0.0."""
    return type(number) is float and not is_exactly(number, -0.0)


def rules_with(own: dict[str, list[Rule]]) -> dict[Any, list[Rule]]:
    """The rules of simplification by primitive, those of ``own`` before them."""
    from fx.graph.passes import rules_pointwise, rules_reduce, rules_shape

    table: dict[Any, list[Rule]] = {}
    for rules in (own, rules_shape.RULES, rules_pointwise.rules(), rules_reduce.RULES):
        for name, more in rules.items():
            if name in registry:
                table.setdefault(registry[name], []).extend(more)
    return table


@cache
def _table(count: int) -> dict[Any, list[Rule]]:
    return rules_with({})


def may_count(number: Any) -> bool:
    """Whether a number may be how many elements there are, another one at other sizes.

    As a number it stays what it is, and its formula is found. What is computed of it is none any
    more: of ``min(n, 12)`` three sizes tell nothing.
    """
    if type(number) is complex:
        return may_count(number.real)
    return type(number) in (int, float) and abs(number) > 1 and number == number // 1


def simplify(graph: Graph, varied: bool = False) -> Graph:
    """The graph after the rules that never change a result, whatever the inputs.

    ``varied`` says that other graphs are the same but for sizes (``optimize``).

    Example:
        >>> import fx
        >>> from fx.graph.passes import dce, simplify
        >>> graph = fx.make_graph(lambda x: -(-x.T.T * 1))(fx.ones((2, 3)))
        >>> dce(simplify(graph)).nodes
        ()
    """
    return run_rules(graph, _table(len(registry)), varied=varied)


def run_rules(
    graph: Graph, rules: dict[Any, list[Rule]], only: frozenset[Any] | None = None,
    varied: bool = False,
) -> Graph:  # fmt: skip
    """The graph after one walk with a table of rules by primitive.

    ``only`` names the primitives that the walk looks at; what a rule makes is given to all rules.
    """
    if only is not None and only.isdisjoint([node.primitive for node in graph.nodes]):
        return graph
    simplifier = Simplifier(graph, rules, varied)
    for node in graph.nodes:
        if only is None or node.primitive in only:
            simplifier.visit(node)
        else:
            simplifier.keep(node)
    return finish(simplifier)
