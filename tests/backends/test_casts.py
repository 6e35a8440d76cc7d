"""Casts between float32 and the 16-bit floats: to the bit, at every size and in every layout."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fx import limits
from fx.backends.cpu.elementwise import astype
from tests.backends.test_tiny_limits import TURNS

HALVES = [np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)]


def same(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    nan = np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), nan)
    unsigned = {2: np.uint16, 4: np.uint32}[got.itemsize]
    np.testing.assert_array_equal(got.view(unsigned)[~nan], want.view(unsigned)[~nan])


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_every_number_of_16_bits_goes_there_and_back(half):
    x = np.arange(1 << 16, dtype=np.uint16).view(half)
    wide = astype(x, dtype=np.dtype(np.float32))
    same(wide, x.astype(np.float32))
    same(astype(wide, dtype=half), x)


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_rounding_is_to_the_nearest_and_to_even(half):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 1 << 32, 200_000, np.uint32).view(np.float32)
    middles = np.arange(1 << 15, dtype=np.uint16).view(half).astype(np.float32)
    with np.errstate(all="ignore"):
        middles = (middles[1:] + middles[:-1]) / 2
    x = np.concatenate([x, middles, [65519.9, 65520.0, 1e-8, -1e-40]])
    x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        same(astype(x, dtype=half), x.astype(half))


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("turn", TURNS)
@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (16, 16), (17, 33), (33, 65), (64, 2049)])
def test_sizes_and_layouts(shape, turn, half):
    x = TURNS[turn](np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    for which in (limits.given(CASTS_FROM=1), limits.tiny()):
        with which:
            found = astype(x, dtype=half)
            same(found, np.ascontiguousarray(x.astype(half)))
            back = TURNS[turn](found)
            same(astype(back, dtype=np.dtype("f4")), np.ascontiguousarray(back.astype("f4")))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("shape", [(300,), (2049,), (5, 70), (70, 5), (3, 4, 100), (2, 0, 300)])
def test_copies_of_what_runs_backwards(shape, dtype):
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    ways = [
        x[..., ::-1],
        x[::-1],
        np.flip(x),
        np.flip(x).T,
        x.T[::-1],
        x[..., ::-2],
        x[..., ::-1][1:],
    ]
    for which in (limits.normal(), limits.tiny()):
        with which:
            for way in ways:
                found = astype(way, dtype=np.dtype(dtype))
                np.testing.assert_array_equal(found, way)
                assert found.base is None or found.base is not x
                assert min(found.strides) >= 0 or not found.size
