"""Cumulative operations where the laws do not look: ties, NaN, infinities, zeros, sizes 0 and 1."""

import numpy as np
import pytest

import fx.prims.cumulative as prims
from fx import limits
from fx.errors import AxisError, DTypeError, ShapeError
from tests.prims.tools import INF, INTEGERS, NAN, NARROW, bound, draws, gradients, run, tensor

torch = pytest.importorskip("torch")

NAMES = ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_keep_their_dtype(dtype):
    x = np.array([[3, 1, 2], [2, 2, 5]], dtype)
    for name in ("cumsum", "cumprod"):
        got = run(getattr(prims, name), x, axis=1, reverse=False)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, getattr(np, name)(x, axis=1, dtype=dtype))
    values, indices = run(prims.cummax, x, axis=1, reverse=False)
    assert (values.dtype, indices.dtype) == (dtype, np.int64)
    np.testing.assert_array_equal(values, np.maximum.accumulate(x, 1))


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_floats_are_summed_in_float32(dtype):
    got = run(prims.cumsum, np.ones(4096, dtype), axis=0, reverse=False)
    assert got.dtype == dtype
    assert float(got[-1]) == 4096


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_records_follow_torch_at_ties_and_nan(name, recwarn):
    x = np.array([[1.0, 3.0, 3.0, 2.0, 3.0], [2.0, NAN, 5.0, NAN, 1.0], [INF, 0, -INF, 0, INF]])
    values, indices = run(getattr(prims, name), x, axis=1, reverse=False)
    want = getattr(torch, name)(torch.tensor(x), 1)
    np.testing.assert_array_equal(values, want.values.numpy())
    np.testing.assert_array_equal(indices, want.indices.numpy())
    assert not recwarn.list


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int8"])
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_records_of_lines_longer_than_vectors(name, dtype):
    rng = np.random.default_rng(0)
    for n in (1, 15, 16, 17, 18, 33, 130):
        x = np.round(rng.normal(size=(4, n)) * 20)
        x[1], x[2] = np.sort(x[1]), np.sort(x[2])[::-1]  # all win, and none
        if dtype[0] == "f":
            x[3, rng.random(n) < 0.1] = np.nan
            x[0, rng.random(n) < 0.1] = np.inf
        x = x.astype(dtype)
        wanted = getattr(torch, name)(torch.tensor(x), 1)
        with limits.given(EARLY_CALLS=0):
            found = run(getattr(prims, name), x, axis=1, reverse=False)
            back = run(getattr(prims, name), x[:, ::-1].copy(), axis=1, reverse=True)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(a, b.numpy())
        np.testing.assert_array_equal(back[0][:, ::-1], found[0])
        np.testing.assert_array_equal(n - 1 - back[1][:, ::-1], found[1])


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_the_gradient_belongs_to_the_record(name):
    x = np.array([[1.0, 3.0, 3.0, 2.0, 3.0], [4.0, 2.0, 5.0, 5.0, 1.0]])
    weights = draws(2, 5)
    t = torch.tensor(x, requires_grad=True)
    (getattr(torch, name)(t, 1).values * torch.tensor(weights)).sum().backward()
    function = bound(getattr(prims, name), axis=1, reverse=False)
    np.testing.assert_allclose(gradients(function, x, weights=weights)[0], t.grad.numpy())


def test_the_gradient_of_cumprod_is_right_at_zeros():
    x = np.array([[2.0, 0.0, 3.0, 0.0], [1.0, 2.0, 0.0, 4.0], [0.0, 0.0, 1.0, 1.0]])
    weights = draws(3, 4)
    t = torch.tensor(x, requires_grad=True)
    (t.cumprod(1) * torch.tensor(weights)).sum().backward()
    function = bound(prims.cumprod, axis=1, reverse=False)
    np.testing.assert_allclose(gradients(function, x, weights=weights)[0], t.grad.numpy())


def test_logcumsumexp_is_stable(recwarn):
    x = np.array([[-INF, -INF, 1.0, -INF], [1e4, -1e4, 1e4, 0.0], [0.0, INF, 1.0, 2.0]])
    got = run(prims.logcumsumexp, x, axis=1, reverse=False)
    np.testing.assert_allclose(got, torch.logcumsumexp(torch.tensor(x), 1).numpy(), rtol=1e-12)
    assert not recwarn.list


def test_the_gradient_of_logcumsumexp_is_stable():
    # exp(x - y) over this range overflows when the two exponentials are taken apart
    x = np.array([[-INF, -INF, 1.0, -INF], [-900.0, 0.0, 900.0, 0.0], [3.0, 1.0, 2.0, 2.0]])
    weights = np.abs(draws(3, 4))
    (got,) = gradients(bound(prims.logcumsumexp, axis=1, reverse=False), x, weights=weights)
    total = np.logaddexp.accumulate(x, 1)
    want = np.zeros_like(x)
    for i in range(4):
        for k in range(i, 4):
            gap = x[:, i] - np.where(np.isfinite(total[:, k]), total[:, k], 0)
            want[:, i] += weights[:, k] * np.exp(gap)
    np.testing.assert_allclose(got, want, atol=1e-14)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_lines_of_none_and_one(name, n, reverse):
    x = draws(2, n, 3)
    function = bound(getattr(prims, name), axis=1, reverse=reverse)
    out = function(tensor(x))
    out = out[0] if isinstance(out, tuple) else out
    np.testing.assert_array_equal(out._a, x)
    np.testing.assert_array_equal(gradients(function, x)[0], np.ones_like(x))


def test_recurrence_is_its_loop():
    a, b = draws(2, 5, 3), draws(2, 5, 3, seed=1)
    for reverse in (False, True):
        want, h = np.empty_like(b), np.zeros((2, 3))
        for k in reversed(range(5)) if reverse else range(5):
            h = want[:, k] = a[:, k] * h + b[:, k]
        np.testing.assert_allclose(run(prims.recurrence, a, b, axis=1, reverse=reverse), want)


def test_bad_arguments_are_named():
    x = np.zeros((2, 3))
    with pytest.raises(AxisError, match=r"cumsum: axis 2 is out of range for shape \(2, 3\)"):
        run(prims.cumsum, x, axis=2, reverse=False)
    with pytest.raises(ShapeError, match=r"the factors have shape \(2, 3\), the terms \(3,\)"):
        run(prims.recurrence, x, np.zeros(3), axis=0, reverse=False)
    with pytest.raises(DTypeError, match=r"logcumsumexp takes a real floating dtype, got int64"):
        prims.logcumsumexp.spec(tensor(x.astype(int)).spec, axis=0, reverse=False)
