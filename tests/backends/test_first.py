"""The first elements of short rows in order, classes as rows, places of elements: against NumPy."""

from __future__ import annotations

import random

import numpy as np
import pytest

import fx
import fx.nn.functional as F
from fx import limits
from fx.backends.cpu import index, sort
from tests.backends.test_tiny_limits import TURNS as OF_FLOATS

TURNS = {
    **OF_FLOATS,
    "inside": lambda a: np.pad(a, [(1, 2)] * a.ndim)[tuple(slice(1, n + 1) for n in a.shape)],
}

DTYPES = ("float32", "float64", "float16", "int64", "int32", "uint8", "int8", "uint64", "int16")


def drawn(choose, shape, dtype):
    """Few different values, some of them NaN, infinite or minus zero."""
    rng = np.random.default_rng(choose.randrange(1 << 30))
    if dtype.startswith("float"):
        values = np.array([-1.5, -0.0, 0.0, 2.0, 7.25, np.nan, np.inf, -np.inf])
    else:
        info = np.iinfo(dtype)
        values = np.array([info.min, info.max, 1, 2, 3, 100], dtype)
    return rng.choice(values, shape).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(6))
def test_first_is_the_stable_order(seed, dtype):
    choose = random.Random(f"{seed} {dtype}")
    shape = (choose.choice([1, 3, 7]), choose.choice([1, 2, 15, 16, 40, 64, 65, 100, 300, 5000]))
    x = TURNS[choose.choice(sorted(TURNS))](drawn(choose, shape, dtype))
    n = shape[1]
    for k in {1, n, choose.randint(1, n)}:
        for largest in (False, True):
            order = sort._stable(x, largest)[:, :k]
            for which in (limits.given(EARLY_CALLS=0), limits.tiny()):
                with which:
                    got = sort.first(x, k=k, axis=1, largest=largest)
                    np.testing.assert_array_equal(got[1], order)
                    np.testing.assert_array_equal(got[0], np.take_along_axis(x, order, 1))
                    assert got[0].dtype == x.dtype


@pytest.mark.parametrize("way", [lambda f: f, fx.jit], ids=["eager", "jit"])
def test_gradients_go_to_where_elements_came_from(way):
    x = fx.tensor(np.random.default_rng(0).permutation(24).reshape(4, 6) * 1.0)
    weight = fx.tensor(np.arange(12.0).reshape(4, 3))
    for values in (lambda x: x.topk(3).values, lambda x: x.sort(descending=True).values[:, :3]):
        got = way(fx.grad(lambda x, f=values: (f(x) * weight).sum()))(x)
        want = np.zeros((4, 6))
        places = np.argsort(-x.numpy(), 1)[:, :3]
        np.put_along_axis(want, places, weight.numpy(), 1)
        np.testing.assert_array_equal(got.numpy(), want)
        leaf = x.detach().requires_grad_()
        (values(leaf) * weight).sum().backward()
        np.testing.assert_array_equal(leaf.grad.numpy(), want)


@pytest.mark.parametrize("dtype", [None, fx.float32, fx.float64, fx.int32, fx.bool])
@pytest.mark.parametrize("shape", [(), (5,), (2, 0), (3, 4)])
def test_classes_as_rows(shape, dtype):
    x = np.random.default_rng(0).integers(0, 7, shape)
    want = np.eye(7)[x]
    for how in (lambda x: fx.one_hot(x, 7, dtype=dtype), fx.vmap(lambda x: fx.one_hot(x, 7))):
        if shape:
            got = how(fx.tensor(x))
            np.testing.assert_array_equal(got.numpy(), want)
    assert fx.one_hot(fx.tensor(x), 7, dtype=dtype).dtype == (dtype or fx.int64)
    for bad in ([7], [-1], [0, 3, 99]):
        with pytest.raises(fx.errors.IndexingError, match=r"outside of 0\.\.6, of 7 classes"):
            F.one_hot(fx.tensor(bad), 7)


@pytest.mark.parametrize("seed", range(20))
def test_places_in_any_layout(seed):
    choose = random.Random(seed)
    shape = [choose.choice([1, 2, 5, 9]) for _ in range(choose.randint(1, 3))]
    axis = choose.randrange(len(shape))
    at = [choose.choice([1, 4, 12]) if i == axis else n for i, n in enumerate(shape)]
    dtype = choose.choice(["float32", "int8", "complex128", "float16", "bool", "int64"])
    rng = np.random.default_rng(seed)
    x, u = ((rng.standard_normal(s) * 9).astype(dtype) for s in (shape, at))
    idx = rng.integers(-shape[axis], shape[axis], at)
    if len(shape) > 1:
        x, u, idx = (TURNS[choose.choice(sorted(TURNS))](a) for a in (x, u, idx))
    grid = list(np.ogrid[tuple(map(slice, at))])
    grid[axis] = idx
    np.testing.assert_array_equal(index.take_along_axis(x, idx, axis=axis), x[tuple(grid)])
    want = x.copy()
    for i in np.ndindex(*at):
        to = list(i)
        to[axis] = idx[i]
        want[tuple(to)] = u[i]
    got = index.scatter_along_axis(x, idx, u, axis=axis, mode="set")
    np.testing.assert_array_equal(got, want)
    if dtype in ("float32", "int64"):
        for mode, joined in (("add", np.add), ("max", np.maximum), ("mul", np.multiply)):
            want = x.copy()
            joined.at(want, tuple(grid), u)
            got = index.scatter_along_axis(x, idx, u, axis=axis, mode=mode)
            np.testing.assert_array_equal(got, want)
    bad = idx.copy()
    bad.reshape(-1)[-1] = shape[axis]
    with pytest.raises(IndexError, match=f"index {shape[axis]} is out of range"):
        index.take_along_axis(x, bad, axis=axis)
    with pytest.raises(IndexError, match=f"index {shape[axis]} is out of range"):
        index.scatter_along_axis(x, bad, u, axis=axis, mode="set")
