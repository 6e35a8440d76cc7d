"""Decomposition: composites become core primitives, by the formulas in their blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from fx.graph.ir import Graph, Value, constant_value
from fx.graph.passes.simplification import Rule, Simplifier, rules_with, run_rules
from fx.graph.passes.subexpressions import params_key
from fx.graph.passes.tiers import composites, dissolving
from fx.graph.staging import stage
from fx.primitive import Primitive, registry
from fx.spec import TensorSpec


def by_formula(
    primitive: Primitive,
    inputs: tuple[Value, ...],
    params: dict[str, Any],
    make: Callable[..., Any],
) -> Any:
    """What a composite gives for new values: a value, or a tuple where it has several.

    It is None where the formula is for other arguments.

    Args:
        primitive: one with a formula.
        inputs: what it is applied to.
        params: of the primitive.
        make: adds a node: ``(primitive, *inputs, **params) -> value``, or values.
    """
    specs = tuple([v.spec for v in inputs])
    key = primitive, specs, params_key(params)
    staged = _staged.get(key, _UNKNOWN)
    if staged is _UNKNOWN:
        if len(_staged) >= _MOST:
            _staged.clear()
        staged = _staged[key] = _stage(primitive, specs, params)
    if staged is None:
        return None
    graph, constants = staged
    env = dict(zip(graph.inputs, (*inputs, *constants)))
    for node in graph.nodes:
        made = make(node.primitive, *[env.get(v, v) for v in node.inputs], **node.params)
        env.update(zip(node.outs, made if node.primitive.multiple else (made,)))
    outs = tuple([env.get(v, v) for v in graph.outputs])
    return outs if primitive.multiple else outs[0]


_Staged = tuple[Graph, list[Value]] | None
_staged: dict[Any, _Staged] = {}
_MOST = 1024  # formulas that are remembered
_UNKNOWN: Any = object()


def _stage(primitive: Any, specs: tuple[TensorSpec, ...], params: dict[str, Any]) -> _Staged:
    """The formula for arguments of these specs, and the constants that are its last inputs."""

    def flat(*xs: Any) -> list[Any]:
        found = primitive.formula(*xs, **params)
        if found is None:
            raise _NoFormulaError
        return found if primitive.multiple else [found]

    try:
        graph, captured = stage(flat, specs, primitive.name)
    except _NoFormulaError:
        return None
    return graph, [constant_value(x) for x in captured]


class _NoFormulaError(Exception):
    """There is none for such arguments."""


def _rule(name: str) -> Rule:
    def rule(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
        return by_formula(
            registry[name], inputs, params, lambda p, *xs, **ps: s.make(p.name, *xs, **ps)
        )

    return rule


@cache
def _table(count: int, names: frozenset[str]) -> tuple[dict[Any, list[Rule]], frozenset[Any]]:
    own = {name: [_rule(name)] for name in names}
    return rules_with(own), frozenset([registry[name] for name in names])


def decompose(graph: Graph, names: Iterable[str] | None = None, varied: bool = False) -> Graph:
    """The graph with composites replaced by core primitives.

    It computes the same numbers, but derivatives are to be taken before: ``stop_gradient`` is gone,
    and where ``x`` is 0 a ``relu`` and a ``maximum`` have different ones.

    Args:
        graph: to decompose.
        names: of the composites; those that always dissolve unless given.
        varied: whether other graphs are the same but for sizes (``optimize``).

    Raises:
        KeyError: if a name is that of no composite.

    Example:
        >>> import fx
        >>> from fx.graph.passes import decompose
        >>> graph = fx.make_graph(lambda x: fx.square(x))(fx.ones(3))
        >>> decompose(graph).nodes
        (<node multiply>,)
    """
    wanted = dissolving() if names is None else frozenset(names)
    unknown = wanted - composites()
    if unknown:
        known = sorted(composites())
        raise KeyError(f"decompose: {sorted(unknown)} are no composites; those are {known}")
    return run_rules(graph, *_table(len(registry), wanted), varied)
