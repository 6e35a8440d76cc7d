"""``fx.tree_util`` and ``fx.flatten_util`` against JAX's."""

from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest

import fx
import fx.flatten_util
from fx import tree_util as ours
from fx.errors import DTypeError, ShapeError, TreeError

theirs = pytest.importorskip("jax").tree_util
Pair = namedtuple("Pair", "a b")
TREES = {
    "leaf": 1,
    "none": None,
    "nested": {"b": [1, (2, 3)], "a": Pair(4, {"x": 5})},
    "dicts": [OrderedDict(z=1, y=2), defaultdict(list, q=3), {}],
    "empty": ((), [], {"k": None}),
}


@pytest.mark.parametrize("name", TREES)
def test_as_in_jax(name):
    tree = TREES[name]
    assert ours.tree_leaves(tree) == theirs.tree_leaves(tree)
    paths = [ours.keystr(path) for path, _ in ours.tree_leaves_with_path(tree)]
    assert paths == [theirs.keystr(path) for path, _ in theirs.tree_leaves_with_path(tree)]
    simple = [
        ours.keystr(path, simple=True, separator="/")
        for path, _ in ours.tree_flatten_with_path(tree)[0]
    ]
    assert simple == [
        theirs.keystr(path, simple=True, separator="/")
        for path, _ in theirs.tree_flatten_with_path(tree)[0]
    ]
    for util in (ours, theirs):
        leaves, treedef = util.tree_flatten(tree)
        assert util.tree_unflatten(treedef, leaves) == tree
        assert util.treedef_is_leaf(treedef) == (name in ("leaf", "none"))
        assert treedef.num_leaves == len(leaves)
        both = util.treedef_tuple([treedef, treedef])
        assert util.treedef_children(both) == [treedef, treedef]
    doubled = ours.tree_map_with_path(lambda path, x: (len(path), x), tree)
    assert doubled == theirs.tree_map_with_path(lambda path, x: (len(path), x), tree)
    assert ours.tree_reduce(lambda a, b: a * 10 + b, tree, 0) == theirs.tree_reduce(
        lambda a, b: a * 10 + b, tree, 0
    )
    assert ours.tree_all(tree) == theirs.tree_all(tree)


def test_leaves_that_are_told():
    tree = {"a": (1, 2), "b": [(3, 4)]}
    for util in (ours, theirs):
        assert util.tree_leaves(tree, is_leaf=lambda x: type(x) is tuple) == [(1, 2), (3, 4)]
        assert util.tree_map(sum, tree, is_leaf=lambda x: type(x) is tuple) == {"a": 3, "b": [7]}
        assert util.tree_reduce(max, tree, is_leaf=lambda x: type(x) is tuple) == (3, 4)
        assert util.all_leaves([1, 2]) and not util.all_leaves([1, [2]])


def test_prefixes():
    for util in (ours, theirs):
        whole = {"a": [1, 2], "b": (3, (4,))}
        assert util.tree_broadcast({"a": 0, "b": (5, 6)}, whole) == {"a": [0, 0], "b": (5, (6,))}
    with pytest.raises(TreeError, match="does not begin with"):
        ours.tree_broadcast((1, 2), [3, 4])
    outer, inner = (ours.tree_structure(t) for t in ([0, 0], {"a": 0, "b": 0}))
    turned = ours.tree_transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    assert turned == {"a": [1, 3], "b": [2, 4]}


def test_pairwise():
    for n in range(1, 9):
        words = [chr(97 + i) for i in range(n)]
        assert ours.tree_reduce_associative(lambda a, b: a + b, words) == "".join(words)
        depth = ours.tree_reduce_associative(lambda a, b: max(a, b) + 1, [0] * n)
        assert depth == (n - 1).bit_length()
    assert ours.tree_reduce_associative(max, [], identity=7) == 7
    with pytest.raises(TreeError, match="write identity="):
        ours.tree_reduce_associative(max, [])


def test_classes_of_users():
    def declare(util):
        @util.register_pytree_node_class
        class Scaled:
            def __init__(self, x, unit):
                self.x, self.unit = x, unit

            def tree_flatten(self):
                return (self.x,), self.unit

            @classmethod
            def tree_unflatten(cls, unit, children):
                return cls(*children, unit)

        @util.register_pytree_with_keys_class
        class Keyed:
            def __init__(self, *xs):
                self.xs = xs

            def tree_flatten_with_keys(self):
                return [(util.GetAttrKey(f"x{i}"), x) for i, x in enumerate(self.xs)], None

            @classmethod
            def tree_unflatten(cls, _, children):
                return cls(*children)

        @partial(util.register_dataclass, data_fields=["w"], meta_fields=["name"])
        @dataclass
        class Layer:
            w: object
            name: str

        @util.register_dataclass
        @dataclass
        class Marked:
            w: object
            kind: str = field(metadata={"static": True}, default="a")

        @util.register_static
        class Mode(str):
            pass

        tree = [Scaled(1, "m"), Keyed(2, (3,)), Layer(4, "n"), Marked(5), Mode("fast")]
        paths = [util.keystr(path) for path, _ in util.tree_leaves_with_path(tree)]
        again = util.tree_map(lambda x: x * 2, tree)
        same = util.tree_structure(tree) == util.tree_structure(again)
        other = util.tree_structure(Layer(0, "other")) == util.tree_structure(Layer(0, "n"))
        return paths, util.tree_leaves(again), again[0].unit, again[2].name, same, other

    assert declare(ours) == declare(theirs)


def test_registering_is_checked():
    @dataclass
    class Point:
        x: float
        y: float

    with pytest.raises(TreeError, match="the fields of Point are x, y, got x; write each once"):
        ours.register_dataclass(Point, ["x"], [])
    fx.tree.leaves(Point(1.0, 2.0))  # it is a node from here on
    with pytest.raises(TreeError, match="a node of pytrees already"):
        ours.register_dataclass(Point, ["x"], ["y"])
    with pytest.raises(TreeError, match="no dataclass"):
        ours.register_dataclass(int)


def test_partial():
    scale = ours.Partial(lambda a, x, b: a * x + b, fx.tensor(3.0), b=fx.tensor(1.0))
    assert float(fx.jit(lambda f, x: f(x))(scale, fx.tensor(2.0))) == 7
    slope = fx.grad(lambda f: f(fx.tensor(2.0)))(scale)
    assert float(slope.args[0]) == 2 and float(slope.keywords["b"]) == 1


# vectors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "tree",
    [
        {"w": np.ones((2, 3), np.float32), "b": [np.arange(2, dtype=np.float32), 2.5]},
        (np.arange(3, dtype=np.int32), np.ones((), np.float32)),
        [],
        np.ones((2, 1, 2)),
    ],
    ids=["model", "mixed", "empty", "leaf"],
)
def test_ravel(tree):
    from jax.flatten_util import ravel_pytree

    want, back = ravel_pytree(tree)
    given = fx.tree.map(lambda x: fx.asarray(x) if isinstance(x, np.ndarray) else x, tree)
    got, mine = fx.flatten_util.ravel_pytree(given)
    np.testing.assert_array_equal(got.numpy(), want)
    again = mine(got * 2)
    for a, b in zip(fx.tree.leaves(again), theirs.tree_leaves(back(want * 2)), strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
        assert a.shape == b.shape


def test_ravel_is_differentiable():
    w, back = fx.flatten_util.ravel_pytree({"a": fx.ones(2), "b": fx.ones(2, 2)})

    def loss(w):
        p = back(w)
        return (p["a"] ** 2).sum() + (p["b"] ** 3).sum()

    np.testing.assert_array_equal(fx.grad(loss)(w).numpy(), [2, 2, 3, 3, 3, 3])
    np.testing.assert_array_equal(fx.hessian(loss)(w).diagonal().numpy(), [2, 2, 6, 6, 6, 6])
    with pytest.raises(ShapeError, match=r"takes a vector \(6,\), got \(5,\)"):
        back(fx.ones(5))
    mixed = fx.flatten_util.ravel_pytree([fx.ones(1), fx.ones(1, dtype=fx.int32)])[1]
    with pytest.raises(DTypeError, match=r"write x.astype\(fx.float"):
        mixed(fx.ones(2, dtype=fx.int64))
