"""What ``fx/JAX.md`` says of names that differ."""

import numpy as np
import pytest

import fx

X = fx.tensor([[1.0, 4.0], [3.0, 2.0]])


def test_what_a_name_means():
    assert fx.max(X, 1).tolist() == [4, 3] and X.max(1).indices.tolist() == [1, 0]
    assert fx.sort(X, 0).shape == (2, 2) and X.sort(0).values.shape == (2, 2)
    assert fx.std(X).item() == pytest.approx(X.std(ddof=0).item())
    assert X.std().item() == pytest.approx(np.std(X.numpy(), ddof=1))
    assert [len(p) for p in fx.split(fx.arange(6), 4)] == [4, 2]
    assert [len(p) for p in fx.array_split(fx.arange(6), 4)] == [2, 2, 1, 1]
    assert fx.tensor([1, 2]).repeat(2).tolist() == [1, 2, 1, 2]
    assert fx.repeat(fx.tensor([1, 2]), 2).tolist() == [1, 1, 2, 2]
    assert fx.nn.gelu(X).tolist() != fx.gelu(X).tolist() == fx.nn.functional.gelu(X).tolist()
    assert fx.nn.one_hot(fx.tensor(1), 2).dtype == fx.float32
    assert fx.nn.functional.one_hot(fx.tensor(1), 2).dtype == fx.int64
    assert fx.tensor(1).dtype == fx.int64 and fx.tensor(1.0, dtype=fx.float64).dtype == fx.float64
    with pytest.raises(IndexError):
        X[5]
    with pytest.raises(fx.errors.DTypeError):
        fx.where(X, 1.0, 2.0)
    assert fx.random.PRNGKey(3).tolist() == fx.random.key(3).tolist()


def test_values_decide_under_jit():
    assert fx.jit(lambda x: x[x > 2])(X).tolist() == [4, 3]
    assert fx.jit(lambda x: x * 2 if x.sum() > 0 else x)(X).tolist() == [[2, 8], [6, 4]]
