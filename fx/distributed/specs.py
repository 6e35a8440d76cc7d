"""Specs of trees: a spec for each leaf, from a pytree prefix of specs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fx import tree
from fx.errors import TreeError


def spread(
    specs: Any, treedef: Any, is_spec: Callable[[Any], bool], what: str, of: str
) -> list[Any]:
    """The spec of each leaf of a structure; None where the prefix has none.

    Args:
        specs: one for all leaves, or a pytree prefix of them.
        treedef: the structure.
        is_spec: tells a spec from the tree that holds it.
        what: the name of ``specs``, for messages.
        of: what has the structure, for messages.

    Raises:
        TreeError: if it is no prefix.
    """
    if is_spec(specs):
        return [specs] * treedef.num_leaves
    prefix, structure = tree.flatten(specs, is_leaf=is_spec)
    marks = tree.unflatten(treedef, list(range(treedef.num_leaves)))
    try:
        subtrees = structure.flatten_up_to(marks)
    except (ValueError, TypeError):
        raise TreeError(f"{what}={specs!r} is no prefix of {treedef}, {of}") from None
    out: list[Any] = [None] * treedef.num_leaves
    for spec, subtree in zip(prefix, subtrees, strict=True):
        for i in tree.leaves(subtree):
            out[i] = spec
    return out
