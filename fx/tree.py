"""Pytrees: nested containers of tensors, by optree.

Tuples, lists, dicts, named tuples, ``OrderedDict``, ``defaultdict`` and ``deque`` are nodes; None
is an empty node. Dataclasses and attrs classes register themselves when they are first met.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

import optree

from fx.errors import TreeError
from fx.paths import path_of
from fx.tensor import Tensor

NAMESPACE = "fx"
ORDERED = "fx.ordered"  # where a dict's structure is the order of its keys, too
_LEAF_TYPES: set[type] = {Tensor, int, float, complex, bool, str, bytes}
_LEAF_CLASSES: WeakSet[type] = WeakSet()  # those of users, which may die
_NODES: set[type] = set()  # classes that were made nodes here
_NOTHING = object()
Treedef = optree.PyTreeSpec


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Treedef]:
    """The leaves of ``tree`` in a fixed order, and the structure that ``unflatten`` takes.

    Example:
        >>> import fx
        >>> leaves, treedef = fx.tree.flatten({"b": 2, "a": (1, None)})
        >>> leaves
        [1, 2]
    """
    leaves, treedef = optree.tree_flatten(tree, is_leaf, namespace=NAMESPACE)
    for leaf in leaves:
        if type(leaf) not in _LEAF_TYPES and _register_class(type(leaf)):
            return flatten(tree, is_leaf)
    return leaves, treedef


def flatten_in_order(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], Treedef]:
    """``flatten`` for which dicts of another order are of another structure."""
    leaves, treedef = optree.tree_flatten(tree, is_leaf, namespace=ORDERED)
    for leaf in leaves:
        if type(leaf) not in _LEAF_TYPES and _register_class(type(leaf)):
            return flatten_in_order(tree, is_leaf)
    return leaves, treedef


def unflatten(treedef: Treedef, leaves: Any) -> Any:
    """The tree of a structure and its leaves."""
    return optree.tree_unflatten(treedef, leaves)


def leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of ``tree``."""
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Treedef:
    """The structure of ``tree`` without its leaves."""
    return flatten(tree, is_leaf)[1]


def map(
    function: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Apply ``function`` to corresponding leaves of trees of one structure.

    Raises:
        TreeError: if a tree of ``rest`` does not have the structure of the first.

    Example:
        >>> import fx
        >>> fx.tree.map(lambda a, b: a + b, {"w": 1}, {"w": 2})
        {'w': 3}
    """
    first, treedef = flatten(tree, is_leaf)
    others = [flatten_up_to(treedef, other) for other in rest]
    return unflatten(treedef, [function(*xs) for xs in zip(first, *others, strict=True)])


def flatten_up_to(treedef: Treedef, tree: Any) -> list[Any]:
    """The subtrees of ``tree`` at the leaves of a structure.

    Raises:
        TreeError: if ``tree`` does not begin with that structure.
    """
    flatten(tree)  # registers what the tree holds
    try:
        return treedef.flatten_up_to(tree)
    except (ValueError, TypeError) as error:
        raise TreeError(
            f"the structure {structure(tree)} does not begin with {treedef}: {error}"
        ) from None


def reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    *initializer: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Fold the leaves of ``tree`` with ``function``, from the first to the last."""
    import functools

    return functools.reduce(function, leaves(tree, is_leaf), *initializer)


def reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _NOTHING,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Combine the leaves of ``tree`` in pairs, and the results in pairs, until one is left.

    Args:
        operation: associative; takes two neighbours.
        tree: a pytree.
        identity: the answer for a tree without leaves.
        is_leaf: as in ``flatten``.

    Raises:
        TreeError: for a tree without leaves, if there is no ``identity``.

    Example:
        >>> import fx
        >>> fx.tree.reduce_associative(lambda a, b: f"({a}{b})", list("abcde"))
        '(((ab)(cd))e)'
    """
    values = leaves(tree, is_leaf)
    if not values:
        if identity is _NOTHING:
            raise TreeError(
                "reduce_associative: the tree has no leaves; write identity= for the answer then"
            )
        return identity
    while len(values) > 1:
        pairs = [operation(*values[i : i + 2]) for i in range(0, len(values) - 1, 2)]
        values = [*pairs, *values[len(pairs) * 2 :]]
    return values[0]


def all(tree: Any, *, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether every leaf is true."""
    return not any(not leaf for leaf in leaves(tree, is_leaf))


def broadcast(prefix: Any, tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """A tree of the structure of ``tree`` with the leaves of ``prefix``, each repeated below it.

    Raises:
        TreeError: if ``prefix`` is no tree that ``tree`` begins with.

    Example:
        >>> import fx
        >>> fx.tree.broadcast((0, None), ([1, 2], None))
        ([0, 0], None)
    """
    values, treedef = flatten(prefix, is_leaf)
    return unflatten(
        treedef,
        [
            map(lambda _, value=value: value, below, is_leaf=is_leaf)
            for value, below in zip(values, flatten_up_to(treedef, tree), strict=True)
        ],
    )


def flatten_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[Any, Any]], Treedef]:
    """Pairs of a path and a leaf, and the structure.

    A path is a tuple of keys: ``DictKey``, ``SequenceKey``, ``GetAttrKey``, ``FlattenedIndexKey``
    of ``fx.tree_util``.

    Example:
        >>> import fx
        >>> for path, leaf in fx.tree.flatten_with_path({"w": [1, 2]})[0]:
        ...     print(fx.tree_util.keystr(path), leaf)
        ['w'][0] 1
        ['w'][1] 2
    """
    flatten(tree, is_leaf)
    paths, values, treedef = optree.tree_flatten_with_accessor(tree, is_leaf, namespace=NAMESPACE)
    return [(path_of(path), value) for path, value in zip(paths, values, strict=True)], treedef


def leaves_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[tuple[Any, Any]]:
    """Pairs of a path and a leaf."""
    return flatten_with_path(tree, is_leaf)[0]


def map_with_path(
    function: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """``map`` with the path as first argument."""
    pairs, treedef = flatten_with_path(tree, is_leaf)
    others = [flatten_up_to(treedef, other) for other in rest]
    return unflatten(
        treedef, [function(p, x, *xs) for (p, x), *xs in zip(pairs, *others, strict=True)]
    )


def transpose(outer: Treedef, inner: Treedef, tree: Any) -> Any:
    """Turn a tree of trees inside out.

    Args:
        outer: the structure of ``tree`` whose leaves are trees.
        inner: the structure of those.
        tree: of ``outer`` outside and ``inner`` inside.

    Example:
        >>> import fx
        >>> pairs = [(1, "a"), (2, "b")]
        >>> fx.tree.transpose(fx.tree.structure([0, 0]), fx.tree.structure((0, 0)), pairs)
        ([1, 2], ['a', 'b'])
    """
    return optree.tree_transpose(outer, inner, tree)


def register_node(
    cls: type,
    flatten_node: Callable[[Any], tuple[Any, ...]],
    unflatten_node: Callable[[Any, Any], Any],
) -> None:
    """Make a class a node.

    Args:
        cls: the class.
        flatten_node: gives the children and hashable auxiliary data.
        unflatten_node: ``(aux, children) -> instance``.
    """
    for namespace in (NAMESPACE, ORDERED):
        optree.register_pytree_node(cls, flatten_node, unflatten_node, namespace=namespace)


def is_node(cls: type) -> bool:
    """Whether instances of ``cls`` are nodes; of a dataclass that was not met yet, False."""
    found = optree.register_pytree_node.get(cls, namespace=NAMESPACE)
    return found is not None


def _register_class(cls: type) -> bool:
    """Register a dataclass or attrs class; False, and a note of it, for any other type."""
    if cls in _LEAF_CLASSES:
        return False
    if cls in _NODES:  # an instance that is told to be a leaf
        return False
    if dataclasses.is_dataclass(cls):
        names = tuple(f.name for f in dataclasses.fields(cls))
    elif hasattr(cls, "__attrs_attrs__"):
        names = tuple(f.name for f in cls.__attrs_attrs__)
    else:
        own = cls.__module__.partition(".")[0] in ("builtins", "fx", "numpy")
        (_LEAF_TYPES if own else _LEAF_CLASSES).add(cls)
        return False

    def flatten_node(value: Any) -> tuple[tuple[Any, ...], None, tuple[str, ...]]:
        return tuple(getattr(value, name) for name in names), None, names

    def unflatten_node(_: Any, children: Any) -> Any:
        # not through __init__: converters and validators must not meet tracers or None
        value: Any = object.__new__(cls)
        for name, child in zip(names, children, strict=True):
            object.__setattr__(value, name, child)
        return value

    register_node(cls, flatten_node, unflatten_node)
    _NODES.add(cls)
    return True


_in_order = optree.dict_insertion_ordered(True, namespace=ORDERED)  # as long as this is held
_in_order.__enter__()
