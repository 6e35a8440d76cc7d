"""Many small real matrices, which are factored and solved side by side in the lanes of vectors."""

from functools import partial

import numpy as np
import pytest

import fx
from fx.backends.cpu.llvm.machines import lane_bytes
from fx.prims.linalg import det
from fx.prims.linalg.lu import lu, lu_solve
from fx.prims.linalg.triangular import triangular_solve
from tests.linalg.peers import close, numbers, positive

# fewer than a vector of float32 holds, and some and a part of one
COUNTS = (lane_bytes() // 8 + 1, 40)


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


@pytest.mark.parametrize("n, k", [(2, 5), (7, 8), (3, 12), (17, 9), (33, 64)])
def test_solves_for_more_sides_are_those_of_lapack(n, k):
    a, b = numbers((40, n, n), "float64"), numbers((40, n, k), "float64", 1)
    a += 2 * n**0.5 * np.eye(n)[::-1]  # rows that have to be exchanged
    want = one_by_one(fx.linalg.solve, a, b)
    for wrap in (lambda f: f, fx.jit):
        close(wrap(fx.linalg.solve)(*map(fx.asarray, (a, b))), want, "float64", 5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 5, 8, 33])
def test_determinants_are_those_of_lapack(dtype, n):
    a = numbers((40, n, n), dtype) / n**0.5
    for function in (fx.linalg.det, lambda x: fx.linalg.slogdet(x)[0], fx.linalg.logdet):
        want = one_by_one(function, a)
        for wrap in (lambda f: f, fx.jit):
            got = wrap(function)(fx.asarray(a)).numpy()
            assert np.array_equal(np.isnan(got), np.isnan(want))  # logdet of what is negative
            close(np.nan_to_num(got), np.nan_to_num(want), dtype, 5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("n, k", [(3, 1), (4, 4), (6, 5), (17, 2), (32, 1), (41, 1), (64, 1)])
def test_triangular_solves_are_those_of_lapack(dtype, lower, transposed, left, n, k):
    a = positive((40, n, n), dtype) / n
    b = numbers((40, n, k) if left else (40, k, n), dtype, 1)
    for unit in (False, True):
        solve = partial(triangular_solve, left=left, lower=lower, transposed=transposed, unit=unit)
        a = a / 8 if unit else a  # else what comes of ones on the diagonal grows
        want = one_by_one(solve, a, b)
        for wrap in (lambda f: f, fx.jit):
            close(wrap(solve)(fx.asarray(a), fx.asarray(b)), want, dtype, 5)


@pytest.mark.parametrize("n", [4, 6, 17, 40])
def test_a_matrix_has_the_same_bits_in_every_company(n):
    a, b = numbers((40, n, n), "float64"), numbers((40, n, 2), "float64", 1)
    a[0], a[1], a[2, :, 1] = 1e-310 * np.eye(n), np.inf, 0.0
    for function in (
        lambda a, b: fx.linalg.inv_ex(a).inverse,
        lambda a, b: fx.linalg.solve_ex(a, b).result,
        lambda a, b: fx.linalg.det(a),
        lambda a, b: fx.linalg.solve_triangular(a, b, upper=False),
        lambda a, b: fx.linalg.solve_triangular(a, b[..., :1], upper=False),
        lambda a, b: fx.linalg.lu_factor_ex(a).LU,
        lambda a, b: fx.linalg.lu_solve(*fx.linalg.lu_factor_ex(a)[:2], b),
    ):
        whole = function(fx.asarray(a), fx.asarray(b)).numpy()
        part = function(fx.asarray(a[11:28]), fx.asarray(b[11:28])).numpy()
        assert np.array_equal(part, whole[11:28])


def test_pivots_are_the_largest_elements():
    a = numbers((40, 12, 12), "float32")
    a[:, np.arange(12), np.arange(12)] = 1e-6  # what elimination without exchanges would take
    b = numbers((40, 12, 1), "float32", 1)
    exact = np.linalg.solve(a.astype(float), b.astype(float))
    size = np.abs(exact).max((1, 2))
    found = fx.linalg.solve(fx.asarray(a), fx.asarray(b)).numpy()
    ours, lapack = (
        np.abs(x - exact).max((1, 2)) / size for x in (found, one_by_one(fx.linalg.solve, a, b))
    )
    assert np.median(ours) < 2 * np.median(lapack) and ours.max() < 4 * lapack.max()


@pytest.mark.parametrize("size", [1e-41, 1e-30, 1e30])
def test_pivots_of_any_size_divide(size):
    a = (size * positive((20, 6, 6), "float64") / 6).astype("float32")
    b = (a.astype(float) @ np.ones((6, 1))).astype("float32")
    found, ones = fx.linalg.solve(fx.asarray(a), fx.asarray(b)), np.ones((20, 6, 1), "float32")
    close(found, ones, "float32", 5000 if size < 1e-37 else 10)  # subnormal a has few digits
    sign, log = fx.linalg.slogdet(fx.asarray(a))
    want = np.linalg.slogdet(a.astype(float))
    close(sign, want[0].astype("float32"), "float32")
    close(log, want[1].astype("float32"), "float32")


def test_what_is_not_finite_gives_what_lapack_gives():
    rows = [
        [[0.0, 1.0], [np.nan, 1.0]],
        [[0.0, 1.0], [np.inf, 1.0]],
        [[np.inf, 1.0], [1.0, 1.0]],
        [[0.0, np.nan], [1.0, 1.0]],
        [[0.0, 0.0], [0.0, 0.0]],
        [[1.0, 2.0], [2.0, 4.0]],
        [[np.nan, np.nan], [np.nan, np.nan]],
    ]
    one = np.array(rows)
    stack, b = np.concatenate([one] * 3), np.ones((21, 2, 1))
    for function in (
        lambda a, b: fx.linalg.solve_ex(a, b).info,
        lambda a, b: fx.linalg.solve_ex(a, b).result,
        lambda a, b: fx.linalg.det(a),
        lambda a, b: fx.linalg.slogdet(a)[0],
        lambda a, b: fx.linalg.slogdet(a)[1],
    ):
        got = function(fx.asarray(stack), fx.asarray(b)).numpy()
        assert np.array_equal(got, one_by_one(function, stack, b), equal_nan=True)


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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [3, 16, 19, 32, 40])
@pytest.mark.parametrize("sides", [1, 3])
def test_the_other_triangle_of_a_solve_is_not_read(dtype, n, sides):
    """Its elements are not even brought where whole vectors of them lie beside the triangle."""
    rng = np.random.default_rng(n)
    a = rng.normal(size=(33, n, n)) / n + 2 * np.eye(n)
    b = rng.normal(size=(33, n, sides))
    for upper in (False, True):
        whole = np.triu(a) if upper else np.tril(a)
        given = np.where(whole == 0, np.nan, whole).astype(dtype)
        for left in (False, True):
            right = b if left else b.swapaxes(1, 2)
            got = fx.linalg.solve_triangular(
                fx.asarray(given), fx.asarray(right.astype(dtype)), upper=upper, left=left
            )
            back = whole @ got.numpy() if left else got.numpy() @ whole
            np.testing.assert_allclose(back, right, atol=1e-4 if dtype == "float32" else 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 5, 8, 17, 33, 64])
def test_factors_and_exchanges_are_those_of_lapack(dtype, n):
    a = numbers((40, n, n), dtype)
    for wrap in (lambda f: f, fx.jit):
        found, *places = wrap(lu)(fx.asarray(a))
        ones = [lu(fx.asarray(one)) for one in a]
        for i, place in enumerate(places, 1):  # pivots, the order, info
            assert np.array_equal(place.numpy(), np.stack([one[i].numpy() for one in ones]))
        close(found, np.stack([one[0].numpy() for one in ones]), dtype, 200)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("n, k", [(1, 1), (3, 1), (4, 3), (17, 1), (17, 9), (64, 2), (5, 70)])
def test_solves_by_factors_have_the_bits_of_solves(dtype, transposed, n, k):
    a, b = numbers((40, n, n), dtype), numbers((40, n, k), dtype, 1)
    factors, _, order, _ = lu(fx.asarray(a))
    solve = partial(lu_solve, transposed=transposed)
    for wrap in (lambda f: f, fx.jit):
        found = wrap(solve)(factors, order, fx.asarray(b)).numpy()
        exact = a.swapaxes(1, 2) if transposed else a
        apart = np.abs(exact.astype(float) @ found - b).max((1, 2))
        assert (apart < 50 * n * np.finfo(dtype).eps * np.abs(found).max((1, 2))).all()
        if not transposed and k <= 64:
            assert np.array_equal(found, fx.linalg.solve(fx.asarray(a), fx.asarray(b)).numpy())


@pytest.mark.parametrize("count", [2, 40])
def test_a_solve_by_singular_factors_is_nan(count):
    a = positive((count, 3, 3), "float64")
    a[1, :, 1] = 0.0
    factors, _, order, info = lu(fx.asarray(a))
    assert info.tolist() == [2 if i == 1 else 0 for i in range(count)]
    for transposed in (False, True):
        for k in (1, 3):
            b = fx.ones((count, 3, k), dtype=fx.float64)
            found = lu_solve(factors, order, b, transposed=transposed).numpy()
            assert np.isnan(found[1]).all() and np.isfinite(np.delete(found, 1, 0)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 17, 64])
def test_the_gradient_of_cholesky_in_lanes_is_that_of_each_matrix(dtype, n):
    a, ct = positive((21, n, n), dtype), numbers((21, n, n), dtype, 1)
    ct[4, 0, n - 1] += n > 1  # what lies above the diagonal counts for nothing

    def slopes(a, ct):
        return fx.grad(lambda a: (fx.linalg.cholesky(a) * ct).sum())(a)

    found = slopes(*map(fx.asarray, (a, ct))).numpy()
    close(found, one_by_one(slopes, a, ct), dtype, 20)
    close(found, fx.jit(slopes)(*map(fx.asarray, (a, ct))).numpy(), dtype, 20)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cofactors_in_lanes_have_the_bits_of_several_steps(dtype):
    for n in (1, 4, 9):
        a = np.random.default_rng(n).normal(size=(19, n, n)).astype(dtype)
        a[3], a[7, 0], a[8, :, -1] = 0, 0, a[8, :, 0]  # singular ones, and a row of zeros
        x = fx.asarray(a)
        for fused in (det.cofactors, det.inverse_transposed):
            assert np.array_equal(fused(x).numpy(), fused.reference(x).numpy(), equal_nan=True)
