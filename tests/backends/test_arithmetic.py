"""Kernels that stand in for NumPy's: powers to the last digits, broadcasting, joining."""

from __future__ import annotations

import numpy as np
import pytest
from ml_dtypes import bfloat16

import fx
from fx import limits
from fx.backends.cpu import _arrays, elementwise, shape
from fx.backends.cpu.llvm import any_size
from fx.primitive import registry
from tests.thorough import pairs

SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-30, -1e-30, 1e30, -1e20, 3e38, 1e-40]
# ulps that a power may be off in float64; float32 goes by float64
ROUNDED = {
    2.0: 0.501, 3.0: 1.5, -1.0: 0.501, -2.0: 0.76, 0.5: 0.501, -0.5: 0.51, 4.0: 1.1, -3.0: 1.2,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("number", [0.0, 1.0, 2.0, 3.0, -1.0, -2.0, 0.5, -0.5, 4.0, -3.0])
@pytest.mark.parametrize("axes", [(), (1,)])
def test_powers(number, dtype, axes):
    rng = np.random.default_rng(0)
    wide = np.exp(rng.uniform(-1, 1, 2000) * (700.0 if dtype is np.float64 else 80.0))
    with np.errstate(all="ignore"):
        x = np.concatenate([SPECIAL, rng.normal(size=2000), wide, -wide]).astype(dtype)
        want = np.power(x.astype(np.longdouble), np.longdouble(number))
        rounded = want.astype(dtype)
        got = elementwise.power(x, np.full(axes, number, dtype))
    assert got.dtype == dtype and got.shape == x.shape
    np.testing.assert_array_equal(np.isnan(got), np.isnan(rounded))
    special = ~np.isfinite(rounded) | (rounded == 0)
    np.testing.assert_array_equal(got[special], rounded[special])
    known = ~np.isnan(rounded)
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(rounded[known]))
    unit = np.spacing(np.abs(rounded[~special]))
    off = np.abs(got[~special].astype(np.longdouble) - want[~special]) / unit
    assert off.max(initial=0.0) <= (ROUNDED.get(number, 0.0) if dtype is np.float64 else 0.51)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.uint8])
def test_the_power_0_is_ones_that_lie_as_the_base(dtype):
    for x in (np.zeros((300, 300), dtype), np.zeros((5, 3), dtype).T, np.zeros((), dtype)):
        got, want = elementwise.power(x, np.array(0, dtype)), np.ones_like(x)
        assert got.dtype == dtype and got.shape == x.shape and got.strides == want.strides
        np.testing.assert_array_equal(got, want)


def test_negative_bases_have_powers_of_whole_numbers():
    x = np.array([-2.0, -1.5, 3.0] * 10)
    y = np.array([3.0, 2.5, -2.0] * 10)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(elementwise.power(x, y), np.power(x, y), rtol=4e-16)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("number", [0.0, -0.0, 2.0, np.nan])
def test_a_number_is_chosen_as_in_numpy_and_in_small_arrays(name, dtype, number):
    if dtype is np.int32 and number != number:
        pytest.skip("no integer")
    some = np.array([0, -1, 3, 2] if dtype is np.int32 else [*SPECIAL, 2.0], dtype)
    x, y = np.tile(some, 5000), np.asarray(number, dtype)
    kernel, ufunc = registry[name].cpu_of_many, getattr(np, name)
    for found in (kernel(x, y), kernel(y, x)):
        assert found.dtype == dtype and found.shape == x.shape
        np.testing.assert_array_equal(found, np.tile(ufunc(some, y), 5000))
    got, want = kernel(x, y), ufunc(x, y)
    known = want == want
    np.testing.assert_array_equal(np.signbit(got[known]), np.signbit(want[known]))


BROADCAST = [
    ((40, 600), (600,)), ((300, 100), (300, 1)), ((300, 1), (100,)), ((200,), (200, 1)),
    ((2, 3, 100, 70), (3, 1, 1)), ((1, 200), (200, 1)), ((40, 600), (1,)), ((40, 600), ()),
    ((3, 1, 20, 1), (1, 40, 1, 30)), ((20000,), (20000,)),
]  # fmt: skip
DTYPES = [np.float32, np.float64, np.int64, np.float16, bfloat16]


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "minimum"])
@pytest.mark.parametrize(("shapes", "dtype"), pairs(BROADCAST, DTYPES, 2))
def test_arrays_broadcast_as_in_numpy(name, shapes, dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=s) * 9 for s in shapes)
    if name == "divide" and dtype is np.int64:
        pytest.skip("the function before it promotes integers")
    x, y = np.asarray(x, dtype), np.asarray(y, dtype)
    for which in (limits.normal(), limits.tiny()):
        with which:
            got = registry[name].cpu_of_many(x, y)
        want = getattr(np, name)(x, y)
        assert got.dtype == want.dtype
        if name == "divide" and np.dtype(dtype).itemsize > 2:
            np.testing.assert_allclose(got, want, rtol=2 * np.finfo(dtype).eps)
        else:
            np.testing.assert_array_equal(got, want)


def test_arrays_that_do_not_broadcast_are_refused():
    with pytest.raises(ValueError, match="broadcast"):
        registry["add"].cpu_of_many(np.zeros((200, 300)), np.zeros(200))


@pytest.mark.parametrize("call", [lambda x, y: x + y, fx.add, registry["add"]])
def test_bind_takes_the_kernel_of_many(call, monkeypatch):
    asked = []
    large, row, other, small, short = map(fx.ones, ((200, 300), 300, 200, (20, 30), 30))
    empty = any_size.empty  # the memory of what is compiled
    monkeypatch.setattr(any_size, "empty", lambda spec: asked.append(1) or empty(spec))
    with limits.normal():
        assert call(large, row).shape == (200, 300)
        assert asked == [1]
        call(large, large)
        call(small, short)
        assert asked == [1]
    with pytest.raises(fx.errors.ShapeError, match="do not broadcast"):
        call(large, other)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_, np.float16])
@pytest.mark.parametrize("shapes, axis", [
    ([(300, 40), (300, 2)], 1), ([(70, 3, 50), (70, 1, 50), (70, 3, 50)], 1),
    ([(70, 3, 50), (70, 3, 1)], 2), ([(9000, 1), (9000, 1)], 1), ([(300, 40), (300, 0)], 1),
])  # fmt: skip
def test_arrays_are_joined_as_in_numpy(shapes, axis, dtype):
    rng = np.random.default_rng(0)
    arrays = [(rng.normal(size=s) * 9).astype(dtype) for s in shapes]
    turned = [arrays[0][::-1], *arrays[1:]]
    for which in (limits.normal(), limits.tiny()):
        with which:
            for given in (arrays, arrays[::-1], turned):
                found = shape.concatenate(*given, axis=axis)
                want = np.concatenate(given, axis)
                np.testing.assert_array_equal(found, want)
                assert found.dtype == want.dtype and found.flags.c_contiguous
    with pytest.raises(ValueError, match="must match exactly"):
        shape.concatenate(arrays[0], arrays[0][1:], axis=axis)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.bool_, np.complex64])
def test_short_lines_are_copied_and_joined_as_items(dtype):
    x = (np.random.default_rng(0).normal(size=(60, 20, 10)) * 3).astype(dtype)
    cut = [
        x[:, :, 2:5], x[::2, :, :4], x[:, ::-1, 1:], x.transpose(1, 0, 2)[:, :, 3:], x[:, :, ::2],
        x[:, :, :1], x[:, 3:7], x.T, np.lib.stride_tricks.sliding_window_view(x.ravel(), 7),
    ]  # fmt: skip
    for which in (limits.normal(), limits.given(RUNS_FROM=4, RUNS=2)):
        with which:
            for a in cut:
                found = _arrays.copied(a)
                assert found.flags.c_contiguous and not np.shares_memory(found, a)
                np.testing.assert_array_equal(found, a)
                clone = elementwise.astype(a, dtype=a.dtype)
                np.testing.assert_array_equal(clone, a)
                assert not np.shares_memory(clone, a)
                for axis in range(a.ndim):
                    found = shape.concatenate(a, a, axis=axis)
                    np.testing.assert_array_equal(found, np.concatenate([a, a], axis))
