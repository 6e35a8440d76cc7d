"""Extrema equal NumPy's, whichever kernel takes them and however the array lies."""

from __future__ import annotations

import numpy as np
import pytest

from fx import limits
from fx.backends.cpu import reduction
from tests.thorough import pairs

SHAPES = [(4,), (2,), (1000, 2), (7, 3), (5, 5, 4), (3, 4096), (2000, 3), (0, 3), (2, 2), (50, 60)]


DTYPES = [np.float32, np.float64, np.int32, np.bool_, np.float16]


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize(("shape", "dtype"), pairs(SHAPES, DTYPES, 2))
def test_extrema_are_numpys(name, shape, dtype):
    kernel, ufunc = getattr(reduction, name), {"max": np.maximum, "min": np.minimum}[name]
    x = (np.random.default_rng(0).normal(size=shape) * 50).astype(dtype)
    if dtype in (np.float32, np.float64) and x.size > 6:
        x.reshape(-1)[5] = np.nan
    for which in (limits.normal(), limits.tiny()):
        with which:
            for given in (x, x.T, x[::-1]):
                for axes in [*[(i,) for i in range(given.ndim)], tuple(range(given.ndim))]:
                    if not all(given.shape[i] for i in axes):
                        continue
                    for keepdims in (False, True):
                        got = np.asarray(kernel(given, axes=axes, keepdims=keepdims))
                        want = np.asarray(ufunc.reduce(given, axes, keepdims=keepdims))
                        assert got.dtype == want.dtype and got.shape == want.shape
                        np.testing.assert_array_equal(got, want)
