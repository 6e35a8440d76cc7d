"""Compiled reductions: operands of every layout, lengths around thresholds, against float64."""

import random

import numpy as np
import pytest

import fx
import fx.nn.functional as F
from fx import limits
from fx.backends.cpu.llvm.this_cpu import this_cpu
from fx.compiler.schedule import schedule
from tests.compiler.schedules import run_schedule, staged

# what is reduced, given a line of numbers and how many: the same function for fx and for NumPy, as
# far as they agree on names
LAYOUTS = {
    "dense": lambda m, x, n: x[:n],
    "offset": lambda m, x, n: x[5 : n + 5],
    "column": lambda m, x, n: x[: 4 * n].reshape(n, 4)[:, 1],
    "columns": lambda m, x, n: x[: 4 * n].reshape(n, 4)[:, 1:3],
    "every second": lambda m, x, n: x[: 2 * n : 2],
    "every third, from the end": lambda m, x, n: m.flip(x[: 3 * n : 3]),
    "reversed": lambda m, x, n: m.flip(x[:n]),
    "transposed": lambda m, x, n: x[: 3 * n].reshape(n, 3).T,
    "rows": lambda m, x, n: x[: 3 * n].reshape(3, n),
    "rows, apart": lambda m, x, n: x[: 4 * n].reshape(4, n)[::2],
    "repeated along": lambda m, x, n: m.broadcast_to(x[:3, None], (3, n)),
    "repeated across": lambda m, x, n: m.broadcast_to(x[:n], (3, n)),
    "one number": lambda m, x, n: m.broadcast_to(x[0], (n,)),
    "joined": lambda m, x, n: m.concat([x[: n // 3], x[7 : n - n // 3 + 7]]),
    "ones": lambda m, x, n: m.ones(n, dtype=x.dtype),
    "rows of ones": lambda m, x, n: m.ones((5, n), dtype=x.dtype),
    "places": lambda m, x, n: m.astype(m.arange(n), x.dtype) / n,
    "masked by place": lambda m, x, n: m.where(m.arange(n) % 2 == 0, x[:n], 0 * x[0]),
}
REDUCTIONS = {
    "sum": lambda m, x, axis: m.sum(x, axis=axis),
    "mean": lambda m, x, axis: m.mean(x, axis=axis),
    "var": lambda m, x, axis: m.var(x, axis=axis),
    "max": lambda m, x, axis: m.max(x, axis=axis),
    "min": lambda m, x, axis: m.min(x, axis=axis),
    "prod": lambda m, x, axis: m.prod(m.where(x > 1.5, 0 * x - 1, 0 * x + 1), axis=axis),
    "any": lambda m, x, axis: m.any(x > 3.0, axis=axis),
    "all": lambda m, x, axis: m.all(x > -9.0, axis=axis),
    "logsumexp": lambda m, x, axis: (
        fx.logsumexp(x, axis=axis) if m is fx else np.log(np.sum(np.exp(x), axis=axis))
    ),
    "padded": lambda m, x, axis: (
        m.sum(F.pad(x, (2, 3), value=0.5) if m is fx
              else np.pad(x, [(0, 0)] * (x.ndim - 1) + [(2, 3)], constant_values=0.5), axis=axis)
    ),
}  # fmt: skip
TOLERANCE = {"float64": 1e-12, "float32": 2e-6, "bfloat16": 2.0**-6}  # of the order of sums


def lengths_around(*thresholds):
    return sorted({n + d for n in thresholds for d in (-1, 0, 1, 7)})


def check(layout, reduction, dtype, n, pieces=1):
    line = np.random.default_rng(n).standard_normal(4 * n + 8).astype(fx.dtypes.as_dtype(dtype))
    wide = line.astype(np.float64)
    operand = LAYOUTS[layout](np, wide, n)
    for axis in (None, *range(operand.ndim if operand.ndim > 1 else 0)):

        def function(x, axis=axis):
            return REDUCTIONS[reduction](fx, LAYOUTS[layout](fx, x, n), axis)

        (got,) = run_schedule(schedule(staged(function, line), this_cpu()), line, pieces=pieces)
        want = REDUCTIONS[reduction](np, operand, axis)
        # relative to what a sum adds up, of which an element out of place is one part
        if reduction in ("sum", "padded"):
            size = max(1.0, np.abs(operand).sum() / np.size(want))
        else:
            size = max(1.0, np.abs(want).max())
        error = np.abs(got.astype(np.float64) - want).max() / size
        assert error <= TOLERANCE[dtype], (
            f"{layout}, {reduction}, {dtype}, {n}, axis {axis}: {error}"
        )


@pytest.fixture
def short_chunks():
    """Rows are long from 48 elements on, and a chunk has at least 32."""
    with limits.given(HALVES_CHUNK=32, HALVES_LONG=48, HALVES_ADDS=16):
        yield


@pytest.mark.parametrize("layout", LAYOUTS)
def test_many_short_chunks(layout, short_chunks):
    draw = random.Random(layout)
    for reduction in REDUCTIONS:
        n = draw.choice(lengths_around(48, 64, 32 * 16, 32 * 32, 1700))
        check(layout, reduction, draw.choice(["float32", "float64", "bfloat16"]), n, 3)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_at_the_true_thresholds(layout):
    draw = random.Random(layout)
    for reduction in draw.sample(sorted(REDUCTIONS), 2):
        # in float64 one element more or less is far above the rounding
        check(layout, reduction, "float64", draw.choice(lengths_around(1 << 16, 1 << 18, 700_000)))


# rows of which some loops repeat what they reduce: values are kept outside of those loops
REPEATED = {
    "rows": lambda m, x: m.repeat(x, 2, axis=0),
    "columns": lambda m, x: m.repeat(x, 3, axis=1),
    "joined rows": lambda m, x: m.repeat(m.concat([x, x], axis=1), 2, axis=0),
    "joined columns": lambda m, x: m.repeat(m.concat([x, 2 * x], axis=0), 2, axis=1),
    "tiles": lambda m, x: m.tile(x, (2, 3)),
    "in the middle": lambda m, x: m.broadcast_to(x[:, None, :], (x.shape[0], 4, x.shape[1])),
    "at the end": lambda m, x: m.broadcast_to(x[:, :, None], (*x.shape, 4)),
    "of a transpose": lambda m, x: m.repeat(x.T, 2, axis=0),
}


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


OF_ROWS = {
    "softmax": (fx.softmax, softmax),
    "log_softmax": (fx.log_softmax, lambda x, axis: np.log(softmax(x, axis))),
    "logsumexp": (fx.logsumexp, lambda x, axis: np.log(np.exp(x).sum(axis))),
    "spread": (
        lambda x, axis: fx.var(fx.tanh(x), axis=axis), lambda x, axis: np.var(np.tanh(x), axis),
    ),
    "picked": (
        lambda x, axis: fx.sum(fx.where(x > 0, fx.log_softmax(x, axis=axis), 0.0), axis=axis),
        lambda x, axis: np.where(x > 0, np.log(softmax(x, axis)), 0).sum(axis),
    ),
}  # fmt: skip


@pytest.mark.parametrize("view", REPEATED)
def test_passes_over_rows_that_repeat_their_values(view):
    draw = random.Random(view)
    x = np.random.default_rng(0).standard_normal(draw.choice([(130, 31), (17, 40), (3, 17)]))
    operand = REPEATED[view](np, x)
    for name, (function, oracle) in OF_ROWS.items():
        axis = draw.randrange(operand.ndim)
        graph = staged(lambda x, f=function, a=axis: f(REPEATED[view](fx, x), a), x)
        with limits.tiny() if draw.random() < 0.3 else limits.given():
            (got,) = run_schedule(schedule(graph, this_cpu()), x)
        np.testing.assert_allclose(got, oracle(operand, axis), 1e-9, 1e-11, err_msg=name)


# of rows that a kernel goes through anyway: what is added up down the columns on the way
DOWN = {
    "sum": lambda m, x: m.sum(x, axis=0),
    "max": lambda m, x: m.max(x, axis=0),
    "product": lambda m, x: m.prod(m.where(x > 2.5, 0 * x - 1, 0 * x + 1), axis=0),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_columns_that_are_reduced_while_rows_are_computed(dtype):
    """Sinks of every width around a vector: no column is lost, and none is counted twice."""
    draw, sinks = random.Random(dtype), 0
    kind, tolerance = fx.dtypes.as_dtype(dtype), TOLERANCE[dtype]
    lanes = 64 // kind.itemsize
    for n in (lanes - 1, lanes, lanes + 1, 2 * lanes + 1, 3 * lanes + 5):
        rows = draw.choice([37, 256, 257, 300])
        given = np.random.default_rng(n).standard_normal((2, rows, n)).astype(kind)
        x, g = given
        for name, down in DOWN.items():

            def function(x, g, down=down):
                spread = x - fx.mean(x, axis=1, keepdims=True)
                y = spread * fx.rsqrt(fx.mean(spread * spread, axis=1, keepdims=True) + 1e-5)
                return [down(fx, g * y), down(fx, g), y]

            with limits.given() if name == "sum" else limits.tiny():
                plan = schedule(staged(function, x, g), this_cpu())
                of_y, of_g, y = run_schedule(plan, x, g, pieces=draw.choice([1, 3]))
            sinks += sum([len(step.nest.sinks) for step in plan.steps if hasattr(step, "nest")])
            # the columns of what was computed, so that only their own sums are looked at
            pairs = [(of_g, g.astype(np.float64))]
            if name != "product":  # whose signs hang on the last digit
                pairs.append((of_y, g.astype(np.float64) * y.astype(np.float64)))
            for got, operand in pairs:
                size = np.abs(operand).mean(0).max() * (rows if name == "sum" else 1) + 1
                error = np.abs(got.astype(np.float64) - down(np, operand)).max() / size
                assert error <= 4 * tolerance, f"{name}, {dtype}, {rows} rows of {n}: {error}"
    assert sinks
