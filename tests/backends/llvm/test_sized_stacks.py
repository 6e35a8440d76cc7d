"""Stacks of matrices in programs for any size: factored and solved, however many there are."""

import numpy as np
import pytest

import fx
from fx.errors import LinAlgError
from tests.backends.llvm.test_sized import served

assert served  # a fixture

CASES = {
    "solve": lambda a, b: fx.linalg.solve(a, b),
    "inv": lambda a, b: fx.linalg.inv(a),
    "det": lambda a, b: fx.linalg.det(a),
    "cholesky": lambda a, b: fx.linalg.cholesky(a @ a.mT + fx.eye(a.shape[-1])),
    "triangular": lambda a, b: fx.linalg.solve_triangular(a, b, upper=True),
    "qr": lambda a, b: abs(fx.linalg.qr(a)[1]),
    "eigh": lambda a, b: fx.linalg.eigh(a + a.mT)[0],
    "svdvals": lambda a, b: fx.linalg.svdvals(a),
    "pinv": lambda a, b: fx.linalg.pinv(a),
    "matrix_exp": lambda a, b: fx.linalg.matrix_exp(a * 0.1),
    "gradient of solve": lambda a, b: fx.grad(lambda a: (fx.linalg.solve(a, b) ** 2).sum())(a),
    "gradient of slogdet": lambda a, b: fx.grad(lambda a: fx.linalg.slogdet(a)[1].sum())(a),
}


BY_LAPACK = ("solve", "inv", "det", "triangular", "qr", "svdvals")  # others are small, in lanes
ALL = [*[(name, 3) for name in CASES], *[(name, 70) for name in BY_LAPACK]]


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(("name", "rows"), ALL)
def test_any_number_of_matrices_is_served_by_one_program(served, name, rows):
    f = CASES[name]
    jitted = fx.jit(f)
    emitted = []
    for n in (20, 37, 16, 1, 63, 5, 13, 4) if rows < 9 else (5, 7, 4):
        rng = np.random.default_rng(n)
        a = fx.tensor(rng.normal(size=(n, rows, rows)) + 3 * np.eye(rows))
        b = fx.tensor(rng.normal(size=(n, rows, 2)))
        before = dict(served)
        found, wanted = jitted(a, b), f(a, b)
        emitted.append(served["kernels"] - before["kernels"])
        assert served["sized"] - before["sized"] == (n > 1 and len(emitted) > 1)
        scale = max(1.0, float(abs(wanted).max()))
        np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-9 * scale)
    assert emitted[1] and not any(emitted[i] for i in (2, 4, 6, 7) if i < len(emitted))


def test_the_singular_one_is_named_at_any_number(served):
    jitted = fx.jit(lambda a, b: fx.linalg.solve(a, b))
    for n in (20, 21, 22):
        a = fx.broadcast_to(fx.eye(3), (n, 3, 3)).at[n - 2].set(0.0)
        told = []
        for f in (fx.linalg.solve, jitted):
            with pytest.raises(LinAlgError) as caught:
                f(a, fx.ones((n, 3, 1)))
            told.append(str(caught.value).partition("\n")[0])
        assert told[0] == told[1] and str(n - 2) in told[0]
    assert served["sized"] == 2
