"""Numbers evenly apart: those of the kernel are float64's, rounded once, at any size."""

from __future__ import annotations

import numpy as np
import pytest

import fx
from fx import limits
from fx.backends.cpu import creation

STEPS = [
    (0, 1), (0, -1), (-0.0, 0.3), (1.7, -0.37), (1e30, 1e28), (np.inf, 1.0), (3, 0.0),
    (1e-300, 1e-310), (2**60, 3), (0.0, -0.0), (np.nan, 1.0),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("start, step", STEPS)
@pytest.mark.parametrize("shape, axis", [((4096,), 0), ((10007,), 0), ((2, 5003, 1), 1)])
def test_the_kernel_gives_what_numpy_gives(start, step, shape, axis, dtype):
    n, where = shape[axis], dict(device="cpu", dtype=np.dtype(dtype))
    with np.errstate(all="ignore"):
        wanted = (float(start) + float(step) * np.arange(n, dtype=np.float64)).astype(dtype)
    with limits.given(EARLY_CALLS=0):
        got = creation.iota(shape=shape, axis=axis, start=start, step=step, **where)
    assert got.dtype == dtype and got.shape == shape
    for line in np.moveaxis(got, axis, -1).reshape(-1, n):
        np.testing.assert_array_equal(line, wanted)
        known = wanted == wanted
        np.testing.assert_array_equal(np.signbit(line[known]), np.signbit(wanted[known]))


@pytest.mark.parametrize("dtype", [fx.float32, fx.float64, fx.float16, fx.int64])
@pytest.mark.parametrize("n", [2, 3, 256, 257, 5000, 10007, 20011])
def test_linspace_is_exact_at_both_ends_and_the_same_compiled(n, dtype):
    ends = (-7, 7 + n) if dtype is fx.int64 else (-1.3, 2.9)
    for _ in range(limits.EARLY_CALLS + 2):
        got = fx.linspace(*ends, n, dtype=dtype)
    wide = np.linspace(*ends, n)
    assert (got.numpy()[[0, -1]] == wide.astype(got.numpy().dtype)[[0, -1]]).all()
    if dtype is fx.float64:
        np.testing.assert_allclose(got.numpy(), wide, rtol=1e-15, atol=1e-15)
    for endpoint in (True, False):
        got = fx.linspace(*ends, n, endpoint, dtype=dtype)
        compiled = fx.jit(lambda e: fx.linspace(*ends, n, e, dtype=dtype), static_argnums=0)(
            endpoint
        )
        np.testing.assert_array_equal(got.numpy(), compiled.numpy())
