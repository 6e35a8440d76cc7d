"""Strength reduction: cheaper operations that give the same numbers."""

from __future__ import annotations

from functools import cache
from typing import Any

from fx.dtypes import COMPLEX, FLOATING, float32, float64
from fx.graph.ir import Graph, Value
from fx.graph.passes.rules_arithmetic import is_power_of_two, largest, smallest_normal
from fx.graph.passes.simplification import Rule, Simplifier, rules_with, run_rules
from fx.primitive import registry
from fx.spec import TensorSpec


def _power(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    """x**2, x**3 and x**-1 by products; x**0.5 stays: at -0.0 and -inf it is not sqrt(x).

    A square is rounded once, which is the best there is; a cube is within 1.5 ulp.
    """
    x, number = inputs[0], s.number(inputs[1])
    if number is None or spec.dtype in COMPLEX or x.spec.shape != spec.shape:
        return None
    if number == 2:
        return s.make("multiply", x, x)
    if number == -1 and spec.dtype in FLOATING:
        return s.make("divide", s.scalar(1.0, spec), x)
    if spec.dtype in FLOATING and spec.dtype not in (float32, float64):
        return None  # each product would be rounded to few bits
    if number == 3:
        return s.make("multiply", s.make("multiply", x, x), x)
    return None


def _divide(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    """x / c is x * (1 / c) to the bit where c is a power of two with a normal inverse."""
    if spec.dtype not in FLOATING:
        return None
    number = s.number(inputs[1])
    if number is None or not is_power_of_two(number) or number in (1.0, -1.0):
        return None
    if not smallest_normal(spec.dtype) <= abs(1 / number) <= largest(spec.dtype):
        return None
    return s.broadcast(s.make("multiply", inputs[0], s.scalar(1 / number, spec)), spec.shape)


_OWN: dict[str, list[Rule]] = {"power": [_power], "divide": [_divide]}


@cache
def _table(count: int) -> dict[Any, list[Rule]]:
    return rules_with(_OWN)


def strength(graph: Graph, varied: bool = False) -> Graph:
    """The graph with products in place of small powers and of divisions by powers of two.

    ``varied`` says that other graphs are the same but for sizes (``optimize``).

    Example:
        >>> import fx
        >>> from fx.graph.passes import dce, strength
        >>> graph = fx.make_graph(lambda x: x**2 / 8)(fx.ones(3))
        >>> dce(strength(graph)).nodes
        (<node multiply>, <node multiply>)
    """
    return run_rules(graph, _table(len(registry)), only=members_of(_OWN), varied=varied)


def members_of(rules: dict[str, list[Rule]]) -> frozenset[Any]:
    """The primitives that a table of rules by name is about."""
    return frozenset([registry[name] for name in rules if name in registry])
