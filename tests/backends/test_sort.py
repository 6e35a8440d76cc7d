"""Sorting, selection and search: order, stability and the place of NaN."""

import ml_dtypes
import numpy as np
import pytest

from fx import limits
from fx.backends.cpu.llvm import any_size
from fx.backends.cpu.sort import argsort, searchsorted, top_k_indices

DTYPES = [
    np.float32,
    np.float64,
    np.float16,
    ml_dtypes.bfloat16,
    np.int8,
    np.uint8,
    np.int32,
    np.uint32,
    np.int64,
    np.bool_,
]


@pytest.fixture(autouse=True, params=["kernel", "reference"])
def _which(request, monkeypatch):
    if request.param == "reference":
        monkeypatch.setattr(any_size, "if_ready", lambda *_: None)
    with limits.given(EARLY_CALLS=0):
        yield


def _draw(rng, shape, dtype):
    """Values with many ties; floats also hold NaN of both signs, both zeros and infinities."""
    dtype = np.dtype(dtype)
    x = rng.integers(-5, 6, shape).astype(np.float32)
    if dtype.kind in "fV":
        for value in (np.nan, -np.nan, -0.0, np.inf, -np.inf):
            x[rng.random(shape) < 0.05] = value
    elif dtype.kind in "iu":
        info = np.iinfo(dtype)
        return rng.choice(np.array([info.min, info.max, 0, 1, 2, 3], dtype), shape)
    return x.astype(dtype)


def _order(row, descending):
    """The stable order of one row by Python's sort, NaN above everything."""

    def key(i):
        v = float(row[i]) if row.dtype.kind in "fV" else int(row[i])
        nan = v != v
        return (-nan, 0 if nan else -v) if descending else (nan, 0 if nan else v)

    return sorted(range(len(row)), key=key)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(30, 100), (3, 10)], ids=["by digits", "counted"])
def test_argsort_is_stable_in_both_directions(dtype, shape):
    x = _draw(np.random.default_rng(0), shape, dtype)
    for descending in (False, True):
        expected = np.array([_order(row, descending) for row in x])
        out = argsort(x, axis=-1, descending=descending)
        assert out.dtype == np.int64
        np.testing.assert_array_equal(out, expected)
        np.testing.assert_array_equal(argsort(x.T, axis=0, descending=descending), expected.T)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("shape", [(30, 100), (3, 10)], ids=["by digits", "counted"])
def test_top_k_takes_the_lowest_of_equal_positions(dtype, shape):
    x = _draw(np.random.default_rng(0), shape, dtype)
    for largest in (False, True):
        for k in (0, 1, 7, shape[1]):
            expected = np.array([_order(row, largest)[:k] for row in x]).reshape(shape[0], k)
            out = top_k_indices(x, k=k, axis=1, largest=largest)
            assert out.dtype == np.int64
            assert out.flags.c_contiguous
            np.testing.assert_array_equal(out, expected)
            np.testing.assert_array_equal(
                top_k_indices(x.T, k=k, axis=0, largest=largest), expected.T
            )
    with pytest.raises(ValueError, match="k must lie in"):
        top_k_indices(x, k=shape[1] + 1, axis=1, largest=True)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64])
@pytest.mark.parametrize("ends", [
    (7, 8), (-4000, 4000), (0, 1 << 32), (0, (1 << 32) + 1), (-(1 << 62), 1 << 62),
])  # fmt: skip
def test_keys_of_64_bits_of_any_span(dtype, ends):
    x = np.random.default_rng(0).integers(*ends, size=(2, 3000)).astype(dtype)
    x[:, 5:7] = np.array(ends) - np.array((0, 1))
    expected = np.argsort(x, axis=-1, kind="stable")
    np.testing.assert_array_equal(argsort(x, axis=-1, descending=False), expected)


def test_sorting_agrees_with_torch():
    torch = pytest.importorskip("torch")
    x = _draw(np.random.default_rng(0), (4, 500, 3), np.float32)
    for descending in (False, True):
        expected = torch.argsort(torch.tensor(x), dim=1, descending=descending, stable=True)
        np.testing.assert_array_equal(argsort(x, axis=1, descending=descending), expected.numpy())


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted(dtype, side):
    rng = np.random.default_rng(0)
    wide = np.float32 if np.dtype(dtype).kind in "fV" else dtype
    wide = np.float64 if dtype == np.float64 else wide
    seq = np.sort(_draw(rng, (4, 20), dtype).astype(wide), axis=-1).astype(dtype)
    values = _draw(rng, (4, 33), dtype)
    rows = [np.searchsorted(s.astype(wide), v.astype(wide), side=side) for s, v in zip(seq, values)]
    out = searchsorted(seq, values, side=side)
    assert out.dtype == np.int64
    np.testing.assert_array_equal(out, rows)
    np.testing.assert_array_equal(searchsorted(seq[1], values[1], side=side), rows[1])
    np.testing.assert_array_equal(searchsorted(seq[1], values[1, 0], side=side), rows[1][0])


def test_searchsorted_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="all but the last axis"):
        searchsorted(np.ones((2, 3)), np.ones((3, 3)), side="left")
    with pytest.raises(ValueError, match="'left' or 'right'"):
        searchsorted(np.ones(3), np.ones(3), side="middle")


def test_empty_arrays():
    for shape in ((0, 5), (5, 0), (0, 4000)):
        x = np.ones(shape, np.float32)
        assert argsort(x, axis=1, descending=True).shape == shape
        assert top_k_indices(x, k=0, axis=1, largest=True).shape == (shape[0], 0)
        np.testing.assert_array_equal(
            searchsorted(x, x[:, :1], side="left"), np.zeros((shape[0], min(1, shape[1])))
        )
    np.testing.assert_array_equal(
        searchsorted(np.ones((2, 0)), np.ones((2, 3)), side="right"), np.zeros((2, 3))
    )
