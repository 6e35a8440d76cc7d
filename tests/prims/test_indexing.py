"""Gathers and scatters beyond the laws: duplicates, ties, bad indices, batched indices."""

import numpy as np
import pytest

import fx
import fx.prims.indexing as prims
from fx.errors import AxisError, DTypeError, IndexingError, ShapeError
from tests.prims.tools import (
    BFLOAT16,
    INTEGERS,
    NAN,
    array,
    bound,
    draws,
    gradients,
    run,
    tensor,
)

torch = pytest.importorskip("torch")

IDX = np.array([0, 2, 0, 3, -1, 0, 2])  # 1 is never hit, 2 and -1 (= 3) are hit twice, 0 thrice
REDUCTIONS = {"add": "sum", "mul": "prod", "min": "amin", "max": "amax"}


@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16, np.complex64, bool, *INTEGERS])
def test_gathers_in_every_dtype(dtype):
    x = np.arange(24).reshape(2, 4, 3).astype(dtype)
    np.testing.assert_array_equal(run(prims.take, x, IDX, axis=1), np.take(x, IDX, 1))
    np.testing.assert_array_equal(run(prims.take, x[..., ::2], np.array(-2), axis=1), x[:, 2, ::2])
    assert run(prims.take, x[0, ::2, 0], np.array(1), axis=0).shape == ()
    idx = np.random.default_rng(0).integers(-4, 4, (2, 5, 3)).astype(np.int8)
    got = run(prims.take_along_axis, x, idx, axis=1)
    np.testing.assert_array_equal(got, np.take_along_axis(x, idx.astype(int), 1))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, BFLOAT16, np.int32, np.uint8])
@pytest.mark.parametrize("mode", prims.MODES)
def test_scatter_applies_updates_in_order(mode, dtype):
    x = np.random.default_rng(0).integers(1, 4, (2, 4, 3)).astype(dtype)
    updates = np.random.default_rng(1).integers(1, 4, (2, 7, 3)).astype(dtype)
    want = x.astype(np.float64)
    for j, i in enumerate(IDX):
        u = updates[:, j].astype(np.float64)
        old = want[:, i]
        want[:, i] = {
            "set": u, "add": old + u, "mul": old * u, "min": np.minimum(old, u),
            "max": np.maximum(old, u),
        }[mode]  # fmt: skip
    got = run(prims.scatter, x, IDX, updates, axis=1, mode=mode)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.astype(np.float64), want)
    along = np.broadcast_to(IDX[:, None], (2, 7, 3))
    got = run(prims.scatter_along_axis, x, along, updates, axis=1, mode=mode)
    np.testing.assert_array_equal(got.astype(np.float64), want)


@pytest.mark.parametrize("mode", ["mul", "min", "max"])
def test_gradients_with_ties_and_zeros_follow_torch(mode):
    x = np.array([[1.0, 2.0, 0.0, 3.0], [2.0, 2.0, 2.0, 2.0]])
    idx = np.array([[0, 2, 0, 3, 3, 0, 2], [1, 1, 1, 0, 0, 3, 3]])
    updates = np.array([[0.0, 4.0, 1.0, 3.0, 0.0, 1.0, 5.0], [2.0, 2.0, 0.0, 2.0, 1.0, 3.0, 3.0]])
    weights = np.array([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
    tx, tu = torch.tensor(x, requires_grad=True), torch.tensor(updates, requires_grad=True)
    out = tx.scatter_reduce(1, torch.tensor(idx), tu, REDUCTIONS[mode])
    (out * torch.tensor(weights)).sum().backward()
    function = bound(prims.scatter_along_axis, axis=1, mode=mode)
    np.testing.assert_allclose(function(*map(tensor, (x, idx, updates)))._a, out.detach().numpy())
    dx, du = gradients(function, x, idx, updates, weights=weights)
    np.testing.assert_allclose(du, tu.grad.numpy())
    if mode != "mul":  # torch's gradient in x is 0 / 0 where an update is 0
        np.testing.assert_allclose(dx, tx.grad.numpy())
    else:
        np.testing.assert_allclose(dx, run(function, np.ones_like(x), idx, updates) * weights)
    slices = bound(prims.scatter, axis=0, mode=mode)
    for row in range(2):
        got = gradients(slices, x[row], idx[row], updates[row], weights=weights[row])
        np.testing.assert_allclose(got[0], dx[row])
        np.testing.assert_allclose(got[1], du[row])


@pytest.mark.parametrize("mode", ["mul", "min", "max"])
def test_tangents_with_ties_and_zeros(mode):
    x, idx, updates = np.array([2.0, 3.0]), np.array([0, 0, 1]), np.array([0.0, 2.0, 3.0])
    dx, du = np.array([1.0, 2.0]), np.array([10.0, 20.0, 40.0])
    function = lambda x, u: prims.scatter(x, tensor(idx), u, axis=0, mode=mode)
    tangent = fx.jvp(function, (tensor(x), tensor(updates)), (tensor(dx), tensor(du)))[1]
    want = {"mul": [2 * 2 * 10, 3 * 2 + 3 * 40], "min": [10, 21], "max": [10.5, 21]}
    np.testing.assert_array_equal(array(tangent), want[mode])


def test_an_update_that_is_overwritten_has_no_gradient():
    x, updates, weights = draws(4), draws(7, seed=1), draws(4, seed=2)
    function = bound(prims.scatter, axis=0, mode="set")
    dx, du = gradients(function, x, IDX, updates, weights=weights)
    np.testing.assert_array_equal(dx, [0, weights[1], 0, 0])
    np.testing.assert_array_equal(du, [0, 0, 0, 0, weights[3], weights[0], weights[2]])
    wrong = np.array([1, 1, 1])
    tangent = fx.jvp(
        lambda u: function(tensor(x), tensor(wrong), u),
        (tensor([1.0, 2, 3]),),
        (tensor([4.0, 5, 6]),),
    )[1]
    np.testing.assert_array_equal(array(tangent), [0, 6, 0, 0])


def test_nan_wins_and_does_not_spoil_its_neighbours():
    x, updates = np.array([1.0, 5.0]), np.array([NAN, 2.0])
    idx = np.array([0, 1])
    function = bound(prims.scatter, axis=0, mode="max")
    np.testing.assert_array_equal(run(function, x, idx, updates), [NAN, 5.0])
    dx, du = gradients(function, x, idx, updates)
    assert dx[1] == 1.0
    assert du[1] == 0.0


@pytest.mark.parametrize("mode", prims.MODES)
def test_no_indices_and_no_elements(mode):
    x, nothing = draws(3, 2), np.zeros((0,), int)
    function = bound(prims.scatter, axis=0, mode=mode)
    np.testing.assert_array_equal(run(function, x, nothing, np.zeros((0, 2))), x)
    dx, du = gradients(function, x, nothing, np.zeros((0, 2)))
    np.testing.assert_array_equal(dx, np.ones_like(x))
    assert du.shape == (0, 2)
    assert run(prims.take, x, nothing, axis=1).shape == (3, 0)
    assert gradients(bound(prims.take, axis=0), np.zeros((2, 0)), np.array([1]))[0].shape == (2, 0)
    one = gradients(function, x[:1], np.array([0]), draws(1, 2, seed=1))
    assert [g.shape for g in one] == [(1, 2), (1, 2)]


LANES = 3


@pytest.mark.parametrize("x_axis", [None, 0, 1, 2])
@pytest.mark.parametrize("idx_axis", [None, 0, 1])
@pytest.mark.parametrize("axis", [0, 1])
def test_batched_take_counts_negative_indices_within_its_lane(axis, x_axis, idx_axis):
    if x_axis is None and idx_axis is None:
        return
    x, idx = draws(4, 4), np.random.default_rng(0).integers(-4, 4, 5)
    xs = np.stack([draws(4, 4, seed=s) for s in range(LANES)], x_axis or 0)
    ids = np.stack(
        [np.random.default_rng(s).integers(-4, 4, 5) for s in range(LANES)], idx_axis or 0
    )
    x, idx = (x if x_axis is None else xs), (idx if idx_axis is None else ids)
    function = fx.vmap(bound(prims.take, axis=axis), (x_axis, idx_axis))
    got = array(function(tensor(x), tensor(idx)))
    for lane in range(LANES):
        one = x if x_axis is None else np.take(x, lane, x_axis)
        at = idx if idx_axis is None else np.take(idx, lane, idx_axis)
        np.testing.assert_array_equal(got[lane], np.take(one, at, axis))


def test_an_index_of_one_lane_never_reaches_into_the_next():
    x, idx = draws(3, 4), np.array([[0, 4], [1, 2], [3, 3]])  # 4 would be the next lane's first
    with pytest.raises(IndexingError, match=r"index 4 is out of range .* has size 4; valid are -4"):
        fx.vmap(bound(prims.take, axis=0))(tensor(x), tensor(idx))
    with pytest.raises(IndexingError, match="index 4 is out of range"):
        fx.vmap(bound(prims.scatter, axis=0, mode="add"))(*map(tensor, (x, idx, draws(3, 2))))


def test_bad_indices_are_named_with_axis_and_size():
    x, one = draws(2, 3), np.array([3])
    message = (
        r"{}: index 3 is out of range for axis 1 of \(2, 3\), which has size 3; valid are -3..2"
    )
    with pytest.raises(IndexingError, match=message.format("take")):
        run(prims.take, x, one, axis=1)
    with pytest.raises(IndexingError, match="index 3"):
        run(prims.take, x.T[::-1].T, one[0], axis=1)
    with pytest.raises(IndexingError, match=message.format("scatter")):
        run(prims.scatter, x, one, np.zeros((2, 1)), axis=1, mode="set")
    at = np.full((2, 1), -4)
    with pytest.raises(
        IndexingError, match=r"take_along_axis: index -4 is out of range for axis 1"
    ):
        run(prims.take_along_axis, x, at, axis=1)
    with pytest.raises(IndexingError, match=r"scatter_along_axis: index -4 is out of range"):
        run(prims.scatter_along_axis, x, at, np.zeros((2, 1)), axis=1, mode="add")
    with pytest.raises(IndexingError, match="an empty axis has no valid index"):
        run(prims.take, np.zeros((2, 0)), one, axis=1)


def test_what_is_no_index_is_named():
    x, one = draws(2, 3), np.array([1])
    with pytest.raises(DTypeError, match=r"take: indices must be integers, got float64; write"):
        run(prims.take, x, one * 1.0, axis=1)
    with pytest.raises(DTypeError, match=r"got bool; select with a mask as x\[mask\]"):
        run(prims.take, x, one == 1, axis=1)
    with pytest.raises(AxisError, match=r"take: axis 2 is out of range for shape \(2, 3\)"):
        run(prims.take, x, one, axis=2)
    with pytest.raises(ShapeError, match=r"take updates of shape \(2, 1\)"):
        run(prims.scatter, x, one, np.zeros((1, 2)), axis=1, mode="set")
    with pytest.raises(DTypeError, match="dtypes float64, float32 differ"):
        run(prims.scatter, x, one, np.zeros((2, 1), np.float32), axis=1, mode="set")
    with pytest.raises(ShapeError, match="must have the shape of x"):
        run(prims.take_along_axis, x, one, axis=1)
    with pytest.raises(IndexingError, match="mode must be one of set, add, mul, min, max"):
        run(prims.scatter, x, one, np.zeros((2, 1)), axis=1, mode="sum")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (2, 5, 40), (1000, 10)])
def test_one_element_of_each_row(shape, dtype):
    rng = np.random.default_rng(0)
    x = rng.integers(-100, 100, shape).astype(dtype)
    idx = rng.integers(-shape[-1], shape[-1], (*shape[:-1], 1))
    got = fx.take_along_axis(fx.tensor(x), fx.tensor(idx), axis=-1).numpy()
    np.testing.assert_array_equal(got, np.take_along_axis(x, idx, -1))
    for far in (shape[-1], -shape[-1] - 1):
        wrong = idx.copy()
        wrong.reshape(-1)[-1] = far
        with pytest.raises(IndexError, match=f"index {far} is out of range"):
            fx.take_along_axis(fx.tensor(x), fx.tensor(wrong), axis=-1)
