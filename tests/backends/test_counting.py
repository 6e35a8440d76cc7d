"""Histograms and counts of classes by kernels: against NumPy, and against their references."""

from __future__ import annotations

import numpy as np
import pytest

import fx
from fx import limits
from fx.ops.reductions.counting import bincount, histc, histogram


def drawn(rng, dtype):
    """Values of which many lie on an edge, some are NaN and some are infinite."""
    x = np.where(rng.random(400) < 0.5, rng.normal(size=400), rng.integers(-16, 17, 400) / 8)
    x[::50], x[7] = np.nan, np.inf
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("seed", range(4))
def test_counts_between_edges_are_numpys(seed, dtype):
    rng = np.random.default_rng(seed)
    x = drawn(rng, dtype)
    known = x[np.isfinite(x)]
    uneven = np.sort(rng.integers(-20, 20, 9) / 8).astype(dtype)
    for calls in (0, 99):  # by the kernel, and in steps
        with limits.given(EARLY_CALLS=calls):
            for bins in (1, 3, 16, 100):
                got = histogram(fx.tensor(x), bins, range=(-2.0, 1.0))
                want = np.histogram(known, got.bin_edges.numpy())[0]
                np.testing.assert_array_equal(got.hist.numpy(), want)
                np.testing.assert_array_equal(histc(fx.tensor(x), bins, -2, 1).numpy(), want)
                assert got.hist.dtype == got.bin_edges.dtype == np.dtype(dtype)
            got = histogram(fx.tensor(x), fx.tensor(uneven)).hist
            np.testing.assert_array_equal(got.numpy(), np.histogram(known, uneven)[0])


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "uint64"])
def test_classes_are_counted(dtype):
    x = np.random.default_rng(0).integers(0, 9, 50).astype(dtype)
    for length in (0, 4, 30):
        want = np.bincount(x.astype(np.int64), minlength=length)
        for got in (bincount(fx.tensor(x), minlength=length), _staged(fx.tensor(x), length)):
            assert got.dtype == fx.int64
            np.testing.assert_array_equal(got.numpy(), want)
    with pytest.raises(fx.errors.ShapeError, match="got a negative one"):
        bincount(fx.tensor([1, -1]))
    with pytest.raises(fx.errors.ShapeError, match="minlength must not be negative"):
        bincount(fx.tensor([1]), minlength=-1)


def _staged(x, length):
    return fx.jit(lambda a: bincount(a, minlength=length))(x)
