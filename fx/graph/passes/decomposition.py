"""Decomposition: composites become core primitives, by the formulas of their own kernels."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from fx.dtypes import COMPLEX, FLOATING, float32
from fx.graph.ir import Graph, Value
from fx.graph.passes.simplification import Rule, Simplifier, rules_with, run_rules
from fx.graph.passes.strength_reduction import members_of
from fx.graph.passes.tiers import COMPOSITES, DEFAULT
from fx.primitive import registry
from fx.spec import TensorSpec


def _sum_to(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value:
    x = inputs[0]
    lead = x.spec.ndim - spec.ndim
    axes = (
        *range(lead),
        *[i + lead for i, n in enumerate(spec.shape) if n == 1 and x.spec.shape[i + lead] != 1],
    )
    return s.reshape(s.make("sum", x, axes=axes, keepdims=False), spec.shape)


def _stop_gradient(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value:
    return inputs[0]  # type: ignore[no-any-return]


def _square(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value:
    return s.make("multiply", inputs[0], inputs[0])


def _reciprocal(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    return None if spec.dtype in COMPLEX else s.make("divide", s.scalar(1.0, spec), inputs[0])


def _rsqrt(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    if spec.dtype in COMPLEX:
        return None
    return s.make("divide", s.scalar(1.0, spec), s.make("sqrt", inputs[0]))


def _relu(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value:
    zero = s.scalar(0.0 if spec.dtype in FLOATING else 0, spec)
    return s.make("maximum", inputs[0], zero)


def _small(s: Simplifier, x: Value) -> Value:
    return s.make("exp", s.make("negative", s.make("abs", x)))


def _sigmoid(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value:
    x = inputs[0]
    small, one = _small(s, x), s.scalar(1.0, spec)
    right = s.make("greater_equal", x, s.scalar(0.0, spec))
    return s.make("divide", s.make("where", right, one, small), s.make("add", one, small))


def _softplus(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value:
    x = inputs[0]
    above = s.make("maximum", x, s.scalar(0.0, spec))
    return s.make("add", above, s.make("log1p", _small(s, x)))


# along axes, in float32 for narrower dtypes -----------------------------------------------------


def _widened(s: Simplifier, x: Value) -> Value:
    return x if x.spec.dtype.itemsize > 2 else s.make("astype", x, dtype=float32)


def _narrowed(s: Simplifier, x: Value, spec: TensorSpec) -> Value:
    return x if x.spec.dtype == spec.dtype else s.make("astype", x, dtype=spec.dtype)


def _softmax(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    shifted, axes = _shifted(s, inputs[0], params["axis"])
    if shifted is None:
        return None
    terms = s.make("exp", shifted)
    total = s.make("sum", terms, axes=axes, keepdims=True)
    return _narrowed(s, s.make("divide", terms, total), spec)


def _log_softmax(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    shifted, axes = _shifted(s, inputs[0], params["axis"])
    if shifted is None:
        return None
    total = s.make("sum", s.make("exp", shifted), axes=axes, keepdims=True)
    return _narrowed(s, s.make("subtract", shifted, s.make("log", total)), spec)


def _shifted(s: Simplifier, x: Value, axis: int) -> tuple[Value | None, tuple[int, ...]]:
    """x less its largest element along an axis; None where there is no element."""
    if not x.spec.shape[axis]:
        return None, (axis,)
    wide = _widened(s, x)
    return s.make("subtract", wide, s.make("max", wide, axes=(axis,), keepdims=True)), (axis,)


def _logsumexp(s: Simplifier, inputs: Any, params: Any, spec: TensorSpec) -> Value | None:
    x, axes = inputs[0], params["axes"]
    if 0 in [x.spec.shape[a] for a in axes] or not x.spec.size:
        return None
    wide = _widened(s, x)
    top = s.make("max", wide, axes=axes, keepdims=True)
    zero = s.scalar(0.0, wide.spec)
    top = s.make("where", s.make("isfinite", top), top, zero)
    terms = s.make("exp", s.make("subtract", wide, top))
    out = s.make("log", s.make("sum", terms, axes=axes, keepdims=True))
    return s.reshape(_narrowed(s, s.make("add", out, top), spec), spec.shape)


RULES: dict[str, Rule] = {
    "sum_to": _sum_to,
    "stop_gradient": _stop_gradient,
    "square": _square,
    "reciprocal": _reciprocal,
    "rsqrt": _rsqrt,
    "relu": _relu,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
}


@cache
def _table(count: int, names: frozenset[str]) -> tuple[dict[Any, list[Rule]], frozenset[Any]]:
    own = {name: [RULES[name]] for name in names}
    return rules_with(own), members_of(own)


def decompose(graph: Graph, names: Iterable[str] = DEFAULT) -> Graph:
    """The graph with composites replaced by core primitives.

    It computes the same numbers, but derivatives are to be taken before: ``stop_gradient`` is gone,
    and where ``x`` is 0 a ``relu`` and a ``maximum`` have different ones.

    Args:
        graph: to decompose.
        names: of the composites, from ``tiers.COMPOSITES``.

    Raises:
        KeyError: if a name is that of no composite.

    Example:
        >>> import fx
        >>> from fx.graph.passes import decompose
        >>> graph = fx.make_graph(lambda x: fx.square(x))(fx.ones(3))
        >>> decompose(graph).nodes
        (<node multiply>,)
    """
    wanted = frozenset(names)
    unknown = wanted - COMPOSITES.keys()
    if unknown:
        raise KeyError(f"decompose: {sorted(unknown)} are no composites; those are {[*COMPOSITES]}")
    return run_rules(graph, *_table(len(registry), wanted))
