"""Reductions where the laws do not look: ties, NaN, infinities, nothing at all, other dtypes."""

import contextlib
import ctypes
import itertools
import mmap
import pickle
import sys

import numpy as np
import pytest
import scipy.special

import fx
import fx.prims.reduction as prims
from fx import limits
from fx.backends.cpu import sums
from fx.errors import AxisError, DTypeError, ShapeError
from tests.prims.tools import (
    BFLOAT16,
    INF,
    INTEGERS,
    NAN,
    NARROW,
    bound,
    draws,
    gradients,
    run,
    tensor,
)

torch = pytest.importorskip("torch")

EVERY_AXES = [(), (0,), (1,), (0, 1), (0, 2), (0, 1, 2)]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", EVERY_AXES)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "any", "all"])
def test_values_on_integers(name, axes, keepdims):
    x = np.random.default_rng(0).integers(-3, 4, (3, 1, 4))
    got = run(getattr(prims, name), x, axes=axes, keepdims=keepdims)
    want = getattr(np, name)(x, axis=axes, keepdims=keepdims)
    if axes == () and name in ("any", "all"):
        want = x != 0
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_sum_and_prod_keep_an_integer_dtype(dtype):
    x = np.arange(1, 7, dtype=dtype).reshape(2, 3)
    for name in ("sum", "prod"):
        got = run(getattr(prims, name), x, axes=(1,), keepdims=False)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, getattr(np, name)(x, axis=1, dtype=dtype))


@pytest.mark.parametrize("dtype", NARROW)
def test_narrow_floats_are_summed_in_float32(dtype):
    # in its own dtype the sum stops growing at 2048 (float16) or 256 (bfloat16)
    x = np.ones(4096, dtype)
    assert float(run(prims.sum, x, axes=(0,), keepdims=False)) == 4096
    assert float(run(prims.logsumexp, np.zeros(4096, dtype), axes=(0,), keepdims=False)) == float(
        np.float64(np.log(4096)).astype(dtype)
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, *NARROW])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extrema_propagate_nan_without_a_warning(name, dtype, recwarn):
    x = np.array([[1, NAN, 3], [INF, 2, -INF]], dtype)
    got = run(getattr(prims, name), x, axes=(1,), keepdims=False)
    want = getattr(torch, f"a{name}")(torch.tensor(x.astype(np.float64)), 1).numpy()
    np.testing.assert_array_equal(got.astype(np.float64), want)
    assert not recwarn.list


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
def test_ties_share_the_gradient_as_in_torch(name, axes):
    x = np.array([[1.0, 3.0, 3.0, 1.0], [3.0, 0.0, 0.0, 0.0], [1.0, 1.0, 3.0, 0.0]])
    t = torch.tensor(x, requires_grad=True)
    out = getattr(torch, f"a{name}")(t, axes)
    weights = np.arange(1.0, out.numel() + 1).reshape(tuple(out.shape))
    (out * torch.tensor(weights)).sum().backward()
    function = bound(getattr(prims, name), axes=axes, keepdims=False)
    (got,) = gradients(function, x, weights=weights)
    np.testing.assert_allclose(got, t.grad.numpy())


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_tangents_of_ties_are_averaged(name):
    x, t = np.array([[2.0, 2.0, 5.0, 5.0]]), np.array([[1.0, 3.0, 10.0, 30.0]])
    function = bound(getattr(prims, name), axes=(1,), keepdims=False)
    tangent = fx.jvp(function, (tensor(x),), (tensor(t),))[1]
    np.testing.assert_array_equal(tangent._a, [20.0 if name == "max" else 2.0])


def test_an_infinite_cotangent_reaches_the_winner_only():
    function = bound(prims.max, axes=(0,), keepdims=False)
    np.testing.assert_array_equal(gradients(function, [1.0, 2.0], weights=INF)[0], [0.0, INF])


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), ()])
def test_the_gradient_of_prod_is_right_at_zeros(axes):
    x = np.array([[2.0, 0.0, 3.0], [0.0, 5.0, 0.0], [1.0, 2.0, 3.0], [4.0, 5.0, 0.0]])
    t = torch.tensor(x, requires_grad=True)
    out = t
    for axis in reversed(axes):
        out = out.prod(axis)
    out.sum().backward()
    (got,) = gradients(bound(prims.prod, axes=axes, keepdims=False), x)
    np.testing.assert_allclose(got, t.grad.numpy())


@pytest.mark.parametrize(
    ("shape", "axes"), [((10**6,), (0,)), ((10**5, 3), (0,)), ((3, 10**5), (1,))]
)
def test_a_long_product_is_at_least_as_near_as_pytorchs(shape, axes):
    torch = pytest.importorskip("torch")
    x = (1 + np.random.default_rng(0).standard_normal(shape) * 1e-4).astype(np.float32)
    exact = np.prod(x.astype(np.float64), axes)
    theirs = np.abs(torch.prod(torch.tensor(x), *axes).numpy() / exact - 1).max()
    for f in (fx.prod, fx.jit(fx.prod, static_argnames="axis")):
        assert np.abs(f(fx.tensor(x), axis=axes).numpy() / exact - 1).max() <= min(theirs, 1e-6)


def test_nothing_sums_to_zero_and_multiplies_to_one():
    x = np.zeros((2, 0, 3), np.float32)
    for name, value in (("sum", 0), ("prod", 1), ("any", False), ("all", True)):
        got = run(getattr(prims, name), x, axes=(1,), keepdims=False)
        np.testing.assert_array_equal(got, np.full((2, 3), value))
    assert np.all(run(prims.logsumexp, x, axes=(1,), keepdims=True) == -INF)
    for name in ("max", "min"):  # nothing is asked of the empty axis
        assert run(getattr(prims, name), x, axes=(2,), keepdims=False).shape == (2, 0)
    for name in ("sum", "prod", "logsumexp"):
        (got,) = gradients(bound(getattr(prims, name), axes=(1,), keepdims=False), x)
        assert got.shape == x.shape


@pytest.mark.parametrize("name", ["max", "min"])
def test_an_extremum_of_nothing_is_refused(name):
    with pytest.raises(ShapeError, match=rf"{name}: shape \(2, 0\) has no element along axes"):
        run(getattr(prims, name), np.zeros((2, 0)), axes=(1,), keepdims=False)
    with pytest.raises(ShapeError, match=rf"arg{name}: shape \(2, 0\) has no element"):
        run(getattr(prims, f"arg{name}"), np.zeros((2, 0)), axis=1, keepdims=False)


@pytest.mark.parametrize("dtype", [np.float32, BFLOAT16, np.int8, np.uint16, bool])
def test_places_are_the_first_and_nan_wins(dtype):
    values = [[0, 1, 1, 0], [1, 0, 0, 1]]
    if np.dtype(dtype).kind not in "biu":
        values = [[0, 1, 1, 0], [1, NAN, 0, NAN]]
    x = np.array(values, dtype)
    for name in ("argmax", "argmin"):
        for keepdims in (False, True):
            got = run(getattr(prims, name), x, axis=1, keepdims=keepdims)
            want = getattr(np, name)(x.astype(np.float32), axis=1, keepdims=keepdims)
            assert got.dtype == np.int64
            np.testing.assert_array_equal(got, want)


INFINITE_ROWS = np.array([[-INF, -INF], [-INF, 3.0], [1e4, 1e4 + 1], [INF, 1e3], [NAN, 1.0]])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_logsumexp_is_stable(dtype, recwarn):
    x = INFINITE_ROWS.astype(dtype)
    got = run(prims.logsumexp, x, axes=(1,), keepdims=False)
    np.testing.assert_allclose(got, torch.logsumexp(torch.tensor(x), 1).numpy(), rtol=1e-6)
    assert not recwarn.list


def test_the_gradient_of_logsumexp_is_zero_where_everything_is_minus_infinity():
    (got,) = gradients(bound(prims.logsumexp, axes=(1,), keepdims=False), INFINITE_ROWS[:3])
    want = np.vstack([[0.0, 0.0], scipy.special.softmax(INFINITE_ROWS[1:3], axis=1)])
    np.testing.assert_allclose(got, want)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_and_its_gradient(name, axis):
    x, weights = 30 * draws(3, 1, 4), draws(3, 1, 4, seed=1)
    t = torch.tensor(x, requires_grad=True)
    out = getattr(torch, name)(t, axis)
    (out * torch.tensor(weights)).sum().backward()
    function = bound(getattr(prims, name), axis=axis)
    # the logarithm of a sum that is nearly 1 is as exact as the sum
    np.testing.assert_allclose(function(tensor(x))._a, out.detach().numpy(), rtol=1e-12, atol=4e-16)
    (got,) = gradients(function, x, weights=weights)
    np.testing.assert_allclose(got, t.grad.numpy(), atol=1e-14)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_masked_rows(name, recwarn):
    x = np.array([[-INF, 1.0, 2.0], [-INF, -INF, 0.0], [-INF, -INF, -INF]], np.float32)
    want = getattr(torch, name)(torch.tensor(x), 1).numpy()
    np.testing.assert_allclose(run(getattr(prims, name), x, axis=1), want, rtol=1e-6)
    assert run(getattr(prims, name), np.zeros((3, 0)), axis=1).shape == (3, 0)
    assert not recwarn.list


def test_bad_arguments_are_named():
    x = np.zeros((2, 3))
    with pytest.raises(AxisError, match=r"sum: axis 2 is out of range for shape \(2, 3\)"):
        run(prims.sum, x, axes=(2,), keepdims=False)
    with pytest.raises(AxisError, match=r"softmax: axis 5 is out of range"):
        run(prims.softmax, x, axis=5)
    with pytest.raises(AxisError, match="name an axis twice"):
        run(prims.max, x, axes=(0, 0), keepdims=False)
    with pytest.raises(DTypeError, match=r"softmax takes a real floating dtype, got int64; write"):
        prims.softmax.spec(tensor(x.astype(int)).spec, axis=0)
    with pytest.raises(DTypeError, match=r"max: complex64 has no order; use x.real"):
        prims.max.spec(tensor(x.astype(np.complex64)).spec, axes=(0,), keepdims=False)


def _norm(x):
    return fx.norm(x, axis=0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.sum(0), lambda x: x.sum(1), lambda x: x.sum(), lambda x: (x * x).sum(0),
        _norm, lambda x: x.mean(1), lambda x: x[None].sum((0, 2)),
    ],
)  # fmt: skip
def test_a_sum_is_the_same_however_its_array_lies_and_beside_others(f, dtype):
    rng = np.random.default_rng(0)
    for shape in [
        (1, 3),
        (2, 3),
        (3, 4),
        (5, 1),
        (7, 5),
        (33, 25),
        (19, 130),
        (600, 40),
        (3, 3000),
    ]:
        x = rng.standard_normal(shape).astype(dtype)
        wide = np.zeros((2 * shape[0], 3 * shape[1]), dtype)
        wide[::2, ::3] = x
        dense = fx.from_numpy(x)
        want = f(dense).numpy()
        for other in (np.asfortranarray(x), wide[::2, ::3], x[::-1].copy()[::-1]):
            np.testing.assert_array_equal(f(fx.from_numpy(other)).numpy(), want)
        if f is _norm:  # a kernel of its own, which vmap does not see
            continue
        lanes = fx.vmap(f)(fx.stack([dense, dense * 2])).numpy()
        np.testing.assert_array_equal(lanes[0], want)


def _by_four(x, axes):
    """The sum over ``axes`` of float32: four of each block of 64, then float64."""
    last = axes[-1]
    if x.shape[last] < 256 and x.shape[last] % 64:
        last = max(axes, key=lambda a: (x.shape[a], a))
    y = np.moveaxis(x, last, 0)
    near = len(y) // 64 * 64 if len(y) >= 64 else 0
    a, b, c, d = y[:near].reshape(-1, 4, 16, *y.shape[1:]).swapaxes(0, 1)
    trees = ((a + b) + (c + d)).astype(np.float64).sum((0, 1))
    rest = [i - (i > last) for i in axes if i != last]
    return (trees + y[near:].astype(np.float64).sum(0)).sum(tuple(rest)).astype(np.float32)


LAID_OUT = [
    ((63,), (0,)), ((64,), (0,)), ((1000,), (0,)), ((100_003,), (0,)), ((33, 300), (1,)),
    ((33, 300), (0, 1)), ((300, 33), (0,)), ((300, 33), (0, 1)), ((128, 3), (0, 1)),
    ((3, 100, 70), (1,)), ((3, 100, 70), (0, 2)), ((3, 100, 70), (0, 1, 2)),
    ((70, 128, 5), (0, 1)), ((129, 2100), (0,)), ((30, 28, 28), (1, 2)),
    # two axes that could lead: where the array is turned the same one does
    ((256, 300), (0, 1)), ((64, 128), (0, 1)), ((5, 128, 64), (1, 2)), ((300, 3, 257), (0, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "axes"), LAID_OUT)
@pytest.mark.parametrize("sizes", ["normal", "tiny"])
def test_float64_takes_up_the_same_four_numbers_in_any_layout_and_without_a_compiler(
    shape, axes, sizes, monkeypatch
):
    x = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
    x -= x.mean(axes, keepdims=True)  # a sum of about one shows how its terms were rounded
    x[tuple([0 if i in axes else slice(None) for i in range(x.ndim)])] += 1
    want = _by_four(x, axes)
    wide = np.zeros(tuple(2 * n for n in shape), np.float32)[(slice(None, None, 2),) * x.ndim]
    wide[...] = x
    orders = [np.argsort(p) for p in itertools.permutations(range(x.ndim))]
    laid = [x.transpose(p).copy().transpose(np.argsort(p)) for p in orders]
    with limits.tiny() if sizes == "tiny" else contextlib.nullcontext():
        for array in (*laid, wide, x[::-1].copy()[::-1]):
            np.testing.assert_array_equal(sums.total(array, axes), want)
        monkeypatch.setattr(sums, "_compiler", lambda: False)
        monkeypatch.setattr(sums, "_passes", {})
        for array in (x, wide):
            np.testing.assert_array_equal(sums.total(array, axes), want)
            kept = np.expand_dims(want, axes)
            np.testing.assert_array_equal(sums.total(array, axes, True), kept)


def _views(rng):
    flat, x, y = (
        (rng.standard_normal(shape) + 3).astype(np.float32)
        for shape in ((20_011,), (203, 701), (5, 30, 701))
    )
    for s in (1, 2, 3, 4, 5, -2):
        yield from (flat[::s], flat[1::s], flat[-1 - 64 * abs(s) :: s], x[::s], x[:, ::s])
        yield from (
            x[::s, 3:600:s],
            x[:, -128 * abs(s) :: s],
            x.T[::s],
            x.T[:, ::s],
            y[::s, 1:, ::s],
        )
    yield from (x[:, :512], x[::-2, :500], y[:, ::2, :512], y[:, 3:20, 5:300], y[0][:, None, ::2])


@pytest.mark.parametrize("sizes", ["normal", "tiny"])
def test_rows_that_lie_apart_have_the_sums_of_their_copies(sizes):
    with limits.tiny() if sizes == "tiny" else contextlib.nullcontext():
        for x in _views(np.random.default_rng(3)):
            for axes in itertools.chain(*[
                itertools.combinations(range(x.ndim), k + 1) for k in range(x.ndim)
            ]):  # fmt: skip
                want = sums.total(x.copy("C"), axes, True)
                np.testing.assert_array_equal(sums.total(x, axes, True), want)
                np.testing.assert_array_equal(sums.total(x, axes), want.squeeze(axes))


@pytest.mark.skipif(sys.platform != "linux", reason="pages are forbidden by mprotect")
@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [64, 384, 391])
def test_nothing_is_read_beyond_the_last_element(step, n):
    page, count = mmap.PAGESIZE, 4
    memory = mmap.mmap(-1, (count + 1) * page)
    whole = np.frombuffer(memory, np.float32)
    protect, last = ctypes.CDLL(None).mprotect, whole.ctypes.data + count * page
    end = count * page // 4
    whole[:end] = np.random.default_rng(n).standard_normal(end)
    rows = np.lib.stride_tricks.as_strided(
        whole[end - 500 - (n - 1) * step - 1 :], (2, n), (2000, 4 * step)
    )
    want = sums.total(rows.copy(), (1,))
    assert protect(ctypes.c_void_p(last), page, 0) == 0  # what is read there ends the process
    np.testing.assert_array_equal(sums.total(rows, (1,)), want)
    assert protect(ctypes.c_void_p(last), page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


def test_a_long_sum_has_the_bits_of_the_compiled_one():
    compiled = fx.jit(fx.sum)
    for n in (200, 1000, 5000, 100_003):
        x = fx.tensor(np.random.default_rng(n).standard_normal(n).astype(np.float32) + 5)
        assert fx.sum(x).item() == compiled(x).item()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_unpickled_array_and_tensor_are_reduced_like_others(dtype):
    x = np.random.default_rng(0).standard_normal((33, 25)).astype(dtype)
    stored = pickle.loads(pickle.dumps(x))
    assert stored.dtype is not x.dtype  # NumPy makes another object of the same dtype
    want = fx.from_numpy(x)
    others = (
        fx.from_numpy(stored),
        fx.from_numpy(stored[::-1][::-1]),
        fx.tensor(stored),
        pickle.loads(pickle.dumps(want)),
    )
    for other in others:
        assert other.dtype is want.dtype is fx.dtypes.as_dtype(stored.dtype)
        for axis in (None, 0, 1):
            np.testing.assert_array_equal(other.sum(axis).numpy(), want.sum(axis).numpy())
            np.testing.assert_array_equal(
                sums.total(stored, (0, 1) if axis is None else (axis,)), want.sum(axis).numpy()
            )
