"""Orthogonal factors of many small real matrices, which are found side by side in vectors' lanes."""

import numpy as np
import pytest

import fx
from tests.linalg.peers import close, numbers
from tests.linalg.test_lanes import one_by_one

DTYPES = ("float32", "float64")


def odd(shape, dtype):
    """A stack with zeros, ones on the diagonal, repeated rows, large, small and other numbers."""
    a = numbers(shape, dtype)
    a[0], a[1], a[2, 0], a[3, :, 0], a[4] = 0.0, np.eye(*shape[1:]), a[2, -1], 0.0, a[4] * 1e-30
    a[5], a[6], a[7, -1], a[8] = a[5] * 1e30, np.triu(a[6]), 0.0, np.ones(shape[1:])
    return a


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, n", [(1, 1), (4, 4), (9, 5), (5, 9), (17, 17), (40, 33)])
def test_qr_is_that_of_lapack(dtype, m, n):
    a = odd((20, m, n), dtype)
    for mode in ("reduced", "complete"):
        want = [one_by_one(lambda a, i=i: fx.linalg.qr(a, mode=mode)[i], a) for i in (0, 1)]
        for wrap in (lambda f: f, fx.jit):
            q, r = wrap(lambda a: fx.linalg.qr(a, mode=mode))(fx.asarray(a))
            for i in range(len(a)):
                size = max(np.abs(a[i]).max(), 1e-30)
                close(r.numpy()[i] / size, want[1][i] / size, dtype, 10)
                if np.linalg.matrix_rank(a[i]) == min(m, n):  # else columns are free
                    close(q.numpy()[i], want[0][i], dtype, 20)
            unit = q.numpy().swapaxes(1, 2) @ q.numpy()
            close(unit, np.broadcast_to(np.eye(unit.shape[1], dtype=dtype), unit.shape), dtype, 2)
            size = np.maximum(np.abs(a).max((1, 2), keepdims=True), 1e-30)
            close((q @ r).numpy() / size, a / size, dtype, 5)


def test_qr_of_what_is_not_finite_touches_no_neighbour():
    a = numbers((20, 6, 4), "float32")
    want = fx.linalg.qr(fx.asarray(a))
    a[3, 2, 1], a[7, 0, 0] = np.nan, np.inf
    got = fx.linalg.qr(fx.asarray(a))
    others = [i for i in range(20) if i not in (3, 7)]
    for g, w in zip(got, want):
        assert np.array_equal(g.numpy()[others], w.numpy()[others])
    assert np.isnan(got[0].numpy()[3]).any() and np.isnan(got[0].numpy()[7]).any()
