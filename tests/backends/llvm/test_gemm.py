"""Native matrix products against NumPy in float64."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import fx
from fx import limits
from fx.backends.cpu.llvm.gemm import STEPS, product
from fx.backends.cpu.llvm.machines import emitting_for, host
from fx.graph.ir import Node, input_value
from fx.prims.linear import matmul
from fx.prims.shape import broadcast_to, reshape, slice, transpose
from tests.backends.llvm.run_step import compile_step


@pytest.fixture(autouse=True)
def without_tiles():
    """16-bit numbers by vectors too: what tiles make of them is tested in ``test_halves.py``."""
    with limits.given(TILES_FROM=1 << 62):
        yield


EPS = {"float32": 2.0**-24, "float64": 2.0**-53, "float16": 2.0**-11, "bfloat16": 2.0**-8}
BFLOAT16 = ml_dtypes.bfloat16


def value(array):
    return input_value(fx.TensorSpec(array.shape, array.dtype))


def then(x, primitive, **params):
    return Node(primitive, [x], params).out


def compiled(steps):
    """A function of the arrays of values, and of how many ranges the tasks are given in."""
    kernels = [compile_step(step) for step in steps]

    def call(arrays, pieces=1):
        arrays = dict(arrays)
        for step, kernel in zip(steps, kernels, strict=True):
            found = kernel(*[arrays[v] for v in step.reads], pieces=pieces)
            arrays.update(zip(step.writes, found, strict=True))
        return found

    return call


def run(steps, arrays, pieces=1):
    """The results of steps, one after the other."""
    return compiled(steps)(arrays, pieces)


def check(x, y, out, pieces=1, of=None):
    """Whether ``out`` is x @ y up to the rounding of a sum in any order."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    want, bound = np.matmul(x, y), np.matmul(np.abs(x), np.abs(y))
    eps = EPS[out.dtype.name]
    inner = EPS["float32"] if out.dtype.itemsize < 4 else eps
    assert out.shape == want.shape
    slack = (2 * inner * (x.shape[-1] + 1) * bound) + eps * np.abs(want) * 1.01 + 1e-45
    assert np.all(np.abs(out.astype(np.float64) - want) <= slack)


def rounded(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


def laid_out(rng, shape, dtype, transposed):
    """An array, the value that it is an input of, and a value of shape ``shape`` that reads it."""
    swap = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    held = rounded(rng, tuple(shape[i] for i in swap) if transposed else shape, dtype)
    source = value(held)
    if not transposed:
        return held, source, source, held
    return held, source, then(source, transpose, axes=swap), held.transpose(swap)


SHAPES = [
    (1, 1, 1), (1, 7, 1), (5, 1, 3), (1, 64, 33), (33, 64, 1), (17, 31, 13), (32, 64, 10),
    (64, 32, 64), (61, 67, 71), (3, 300, 100), (100, 40, 3), (2, 5, 200), (130, 150, 170),
]  # fmt: skip


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_all_layouts_in_float32(shape, left, right):
    rng = np.random.default_rng(sum(shape))
    m, k, n = shape
    x, x_in, x_value, x_seen = laid_out(rng, (m, k), "float32", left)
    y, y_in, y_value, y_seen = laid_out(rng, (k, n), "float32", right)
    steps = product(Node(matmul, [x_value, y_value], {}))
    assert {v for s in steps for v in s.reads} >= {x_in, y_in}  # nothing is transposed before
    (out,) = run(steps, {x_in: x, y_in: y})
    check(x_seen, y_seen, out)


@pytest.mark.parametrize("dtype", ["float64", "float16", BFLOAT16])
@pytest.mark.parametrize("shape", [(1, 9, 1), (7, 20, 9), (33, 70, 47), (70, 1100, 20)])
def test_other_dtypes(shape, dtype):
    rng = np.random.default_rng(3)
    m, k, n = shape
    for left, right in itertools.product((False, True), repeat=2):
        x, x_in, x_value, x_seen = laid_out(rng, (m, k), dtype, left)
        y, y_in, y_value, y_seen = laid_out(rng, (k, n), dtype, right)
        steps = product(Node(matmul, [x_value, y_value], {}))
        (out,) = run(steps, {x_in: x, y_in: y})
        assert out.dtype == x.dtype
        check(x_seen, y_seen, out)


def test_narrow_results_are_rounded_once_to_nearest_even():
    rng = np.random.default_rng(0)
    for dtype in (np.float16, BFLOAT16):
        x = rounded(rng, (40, 1), dtype) * dtype(3)
        y = rounded(rng, (1, 50), dtype)
        x[0, 0], x[1, 0], x[2, 0], y[0, 0] = np.nan, np.inf, -0.0, 1e-7
        xv, yv = value(x), value(y)
        (out,) = run(product(Node(matmul, [xv, yv], {})), {xv: x, yv: y})
        want = (x.astype(np.float32) @ y.astype(np.float32)).astype(dtype)
        np.testing.assert_array_equal(out.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize(
    ("left", "right"),
    [((), (4,)), ((4,), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((1,), (5,)), ((2, 3), (2, 3)),
     ((3, 1, 2), (4, 1)), ((1, 1), ())],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(5, 6, 7), (1, 8, 20), (20, 8, 1), (1, 5, 1)])
def test_batches_broadcast(left, right, shape):
    rng = np.random.default_rng(1)
    m, k, n = shape
    for transposed in (False, True):
        x, x_in, x_value, x_seen = laid_out(rng, (*left, m, k), "float32", transposed)
        y, y_in, y_value, y_seen = laid_out(rng, (*right, k, n), "float32", not transposed)
        steps = product(Node(matmul, [x_value, y_value], {}))
        (out,) = run(steps, {x_in: x, y_in: y}, pieces=2)
        check(x_seen, y_seen, out)


def test_attention_reads_heads_where_they_lie():
    rng = np.random.default_rng(2)
    batch, length, heads, width = 2, 19, 3, 8
    qkv = rounded(rng, (batch, length, 3 * heads * width), "float32")
    source = value(qkv)
    parts, seen = [], []
    for i in range(3):
        start, stop = i * heads * width, (i + 1) * heads * width
        part = then(
            source, slice, start=(0, 0, start), stop=(batch, length, stop), step=(1, 1, 1), drop=()
        )
        part = then(part, reshape, shape=(batch, length, heads, width))
        parts.append(then(part, transpose, axes=(0, 2, 1, 3)))
        head = qkv[:, :, start:stop].reshape(batch, length, heads, width)
        seen.append(head.transpose(0, 2, 1, 3))
    keys = then(parts[1], transpose, axes=(0, 1, 3, 2))
    scores = product(Node(matmul, [parts[0], keys], {}))
    assert all(v is source for s in scores for v in s.reads)
    (out,) = run(scores, {source: qkv}, pieces=3)
    check(seen[0], seen[1].swapaxes(-1, -2), out)
    weights = value(out)
    mixed = product(Node(matmul, [weights, parts[2]], {}))
    (found,) = run(mixed, {weights: out, source: qkv})
    check(out, seen[2], found)


def test_broadcasts_and_reshapes_are_read_from_their_source():
    rng = np.random.default_rng(4)
    w, x = rounded(rng, (6, 5), "float32"), rounded(rng, (4, 3, 6), "float32")
    wv, xv = value(w), value(x)
    wide = then(then(wv, reshape, shape=(1, 6, 5)), broadcast_to, shape=(4, 6, 5))
    steps = product(Node(matmul, [xv, wide], {}))
    assert steps[-1].reads == (xv, wv)
    assert steps[-1].kernel.p.batches == 1  # one product over all rows
    (out,) = run(steps, {xv: x, wv: w})
    check(x, w, out)


def test_what_no_stride_describes_is_taken_as_it_is():
    rng = np.random.default_rng(5)
    x, y = rounded(rng, (4, 6), "float32"), rounded(rng, (2, 3, 4), "float32")
    xv, yv = value(x), value(y)
    mixed = then(then(yv, transpose, axes=(0, 2, 1)), reshape, shape=(6, 4))
    rows = then(mixed, slice, start=(0, 0), stop=(6, 4), step=(1, 2), drop=())
    steps = product(Node(matmul, [xv, mixed], {}))
    assert mixed in steps[-1].reads
    seen = y.transpose(0, 2, 1).reshape(6, 4)
    check(x, seen, run(steps, {xv: x, mixed: seen})[0])
    thin = np.ascontiguousarray(seen[:, ::2])  # no unit stride: vectors cannot be loaded
    steps = product(Node(matmul, [xv, rows], {}))
    (out,) = run(steps, {xv: x, rows: thin, mixed: seen})
    check(x, thin, out)
    x_rows = then(xv, slice, start=(1, 0), stop=(4, 6), step=(2, 3), drop=())  # (2, 2)
    z = rounded(rng, (2, 5), "float32")
    zv = value(z)
    steps = product(Node(matmul, [x_rows, zv], {}))
    check(x[1:4:2, ::3], z, run(steps, {xv: x, zv: z, x_rows: x[1:4:2, ::3].copy()})[0])


def test_nan_and_infinity_stay_in_their_rows_and_columns():
    rng = np.random.default_rng(6)
    for shape in ((20, 30, 40), (1, 100, 40), (40, 10, 1), (90, 90, 90)):
        for left, right in itertools.product((False, True), repeat=2):
            m, k, n = shape
            x, x_in, x_value, x_seen = laid_out(rng, (m, k), "float32", left)
            y, y_in, y_value, y_seen = laid_out(rng, (k, n), "float32", right)
            x_seen[m // 2, k // 2] = np.nan
            y_seen[k // 2, n // 2] = np.inf
            (out,) = run(product(Node(matmul, [x_value, y_value], {})), {x_in: x, y_in: y})
            with np.errstate(all="ignore"):
                want = x_seen.astype(np.float64) @ y_seen.astype(np.float64)
            np.testing.assert_array_equal(np.isnan(out), np.isnan(want))
            np.testing.assert_array_equal(np.isinf(out), np.isinf(want))


@pytest.mark.parametrize("dtype", ["float32", BFLOAT16])
@pytest.mark.parametrize("lead", [(), (3,)])
def test_bits_do_not_depend_on_how_tasks_are_split(dtype, lead):
    rng = np.random.default_rng(7)
    for right in (False, True):
        x, x_in, x_value, x_seen = laid_out(rng, (*lead, 150, 1100), dtype, False)
        y, y_in, y_value, y_seen = laid_out(rng, (*lead, 1100, 90), dtype, right)
        steps = product(Node(matmul, [x_value, y_value], {}))
        assert steps[-1].tasks >= 4
        call = compiled(steps)
        whole = call({x_in: x, y_in: y})[0]
        check(x_seen, y_seen, whole)
        for pieces in (2, 3, steps[-1].tasks):
            again = call({x_in: x, y_in: y}, pieces)[0]
            assert whole.tobytes() == again.tobytes()


@pytest.mark.parametrize("nbytes", [16, 32, 64])
def test_every_width_of_vectors(nbytes):
    machine = replace(host(), vector_bytes=nbytes, registers=16 if nbytes < 64 else 32)
    rng = np.random.default_rng(8)
    for shape, dtype in (((13, 21, 18), "float32"), ((9, 14, 11), "float64"),
                         ((30, 17, 6), BFLOAT16), ((1, 40, 23), "float32")):  # fmt: skip
        m, k, n = shape
        for left, right in itertools.product((False, True), repeat=2):
            x, x_in, x_value, x_seen = laid_out(rng, (m, k), dtype, left)
            y, y_in, y_value, y_seen = laid_out(rng, (k, n), dtype, right)
            with emitting_for(machine):
                (out,) = run(product(Node(matmul, [x_value, y_value], {})), {x_in: x, y_in: y})
            check(x_seen, y_seen, out)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_sums_of_small_results_are_split(dtype):
    rng = np.random.default_rng(11)
    for shape in ((20, 40001, 30), (64, 50000, 64)):
        m, k, n = shape
        x, x_in, x_value, x_seen = laid_out(rng, (m, k), dtype, True)
        y, y_in, y_value, y_seen = laid_out(rng, (k, n), dtype, False)
        steps = product(Node(matmul, [x_value, y_value], {}))
        assert len(steps) == 2 and steps[0].tasks >= 8
        call = compiled(steps)
        (out,) = call({x_in: x, y_in: y})
        check(x_seen, y_seen, out)
        assert out.tobytes() == call({x_in: x, y_in: y}, pieces=5)[0].tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", BFLOAT16])
@pytest.mark.parametrize("m", [1, 3, 7])
def test_few_rows_by_a_large_matrix(m, dtype):
    rng = np.random.default_rng(12)
    n = 4105 if dtype == "float32" else 3003
    for left, right in itertools.product((False, True), repeat=2):
        x, x_in, x_value, x_seen = laid_out(rng, (m, 203), dtype, left)
        y, y_in, y_value, y_seen = laid_out(rng, (203, n), dtype, right)
        steps = product(Node(matmul, [x_value, y_value], {}))
        call = compiled(steps)
        (out,) = call({x_in: x, y_in: y})
        check(x_seen, y_seen, out)
        assert out.tobytes() == call({x_in: x, y_in: y}, pieces=2)[0].tobytes()


def test_a_factor_that_is_packed_for_several_tasks_and_products():
    rng = np.random.default_rng(13)
    for lead, other in (((2, 3), (3,)), ((2, 3), (2, 1)), ((3,), (3,)), ((1, 2), (3, 1))):
        x, x_in, x_value, x_seen = laid_out(rng, (*lead, 1200, 120), "float32", False)
        y, y_in, y_value, y_seen = laid_out(rng, (*other, 120, 40), "float32", True)
        steps = product(Node(matmul, [x_value, y_value], {}))
        assert len(steps) == 2 and steps[-1].tasks > np.prod(lead)
        (out,) = run(steps, {x_in: x, y_in: y}, pieces=3)
        check(x_seen, y_seen, out)


def test_random_shapes():
    rng = np.random.default_rng(9)
    for _ in range(25):
        m, n, k = (int(2 ** rng.uniform(0, 7.5)) for _ in range(3))
        lead = tuple(int(i) for i in rng.integers(1, 4, rng.integers(0, 3)))
        x, x_in, x_value, x_seen = laid_out(rng, (*lead, m, k), "float32", rng.random() < 0.5)
        y, y_in, y_value, y_seen = laid_out(rng, (*lead, k, n), "float32", rng.random() < 0.5)
        (out,) = run(product(Node(matmul, [x_value, y_value], {})), {x_in: x, y_in: y}, 2)
        check(x_seen, y_seen, out)


def test_views_of_views():
    """Chains of what only moves and repeats elements, in any order, on both sides."""
    rng = np.random.default_rng(14)
    for _ in range(40):
        lead = tuple(int(i) for i in rng.integers(1, 4, rng.integers(0, 3)))
        m, k, n = (int(i) for i in rng.integers(1, 20, 3))
        arrays, sides = {}, []
        for shape in ((*lead, m, k), (*lead, k, n)):
            v, seen = viewed(rng, shape, arrays)
            sides.append((v, seen))
        (x, x_seen), (y, y_seen) = sides
        steps = product(Node(matmul, [x, y], {}))
        (out,) = run(steps, arrays, pieces=2)
        check(x_seen, y_seen, out)


def viewed(rng, shape, arrays):
    """A value of ``shape`` made from another by views, and what it holds.

    The arrays of both, and of what is between them, are entered in ``arrays``.
    """
    chain = []  # from the last view to the first
    for _ in range(rng.integers(0, 5)):
        kind = rng.choice(["transpose", "reshape", "slice", "broadcast"])
        if kind == "transpose":
            axes = tuple(int(i) for i in rng.permutation(len(shape)))
            chain.append((transpose, {"axes": axes}))
            before = [0] * len(shape)
            for i, a in enumerate(axes):
                before[a] = shape[i]
            shape = tuple(before)
        elif kind == "reshape":
            chain.append((reshape, {"shape": shape}))
            i = int(rng.integers(0, len(shape)))
            shape = (*shape[:i], 1, *shape[i:]) if rng.random() < 0.5 else (
                *shape[: max(i - 1, 0)], math.prod(shape[max(i - 1, 0) : i + 1]), *shape[i + 1 :]
            )  # fmt: skip
        elif kind == "slice":
            start = tuple(int(i) for i in rng.integers(0, 3, len(shape)))
            step = tuple(int(i) for i in rng.choice([1, 1, 1, 2], len(shape)))
            stop = tuple(a + (n - 1) * s + 1 for a, n, s in zip(start, shape, step, strict=True))
            chain.append((slice, {"start": start, "stop": stop, "step": step, "drop": ()}))
            shape = tuple(b + int(i) for b, i in zip(stop, rng.integers(0, 3, len(shape))))
        else:
            chain.append((broadcast_to, {"shape": shape}))
            shape = tuple(1 if rng.random() < 0.3 else n for n in shape)
    held = rounded(rng, shape, "float32")
    v, seen = value(held), held
    arrays[v] = held
    for primitive, params in reversed(chain):
        v = then(v, primitive, **params)
        if primitive is transpose:
            seen = seen.transpose(params["axes"])
        elif primitive is slice:
            parts = zip(params["start"], params["stop"], params["step"], strict=True)
            seen = seen[tuple([np.s_[a:b:s] for a, b, s in parts])]
        elif primitive is reshape:
            seen = seen.reshape(params["shape"])
        else:
            seen = np.broadcast_to(seen, params["shape"])
        arrays[v] = np.ascontiguousarray(seen)
    return v, seen


def test_what_is_left_to_the_eager_kernel():
    for dtype in ("int32", "complex64"):
        x = input_value(fx.TensorSpec((3, 3), np.dtype(dtype)))
        assert STEPS["matmul"](Node(matmul, [x, x], {})) is None
    x, y = (input_value(fx.TensorSpec(s, fx.float32)) for s in ((3, 0), (0, 3)))
    assert product(Node(matmul, [x, y], {})) is None


def test_one_value_may_be_both_factors():
    x = rounded(np.random.default_rng(10), (20, 20), "float32")
    source = value(x)
    turned = then(source, transpose, axes=(1, 0))
    for node, want in ((Node(matmul, [source, source], {}), (x, x)),
                       (Node(matmul, [turned, source], {}), (x.T, x))):  # fmt: skip
        (out,) = run(product(node), {source: x})
        check(*want, out)


def test_equal_products_share_their_code():
    def steps(m, line):
        specs = [fx.TensorSpec(s, fx.float32) for s in ((m, 8), (8, 5))]
        return product(Node(matmul, [input_value(s) for s in specs], {}, line=line))[-1]

    assert steps(4, "a:1").key == steps(4, "b:2").key != steps(6, "a:1").key
    assert steps(4, "a:1").lines == ("a:1",)
    assert math.isfinite(steps(4, "").cost)
