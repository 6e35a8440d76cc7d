"""Keys: graphs that differ in anything that code may depend on have different ones."""

import itertools

import numpy as np
import pytest

import fx
from fx import limits
from fx.graph.ir import Graph, Node, constant_value, input_value
from fx.graph.key import Writer, graph_key, is_stable
from fx.prims.elementwise import negative
from fx.spec import TensorSpec
from fx.tensor import new_tensor

# parameters of which no two are the same, though Python calls some equal or shows them alike
DATA = [
    None, False, True, 0, 1, 0.0, -0.0, 1.0, 1 + 2**-52, float("inf"), float("nan"),
    0.1, 0.1 + 2**-56, 0j, complex(0.0, -0.0), complex(-0.0, 0.0), 1j, "", "0", "None", b"", b"0",
    ..., (), [0], (0,), ((0,),), (0, 1), (1, 0), (0, 10), "0,1", ("0,1",), ("0", "1"),
    slice(0), slice(0, 1), slice(0, 1, 2), slice(0, 1, 1), slice(None, 1),
    {}, {"a": 0}, {"a": 1}, {"b": 0}, frozenset(), frozenset([0]),
    np.float32(0), np.float64(0), np.float32(-0.0), np.int32(0), np.int64(0), np.bool_(False),
    np.dtype("f4"), np.dtype("f8"), np.dtype("i4"),
    TensorSpec((2,), np.dtype("f4"), "cpu"), TensorSpec((2,), np.dtype("i4"), "cpu"),
    TensorSpec((1, 2), np.dtype("f4"), "cpu"), TensorSpec((2,), np.dtype("f4"), "meta"),
]  # fmt: skip


def test_no_two_parameters_share_a_text():
    texts = [Writer().data(x) for x in DATA]
    same = [(DATA[i], DATA[j]) for i, j in itertools.combinations(range(len(DATA)), 2)
            if texts[i] == texts[j] and type(DATA[i]) not in (list, tuple)]  # fmt: skip
    assert not same
    assert texts == [Writer().data(x) for x in DATA]


CONSTANTS = {
    "zeros": np.zeros(2, "f4"),
    "negative zeros": -np.zeros(2, "f4"),
    "integers": np.zeros(2, "i4"),
    "another shape": np.zeros((1, 2), "f4"),
    "wider": np.zeros(1, "f8"),
    "uniform": np.broadcast_to(np.float32(0), (2,)),
    "another uniform": np.broadcast_to(np.float32(1), (2,)),
    "many indices": np.arange(5000),
    "other indices": np.arange(5000)[::-1].copy(),
    "a mask": np.arange(5000) > 7,
    "another mask": np.arange(5000) > 8,
    "many uniform": np.broadcast_to(np.float32(0), (5000,)),
    "many of another": np.broadcast_to(np.float32(2), (5000,)),
}


def of_constant(array):
    return Graph([], [], [constant_value(new_tensor(array))], "f")


@pytest.mark.parametrize("one, other", [*itertools.combinations(CONSTANTS, 2)])
def test_no_two_constants_share_a_key(one, other):
    keys = [graph_key(of_constant(CONSTANTS[name])) for name in (one, other)]
    assert keys[0] != keys[1]
    assert keys[0] == graph_key(of_constant(CONSTANTS[one]))


FUNCTIONS = [
    lambda x: x + 1, lambda x: x + 1.5, lambda x: x * 1.5, lambda x: 1.5 - x, lambda x: x - 1.5,
    lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.sum(1), lambda x: x.sum(0, keepdim=True),
    lambda x: x[1:], lambda x: x[:2], lambda x: x[::2], lambda x: x[:, 1:], lambda x: x.T,
    lambda x: fx.flip(x, axis=0), lambda x: fx.flip(x, axis=1), lambda x: (x, x + 1),
    lambda x: (x + 1, x), lambda x: fx.cumulative_sum(x, axis=0), lambda x: x.double(),
    lambda x: fx.cumulative_sum(x, axis=1), lambda x: fx.fori_loop(0, 2, lambda i, y: y * 2, x),
    lambda x: fx.fori_loop(0, 2, lambda i, y: y * 3, x),
]  # fmt: skip


def test_no_two_functions_share_a_key():
    x = fx.ones((3, 3))
    keys = [graph_key(fx.make_graph(f)(x)) for f in FUNCTIONS]
    assert len({*keys}) == len(keys)
    assert keys == [graph_key(fx.make_graph(f)(x + 1)) for f in FUNCTIONS]
    assert {*keys}.isdisjoint([graph_key(fx.make_graph(f)(fx.ones((3, 4)))) for f in FUNCTIONS])
    assert {*keys}.isdisjoint([graph_key(fx.make_graph(f)(x.double())) for f in FUNCTIONS])


def test_limits_are_part_of_a_key():
    graph = fx.make_graph(FUNCTIONS[0])(fx.ones(3))
    key = graph_key(graph)
    with limits.tiny():
        assert graph_key(graph) != key
    assert graph_key(graph) == key


def test_what_belongs_to_this_process_says_so():
    one, other = object(), object()
    assert Writer().data(one) == Writer().data(one) != Writer().data(other)
    x = input_value(TensorSpec((2,), np.dtype("f4"), "cpu"))
    for params in ({"told": one}, {"told": (1, [one])}):
        node = Node(negative, [x], params, [x.spec], "")
        assert not is_stable(graph_key(Graph([x], [node], [node.out], "f")))
    assert is_stable(graph_key(of_constant(CONSTANTS["zeros"])))
