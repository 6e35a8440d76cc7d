"""Loop kernels: what single groups of nodes compute, against the interpreter."""

import re

import numpy as np
import pytest
from llvmlite import ir

import fx
import fx.nn.functional as F
from fx.backends.cpu.llvm.this_cpu import this_cpu
from fx.compiler.schedule import schedule
from fx.graph.ir import Graph
from tests.backends.llvm.run_step import node_of
from tests.compiler.schedules import check, close, run_schedule, staged

RNG = np.random.default_rng(0)


def floats(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


# elementwise ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (5,), (16,), (64,), (100, 33), (3, 1, 7), (70_001,)])
def test_lengths_that_are_no_multiple_of_a_vector(shape):
    x, y = floats(*shape), floats(*shape)
    check(staged(lambda x, y: x * y + x, x, y), x, y, pieces=3)


@pytest.mark.parametrize(
    ("a", "b"), [((40, 33), (33,)), ((40, 33), (40, 1)), ((5, 1, 7), (6, 1)), ((40, 33), ())]
)
def test_broadcasting(a, b):
    x, y = floats(*a), floats(*b)
    check(staged(lambda x, y: fx.tanh(x) - y, x, y), x, y)


@pytest.mark.parametrize(
    "dtype", ["float64", "float16", "bfloat16", "int8", "uint16", "int32", "int64", "uint64"]
)
def test_dtypes(dtype):
    x = RNG.integers(0, 9, (37, 20)).astype(fx.dtypes.as_dtype(dtype))
    graph = staged(lambda x: (x + x * x, x > 3, fx.sum(x, axis=1), fx.max(x, axis=0)), x)
    check(graph, x, tolerance=1e-2 if x.dtype.itemsize == 2 else 1e-6)


def test_mixed_widths_share_a_loop():
    x, mask = floats(50, 40), RNG.integers(0, 2, (50, 40)).astype(bool)
    plan = check(
        staged(lambda x, m: (fx.where(m, x, 0.0), fx.astype(x, fx.float64) * 2, ~m), x, mask),
        x, mask,
    )  # fmt: skip
    assert all(not step.name.startswith("python") for step in plan.steps)


def test_what_has_no_native_code_runs_in_python():
    x = (floats(4, 5) + 1j * floats(4, 5)).astype(np.complex64)
    plan = check(staged(lambda x: fx.abs(fx.asin(x)) + 1, x), x)
    assert any(step.name.startswith("python") for step in plan.steps)


def test_nothing_at_all():
    x = floats(0, 5)
    check(staged(lambda x: (x + 1, fx.sum(x, axis=0)), x), x)


# views ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(16, 16), (33, 100), (5, 1000), (1000, 5), (130, 70)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8"])
def test_transposes(shape, dtype):
    x = floats(*shape).astype(fx.dtypes.as_dtype(dtype))
    check(staged(lambda x: x.T + x.T, x), x, pieces=2)


def test_transposes_of_more_axes():
    x = floats(5, 33, 40)
    for axes in [(0, 2, 1), (2, 1, 0), (1, 0, 2), (2, 0, 1)]:
        check(staged(lambda x, axes=axes: fx.permute_dims(x, axes) * 2, x), x)


def test_slices_flips_and_reshapes_cost_no_kernel_of_their_own():
    x, b = floats(40, 33), floats(4, 33)
    plan = check(
        staged(lambda x, b: fx.flip((x.reshape(10, 4, 33) + b)[::2, :, 1:], axis=2) * 2, x, b),
        x, b,
    )  # fmt: skip
    assert len(plan.steps) == 1


def test_padding_and_joining():
    x, y = floats(20, 33), floats(20, 5)
    plan = check(staged(lambda x, y: fx.concat([x * 2, y, x], axis=1) + 1, x, y), x, y)
    assert len(plan.steps) == 1
    check(staged(lambda x: F.pad(x, (1, 2, 0, 3), value=2.0) * 2, x), x)


def test_joining_many_pieces():
    x = floats(30, 11)
    check(staged(lambda x: fx.concat([x * i for i in range(20)], axis=1) + 1, x), x)
    check(staged(lambda x: fx.stack([x[i] * 2 for i in range(30)]) + 1, x), x)


@pytest.mark.parametrize(
    ("inside", "low", "high"),
    [((1, 0), (0, 0), (0, 0)), ((2, 1), (1, 2), (0, 3)), ((0, 3), (0, 0), (2, 0))],
)
def test_padding_between_neighbours_is_native(inside, low, high):
    x, fill = floats(20, 11), np.asarray(1.5, np.float32)
    node = node_of("pad", [x, fill], low=low, high=high, inside=inside)
    plan = check(Graph(node.inputs, [node], node.outs), x, fill)
    assert not any(step.name.startswith("python") for step in plan.steps)


def test_a_reduction_of_what_is_padded_stays_apart_from_the_padding():
    x = floats(1, 8)
    graph = staged(lambda x: F.pad(fx.min(x, axis=(0, 1), keepdims=True), (1, 0, 2, 1)), x)
    check(graph, x)


def test_a_reshape_is_the_same_memory():
    x = floats(6, 4)
    graph = staged(lambda x: (x.reshape(24), fx.exp(x).reshape(2, 12)), x)
    plan = check(graph, x)
    assert len(plan.steps) == 1
    assert plan.root(plan.graph.outputs[0]) is plan.graph.inputs[0]


# reductions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), (1, 2), (0, 1)])
@pytest.mark.parametrize("name", ["sum", "max", "min", "prod"])
def test_reductions(name, axis):
    x = np.abs(floats(17, 6, 37)) * 0.01 + 0.99
    plan = check(staged(lambda x: getattr(fx, name)(x * x, axis=axis) + 1, x), x)
    assert len(plan.steps) == 1


def test_truth():
    x = RNG.integers(0, 3, (40, 70))
    check(staged(lambda x: (fx.any(x > 1, axis=1), fx.all(x, axis=0), fx.any(x)), x), x)


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((300_007,), 0), ((3000, 337), 0), ((3000, 337), 1), ((7, 50_003), 1), ((40, 5, 3000), (0, 2)),
     ((60_000, 3), 0)],
)  # fmt: skip
def test_long_reductions_have_the_same_bits_on_any_number_of_threads(shape, axis):
    x = floats(*shape)
    graph = staged(lambda x: (fx.sum(x * 2, axis=axis), fx.max(x, axis=axis)), x)
    plan = schedule(graph, this_cpu())
    one, many = (run_schedule(plan, x, pieces=n) for n in (1, 5))
    for a, b in zip(one, many, strict=True):
        assert a.tobytes() == b.tobytes()
    close(one[0], np.sum(x.astype(np.float64) * 2, axis).astype(np.float32), 2e-6)


def test_a_wide_maximum_beside_what_it_is_taken_of():
    x = floats(100, 33, 257)
    check(staged(lambda x: (-x, fx.max(x, axis=1), fx.sum(x, axis=1)), x), x, pieces=3)
    y = floats(400_000)
    plan = check(staged(lambda y: ((h := fx.tanh(y)), fx.sum(h), fx.max(h)), y), y, tolerance=1e-4)
    assert sum(y.shape in [v.spec.shape for v in step.reads] for step in plan.steps) == 1


def test_sums_of_many_numbers_do_not_drift():
    x = np.full(4_000_000, 0.1, np.float32)
    (total,) = run_schedule(schedule(staged(lambda x: fx.sum(x), x), this_cpu()), x)
    exact = float(np.float32(0.1)) * x.size
    assert abs(total - exact) <= 2 * abs(np.sum(x) - exact) + np.spacing(np.float32(exact))
    columns = np.full((100_000, 40), 0.1, np.float32)
    (totals,) = run_schedule(
        schedule(staged(lambda x: fx.sum(x, axis=0), columns), this_cpu()), columns
    )
    assert np.abs(totals / (float(np.float32(0.1)) * 100_000) - 1).max() < 1e-6


def test_nan_wins_and_infinities_stay():
    x = floats(40, 50)
    x[3, 7], x[5, 1], x[6, 2], x[7] = np.nan, np.inf, -np.inf, -np.inf
    graph = staged(
        lambda x: (fx.max(x, axis=1), fx.min(x, axis=0), fx.max(x), fx.sum(x, axis=1)), x
    )
    check(graph, x)


# rows -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(37, 10), (5, 1), (40, 100), (3, 700), (2, 3, 4000)])
def test_softmax_and_its_logarithm(shape):
    x = floats(*shape) * 3
    for axis in (-1, 0):
        for function in (fx.softmax, fx.log_softmax, fx.logsumexp):
            plan = check(staged(lambda x, f=function, a=axis: f(x, axis=a), x), x)
            assert len(plan.steps) == 1


def test_softmax_of_infinities():
    x = floats(4, 20)
    x[0, 3], x[1], x[2, 5], x[3, 1] = np.inf, -np.inf, np.nan, -np.inf
    check(staged(lambda x: (fx.softmax(x, axis=1), fx.logsumexp(x, axis=1)), x), x)


def test_cross_entropy_reads_the_logits_once():
    x, y = floats(60, 100), RNG.integers(0, 100, 60)
    y[3] = -100  # left out
    plan = check(staged(lambda x, y: F.cross_entropy(x, y), x, y), x, y)
    assert sum(x.shape in [v.spec.shape for v in step.reads] for step in plan.steps) == 1

    def gradient(x, y):
        zeros = fx.zeros((60, 100))
        out = fx.log_softmax(x, axis=1)
        picked = fx.take_along_axis(out, y[:, None], axis=1)
        spread = zeros.at[fx.arange(60), y].add(1.0)
        return picked, spread * out

    y[3] = 5
    check(staged(gradient, x, y), x, y)


def test_an_index_out_of_range_is_refused_by_the_name_of_the_operation():
    x, y = floats(6, 100), np.array([0, 1, 2, 100, 3, 4])
    graph = staged(lambda x, y: fx.take_along_axis(fx.softmax(x, axis=1), y[:, None], axis=1), x, y)
    plan = schedule(graph, this_cpu())
    (checks,) = [step for step in plan.steps if hasattr(step, "failure")] or [None]
    if checks is not None:
        assert str(checks.error(100)).startswith("take_along_axis: index 100 is out of range")
    else:
        with pytest.raises(fx.errors.IndexingError, match="index 100 is out of range"):
            run_schedule(plan, x, y)


def test_layer_norm_is_one_kernel_and_keeps_what_the_gradient_needs():
    x, w, b, ct = floats(60, 96), floats(96), floats(96), floats(60, 96)

    def norm(x, w, b):
        return F.layer_norm(x, (96,), w, b)

    assert len(check(staged(norm, x, w, b), x, w, b).steps) == 1
    graph = staged(lambda *a: fx.vjp(norm, *a[:3])[1](a[3]), x, w, b, ct)
    plan = check(graph, x, w, b, ct, tolerance=1e-4, pieces=3)
    rows = [s for s in plan.steps if x.shape in [v.spec.shape for v in s.reads]]
    assert len(rows) == 1  # statistics, gradient of the input, sums over the rows: in one go


def test_quotients_by_a_row_are_right_at_the_edges():
    special = [0.0, -0.0, 1.0, -3.0, np.inf, -np.inf, np.nan, 1e-45, 1e-40, 3e38, 1e30, 7.0]
    for dtype in (np.float32, np.float64):
        r = np.array(special, dtype)
        x = np.broadcast_to(r, (len(r), len(r))).copy()
        (got,) = run_schedule(schedule(staged(lambda x, r: x / r[:, None], x, r), this_cpu()), x, r)
        with np.errstate(all="ignore"):
            want = x / r[:, None]
        np.testing.assert_allclose(got, want, rtol=2 * np.finfo(dtype).eps, atol=0)
        same = np.isnan(want) | (np.signbit(got) == np.signbit(want))
        assert same.all()


@pytest.mark.parametrize(
    "f",
    [lambda x, y: fx.concatenate((x, y)) * 2, lambda x, y: fx.pad(x, ((40, 50),)) + 1],
    ids=["concatenate", "pad"],
)
def test_a_condition_that_holds_for_no_lane_reads_at_the_beginning(f):
    # a masked load whose address is not mapped is slow, though it does not fault
    plan = check(staged(f, floats(100), floats(300)), floats(100), floats(300))
    (step,) = plan.steps
    module = ir.Module("kernel")
    step.emit(module, "kernel")
    lines = [line.strip() for line in str(module).splitlines()]
    made = dict(line.split(" = ", 1) for line in lines if " = " in line)
    loads = [line for line in made.values() if "llvm.masked.load" in line]
    places = [re.search(r"\((?:ptr|i8\*) ([^,]+),", line).group(1) for line in loads]
    assert places
    for place in places:
        assert made[place.strip()].startswith("select"), made[place.strip()]
