"""Convolution and its transposes against PyTorch, and against each other by the dot-product law."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fx import limits
from fx.backends.cpu._windows import windows
from fx.backends.cpu.conv import conv, conv_input_grad, conv_weight_grad

# (N, C, O, size, kernel, stride, padding, dilation, groups)
CASES = [
    (2, 3, 5, (9,), (3,), (1,), (0,), (1,), 1),
    (3, 4, 6, (11,), (3,), (2,), (2,), (2,), 2),
    (2, 4, 12, (300,), (5,), (1,), (2,), (1,), 2),
    (2, 3, 8, (8, 9), (3, 2), (1, 1), (0, 0), (1, 1), 1),
    (2, 3, 8, (8, 9), (3, 3), (2, 1), (1, 2), (1, 2), 1),
    (2, 8, 16, (7, 7), (3, 3), (2, 2), (1, 1), (1, 1), 2),
    (1, 6, 6, (20, 20), (3, 3), (1, 1), (1, 1), (1, 1), 6),  # depthwise
    (2, 6, 12, (9, 40), (3, 3), (2, 2), (1, 1), (1, 1), 6),  # depthwise, strided, two a channel
    (3, 5, 7, (4, 4), (1, 1), (1, 1), (0, 0), (1, 1), 1),  # pointwise, few positions
    (3, 5, 7, (17, 16), (1, 1), (1, 1), (0, 0), (1, 1), 1),  # pointwise, many positions
    (3, 6, 6, (5, 5), (1, 1), (1, 1), (0, 0), (1, 1), 6),  # pointwise, depthwise
    (2, 5, 7, (6, 6), (1, 1), (2, 2), (0, 0), (1, 1), 1),
    (2, 4, 8, (4, 4), (4, 4), (1, 1), (0, 0), (1, 1), 1),  # one position
    (1, 3, 8, (2, 2), (3, 3), (1, 1), (2, 2), (1, 1), 1),  # kernel larger than the input
    (2, 3, 6, (5, 6, 7), (2, 3, 2), (1, 2, 1), (1, 0, 1), (2, 1, 1), 1),
    (2, 4, 4, (4, 5, 6), (3, 3, 3), (1, 1, 2), (1, 1, 1), (1, 1, 1), 2),
]


def _setting(stride, padding, dilation, groups):
    return dict(
        stride=stride, padding=tuple((p, p) for p in padding), dilation=dilation, groups=groups
    )


def _draw(rng, shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


def _against_torch(case, dtype=np.float32):
    torch = pytest.importorskip("torch")
    N, C, O, size, kernel, stride, padding, dilation, groups = case
    rng = np.random.default_rng(0)
    x, w = _draw(rng, (N, C, *size), dtype), _draw(rng, (O, C // groups, *kernel), dtype)
    tx, tw = (torch.tensor(a, requires_grad=True) for a in (x, w))
    function = getattr(torch.nn.functional, f"conv{len(size)}d")
    ty = function(tx, tw, None, stride, padding, dilation, groups)
    g = _draw(rng, tuple(ty.shape), dtype)
    tgx, tgw = torch.autograd.grad(ty, (tx, tw), torch.tensor(g))
    kw = _setting(stride, padding, dilation, groups)
    results = (
        (conv(x, w, **kw), ty.detach().numpy()),
        (conv_input_grad(g, w, input_size=size, **kw), tgx.numpy()),
        (conv_weight_grad(x, g, kernel_size=kernel, **kw), tgw.numpy()),
    )
    for mine, oracle in results:
        assert mine.dtype == dtype
        assert mine.flags.c_contiguous
        scale = max(1.0, float(np.abs(oracle).max(initial=0)))
        np.testing.assert_allclose(mine, oracle, rtol=0, atol=scale * 1e-5)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_agrees_with_torch(case):
    _against_torch(case)


COLUMNS = {"CONV_PLANES_WORK": 0, "CONV_PLANES_UP_TO": 0}


@pytest.mark.parametrize("tile", [1, 2000, 20000])
def test_tiles_change_nothing(tile):
    with limits.given(CONV_COLUMNS=tile, **COLUMNS):
        for case in CASES:
            _against_torch(case)


def test_one_product_for_all_samples_equals_one_for_each():
    with limits.given(CONV_FLAT=0, **COLUMNS):
        for case in CASES:
            _against_torch(case)


@pytest.mark.parametrize("up_to", [0, 10**6], ids=["columns", "planes"])
@pytest.mark.parametrize("work", [0, 10**9])
def test_both_ways_serve_every_case(up_to, work):
    with limits.given(CONV_PLANES_UP_TO=up_to, CONV_PLANES_WORK=work):
        for case in CASES:
            _against_torch(case)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_transposes_satisfy_the_dot_product_law(data):
    rank = data.draw(st.integers(1, 3))

    def per_dimension(low, high):
        return tuple(data.draw(st.integers(low, high)) for _ in range(rank))

    size, kernel = per_dimension(1, 7), per_dimension(1, 3)
    stride, dilation = per_dimension(1, 3), per_dimension(1, 2)
    padding = tuple(zip(per_dimension(0, 3), per_dimension(0, 3)))
    groups = data.draw(st.sampled_from([1, 1, 2, 3]))
    N, C, O = (
        data.draw(st.integers(1, 3)),
        groups * data.draw(st.integers(1, 2)),
        groups * data.draw(st.sampled_from([1, 5])),
    )
    kw = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
    assume(windows(size, kernel, stride, padding, dilation).positions > 0)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = _draw(rng, (N, C, *size), np.float64)
    w = _draw(rng, (O, C // groups, *kernel), np.float64)
    y = conv(x, w, **kw)
    g = _draw(rng, y.shape, np.float64)
    dot = (y * g).sum()
    gx = conv_input_grad(g, w, input_size=size, **kw)
    gw = conv_weight_grad(x, g, kernel_size=kernel, **kw)
    np.testing.assert_allclose((x * gx).sum(), dot, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose((w * gw).sum(), dot, rtol=1e-10, atol=1e-10)


PLAIN = _setting((1, 1), (1, 1), (1, 1), 1)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
def test_narrow_floats_are_computed_in_float32_and_rounded_once(dtype):
    rng = np.random.default_rng(1)
    x, w = _draw(rng, (2, 3, 6, 6), dtype), _draw(rng, (8, 3, 3, 3), dtype)
    g = _draw(rng, (2, 8, 6, 6), dtype)
    wide = [a.astype(np.float32) for a in (x, w, g)]
    for function, args, extra in (
        (conv, (0, 1), {}),
        (conv_input_grad, (2, 1), dict(input_size=(6, 6))),
        (conv_weight_grad, (0, 2), dict(kernel_size=(3, 3))),
    ):
        with limits.given(CONV_TILES=1 << 30):  # where tiles are multiplied sums have another order
            out = function(*([x, w, g][i] for i in args), **extra, **PLAIN)
        assert out.dtype == dtype
        expected = function(*(wide[i] for i in args), **extra, **PLAIN).astype(dtype)
        np.testing.assert_array_equal(out.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_products_of_16_bit_tiles_are_rounded_once(case, dtype):
    N, C, O, size, kernel, *setting = case
    rng = np.random.default_rng(5)
    x, w = _draw(rng, (N, C, *size), dtype), _draw(rng, (O, C // setting[-1], *kernel), dtype)
    kw = _setting(*setting)
    with limits.given(CONV_TILES=1, CONV_TILES_DEPTH=1):
        out = conv(x, w, **kw)
        again = conv(np.asfortranarray(x), np.asfortranarray(w), **kw)
    assert out.dtype == dtype
    assert out.tobytes() == again.tobytes()
    exact = conv(x.astype(np.float64), w.astype(np.float64), **kw)
    info = ml_dtypes.finfo(dtype)
    sums = conv(abs(x.astype(np.float64)), abs(w.astype(np.float64)), **kw)
    most = 0.505 * float(info.eps) * abs(exact) + 1e-6 * sums + float(info.smallest_subnormal)
    assert (abs(out.astype(np.float64) - exact) <= most).all()


def test_integers_wrap_in_their_own_dtype():
    rng = np.random.default_rng(2)
    x = rng.integers(-100, 100, (1, 2, 5, 5)).astype(np.int8)
    w = rng.integers(-100, 100, (6, 2, 3, 3)).astype(np.int8)
    out = conv(x, w, **PLAIN)
    exact = conv(x.astype(np.float64), w.astype(np.float64), **PLAIN)
    assert out.dtype == np.int8
    np.testing.assert_array_equal(out, exact.astype(np.int64).astype(np.int8))


def test_views_and_read_only_arrays_give_the_same():
    rng = np.random.default_rng(3)
    x, w, g = (_draw(rng, s) for s in ((2, 3, 6, 6), (8, 3, 3, 3), (2, 8, 6, 6)))
    out = conv(x, w, **PLAIN)
    gx = conv_input_grad(g, w, input_size=(6, 6), **PLAIN)
    gw = conv_weight_grad(x, g, kernel_size=(3, 3), **PLAIN)
    fx_, fw, fg = (np.asfortranarray(a) for a in (x, w, g))
    for a in (x, w, g, fx_, fw, fg):
        a.flags.writeable = False
    for x, w, g in ([x, w, g], [fx_, fw, fg]):  # noqa: B020 - the list is built once
        np.testing.assert_array_equal(conv(x, w, **PLAIN), out)
        np.testing.assert_array_equal(conv_input_grad(g, w, input_size=(6, 6), **PLAIN), gx)
        np.testing.assert_array_equal(conv_weight_grad(x, g, kernel_size=(3, 3), **PLAIN), gw)


@pytest.mark.parametrize("shape", [(0, 3, 6, 6), (2, 0, 6, 6)])
def test_empty_inputs(shape):
    kw = _setting((1, 1), (0, 0), (1, 1), 1)
    x, w = np.ones(shape, np.float32), np.ones((8, shape[1], 3, 3), np.float32)
    y = conv(x, w, **kw)
    assert y.shape == (shape[0], 8, 4, 4)
    assert not y.any()
    gx = conv_input_grad(y, w, input_size=shape[2:], **kw)
    gw = conv_weight_grad(x, y, kernel_size=(3, 3), **kw)
    assert gx.shape == x.shape
    assert gw.shape == w.shape
    assert not gx.any()
    assert not gw.any()


@pytest.mark.parametrize("shape", [(2, 3, 0, 6), (2, 3, 6, 1)])
def test_windows_that_do_not_fit_are_refused(shape):
    w = np.ones((8, 3, 3, 3), np.float32)
    with pytest.raises(ValueError, match="does not fit"):
        conv(np.ones(shape, np.float32), w, **_setting((1, 1), (0, 0), (1, 1), 1))


def test_infinities_and_nan_pass_through():
    x = np.zeros((1, 1, 5, 5), np.float32)
    x[0, 0, 2, 2] = np.inf
    y = conv(x, np.ones((8, 1, 3, 3), np.float32), **PLAIN)
    assert np.isposinf(y[0, 0, 2, 2])
    x[0, 0, 0, 0] = np.nan
    for out_channels in (1, 8):
        y = conv(x, np.ones((out_channels, 1, 3, 3), np.float32), **PLAIN)
        assert np.isnan(y[0, :, 0, 0]).all()
        assert not np.isnan(y[0, :, 4, 4]).any()


def test_an_infinity_does_not_reach_where_no_window_takes_it():
    rng = np.random.default_rng(4)
    kw = _setting((2, 2), (1, 1), (1, 1), 2)
    x, w, g = (_draw(rng, s) for s in ((2, 2, 6, 6), (2, 1, 3, 3), (2, 2, 3, 3)))
    expected = conv_input_grad(g, w, input_size=(6, 6), **kw)
    w[0, 0, 1, 1] = np.inf
    out = conv_input_grad(g, w, input_size=(6, 6), **kw)
    np.testing.assert_allclose(out[:, 1], expected[:, 1], rtol=1e-5)
    assert np.isfinite(out[:, 0, 1::2, 1::2]).all()  # the middle tap sees even places only
    x[0, 0, 0, 0] = np.inf
    out = conv_weight_grad(x, g, kernel_size=(3, 3), **kw)
    assert np.isfinite(out[1]).all()
    assert (~np.isfinite(out[0])).sum() == 1  # only the middle tap sees the corner


def test_shapes_that_do_not_fit_are_refused():
    x, w = np.ones((1, 3, 5, 5), np.float32), np.ones((4, 2, 3, 3), np.float32)
    with pytest.raises(ValueError, match="do not fit 1 groups"):
        conv(x, w, **PLAIN)
    with pytest.raises(ValueError, match="g must have shape"):
        conv_input_grad(np.ones((1, 4, 9, 9), np.float32), w, input_size=(5, 5), **PLAIN)
    with pytest.raises(ValueError, match="stride must have 2 entries"):
        conv(x, w, **{**PLAIN, "stride": (1,)})
    with pytest.raises(ValueError, match="at least 1"):
        conv(x, w, **{**PLAIN, "stride": (1, 0)})
