"""Pooling against PyTorch, and the window sum's transpose by the dot-product law."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fx.backends.cpu.pool import max_pool, window_sum, window_sum_transpose

# (size, window, stride, padding, dilation)
CASES = [
    ((9,), (3,), (2,), (1,), (1,)),
    ((12,), (2,), (2,), (0,), (3,)),
    ((8, 9), (2, 2), (2, 2), (0, 0), (1, 1)),
    ((8, 9), (3, 2), (2, 1), (1, 1), (1, 2)),
    ((40, 33), (3, 3), (1, 1), (1, 1), (1, 1)),
    ((6, 7), (6, 7), (1, 1), (0, 0), (1, 1)),
    ((5, 6, 7), (2, 3, 2), (1, 2, 2), (1, 1, 0), (1, 1, 1)),
]


def _setting(window, stride, padding, dilation):
    return dict(
        window=window,
        stride=stride,
        padding=tuple((p, p) for p in padding),
        dilation=dilation,
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_max_pool_agrees_with_torch(case):
    torch = pytest.importorskip("torch")
    size, window, stride, padding, dilation = case
    rng = np.random.default_rng(0)
    function = getattr(torch.nn.functional, f"max_pool{len(size)}d")
    plain = rng.standard_normal((2, 3, *size)).astype(np.float32)
    ties = rng.integers(0, 2, plain.shape).astype(np.float32)
    holes = np.where(rng.random(plain.shape) < 0.1, np.float32(np.nan), plain)
    lowest = np.full_like(plain, -np.inf)
    for x in (plain, ties, holes, lowest):
        values, indices = max_pool(x, **_setting(window, stride, padding, dilation))
        oracle, places = function(
            torch.tensor(x), window, stride, padding, dilation, return_indices=True
        )
        np.testing.assert_array_equal(values, oracle.numpy())
        np.testing.assert_array_equal(indices, places.numpy())
        assert indices.dtype == np.int64
        assert values.flags.c_contiguous


@pytest.mark.parametrize("case", [c for c in CASES if set(c[4]) == {1}], ids=str)
def test_window_sum_agrees_with_torch(case):
    torch = pytest.importorskip("torch")
    size, window, stride, padding, dilation = case
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, *size)).astype(np.float32)
    tx = torch.tensor(x, requires_grad=True)
    oracle = getattr(torch.nn.functional, f"avg_pool{len(size)}d")(tx, window, stride, padding)
    oracle = oracle * float(np.prod(window))
    kw = _setting(window, stride, padding, dilation)
    out = window_sum(x, **kw)
    np.testing.assert_allclose(out, oracle.detach().numpy(), rtol=1e-4, atol=1e-5)
    g = rng.standard_normal(out.shape).astype(np.float32)
    (grad,) = torch.autograd.grad(oracle, tx, torch.tensor(g))
    mine = window_sum_transpose(g, input_size=size, **kw)
    np.testing.assert_allclose(mine, grad.numpy(), rtol=1e-4, atol=1e-5)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_window_sum_transpose_satisfies_the_dot_product_law(data):
    rank = data.draw(st.integers(1, 3))

    def per_dimension(low, high):
        return tuple(data.draw(st.integers(low, high)) for _ in range(rank))

    size = per_dimension(1, 7)
    kw = dict(
        window=per_dimension(1, 4),
        stride=per_dimension(1, 3),
        padding=tuple(zip(per_dimension(0, 2), per_dimension(0, 2))),
        dilation=per_dimension(1, 2),
    )
    reach = [(k - 1) * d for k, d in zip(kw["window"], kw["dilation"])]
    assume(all(n + a + b > r for n, (a, b), r in zip(size, kw["padding"], reach)))
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 2, *size))
    y = window_sum(x, **kw)
    g = rng.standard_normal(y.shape)
    gx = window_sum_transpose(g, input_size=size, **kw)
    np.testing.assert_allclose((x * gx).sum(), (y * g).sum(), rtol=1e-10, atol=1e-10)


def test_ceil_mode_is_more_high_padding():
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((1, 2, 7, 6)).astype(np.float32)
    values, indices = max_pool(
        x, window=(2, 3), stride=(2, 2), padding=((0, 1), (0, 1)), dilation=(1, 1)
    )
    oracle, places = torch.nn.functional.max_pool2d(
        torch.tensor(x), (2, 3), 2, ceil_mode=True, return_indices=True
    )
    np.testing.assert_array_equal(values, oracle.numpy())
    np.testing.assert_array_equal(indices, places.numpy())


PLAIN = _setting((2, 2), (2, 2), (0, 0), (1, 1))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int8, np.int64, np.bool_])
def test_other_dtypes_keep_their_dtype(dtype):
    x = np.random.default_rng(0).integers(-4, 5, (2, 2, 4, 6)).astype(dtype)
    wide = x.astype(np.float64)
    values, indices = max_pool(x, **PLAIN)
    expected, places = max_pool(wide, **PLAIN)
    assert values.dtype == dtype
    np.testing.assert_array_equal(values.astype(np.float64), expected)
    np.testing.assert_array_equal(indices, places)
    if dtype is not np.bool_:
        total = window_sum(x, **PLAIN)
        assert total.dtype == dtype
        np.testing.assert_array_equal(total.astype(np.float64), window_sum(wide, **PLAIN))


def test_a_window_of_padding_only_has_no_maximum():
    kw = dict(window=(2,), stride=(2,), padding=((2, 3),), dilation=(1,))
    with pytest.raises(ValueError, match="a window of padding"):
        max_pool(np.ones((1, 1, 2), np.float32), **kw)


def test_views_read_only_and_empty_arrays():
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 6)).astype(np.float32)
    view = np.asfortranarray(x)
    view.flags.writeable = False
    for a, b in zip(max_pool(x, **PLAIN), max_pool(view, **PLAIN)):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(window_sum(x, **PLAIN), window_sum(view, **PLAIN))
    empty = np.ones((0, 3, 4, 4), np.float32)
    values, indices = max_pool(empty, **PLAIN)
    assert values.shape == indices.shape == window_sum(empty, **PLAIN).shape == (0, 3, 2, 2)
    g = window_sum_transpose(values, input_size=(4, 4), **PLAIN)
    assert g.shape == empty.shape
    for shape in ((2, 3, 1, 4), (2, 3, 0, 4)):
        for kernel in (max_pool, window_sum):
            with pytest.raises(ValueError, match=r"does not fit|window of padding"):
                kernel(np.ones(shape, np.float32), **PLAIN)
    with pytest.raises(ValueError, match="g must have spatial sizes"):
        window_sum_transpose(x, input_size=(4, 6), **PLAIN)
