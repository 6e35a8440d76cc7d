"""Reductions against NumPy: axes, dtypes, NaN, nothing, and what they refuse."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fx
from fx import dtypes
from fx.backends.cpu import _OURS
from fx.errors import AxisError, DTypeError, ShapeError

SIGNED, UNSIGNED = dtypes.SIGNED, dtypes.UNSIGNED
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=4)
NARROW = (fx.float16, fx.bfloat16)
REDUCTIONS = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "any": np.any, "all": np.all,
    "mean": np.mean, "var": np.var, "std": np.std, "count_nonzero": np.count_nonzero,
    "amax": np.max, "amin": np.min,
}  # fmt: skip


@st.composite
def shapes_and_axes(draw):
    shape = draw(SHAPES)
    axes = draw(st.sets(st.integers(-len(shape), len(shape) - 1))) if shape else set()
    axis = tuple({a % len(shape): a for a in axes}.values()) if shape else ()
    way = draw(st.sampled_from(("none", "tuple", "int")))
    if way == "none":
        return shape, None
    return shape, axis if way == "tuple" or not axis else axis[0]


@pytest.mark.parametrize("name", REDUCTIONS)
@given(where=shapes_and_axes(), keepdims=st.booleans(), words=st.booleans())
def test_axes_as_numpy_counts_them(name, where, keepdims, words):
    shape, axis = where
    x = np.linspace(0.5, 1.5, int(np.prod(shape))).reshape(shape)
    want = REDUCTIONS[name](x, axis=axis, keepdims=keepdims)
    function = getattr(fx, name)
    if words:
        got = function(fx.asarray(x), dim=axis, keepdim=keepdims)
    else:
        got = function(fx.asarray(x), axis=axis, keepdims=keepdims)
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_dtypes_of_totals(dtype):
    x = fx.ones(3, dtype=dtype)
    unsigned = dtype in UNSIGNED
    want = fx.uint64 if unsigned else fx.int64 if dtype.kind in "ib" else dtype
    for got in (fx.sum(x), fx.prod(x), fx.cumulative_sum(x), fx.cumulative_prod(x)):
        assert got.dtype == want
    torch_name = fx.int64 if unsigned else want
    for got in (x.sum(), x.prod(0), fx.cumsum(x, 0), fx.cumsum(x[0], 0), x.cumprod(0)):
        assert got.dtype == torch_name
    assert fx.sum(x, dtype=fx.float64).dtype == fx.float64
    if dtype not in dtypes.COMPLEX:
        assert fx.max(x).dtype == fx.min(x).dtype == dtype
        assert fx.argmax(x).dtype == fx.argmin(x).dtype == fx.int64
    assert fx.any(x).dtype == fx.all(x).dtype == fx.bool


def test_small_integers_do_not_overflow():
    assert fx.sum(fx.full(1000, 100, dtype=fx.int8)).item() == 100_000
    assert fx.full(1000, 200, dtype=fx.uint8).sum().item() == 200_000
    assert fx.prod(fx.full(10, 10, dtype=fx.int16)).item() == 10**10


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_narrow_floats_are_added_up_in_float32(dtype):
    x = fx.full(100_000, 3.0, dtype=dtype)
    assert fx.mean(x).dtype == fx.var(x).dtype == fx.norm(x).dtype == dtype
    assert fx.mean(x).item() == 3.0
    assert fx.var(x).item() == fx.std(x).item() == 0.0
    assert fx.norm(fx.full(4, 300.0, dtype=dtype)).item() == 600.0
    assert fx.std(fx.asarray([-300.0, 300.0], dtype=dtype)).item() == 300.0


@pytest.mark.parametrize("name", ("any", "all", "count_nonzero"))
@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_truth_is_not_zero(name, dtype):
    for values in ([0, 1, 2], [0, 0, 0], [1, 3, 1]):
        want = getattr(np, name)(np.asarray(values))
        assert getattr(fx, name)(fx.asarray(values).astype(dtype)).item() == want
    if dtype in dtypes.FLOATING:
        assert fx.all(fx.asarray([0.5, float("nan")], dtype=dtype)).item()


def test_nan_wins():
    x = fx.asarray([[1.0, float("nan")], [3.0, 2.0]])
    for name in ("max", "min", "sum", "mean", "var", "median", "logsumexp", "norm"):
        got = getattr(fx, name)(x, axis=1)
        assert fx.isnan(got).tolist() == [True, False], name
    assert fx.argmax(x, axis=1).tolist() == [1, 0]
    low = fx.quantile(x, 0.1, axis=0, interpolation="lower")
    assert low[0].item() == 1.0 and fx.isnan(low[1]).item()
    assert fx.nansum(x).item() == 6.0 and fx.nanmean(x, axis=1).tolist() == [1.0, 2.5]


def test_reductions_of_nothing():
    x = fx.zeros((0, 3))
    assert fx.sum(x, axis=0).tolist() == [0, 0, 0] and fx.prod(x, axis=0).tolist() == [1, 1, 1]
    assert fx.all(x).item() and not fx.any(x).item()
    assert fx.logsumexp(x, axis=0).tolist() == [-float("inf")] * 3
    with np.errstate(invalid="ignore"):
        assert fx.isnan(fx.mean(x, axis=0)).tolist() == [True] * 3
        assert fx.isnan(fx.var(fx.ones(1), correction=1)).item()
    for name in ("max", "min", "argmax", "median"):
        with pytest.raises(ShapeError, match=r"\(0, 3\)"):
            getattr(fx, name)(x, axis=0)
    assert fx.max(x, axis=1).shape == (0,)


@pytest.mark.parametrize("name", (*REDUCTIONS, "argmax", "logsumexp", "quantile", "norm", "median"))
def test_axes_out_of_range(name):
    x, more = fx.ones((2, 3)), (0.5,) if name == "quantile" else ()
    with pytest.raises(AxisError, match=r"\w+: axis 2 is out of range for shape \(2, 3\)"):
        getattr(fx, name)(x, *more, axis=2)
    with pytest.raises(AxisError, match="an axis is an int, got 'a'"):
        getattr(fx, name)(x, *more, axis="a")
    if name not in ("argmax",):
        with pytest.raises(AxisError, match="twice"):
            getattr(fx, name)(x, *more, axis=(0, -2))
    with pytest.raises(AxisError, match=r"axis 1 is out of range for shape \(1,\)"):
        getattr(fx, name)(fx.asarray(1.0), *more, axis=1)


@pytest.mark.parametrize("name", ("mean", "var", "std", "norm", "nanmean"))
def test_integers_have_no_mean(name):
    for x in (fx.asarray([1, 2]), fx.asarray([True])):
        with pytest.raises(
            DTypeError, match=rf"{name} takes a floating dtype.*x.astype\(fx.float32"
        ):
            getattr(fx, name)(x)
    assert fx.mean(fx.asarray([1, 2]), dtype=fx.float64).item() == 1.5


def test_complex_statistics():
    z = np.asarray([[1 + 2j, -3 - 0.5j, 0.5j], [2, 1j, 3 - 1j]])
    x = fx.asarray(z)
    for name in ("sum", "mean", "prod", "var", "std"):
        np.testing.assert_allclose(
            getattr(fx, name)(x, axis=1).numpy(), getattr(np, name)(z, axis=1), rtol=1e-12
        )
    np.testing.assert_allclose(fx.norm(x, axis=0).numpy(), np.linalg.norm(z, axis=0))
    np.testing.assert_allclose(fx.norm(x, p=3).numpy(), (np.abs(z) ** 3).sum() ** (1 / 3))
    with pytest.raises(DTypeError, match="complex128 has no order"):
        fx.max(x)


@given(
    x=hnp.arrays(np.float64, SHAPES, elements=st.integers(-3, 3).map(float)),
    q=st.floats(0, 1),
    way=st.sampled_from(("linear", "lower", "higher", "nearest", "midpoint")),
)
def test_quantiles(x, q, way):
    got = fx.quantile(fx.asarray(x), q, interpolation=way)
    np.testing.assert_allclose(got.numpy(), np.quantile(x, q, method=way), rtol=1e-9, atol=1e-12)


def test_quantile_axes():
    x = np.random.default_rng(0).normal(size=(3, 4, 5))
    q = np.asarray([0.1, 0.5])
    got = fx.quantile(fx.asarray(x), fx.asarray(q), axis=(0, 2), keepdims=True)
    np.testing.assert_allclose(got.numpy(), np.quantile(x, q, axis=(0, 2), keepdims=True))
    assert fx.median(fx.asarray([1, 2])).item() == 1.5
    with pytest.raises(ValueError, match=r"q must lie in \[0, 1\], got 1.5"):
        fx.quantile(fx.asarray(x), 1.5)
    with pytest.raises(ValueError, match="interpolation"):
        fx.quantile(fx.asarray(x), 0.5, interpolation="cubic")


def test_cumulative_functions():
    x = np.arange(1, 7).reshape(2, 3)
    for name in ("cumulative_sum", "cumulative_prod"):
        for axis in (0, 1):
            for initial in (False, True):
                got = getattr(fx, name)(fx.asarray(x), axis=axis, include_initial=initial)
                want = getattr(np, name)(x, axis=axis, include_initial=initial)
                np.testing.assert_array_equal(got.numpy(), want)
    with pytest.raises(AxisError, match=r"shape \(2, 3\) has 2 axes; say which"):
        fx.cumulative_sum(fx.asarray(x))
    values, indices = fx.cummax(fx.asarray([1, 3, 2, 3]), axis=0)
    assert values.tolist() == [1, 3, 3, 3] and indices.tolist() == [0, 1, 1, 3]


def test_differences():
    x = np.asarray([[1, 4, 9], [2, 3, 5]])
    for n in range(4):
        for axis in (0, 1):
            np.testing.assert_array_equal(
                fx.diff(fx.asarray(x), axis=axis, n=n).numpy(), np.diff(x, n, axis)
            )
    flags = np.asarray([True, True, False])
    np.testing.assert_array_equal(fx.diff(fx.asarray(flags)).numpy(), np.diff(flags))
    with pytest.raises(ValueError, match="n must not be negative"):
        fx.diff(fx.asarray(x), n=-1)


def test_gradient_of_a_root_at_zero_is_zero():
    x = fx.zeros(3, requires_grad=True)
    (fx.norm(x) + fx.std(x) + fx.norm(x, p=3)).backward()
    assert x.grad.tolist() == [0, 0, 0]


EMPTY = {  # the shape that a function of fx gives
    "sum": (2, 3), "mean": (2, 3), "amax": (), "amin": (), "var": (2, 3),
    "std": (2, 3), "count_nonzero": (2, 3), "nansum": (), "any": (2, 3), "all": (2, 3),
    "norm": (),
}  # fmt: skip


@pytest.mark.parametrize("empty", [(), []])
@pytest.mark.parametrize("name", EMPTY)
def test_no_axis_at_all(name, empty):
    """For PyTorch it is all of them, in the standard it is none."""
    import torch as pt

    import fx.torch as torch

    x = np.arange(1.0, 7).reshape(2, 3)
    for mine, theirs in ((fx.Tensor, pt.Tensor), (torch, pt)):
        wanted = getattr(theirs, name)(pt.from_numpy(x), dim=empty)
        found = getattr(mine, name)(fx.asarray(x), dim=empty)
        np.testing.assert_allclose(found.tolist(), wanted.tolist(), rtol=1e-12)
    assert getattr(fx, name)(fx.asarray(x), axis=empty).shape == EMPTY[name]


def test_what_fx_computes_is_quiet():
    """Infinities and NaN are values; what a user computes with NumPy warns as before."""
    empty, zero = fx.zeros(0), fx.zeros(3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", r".* encountered in ", RuntimeWarning, _OURS)
        for x in (empty.mean(), empty.std(), zero / zero, (zero - 1).log(), fx.zeros(1).var()):
            assert bool(x.isnan().all())
        with pytest.raises(RuntimeWarning, match="invalid value encountered in log"):
            np.log(np.array(-1.0))
