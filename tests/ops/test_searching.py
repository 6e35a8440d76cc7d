"""Order, search, sets and scatters against NumPy, PyTorch and loops; what needs known values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import fx
from fx import dtypes
from fx.errors import (
    AxisError,
    BatchedValueError,
    DeviceError,
    DTypeError,
    IndexingError,
    ShapeError,
)

torch = pytest.importorskip("torch")

REAL = (*dtypes.SIGNED, *dtypes.UNSIGNED, fx.bool, fx.float16, fx.bfloat16, fx.float32, fx.float64)
SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5)
FEW = st.integers(-2, 2).map(float)  # so that there are ties
WITH_NAN = st.sampled_from((-1.0, 0.0, 2.0, float("nan"), float("inf")))


@given(x=hnp.arrays(np.float64, SHAPES, elements=WITH_NAN), data=st.data())
def test_sorting(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    order = fx.argsort(fx.asarray(x), axis=axis)
    np.testing.assert_array_equal(order.numpy(), np.argsort(x, axis, stable=True))
    np.testing.assert_array_equal(fx.sort(fx.asarray(x), axis=axis).numpy(), np.sort(x, axis))
    down = fx.sort(fx.asarray(x), axis=axis, descending=True)
    np.testing.assert_array_equal(down.numpy(), np.flip(np.sort(x, axis), axis))
    values, indices = fx.asarray(x).sort(axis, descending=True)
    want = torch.sort(torch.tensor(x), dim=axis, descending=True, stable=True)
    np.testing.assert_array_equal(values.numpy(), want.values.numpy())
    np.testing.assert_array_equal(indices.numpy(), want.indices.numpy())


@given(x=hnp.arrays(np.float64, SHAPES, elements=WITH_NAN), data=st.data())
def test_order_statistics(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    k = data.draw(st.integers(1, x.shape[axis]))
    ours, theirs = fx.asarray(x), torch.tensor(x)
    got = fx.topk(ours, k, axis=axis)
    np.testing.assert_array_equal(got.values.numpy(), torch.topk(theirs, k, axis).values.numpy())
    along = np.take_along_axis(x, got.indices.numpy(), axis)
    np.testing.assert_array_equal(got.values.numpy(), along)
    got = fx.kthvalue(ours, k, axis=axis, keepdims=True)
    np.testing.assert_array_equal(got.values.numpy(), np.sort(x, axis).take([k - 1], axis))
    values, indices = ours.median(axis)
    np.testing.assert_array_equal(values.numpy(), torch.median(theirs, axis).values.numpy())
    picked = np.take_along_axis(x, np.expand_dims(indices.numpy(), axis), axis).squeeze(axis)
    np.testing.assert_array_equal(values.numpy(), picked)
    np.testing.assert_array_equal(ours.median().numpy(), theirs.median().numpy())


@given(x=hnp.arrays(np.int64, SHAPES, elements=st.integers(0, 3)), data=st.data())
def test_modes(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    values, indices = fx.mode(fx.asarray(x), axis=axis)
    np.testing.assert_array_equal(values.numpy(), torch.mode(torch.tensor(x), axis).values.numpy())
    picked = np.take_along_axis(x, np.expand_dims(indices.numpy(), axis), axis).squeeze(axis)
    np.testing.assert_array_equal(values.numpy(), picked)


@given(
    sequence=hnp.arrays(np.int64, st.integers(0, 6), elements=st.integers(-3, 3)),
    values=hnp.arrays(np.float64, SHAPES, elements=st.integers(-8, 8).map(lambda v: v / 2)),
    side=st.sampled_from(("left", "right")),
)
def test_binary_search(sequence, values, side):
    ranked = np.sort(sequence)
    want = np.searchsorted(ranked, values, side)
    got = fx.searchsorted(fx.asarray(ranked), fx.asarray(values), side=side)
    np.testing.assert_array_equal(got.numpy(), want)
    order = fx.argsort(fx.asarray(sequence))
    got = fx.searchsorted(fx.asarray(sequence), fx.asarray(values), side=side, sorter=order)
    np.testing.assert_array_equal(got.numpy(), want)
    assert fx.searchsorted(fx.asarray(ranked), 1.5, out_int32=True).dtype == fx.int32


@given(x=hnp.arrays(np.float64, hnp.array_shapes(min_side=0, max_side=5), elements=WITH_NAN))
def test_sets(x):
    want = np.unique_all(x)
    for got in (fx.unique_all(fx.asarray(x)),):
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g.numpy(), w)
    np.testing.assert_array_equal(fx.unique_values(fx.asarray(x)).numpy(), want.values)
    counts = fx.unique_counts(fx.asarray(x))
    np.testing.assert_array_equal(counts.counts.numpy(), want.counts)
    inverse = fx.unique_inverse(fx.asarray(x))
    np.testing.assert_array_equal(inverse.values.numpy()[inverse.inverse_indices.numpy()], x)


@given(x=hnp.arrays(np.int64, hnp.array_shapes(max_dims=3, max_side=4), elements=st.integers(0, 2)))
def test_unique_slices(x):
    for dim in (None, *range(x.ndim)):
        want = torch.unique(torch.tensor(x), return_inverse=True, return_counts=True, dim=dim)
        got = fx.asarray(x).unique(return_inverse=True, return_counts=True, dim=dim)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g.numpy(), w.numpy())


@pytest.mark.parametrize("dtype", REAL, ids=str)
def test_every_dtype_is_searched(dtype):
    x = np.asarray([3, 1, 2, 1]).astype(dtype)
    ours = fx.asarray(x)
    assert fx.sort(ours).dtype == fx.unique_values(ours).dtype == dtype
    np.testing.assert_array_equal(fx.sort(ours).numpy(), np.sort(x))
    np.testing.assert_array_equal(fx.argsort(ours, descending=True).numpy()[0], np.argmax(x))
    np.testing.assert_array_equal(fx.isin(ours, ours[:2]).numpy(), np.isin(x, x[:2]))
    assert fx.nonzero(ours)[0].tolist() == [0, 1, 2, 3]


@given(
    x=hnp.arrays(np.float64, SHAPES, elements=WITH_NAN),
    tests=hnp.arrays(np.float64, st.integers(0, 4), elements=WITH_NAN),
)
def test_membership(x, tests):
    for invert in (False, True):
        got = fx.isin(fx.asarray(x), fx.asarray(tests), invert=invert)
        np.testing.assert_array_equal(got.numpy(), np.isin(x, tests, invert=invert))
    assert fx.isin(fx.asarray([1, 2]), 2).tolist() == [False, True]


@given(x=hnp.arrays(np.int64, hnp.array_shapes(min_side=0, max_dims=4), elements=st.integers(0, 1)))
def test_places(x):
    for got, want in zip(fx.nonzero(fx.asarray(x)), np.nonzero(x), strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(fx.argwhere(fx.asarray(x)).numpy(), np.argwhere(x))
    np.testing.assert_array_equal(fx.asarray(x).nonzero().numpy(), np.argwhere(x))
    picked = fx.masked_select(fx.asarray(x + 1), fx.asarray(x != 0))
    np.testing.assert_array_equal(picked.numpy(), (x + 1)[x != 0])


def test_what_needs_known_values():
    x = fx.ones((2, 3))
    for name in ("nonzero", "unique_values", "unique_all", "argwhere"):
        with pytest.raises(BatchedValueError, match="number of results depends on the values"):
            fx.vmap(getattr(fx, name))(x)
        with fx.device("meta"), pytest.raises(DeviceError, match="number of results depends"):
            getattr(fx, name)(fx.ones((2, 3)))
    with pytest.raises(ShapeError, match="has no places"):
        fx.nonzero(fx.asarray(1))


def test_searches_that_are_refused():
    x = fx.ones((2, 3))
    z = x.astype(fx.complex64)
    for error, words, call in (
        (ShapeError, r"topk: k=4 does not lie in 0..3, the size of axis 1", lambda: fx.topk(x, 4)),
        (ShapeError, "kthvalue: k=0", lambda: fx.kthvalue(x, 0)),
        (AxisError, "sort: axis 2 is out of range", lambda: fx.sort(x, axis=2)),
        (ValueError, "side must be", lambda: fx.searchsorted(x, x, side="up")),
        (ShapeError, "searchsorted: a sequence", lambda: fx.searchsorted(x, fx.ones(4))),
        (DTypeError, "sort: complex64 has no order", lambda: fx.sort(z)),
        (DTypeError, "condition must be bool", lambda: fx.where(x, x, x)),
        (ShapeError, "where: shapes", lambda: fx.where(x > 0, x, fx.ones(2))),
        (TypeError, "where takes a condition", lambda: fx.where(x > 0, x)),
        (IndexingError, "index 3 is out of range for axis 1", lambda: fx.take(x, fx.asarray(3), 1)),
        (DTypeError, "indices must be integers", lambda: fx.take(x, fx.asarray([0.5]), 0)),
        (ShapeError, "as many axes", lambda: fx.gather(x, 0, fx.asarray([0]))),
        (ShapeError, "exceeds x", lambda: fx.gather(x, 1, fx.zeros((3, 1), dtype=fx.int64))),
        (ShapeError, "at least as long as index", lambda: fx.scatter(
            x, 0, fx.zeros((2, 2), dtype=fx.int64), fx.ones((1, 2)))),
        (ValueError, "reduce must be", lambda: fx.scatter(
            x, 0, fx.zeros((1, 1), dtype=fx.int64), 1.0, reduce="max")),
        (DTypeError, "one_hot takes integers", lambda: fx.one_hot(x)),
        (DTypeError, "no order", lambda: fx.max(z)),
    ):  # fmt: skip
        with pytest.raises(error, match=words):
            call()


@given(
    x=hnp.arrays(np.float64, SHAPES, elements=FEW),
    reduce=st.sampled_from((None, "add", "multiply")),
    data=st.data(),
)
def test_scatters(x, reduce, data):
    axis = data.draw(st.integers(0, x.ndim - 1))
    sides = tuple(data.draw(st.integers(1, 5 if i == axis else n)) for i, n in enumerate(x.shape))
    index = data.draw(hnp.arrays(np.int64, sides, elements=st.integers(0, x.shape[axis] - 1)))
    src = data.draw(hnp.arrays(np.float64, sides, elements=FEW))
    want = x.copy()
    for at in np.ndindex(*sides):
        place = (*at[:axis], index[at], *at[axis + 1 :])
        if reduce == "add":
            want[place] += src[at]
        elif reduce == "multiply":
            want[place] *= src[at]
        else:
            want[place] = src[at]
    got = fx.scatter(
        *map(fx.asarray, (x,)), axis, fx.asarray(index), fx.asarray(src), reduce=reduce
    )
    np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("dtype", (fx.int8, fx.uint8, fx.int64, fx.float32), ids=str)
@pytest.mark.parametrize("reduce", ("sum", "prod", "mean", "amax", "amin"))
@pytest.mark.parametrize("own", (True, False))
def test_scatter_reduce_of_every_kind(dtype, reduce, own):
    x = np.asarray([7, 5, 9]).astype(dtype)
    index, src = np.asarray([0, 0, 2]), np.asarray([3, 9, 4]).astype(dtype)
    want = torch.tensor(x).scatter_reduce(
        0, torch.tensor(index), torch.tensor(src), reduce, include_self=own
    )
    got = fx.asarray(x).scatter_reduce(
        0, fx.asarray(index), fx.asarray(src), reduce, include_self=own
    )
    assert got.dtype == dtype
    np.testing.assert_allclose(got.numpy(), want.numpy())


def test_no_index_takes_nothing():
    x = fx.ones((2, 3))
    empty = fx.asarray([], dtype=fx.int64)
    for got in (fx.take(x, [], axis=1), fx.index_select(x, 1, []), fx.take(x, empty, axis=1)):
        assert got.shape == (2, 0)


def test_where_and_masks():
    x = fx.asarray([1, 2, 3])
    assert fx.where(x > 1, x, 0.5).tolist() == [0.5, 2.0, 3.0]
    assert fx.where(x > 1)[0].tolist() == [1, 2]
    assert fx.masked_fill(x, x > 1, 7.9).tolist() == [1, 7, 7]
    assert x.masked_scatter(x > 1, fx.asarray([8, 9, 10])).tolist() == [1, 8, 9]
    assert fx.one_hot(x).shape == (3, 4) and fx.one_hot(x, 5, dtype=fx.float32).dtype == fx.float32


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64"])
@pytest.mark.parametrize("shape, count", [((10, 10), 10), ((), 3), ((0,), 4), ((400, 3), 50)])
def test_few_tests_and_many_find_the_same_members(shape, count, dtype):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=shape) * 4).round().astype(dtype)
    tests = (rng.normal(size=count) * 4).round().astype(dtype)
    if dtype in ("float32", "complex64"):
        tests[0] = np.nan
    for invert in (False, True):
        found = fx.isin(fx.tensor(x), fx.tensor(tests), invert=invert)
        np.testing.assert_array_equal(found.numpy(), np.isin(x, tests, invert=invert))
