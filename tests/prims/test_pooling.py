"""Pooling against torch, where the laws do not look: ties, NaN, padding, what is refused."""

import numpy as np
import pytest

import fx.prims.pooling as prims
from fx.errors import ShapeError
from tests.prims.tools import INF, INTEGERS, NAN, NARROW, bound, draws, gradients, run

torch = pytest.importorskip("torch")

CASES = [  # spatial sizes, window, stride, padding, dilation
    ((9,), (3,), (2,), (1,), (1,)),
    ((7, 8), (3, 2), (2, 1), (1, 1), (1, 2)),
    ((6, 6), (2, 2), (2, 2), (0, 0), (1, 1)),
    ((4, 5, 4), (2, 3, 2), (1, 2, 1), (0, 1, 1), (1, 1, 1)),
]


def parameters(case):
    _, window, stride, padding, dilation = case
    pairs = tuple((p, p) for p in padding)
    return dict(window=window, stride=stride, padding=pairs, dilation=dilation)


def pooled(case, x):
    _, window, stride, padding, dilation = case
    pool = getattr(torch.nn.functional, f"max_pool{len(window)}d")
    return pool(x, window, stride, padding, dilation, return_indices=True)


@pytest.mark.parametrize("case", CASES)
def test_max_pool_follows_torch_at_ties_too(case):
    x = np.random.default_rng(0).integers(0, 3, (2, 3, *case[0])).astype(float)
    t = torch.tensor(x, requires_grad=True)
    out, places = pooled(case, t)
    weights = draws(*out.shape)
    (out * torch.tensor(weights)).sum().backward()
    values, indices = run(prims.max_pool, x, **parameters(case))
    np.testing.assert_array_equal(values, out.detach().numpy())
    np.testing.assert_array_equal(indices, places.numpy())
    (got,) = gradients(bound(prims.max_pool, **parameters(case)), x, weights=weights)
    np.testing.assert_allclose(got, t.grad.numpy(), atol=1e-14)


def test_nan_and_infinities_follow_torch():
    case = ((5, 5), (3, 3), (1, 1), (1, 1), (1, 1))
    x = draws(1, 2, 5, 5)
    x[0, 0, 2, 2], x[0, 0, 0, 0], x[0, 1] = NAN, INF, -INF
    values, indices = run(prims.max_pool, x, **parameters(case))
    out, places = pooled(case, torch.tensor(x))
    np.testing.assert_array_equal(values, out.numpy())
    np.testing.assert_array_equal(indices, places.numpy())


@pytest.mark.parametrize("dtype", [*INTEGERS, *NARROW])
def test_max_pool_in_other_dtypes(dtype):
    x = np.arange(24).reshape(1, 1, 4, 6).astype(dtype)
    params = parameters(((4, 6), (2, 2), (2, 2), (0, 0), (1, 1)))
    values, indices = run(prims.max_pool, x, **params)
    assert (values.dtype, indices.dtype) == (dtype, np.int64)
    np.testing.assert_array_equal(values.astype(int)[0, 0], [[7, 9, 11], [19, 21, 23]])


@pytest.mark.parametrize("case", [c for c in CASES if set(c[4]) == {1}])
def test_window_sum_follows_avg_pool(case):
    x = draws(2, 3, *case[0])
    t = torch.tensor(x, requires_grad=True)
    pool = getattr(torch.nn.functional, f"avg_pool{len(case[0])}d")
    out = pool(t, case[1], case[2], case[3]) * np.prod(case[1])
    weights = draws(*out.shape, seed=1)
    (out * torch.tensor(weights)).sum().backward()
    params = parameters(case)
    np.testing.assert_allclose(run(prims.window_sum, x, **params), out.detach().numpy(), atol=1e-12)
    (got,) = gradients(bound(prims.window_sum, **params), x, weights=weights)
    np.testing.assert_allclose(got, t.grad.numpy(), atol=1e-12)
    back = run(prims.window_sum_transpose, weights, input_size=case[0], **params)
    np.testing.assert_allclose(back, got, atol=1e-12)


def test_bad_arguments_are_named():
    x = np.zeros((1, 2, 4, 4))
    plain = parameters(((4, 4), (2, 2), (2, 2), (0, 0), (1, 1)))
    with pytest.raises(
        ShapeError, match=r"max_pool: a window of \(5, 2\) .* reaches over 5 elements"
    ):
        run(prims.max_pool, x, **plain | {"window": (5, 2)})
    with pytest.raises(ShapeError, match="holds nothing but padding, and has no maximum; pad"):
        run(prims.max_pool, x, **plain | {"padding": ((2, 0), (0, 0))})
    with pytest.raises(
        ShapeError, match="holds nothing but padding"
    ):  # the input fell between taps
        run(prims.max_pool, x[..., :1], **plain | {"padding": ((0, 0), (1, 2)), "dilation": (1, 3)})
    with pytest.raises(ShapeError, match=r"window_sum: x must be \(N, C, \*spatial\)"):
        run(prims.window_sum, x[0, 0], **plain)
    with pytest.raises(ShapeError, match=r"g must have shape \(1, 2, 2, 2\), got \(1, 2, 4, 4\)"):
        run(prims.window_sum_transpose, x, input_size=(4, 4), **plain)


def test_no_samples():
    params = parameters(CASES[2])
    values, indices = run(prims.max_pool, np.zeros((0, 3, 6, 6)), **params)
    assert values.shape == indices.shape == (0, 3, 3, 3)
    assert run(prims.window_sum, np.zeros((0, 3, 6, 6)), **params).shape == (0, 3, 3, 3)
