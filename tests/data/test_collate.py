"""Collation; torch is the oracle."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import fx
from fx.data import default_collate, default_convert
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
    ],
    ids=str,
)
def test_default_collate_is_torchs(samples):
    def compare(a, b):
        if isinstance(b, torch.Tensor):
            assert isinstance(a, fx.Tensor) and a.numpy().dtype == b.numpy().dtype
            np.testing.assert_array_equal(a.numpy(), b.numpy())
        elif isinstance(b, dict):
            assert type(a) is type(b) and list(a) == list(b)
            for k in b:
                compare(a[k], b[k])
        elif isinstance(b, str):
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
