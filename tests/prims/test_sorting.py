"""Orders and binary search where the laws do not look: ties, NaN, nothing, other dtypes."""

import numpy as np
import pytest

import fx
import fx.prims.sorting as prims
from fx import limits
from fx.errors import AxisError, DTypeError, ShapeError
from tests.prims.tools import BFLOAT16, INTEGERS, NAN, array, run, tensor

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, BFLOAT16, *INTEGERS, bool])
def test_argsort_is_stable_and_nan_is_the_largest(dtype, descending):
    values = np.random.default_rng(0).integers(0, 4, (3, 60)).astype(dtype)
    if values.dtype.kind not in "biu":
        values[:, ::7] = NAN
    got = run(prims.argsort, values, axis=1, descending=descending)
    wide = values.astype(np.float64) if values.dtype.kind not in "biu" else values.astype(np.int64)
    want = torch.sort(torch.tensor(wide), dim=1, stable=True, descending=descending).indices
    np.testing.assert_array_equal(got, want.numpy())


@pytest.mark.parametrize("largest", [False, True])
def test_top_k_is_the_start_of_the_order(largest):
    x = np.random.default_rng(0).integers(0, 5, (2, 9, 3)).astype(np.float32)
    order = run(prims.argsort, x, axis=1, descending=largest)
    for k in (0, 1, 4, 9):
        got = run(prims.top_k_indices, x, k=k, axis=1, largest=largest)
        np.testing.assert_array_equal(got, order[:, :k])


@pytest.mark.parametrize("lost", prims.LOST)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, BFLOAT16, *INTEGERS, bool])
def test_elements_of_ranks_are_those_of_the_order(dtype, lost):
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (7, 3), (60, 9), (300, 2), (5000, 2)):
        x = rng.integers(0, 2 if dtype is bool else 90, (3, n, 2)).astype(dtype)
        floating = x.dtype.kind not in "biu"
        if floating and n > 1:
            x[0, ::7], x[1, n // 2 :, 0] = NAN, -0.0
        ranks = rng.integers(0, n, (3, m, 2))
        order = run(prims.argsort, x, axis=1, descending=False)
        missing = (x != x).sum(1, keepdims=True)
        wanted = np.where(missing > 0, n - (missing if lost == "first" else 1), ranks)
        want = np.take_along_axis(order, ranks if lost == "no" else wanted, 1)
        for which in (limits.given(EARLY_CALLS=0), limits.given(EARLY_CALLS=99), limits.tiny()):
            with which:
                for laid in (x, np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2)):
                    got = run(prims.ranked_indices, laid, ranks, axis=1, lost=lost)
                    np.testing.assert_array_equal(got, want)
        compiled = fx.jit(lambda a, r: prims.ranked_indices(a, r, axis=1, lost=lost))
        np.testing.assert_array_equal(array(compiled(tensor(x), tensor(ranks))), want)


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_of_batched_sequences_and_values_of_any_rank(side):
    rows = np.sort(np.random.default_rng(0).integers(0, 6, (3, 5)).astype(float))
    values = np.random.default_rng(1).integers(0, 6, (3, 2, 2)).astype(float)
    search = lambda s, v: prims.searchsorted(s, v, side=side)
    for axes in ((0, 0), (0, None), (None, 0)):
        s = rows if axes[0] == 0 else rows[0]
        v = values if axes[1] == 0 else values[0]
        got = array(fx.vmap(search, axes)(tensor(s), tensor(v)))
        for lane in range(3):
            one, found = (s[lane] if axes[0] == 0 else s), (v[lane] if axes[1] == 0 else v)
            np.testing.assert_array_equal(got[lane], np.searchsorted(one, found, side=side))


def test_bad_arguments_are_named():
    x = np.zeros((2, 3))
    with pytest.raises(AxisError, match=r"argsort: axis 2 is out of range"):
        run(prims.argsort, x, axis=2, descending=False)
    with pytest.raises(ShapeError, match=r"k=4 does not lie in 0..3, the size of axis 1"):
        run(prims.top_k_indices, x, k=4, axis=1, largest=True)
    with pytest.raises(ShapeError, match=r"int64\[2,1\].* are no ranks of .* along axis 0"):
        run(prims.ranked_indices, x, np.zeros((2, 1), int), axis=0, lost="no")
    with pytest.raises(ShapeError, match=r"a sequence of shape \(2, 3\) does not fit values"):
        run(prims.searchsorted, x, np.zeros(3), side="left")
    with pytest.raises(DTypeError, match="complex128 has no order"):
        prims.argsort.spec(tensor(x.astype(complex)).spec, axis=0, descending=False)
