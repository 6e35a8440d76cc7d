"""Pytrees by the names of ``jax.tree_util``; ``fx.tree`` has them without ``tree_`` in front."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

import optree

from fx import tree
from fx.errors import TreeError
from fx.paths import DictKey as DictKey
from fx.paths import FlattenedIndexKey as FlattenedIndexKey
from fx.paths import GetAttrKey as GetAttrKey
from fx.paths import SequenceKey as SequenceKey
from fx.paths import keystr as keystr
from fx.tree import NAMESPACE, Treedef, is_node, register_node

PyTreeDef = Treedef
tree_all = tree.all
tree_broadcast = tree.broadcast
tree_flatten = tree.flatten
tree_flatten_with_path = tree.flatten_with_path
tree_leaves = tree.leaves
tree_leaves_with_path = tree.leaves_with_path
tree_map = tree.map
tree_map_with_path = tree.map_with_path
tree_reduce = tree.reduce
tree_reduce_associative = tree.reduce_associative
tree_structure = tree.structure
tree_transpose = tree.transpose
tree_unflatten = tree.unflatten
Class = TypeVar("Class", bound=Any)


# classes that become nodes ----------------------------------------------------------------------


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Make a class a node of pytrees.

    Args:
        nodetype: the class.
        flatten_func: from an instance to its children and hashable auxiliary data.
        unflatten_func: ``(auxiliary data, children) -> instance``.
        flatten_with_keys_func: like ``flatten_func``, with pairs of a key and a child; the keys
            stand in paths.

    Raises:
        TreeError: if the class is a node already.

    Example:
        >>> import fx
        >>> class Point:
        ...     def __init__(self, x, y):
        ...         self.x, self.y = x, y
        >>> fx.tree_util.register_pytree_node(
        ...     Point, lambda p: ((p.x, p.y), None), lambda _, children: Point(*children)
        ... )
        >>> fx.grad(lambda p: p.x * p.y)(Point(2.0, 3.0)).x
        tensor(3.)
    """
    if is_node(nodetype):
        raise TreeError(
            f"{nodetype.__name__} is a node of pytrees already; dataclasses become one when they "
            f"are first met: register them before"
        )
    flatten_node: Callable[[Any], tuple[Any, ...]] = flatten_func
    if flatten_with_keys_func is not None:
        with_keys = flatten_with_keys_func

        def flatten_node(node: Any) -> tuple[Any, ...]:
            pairs, aux = with_keys(node)
            keys, children = zip(*pairs, strict=True) if pairs else ((), ())
            return children, aux, keys

    register_node(nodetype, flatten_node, unflatten_func)


def register_pytree_node_class(cls: Class) -> Class:
    """Make a class with ``tree_flatten`` and ``tree_unflatten`` a node; a decorator.

    Example:
        >>> import fx
        >>> @fx.tree_util.register_pytree_node_class
        ... class Scaled:
        ...     def __init__(self, value, unit):
        ...         self.value, self.unit = value, unit
        ...
        ...     def tree_flatten(self):
        ...         return (self.value,), self.unit
        ...
        ...     @classmethod
        ...     def tree_unflatten(cls, unit, children):
        ...         return cls(*children, unit)
        >>> fx.tree.leaves(Scaled(3, "m"))
        [3]
    """
    register_pytree_node(cls, cls.tree_flatten, cls.tree_unflatten)
    return cls


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """``register_pytree_node`` of a class whose children have keys in paths."""
    register_pytree_node(
        nodetype, flatten_func or flatten_with_keys, unflatten_func, flatten_with_keys
    )


def register_pytree_with_keys_class(cls: Class) -> Class:
    """Make a class with ``tree_flatten_with_keys`` and ``tree_unflatten`` a node; a decorator."""
    register_pytree_with_keys(cls, cls.tree_flatten_with_keys, cls.tree_unflatten)
    return cls


def register_dataclass(
    nodetype: Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Class:
    """Make a dataclass a node some of whose fields belong to its structure; a decorator, too.

    A dataclass that is not registered becomes a node with all its fields when it is first met.

    Args:
        nodetype: the class.
        data_fields: whose values are children; all that are not in ``meta_fields`` unless told. A
            field of ``field(metadata={"static": True})`` is a meta field.
        meta_fields: whose values belong to the structure: hashable, compared by ``==``.
        drop_fields: left out, and set anew by the class's ``__init__``.

    Raises:
        TreeError: unless the fields named are those of the class, each once, or if it is a node.

    Example:
        >>> import fx
        >>> from dataclasses import dataclass
        >>> from functools import partial
        >>> @partial(fx.tree_util.register_dataclass, data_fields=["w"], meta_fields=["name"])
        ... @dataclass
        ... class Layer:
        ...     w: float
        ...     name: str
        >>> fx.tree.map(lambda w: 2 * w, Layer(1.5, "first"))
        Layer(w=3.0, name='first')
    """
    known = [f for f in fields(nodetype) if f.init] if is_dataclass(nodetype) else []
    if known:
        own = [f.name for f in known if f.name not in drop_fields]
        static = [f.name for f in known if f.metadata.get("static", False)]
        if data_fields is None and meta_fields is None:
            meta_fields = [name for name in own if name in static]
        if meta_fields is None:
            meta_fields = [name for name in own if name not in (data_fields or ())]
        if data_fields is None:
            data_fields = [name for name in own if name not in meta_fields]
        told = sorted([*data_fields, *meta_fields])
        if told != sorted(own):
            raise TreeError(
                f"register_dataclass: the fields of {nodetype.__name__} are {', '.join(own)}, "
                f"got {', '.join(told)}; write each once, in data_fields or in meta_fields"
            )
    elif data_fields is None or meta_fields is None:
        raise TreeError(
            f"register_dataclass: {nodetype.__name__} is no dataclass; "
            f"write data_fields=[...] and meta_fields=[...]"
        )
    data, meta = tuple(data_fields), tuple(meta_fields)

    def flatten_with_keys(node: Any) -> tuple[Any, Any]:
        return (
            tuple([(GetAttrKey(name), getattr(node, name)) for name in data]),
            tuple([getattr(node, name) for name in meta]),
        )

    def unflatten(aux: Any, children: Any) -> Any:
        values = dict(zip((*data, *meta), (*children, *aux), strict=True))
        return nodetype(**values)

    register_pytree_with_keys(nodetype, flatten_with_keys, unflatten)
    return nodetype


def register_static(cls: Class) -> Class:
    """Make a class a node without children: its instances belong to the structure; a decorator.

    They are hashed and compared by ``==``, so that ``jit`` compiles anew for another one.

    Example:
        >>> import fx
        >>> @fx.tree_util.register_static
        ... class Mode(str):
        ...     pass
        >>> fx.tree.leaves([1, Mode("fast")])
        [1]
    """
    register_pytree_node(cls, lambda node: ((), node), lambda node, _: node)
    return cls


class Partial(functools.partial):  # type: ignore[type-arg]
    """``functools.partial`` as a node: its arguments are children, its function is structure.

    Example:
        >>> import fx
        >>> scale = fx.tree_util.Partial(lambda a, x: a * x, 3.0)
        >>> fx.jit(lambda f, x: f(x))(scale, fx.tensor(2.0))
        tensor(6.)
    """


register_pytree_node(
    Partial,
    lambda p: ((p.args, p.keywords), p.func),
    lambda function, children: Partial(function, *children[0], **children[1]),
)


# structures -------------------------------------------------------------------------------------


def treedef_tuple(treedefs: Iterable[Treedef]) -> Treedef:
    """The structure of a tuple of trees of these structures."""
    return optree.treespec_tuple(treedefs, namespace=NAMESPACE)


def treedef_children(treedef: Treedef) -> list[Treedef]:
    """The structures of the children of a structure's root."""
    return treedef.children()


def treedef_is_leaf(treedef: Treedef) -> bool:
    """Whether it is the structure of a leaf, of None or of an empty container."""
    return treedef.num_nodes == 1


def all_leaves(iterable: Iterable[Any], is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether every element is a leaf itself.

    Example:
        >>> import fx
        >>> fx.tree_util.all_leaves([1, "a"]), fx.tree_util.all_leaves([1, (2,)])
        (True, False)
    """
    return all(tree_structure(x, is_leaf).is_leaf() for x in iterable)


def is_tree_node(typ: type) -> bool:
    """Whether the instances of a class are nodes.

    Example:
        >>> import fx
        >>> fx.tree_util.is_tree_node(dict), fx.tree_util.is_tree_node(int)
        (True, False)
    """
    return is_node(typ)
