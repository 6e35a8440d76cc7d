"""``where`` of plain arrays: NumPy's to the bit, at every size, of arrays and of numbers."""

import numpy as np
import pytest

from fx import limits
from fx.backends.cpu.elementwise import where
from tests.backends.test_tiny_limits import TURNS

NUMBERS = [np.nan, -np.inf, 0.0, -0.0, 3e38, 1e-45]


def check(condition, x, y):
    for which in (limits.given(WHERE_FROM=1), limits.tiny(), limits.given()):
        with which:
            got = where(condition, x, y)
        want = np.where(condition, x, y)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [0, 1, 7, 16, 33, 255, 256, 2048, 2049, 70_001])
def test_sizes(size, dtype):
    rng = np.random.default_rng(size)
    x, y = rng.standard_normal((2, size)).astype(dtype)
    x[::3] = np.resize(NUMBERS, x[::3].shape)
    condition = rng.random(size) < 0.5
    check(condition, x, y)
    for number in NUMBERS:
        number = np.array(number, dtype)
        check(condition, x, number)
        check(condition, number, y)
    check(condition, number, np.array(1.0, dtype))


@pytest.mark.parametrize("turn", TURNS)
def test_layouts_and_shapes(turn):
    rng = np.random.default_rng(0)
    x, y = [TURNS[turn](rng.standard_normal((17, 33)).astype(np.float32)) for _ in "xy"]
    condition = np.asarray(x) > 0
    check(condition, x, y)
    check(condition, x, y[:1])
    check(condition[:, :1], x, y)
    check(condition, x, y.astype(np.float64))
    check(condition, x.astype(np.int32), y.astype(np.int32))
