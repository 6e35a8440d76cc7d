"""Native cumulative operations against the eager kernels."""

import numpy as np
import pytest

from fx.backends.cpu.llvm.node_steps import STEPS
from fx.dtypes import ALL, COMPLEX, FLOATING
from fx.primitive import registry
from tests.backends.llvm.run_step import compile_step, node_of

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

REAL = [d for d in ALL if d not in COMPLEX]
SHAPES = [((5,), 0), ((6, 70), 1), ((3, 20, 33), 1), ((2, 5, 300), 1), ((4, 1), 0)]


def _numbers(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape) * 3
    if dtype in FLOATING:
        x.reshape(-1)[:: max(2, x.size // 3)] = 1.0
    return x > 0 if dtype == np.bool_ else x.astype(dtype)


def _check(name, arrays, rtol=0.0, **params):
    step = STEPS[name](node_of(name, arrays, **params))
    want = registry[name].cpu(*arrays, **params)
    want = want if isinstance(want, tuple) else (want,)
    run = compile_step(step)
    for pieces in {1, step.tasks}:
        for got, exact in zip(run(*arrays, pieces=pieces), want, strict=True):
            assert got.dtype == exact.dtype
            a, b = got.astype(np.float64), exact.astype(np.float64)
            if rtol:
                np.testing.assert_allclose(a, b, rtol, rtol)
            else:
                assert np.array_equal(a, b, equal_nan=True)


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
def test_scans(name, dtype):
    for i, (shape, axis) in enumerate(SHAPES):
        x = _numbers(shape, dtype)
        if dtype in FLOATING:
            x = (x.astype(np.float64) * 0.1 + 1).astype(dtype) if name == "cumprod" else x
            if name in ("cummax", "cummin"):
                x.reshape(-1)[x.size // 2] = np.nan
        _check(name, [x], axis=axis, reverse=bool(i % 2))


@pytest.mark.parametrize("dtype", sorted(FLOATING, key=str), ids=str)
@pytest.mark.parametrize("reverse", [False, True])
def test_floating_scans(dtype, reverse):
    rtol = 1e-2 if dtype.itemsize == 2 else 2e-6 if dtype == np.float32 else 1e-14
    for shape, axis in SHAPES[:4]:
        x = _numbers(shape, dtype)
        _check("logcumsumexp", [x], rtol, axis=axis, reverse=reverse)
        factors = (_numbers(shape, dtype, 1).astype(np.float64) * 0.3).astype(dtype)
        _check("recurrence", [factors, x], axis=axis, reverse=reverse)


def test_infinities_in_logcumsumexp():
    x = np.array([-np.inf, -np.inf, 0.0, np.inf, 1.0, np.nan, 2.0])
    _check("logcumsumexp", [x], axis=0, reverse=False, rtol=1e-15)


def test_long_ones_are_split_into_tasks():
    x = np.random.default_rng(0).normal(size=(50, 40, 600)).astype(np.float32)
    for axis in (1, 2):
        step = STEPS["cumsum"](node_of("cumsum", [x], axis=axis, reverse=False))
        assert step.tasks > 1
        _check("cumsum", [x], axis=axis, reverse=False)
    flat = x.reshape(200, 6000)
    assert STEPS["cumsum"](node_of("cumsum", [flat], axis=0, reverse=False)).tasks > 1
    _check("cumsum", [flat], axis=0, reverse=True)
