"""Native gathers, scatters, argmax and argmin against the eager kernels."""

import numpy as np
import pytest

import fx
from fx.backends.cpu.llvm.node_steps import STEPS
from fx.dtypes import ALL, COMPLEX, FLOATING
from fx.errors import IndexingError
from fx.primitive import registry
from tests.backends.llvm.run_step import compile_step, node_of

REAL = [d for d in ALL if d not in COMPLEX]
SIZES = [np.dtype("bool"), np.dtype("int16"), np.dtype("float32"), np.dtype("float64")]
SHAPES = [((5,), 0), ((40, 3), 0), ((6, 70), 1), ((3, 20, 33), 1), ((2000,), 0), ((3, 4, 5), 2)]
MODES = ("set", "add", "mul", "min", "max")


def _numbers(rng, shape, dtype):
    x = rng.normal(size=shape) * 4
    x = x > 0 if dtype == np.bool_ else x.astype(dtype)
    if dtype in FLOATING and x.size > 3:
        x.reshape(-1)[rng.integers(0, x.size, 2)] = np.nan
    return x


def _indices(rng, shape, n):
    dtype = np.dtype(rng.choice(["int8", "int32", "int64", "uint8", "uint64"]))
    low = 0 if dtype.kind == "u" else -min(n, 128)
    return rng.integers(low, min(n, 127), shape).astype(dtype)


def _same(got, want):
    assert got.dtype == want.dtype and got.shape == want.shape
    a, b = got.astype(np.float64), want.astype(np.float64)
    assert np.array_equal(a, b, equal_nan=True)


def _check(name, arrays, **params):
    step = STEPS[name](node_of(name, arrays, **params))
    assert step is not None
    want = registry[name].cpu(*arrays, **params)
    run = compile_step(step)
    for pieces in {1, step.tasks}:
        _same(run(*arrays, pieces=pieces)[0], want)
    if step.inplace:
        _same(run(*arrays, inplace=True)[0], want)
    return step


@pytest.mark.parametrize("dtype", SIZES, ids=str)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_gathers(dtype, shape, axis):
    rng = np.random.default_rng(len(shape) + shape[0])
    x = _numbers(rng, shape, dtype)
    _check("take", [x, _indices(rng, (4, 3), shape[axis])], axis=axis)
    along = (*shape[:axis], 7, *shape[axis + 1 :])
    _check("take_along_axis", [x, _indices(rng, along, shape[axis])], axis=axis)


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_scatters(dtype, mode):
    rng = np.random.default_rng(0)
    for shape, axis in SHAPES[::2]:
        x = _numbers(rng, shape, dtype)
        u = _numbers(rng, (*shape[:axis], 4, 3, *shape[axis + 1 :]), dtype)
        idx = _indices(rng, (4, 3), shape[axis])
        _check("scatter", [x, idx, u], axis=axis, mode=mode)
        along = (*shape[:axis], 7, *shape[axis + 1 :])
        idx, u = _indices(rng, along, shape[axis]), _numbers(rng, along, dtype)
        _check("scatter_along_axis", [x, idx, u], axis=axis, mode=mode)


def test_large_ones_are_split_into_tasks():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1000, 300)).astype(np.float32)
    idx = rng.integers(-1000, 1000, 5000)
    u = rng.normal(size=(5000, 300)).astype(np.float32)
    assert _check("take", [x, idx], axis=0).tasks > 1
    assert _check("scatter", [x, idx, u], axis=0, mode="add").tasks > 1
    rows = rng.normal(size=(64, 500, 20))
    u = rng.normal(size=(64, 700, 20))
    assert _check("scatter", [rows, idx[:700] % 500, u], axis=1, mode="add").tasks > 1


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes(dtype, name):
    rng = np.random.default_rng(2)
    for shape, axis in [((5,), 0), ((6, 70), 1), ((3, 20, 33), 1), ((7, 1), 1), ((40, 1000), 1)]:
        _check(name, [_numbers(rng, shape, dtype)], axis=axis, keepdims=bool(rng.integers(2)))


def test_the_first_of_equal_elements_counts():
    for dtype in (np.float32, np.int8, np.bool_):
        for n in (3, 40, 200):
            x = np.zeros((2, n), dtype)
            x[1, [n // 2, n - 1]] = 1
            _check("argmax", [x], axis=1, keepdims=False)
            _check("argmin", [x], axis=1, keepdims=False)
    x = np.array([[1, np.nan, 5, np.nan], [-0.0, 0.0, -0.0, -1]])
    _check("argmax", [x], axis=1, keepdims=False)
    _check("argmin", [x], axis=1, keepdims=False)


@pytest.mark.parametrize("bad", [5, -6, 2**40])
@pytest.mark.parametrize("name", ["take", "take_along_axis", "scatter", "scatter_along_axis"])
def test_an_index_out_of_range_is_told_in_the_words_of_the_eager_kernel(name, bad):
    x = np.arange(15.0).reshape(3, 5)
    along = "along" in name
    idx = np.zeros((3, 4) if along else (4,), np.int64)
    idx[..., 2] = bad
    params = {"axis": 1} | ({"mode": "add"} if "scatter" in name else {})
    arrays = [x, idx] + ([np.ones((3, 4))] if "scatter" in name else [])
    _fails_alike(name, arrays, params)


@pytest.mark.parametrize("dtype", ["int8", "uint64"])
def test_wrap_index(dtype):
    good = np.arange(0 if dtype[0] == "u" else -7, 7).astype(dtype)
    _check("wrap_index", [good], size=7)
    _fails_alike("wrap_index", [np.array([1, 9, 12], dtype)], {"size": 7})


def test_an_unsigned_index_beyond_every_size():
    idx = np.array([[0], [2**64 - 5], [1]], np.uint64)
    _fails_alike("take_along_axis", [np.ones((3, 4), np.float32), idx], {"axis": 1})


def _fails_alike(name, arrays, params):
    step = STEPS[name](node_of(name, arrays, **params))
    with pytest.raises(IndexingError) as eager:
        registry[name].cpu(*arrays, **params)
    run = compile_step(step)
    words = run(*arrays)[step.status].reshape(-1, 2)
    failed = words[words[:, 0] != 0]
    assert len(failed) == 1
    assert str(step.error(int(failed[0, 1]))) == str(eager.value)


def test_a_failed_scatter_leaves_its_memory_alone():
    x, u = np.arange(6.0), np.ones(3)
    step = STEPS["scatter"](node_of("scatter", [x, np.array([0, 1, 6]), u], axis=0, mode="add"))
    out, words = compile_step(step)(x, np.array([0, 1, 6]), u, inplace=True)
    assert words[0, 0] == 1
    assert np.array_equal(out, x)


def test_zeros_are_not_read():
    from fx.graph.ir import Node, constant_value, input_value

    zero = constant_value(fx.broadcast_to(fx.asarray(np.float32(0)), (40, 6)))
    idx = input_value(fx.TensorSpec((9,), fx.int64))
    u = input_value(fx.TensorSpec((9, 6), fx.float32))
    node = Node(registry["scatter"], (zero, idx, u), {"axis": 0, "mode": "add"})
    step = STEPS["scatter"](node)
    assert step.reads == (idx, u)
    rng = np.random.default_rng(3)
    arrays = rng.integers(-40, 40, 9), rng.normal(size=(9, 6)).astype(np.float32)
    want = registry["scatter"].cpu(np.zeros((40, 6), np.float32), *arrays, axis=0, mode="add")
    _same(compile_step(step)(*arrays)[0], want)


def test_sums_of_16_bit_numbers_are_rounded_once():
    x = np.full((3, 40), 256, fx.bfloat16)
    u = np.ones((6, 40), fx.bfloat16)
    step = _check("scatter", [x, np.array([0, 0, 0, 2, 0, -1]), u], axis=0, mode="add")
    assert step.scratch


def test_indices_that_are_known_need_no_words():
    from fx.graph.ir import Node, constant_value, input_value

    x = input_value(fx.TensorSpec((4, 6), fx.float32))
    places = Node(registry["argmax"], (x,), {"axis": 1, "keepdims": True})
    assert _taken(x, places.out, "take_along_axis").status is None
    inside = constant_value(fx.asarray(np.array([[1], [-6], [5], [0]])))
    assert _taken(x, inside, "take_along_axis").status is None
    outside = constant_value(fx.asarray(np.array([[1], [-7], [5], [0]])))
    assert _taken(x, outside, "take_along_axis").status is not None


def _taken(x, idx, name):
    from fx.graph.ir import Node

    return STEPS[name](Node(registry[name], (x, idx), {"axis": 1}))


def test_what_is_known_of_indices():
    from fx.backends.cpu.llvm.node_steps.checked import in_range
    from fx.graph.ir import Node, input_value

    def of(name, *inputs, **params):
        return Node(registry[name], inputs, params).outs

    x = input_value(fx.TensorSpec((4, 6), fx.int64))
    values, places = of("cummax", x, axis=1, reverse=False)
    assert in_range(places, 6) and not in_range(places, 5) and not in_range(values, 6)
    (wrapped,) = of("wrap_index", x, size=7)
    assert in_range(wrapped, 7) and not in_range(wrapped, 6) and not in_range(x, 2**60)
    (flat,) = of("reshape", wrapped, shape=(24,))
    (small,) = of("astype", flat, dtype=np.dtype("int8"))
    assert in_range(small, 7)
    assert not in_range(of("astype", flat, dtype=np.dtype("uint8"))[0], 7)
    (many,) = of("wrap_index", x, size=200)
    assert not in_range(of("astype", many, dtype=small.spec.dtype)[0], 200)
    (line,) = of("iota", shape=(3, 5), axis=1, start=2, step=-1, dtype=fx.int64, device="cpu")
    assert in_range(line, 3) and not in_range(line, 2)


@pytest.mark.parametrize("size", [4, 40_000])
def test_a_compiled_graph_fails_as_the_eager_call(size):
    from fx.backends.cpu.llvm.driver import compile_graph

    rng = np.random.default_rng(4)
    x = fx.asarray(rng.normal(size=(30, 8)).astype(np.float32))
    good, bad = rng.integers(-30, 30, (2, size))
    bad[size // 2] = 30

    def looked_up(x, i):
        return fx.exp(fx.take(x, i, axis=0)) * 2

    run = compile_graph(fx.make_graph(looked_up)(x, fx.asarray(good))).run
    with pytest.raises(IndexingError) as eager:
        looked_up(x, fx.asarray(bad))
    for _ in range(2):
        with pytest.raises(IndexingError) as compiled:
            run([x.numpy(), bad])
        assert str(compiled.value) == str(eager.value)
        want = looked_up(x, fx.asarray(good)).numpy()
        np.testing.assert_allclose(run([x.numpy(), good])[0], want, 1e-6)
