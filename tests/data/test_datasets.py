"""Datasets; torch is the oracle where there is one."""

import numpy as np
import pytest

import fx
from fx.data import ConcatDataset, Subset, TensorDataset, random_split
from fx.errors import ShapeError

torch = pytest.importorskip("torch")
TD = torch.utils.data


def tensors(n=11):
    return fx.arange(3.0 * n).reshape(n, 3), fx.arange(n)


def test_tensor_dataset():
    x, y = tensors()
    data = TensorDataset(x, y)
    assert len(data) == 11
    np.testing.assert_array_equal(data[-1][0].numpy(), x[10].numpy())
    with pytest.raises(
        ShapeError, match=r"size mismatch between tensors of shapes \(11, 3\), \(4,\)"
    ):
        TensorDataset(x, y[:4])


def test_subset_and_concat():
    both = Subset(range(10), [5, 6, 7]) + Subset(range(10), [1])
    assert isinstance(both, ConcatDataset)
    assert [both[i] for i in range(-4, 4)] == [5, 6, 7, 1, 5, 6, 7, 1]
    with pytest.raises(IndexError, match="index 4 is out of range for 4 samples"):
        both[4]


@pytest.mark.parametrize(
    "lengths", [[7, 3], [0.75, 0.25], [0.33, 0.33, 0.34], [10], [1.0], [0, 10]]
)
def test_random_split_sizes_are_torchs(lengths):
    fx.manual_seed(0)
    parts = random_split(range(10), lengths)
    assert [len(p) for p in parts] == [len(p) for p in TD.random_split(range(10), lengths)]
    assert sorted(i for p in parts for i in p) == list(range(10))


def test_random_split_repeats_and_refuses():
    a, b = (random_split(range(30), [20, 10], fx.Generator().manual_seed(1)) for _ in range(2))
    assert a[0].indices == b[0].indices != list(range(20))
    with pytest.raises(ValueError, match=r"the lengths \[5, 6\] must add up to 10"):
        random_split(range(10), [5, 6])
