"""Collation; torch is the oracle."""

from collections import OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np
import pytest

import fx
from fx.data import default_collate, default_convert
from fx.data._utils.collate import collate, default_collate_fn_map
from fx.errors import ShapeError

torch = pytest.importorskip("torch")
TD = torch.utils.data


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    "samples",
    [
        [1.5, 2.5],
        [1, 2],
        [True, False],
        ["a", "b"],
        [np.float32(1), np.float32(2)],
        [np.ones((2, 2), "int32")] * 3,
        [(1, 2.0), (3, 4.0)],
        [[1, "x"], [2, "y"]],
        [Pair(1, "x"), Pair(2, "y")],
        [{"a": 1, "b": (2, 3)}, {"a": 4, "b": (5, 6)}],
        [OrderedDict(a=1.0), OrderedDict(a=2.0)],
        [UserDict(a=1.0), UserDict(a=2.0)],
        [defaultdict(list, a=1), defaultdict(list, a=2)],
        [MappingProxyType({"a": 1}), MappingProxyType({"a": 2})],
        [deque([1, 2.0]), deque([3, 4.0])],
        [UserList([1, 2.0]), UserList([3, 4.0])],
        [range(2), range(3, 5)],
        [b"a", b"b"],
        [np.bool_(True), np.bool_(False)],
        [np.array(1.5), np.array(2.5)],
        [np.zeros((0, 3)), np.zeros((0, 3))],
        [np.ones((2, 3)).T, np.ones((2, 3)).T],
        [{"a": [np.ones(2, "f4"), (1, "x")]}, {"a": [np.zeros(2, "f4"), (2, "y")]}],
    ],
    ids=str,
)
def test_default_collate_is_torchs(samples):
    def compare(a, b):
        if isinstance(b, torch.Tensor):
            assert isinstance(a, fx.Tensor) and a.numpy().dtype == b.numpy().dtype
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        elif isinstance(b, Mapping):
            assert type(a) is type(b) and list(a) == list(b)
            for k in b:
                compare(a[k], b[k])
        elif isinstance(b, str | bytes | int):
            assert a == b
        else:
            assert type(a) is type(b) or {type(a), type(b)} == {list, tuple}
            assert len(a) == len(b)
            for x, y in zip(a, b):
                compare(x, y)

    compare(default_collate(samples), TD.default_collate(samples))


def test_single_samples_are_converted():
    sample = {"a": np.ones(2), "b": (1, np.float32(2)), "c": "x", "d": Pair(1, np.zeros(1))}
    got, expected = default_convert(sample), TD.default_convert(sample)
    assert type(got["b"]) is type(expected["b"]) and type(got["d"]) is Pair
    assert isinstance(got["a"], fx.Tensor) and isinstance(got["d"].b, fx.Tensor)
    assert got["b"][0] == 1 and got["c"] == "x" and got["b"][1].dtype == fx.float32


def test_what_collation_refuses():
    with pytest.raises(ShapeError, match=r"must have one shape, got \(2,\), \(3,\); pad them"):
        default_collate([fx.ones(2), fx.ones(3)])
    with pytest.raises(ShapeError, match="each element in list of batch should be of equal size"):
        default_collate([[1, 2], [1]])
    with pytest.raises(TypeError, match="found <class 'object'>; give the DataLoader a collate_fn"):
        default_collate([object()])


def test_types_of_the_user_are_collated_with_their_own_rule(monkeypatch):
    class Point:
        def __init__(self, x):
            self.x = x

    def points(batch, *, collate_fn_map):
        return sum(p.x for p in batch)

    with pytest.raises(TypeError, match="found <class"):
        default_collate([Point(1), Point(2)])
    monkeypatch.setitem(default_collate_fn_map, Point, points)
    assert default_collate([(Point(1), "a"), (Point(2), "b")])[0] == 3
    rules = {(int, float): lambda batch, *, collate_fn_map: max(batch)}
    assert collate([{"a": 1}, {"a": 2}], collate_fn_map=rules) == {"a": 2}
    assert collate([{"a": True}], collate_fn_map=rules) == {"a": True}


@pytest.mark.parametrize(
    "value",
    [
        np.float64(1.5), np.str_("x"), np.array(["a"]), np.array([1, 2]), deque([np.ones(1)]),
        UserDict(a=np.ones(1)), range(2), {"a": {"b": np.ones(1)}}, "text", b"bytes", None,
    ],
    ids=str,
)  # fmt: skip
def test_default_convert_is_torchs(value):
    ours, theirs = default_convert(value), TD.default_convert(value)
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, fx.Tensor) and ours.numpy().dtype == theirs.numpy().dtype
    else:
        assert type(ours) is type(theirs) and len(str(ours)) > 0


def test_tensors_that_are_no_plain_arrays_are_stacked():
    x = fx.ones(2, requires_grad=True)
    out = default_collate([x, x * 3])
    out.sum().backward()
    assert out.tolist() == [[1, 1], [3, 3]] and x.grad.tolist() == [4, 4]
    with fx.device("meta"):
        assert default_collate([fx.ones(2), fx.ones(2)]).shape == (2, 2)
    assert default_collate([fx.nn.Parameter(fx.ones(2))]).shape == (1, 2)
    assert default_collate([np.ones(2, "i8"), np.ones(2, "f8")]).dtype == fx.float64
