"""Tiers: which primitives a backend may be left with.

Tier 1 is every primitive that there is. Tier 2, the core, is tier 1 without the composites: those
whose block has a ``formula``, which gives by core primitives what their own kernels compute. A
backend says which composites it emits itself; the others are decomposed for it.
"""

from __future__ import annotations

from fx.primitive import registry


def composites() -> frozenset[str]:
    """The names of the primitives that have a formula."""
    return frozenset([p.name for p in registry.values() if p.formula is not None])


def dissolving() -> frozenset[str]:
    """Those that no backend gains by knowing: they are always decomposed."""
    return frozenset([p.name for p in registry.values() if p.dissolves])


def tier(name: str) -> int:
    """2 for a primitive of the core, 1 for a composite.

    Raises:
        KeyError: if there is no such primitive.

    Example:
        >>> from fx.graph.passes.tiers import tier
        >>> tier("matmul"), tier("softmax")
        (2, 1)
    """
    return 2 if registry[name].formula is None else 1


def core() -> frozenset[str]:
    """The names of the core primitives."""
    return frozenset(registry) - composites()
