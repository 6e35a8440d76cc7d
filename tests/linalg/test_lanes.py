"""Many small real matrices, which are factored and solved side by side in the lanes of vectors."""

import numpy as np
import pytest

import fx
from tests.linalg.peers import close, numbers, positive

COUNTS = (9, 40)  # fewer than a vector of float32 holds, and some and a part of one


def one_by_one(function, *stacks):
    """LAPACK's results, a matrix at a time."""
    return np.stack([function(*map(fx.asarray, row)).numpy() for row in zip(*stacks, strict=True)])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 3, 4, 17, 64])
@pytest.mark.parametrize("count", COUNTS)
def test_the_results_are_those_of_lapack(dtype, n, count):
    a, b = positive((count, n, n), dtype), numbers((count, n, min(n, 3)), dtype, 1)
    turned = np.ascontiguousarray(a[:, ::-1])  # rows that have to be exchanged
    for function, args in (
        (fx.linalg.cholesky, (a,)),
        (fx.linalg.inv, (turned,)),
        (fx.linalg.solve, (turned, b)),
    ):
        want = one_by_one(function, *args)
        for wrap in (lambda f: f, fx.jit):
            close(wrap(function)(*map(fx.asarray, args)), want, dtype, 2)


def test_a_matrix_has_the_same_bits_in_every_company():
    a = numbers((40, 6, 6), "float64")
    whole = fx.linalg.inv(fx.asarray(a)).numpy()
    assert np.array_equal(fx.linalg.inv(fx.asarray(a[11:28])).numpy(), whole[11:28])


@pytest.mark.parametrize("n", [3, 8])
def test_one_that_fails_does_not_touch_its_neighbours(n):
    a = positive((20, n, n), "float64")
    want = np.linalg.inv(a), np.linalg.cholesky(a)
    a[5, 1], a[5, :, 1] = 0.0, 0.0
    inverse, info = fx.linalg.inv_ex(fx.asarray(a))
    factor, told = fx.linalg.cholesky_ex(fx.asarray(a))
    others = [i for i in range(20) if i != 5]
    assert np.flatnonzero(info.numpy()).tolist() == [5]
    assert told.tolist() == [2 if i == 5 else 0 for i in range(20)]
    for found, right in ((inverse, want[0]), (factor, want[1])):
        close(found.numpy()[others], right[others], "float64", 10)
        assert np.isnan(found.numpy()[5]).any()
    with pytest.raises(fx.errors.LinAlgError, match="Batch element 5"):
        fx.jit(fx.linalg.cholesky)(fx.asarray(a))
