"""Tiers: which primitives a backend may be left with, as data.

Tier 1 is every primitive that there is. Tier 2, the core, is tier 1 without the composites: those
that are exactly what a few core primitives give, by the formulas of their own kernels. A backend
says which composites it emits itself; the others are decomposed for it.
"""

from __future__ import annotations

from fx.primitive import registry

# composites: name -> what it becomes
COMPOSITES: dict[str, str] = {
    "sum_to": "sum, reshape",
    "stop_gradient": "nothing: the identity once derivatives are taken",
    "square": "x * x",
    "reciprocal": "1 / x",
    "rsqrt": "1 / sqrt(x)",
    "relu": "maximum(x, 0)",
    "sigmoid": "where(x >= 0, 1, exp(-|x|)) / (1 + exp(-|x|))",
    "softplus": "maximum(x, 0) + log1p(exp(-|x|))",
    "softmax": "max, subtract, exp, sum, divide",
    "log_softmax": "max, subtract, exp, sum, log",
    "logsumexp": "max, subtract, exp, sum, log, add",
}
# what is always decomposed: nothing is lost by it, and schedulers then know fewer kinds
DEFAULT = frozenset(("sum_to", "stop_gradient", "square", "reciprocal"))


def tier(name: str) -> int:
    """2 for a primitive of the core, 1 for a composite.

    Raises:
        KeyError: if there is no such primitive.

    Example:
        >>> from fx.graph.passes.tiers import tier
        >>> tier("matmul"), tier("softmax")
        (2, 1)
    """
    registry[name]
    return 1 if name in COMPOSITES else 2


def core() -> frozenset[str]:
    """The names of the core primitives."""
    return frozenset(registry) - COMPOSITES.keys()
