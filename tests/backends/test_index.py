"""Gathers and scatters against NumPy, written as loops where NumPy has no such function."""

import ml_dtypes
import numpy as np
import pytest

from fx.backends.cpu.index import scatter, scatter_along_axis, take, take_along_axis

DTYPES = [
    np.float32,
    np.float64,
    np.float16,
    ml_dtypes.bfloat16,
    np.int8,
    np.uint32,
    np.int64,
    np.bool_,
    np.complex64,
    np.complex128,
]
COMBINE = {
    "set": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "min": np.minimum,
    "max": np.maximum,
}


def _draw(rng, shape, dtype):
    return rng.integers(-2, 4, shape).astype(dtype)


def _scatter_loop(x, idx, updates, axis, mode):
    """Slice by slice, in the dtype that accumulates without loss."""
    wide = np.float32 if x.dtype.kind == "V" or x.dtype == np.float16 else x.dtype
    out = np.moveaxis(x.astype(wide), axis, 0)
    updates = updates.astype(wide)
    updates = updates.reshape(*x.shape[:axis], idx.size, *x.shape[axis + 1 :])
    with np.errstate(over="ignore"):
        for j, at in enumerate(idx.reshape(-1)):
            out[at] = COMBINE[mode](out[at], np.take(updates, j, axis=axis))
    return np.moveaxis(out, 0, axis).astype(x.dtype)


def _same(a, b):
    assert a.dtype == b.dtype
    assert a.flags.c_contiguous
    wide = np.float32 if a.dtype.kind == "V" else a.dtype
    np.testing.assert_array_equal(a.astype(wide), b.astype(wide))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_and_take_along_axis(dtype, axis):
    rng = np.random.default_rng(0)
    x = _draw(rng, (4, 5, 6), dtype)
    for idx in (np.array(2), np.array([[0, -1, 3], [3, 3, -4]], np.int32), np.zeros((0, 2), int)):
        _same(take(x, idx, axis=axis), np.take(x, idx, axis=axis))
        _same(take(x.T, idx, axis=axis), np.ascontiguousarray(np.take(x.T, idx, axis=axis)))
    shape = list(x.shape)
    shape[axis] = 7
    idx = rng.integers(-4, 4, shape)
    _same(take_along_axis(x, idx, axis=axis), np.take_along_axis(x, idx, axis=axis))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("mode", list(COMBINE))
def test_scatter_applies_updates_in_order(dtype, mode):
    if np.dtype(dtype).kind == "c" and mode in ("min", "max"):
        x = np.ones(3, dtype)
        with pytest.raises(TypeError, match="is not one for complex"):
            scatter(x, np.array([0]), x[:1], axis=0, mode=mode)
        return
    rng = np.random.default_rng(0)
    for axis in (0, 1, 2):
        x = _draw(rng, (3, 4, 2), dtype)
        before = x.copy()
        for idx in (np.array(1), np.array([[0, -1, 1], [1, 1, -2]]), np.array([], np.int64)):
            idx = idx % x.shape[axis] - (idx < 0) * x.shape[axis]  # in range, some negative
            updates = _draw(rng, x.shape[:axis] + idx.shape + x.shape[axis + 1 :], dtype)
            out = scatter(x, idx, updates, axis=axis, mode=mode)
            _same(out, _scatter_loop(x, idx, updates, axis, mode))
            assert not np.shares_memory(out, x)
        _same(x, before)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("mode", list(COMBINE))
def test_scatter_along_axis_equals_scatter_column_by_column(dtype, mode):
    if np.dtype(dtype).kind == "c" and mode in ("min", "max"):
        return
    rng = np.random.default_rng(0)
    x = _draw(rng, (3, 4), dtype)
    idx = rng.integers(-3, 3, (5, 4))
    updates = _draw(rng, idx.shape, dtype)
    columns = [
        scatter(x[:, c], idx[:, c], updates[:, c], axis=0, mode=mode) for c in range(x.shape[1])
    ]
    out = scatter_along_axis(x, idx, updates, axis=0, mode=mode)
    _same(out, np.stack(columns, axis=1))
    _same(scatter_along_axis(x.T, idx.T, updates.T, axis=1, mode=mode), out.T.copy())


def test_the_last_of_equal_indices_wins_in_c_order():
    idx = np.asfortranarray([[1, 0], [0, 1]])
    out = scatter(np.zeros(2), idx, np.array([[1.0, 2.0], [3.0, 4.0]]), axis=0, mode="set")
    np.testing.assert_array_equal(out, [3.0, 4.0])


@pytest.mark.parametrize("mode", ["min", "max"])
def test_min_and_max_propagate_nan_from_either_side(mode):
    x = np.array([np.nan, 1, 1], np.float32)
    updates = np.array([0, np.nan, 5, 0], np.float32)
    idx = np.array([0, 1, 1, 2])
    expected = [np.nan, np.nan, 0 if mode == "min" else 1]
    np.testing.assert_array_equal(scatter(x, idx, updates, axis=0, mode=mode), expected)
    np.testing.assert_array_equal(
        scatter_along_axis(x, np.append(idx[:2], 2), updates[[0, 1, 3]], axis=0, mode=mode),
        expected,
    )


@pytest.mark.parametrize("bad", [5, -6, 2**62, -(2**62)])
def test_indices_out_of_bounds_are_refused(bad):
    x, idx = np.ones((2, 5), np.float32), np.array([0, bad])
    updates = np.ones((2, 2), np.float32)
    grid = np.broadcast_to(idx, (2, 2))
    calls = [
        lambda: take(x, idx, axis=1),
        lambda: take(x.T, idx, axis=0),
        lambda: scatter(x, idx, updates, axis=1, mode="add"),
        lambda: take_along_axis(x, grid, axis=1),
        lambda: scatter_along_axis(x, grid, updates, axis=1, mode="set"),
    ]
    for call in calls:
        with pytest.raises(IndexError, match="out of range"):
            call()
    with pytest.raises(IndexError):
        take(np.ones((0, 2)), np.array([0]), axis=0)
    with pytest.raises(IndexError):
        scatter(np.ones((0, 2)), np.array([0]), np.ones((1, 2)), axis=0, mode="set")
    with pytest.raises(IndexError, match="out of range"):
        take(x, np.array([2**64 - 1], np.uint64), axis=1)


def test_wrong_shapes_dtypes_and_modes_are_refused():
    x = np.ones((2, 5), np.float32)
    with pytest.raises(TypeError, match="indices must be integers"):
        take(x, np.array([0.0]), axis=0)
    with pytest.raises(TypeError, match="indices must be integers"):
        take_along_axis(x, np.zeros((2, 1), bool), axis=1)
    with pytest.raises(ValueError, match="must have shape"):
        scatter(x, np.array([0]), np.ones((2, 2), np.float32), axis=1, mode="add")
    with pytest.raises(ValueError, match="all but axis 1"):
        take_along_axis(x, np.zeros((3, 1), int), axis=1)
    with pytest.raises(ValueError, match="mode must be one of"):
        scatter(x, np.array([0]), np.ones((2, 1), np.float32), axis=1, mode="sub")
    with pytest.raises(ValueError, match="axis 2"):
        take(x, np.array([0]), axis=2)


def test_read_only_strided_and_empty_arrays():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((6, 8)).astype(np.float32)[::2, ::2]
    updates = rng.standard_normal((4, 8)).astype(np.float32)[:, ::2]
    idx = np.array([[0, 9, 1, 9, 2, 9, 0, 9]])[0, ::2]
    for a in (x, updates, idx):
        a.flags.writeable = False
    np.testing.assert_allclose(
        scatter(x, idx, updates, axis=0, mode="add"), _scatter_loop(x, idx, updates, 0, "add")
    )
    grid = np.broadcast_to(idx[:, None], (4, 4))
    _same(take_along_axis(x, grid, axis=0), np.take_along_axis(x, grid, axis=0))
    for shape in ((0, 3), (3, 0)):
        empty = np.ones(shape, np.float32)
        for mode in COMBINE:
            none = np.zeros(0, np.int64)
            out = scatter(empty, none, np.ones((shape[0], 0), np.float32), axis=1, mode=mode)
            assert out.shape == shape
            grid = np.zeros((shape[0], 0), np.int64)
            out = scatter_along_axis(empty, grid, empty[:, :0], axis=1, mode=mode)
            assert out.shape == shape
        assert take_along_axis(empty, grid, axis=1).shape == grid.shape
