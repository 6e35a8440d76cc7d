"""What several kernels compute has the same bits in all of them: masks of maxima depend on it."""

import numpy as np
import pytest

import fx
from tests.thorough import pairs

SHAPES = [(6, 16), (3, 8), (5, 20), (7, 64), (4, 5), (2, 3, 16)]
INSIDE = {
    "less the mean of a column": lambda x: x - x.mean(0),
    "less the mean of a row": lambda x: x - x.mean(-1, keepdims=True),
    "by a number": lambda x: x / 3.7,
    "by a column": lambda x: x / (x.abs().sum(0) + 0.3),
    "by a row": lambda x: x / (x.abs().sum(-1, keepdims=True) + 0.3),
    "normalised": lambda x: (x - x.mean(0)) / (x.std(0) + 0.1),
    "normalised rows": lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True),
    "by a square": lambda x: x / (x * x).mean(0) / 1.3,
    "exponentials": lambda x: fx.exp(x / 3.0 - x.max(0).values) / 7.0,
    "a number by it": lambda x: 1.7 / (x.abs() + x.mean(0) / 6.0),
    "roots": lambda x: fx.sqrt(x.abs() / 3.0 + (x * x).mean(0) / 5.0),
    "softmax": lambda x: fx.softmax(x / 1.7, 0) / 3.0,
}


@pytest.mark.parametrize(("inside", "name"), pairs(INSIDE, ["amax", "amin"], 2))
def test_slopes_of_extrema(name, inside):
    for shape in SHAPES:
        values = np.random.default_rng(len(shape) * shape[-1]).normal(size=shape)
        x = fx.asarray(values.astype(np.float32))
        for axis in range(-1, x.ndim - 1):

            def reached(x, axis=axis):
                return getattr(fx, name)(INSIDE[inside](x), axis).sum()

            want = fx.grad(reached)(x).numpy()
            got = fx.jit(fx.grad(reached))(x).numpy()
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4, err_msg=f"{shape} {axis}")


def test_quotients_by_a_number_that_is_known_are_rounded_once():
    x = fx.arange(1, 2000, dtype=fx.float32)
    for by in (3.0, 49.0, 0.7, 1e-3):
        got = fx.jit(lambda x, by=by: x / by + 0)(x).numpy()
        np.testing.assert_array_equal(got, x.numpy() / np.float32(by))
