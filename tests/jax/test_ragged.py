"""``lax.ragged_dot_general`` and ``lax.scaled_dot`` beside JAX's."""

import numpy as np
import pytest

import fx
from fx import lax

jax = pytest.importorskip("jax")
SIZES = {  # shapes of lhs and rhs, dot numbers, ragged axis, group axes, sizes
    "rows": ((5, 3), (2, 3, 4), (((1,), (1,)), ((), ())), [0], [0], [2, 2]),
    "rows, groups last": ((5, 3), (3, 4, 2), (((1,), (0,)), ((), ())), [0], [2], [4, 1]),
    "rows of a batch": (
        (2, 5, 3), (3, 2, 3, 4), (((2,), (2,)), ((0,), (1,))), [1], [0], [[2, 2, 0], [1, 0, 3]],
    ),
    "second of rows": (
        (2, 5, 3), (2, 3, 4), (((2,), (1,)), ((), ())), [1], [0], [[2, 2], [1, 0]],
    ),
    "sums": ((3, 5), (5, 4), (((1,), (0,)), ((), ())), [1], [], [2, 1]),
    "sums of a batch": (
        (2, 3, 5), (5, 4, 2), (((2,), (0,)), ((0,), (2,))), [2], [], [[2, 1, 2], [0, 5, 0]],
    ),
    "batch": ((5, 2, 3), (5, 3, 4), (((2,), (1,)), ((0,), (0,))), [0], [], [2, 3]),
}  # fmt: skip


def _case(name):
    left, right, numbers, ragged, own, sizes = SIZES[name]
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=s).astype("float32") for s in (left, right))
    return x, y, np.array(sizes), (numbers, ragged, own)


@pytest.mark.parametrize("name", SIZES)
def test_ragged_products(name):
    x, y, sizes, numbers = _case(name)
    theirs = jax.lax.RaggedDotDimensionNumbers(*numbers)
    want = jax.lax.ragged_dot_general(x, y, jax.numpy.asarray(sizes), theirs)
    for mine in (numbers, lax.RaggedDotDimensionNumbers(*numbers), theirs):
        got = lax.ragged_dot_general(fx.asarray(x), fx.asarray(y), fx.asarray(sizes), mine)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)
    f = lambda x, y: lax.ragged_dot_general(x, y, fx.asarray(sizes), numbers)
    np.testing.assert_allclose(fx.jit(f)(x, y).numpy(), want, rtol=1e-5, atol=1e-6)
    given = fx.asarray(x).astype(fx.float64), fx.asarray(y).astype(fx.float64)
    rng = np.random.default_rng(1)
    u = fx.asarray(rng.normal(size=want.shape))
    for i in range(2):  # it is linear in each operand
        slope = fx.grad(lambda x, y: (f(x, y) * u).sum(), i)(*given)
        t = fx.asarray(rng.normal(size=given[i].shape))
        moved = f(*[t if j == i else v for j, v in enumerate(given)])
        np.testing.assert_allclose((slope * t).sum().item(), (moved * u).sum().item(), rtol=1e-11)


def test_what_is_not_finite_stays_in_its_group():
    x, y, sizes, numbers = _case("rows")
    y[1] = np.inf
    got = lax.ragged_dot_general(fx.asarray(x), fx.asarray(y), fx.asarray(sizes), numbers).numpy()
    assert np.isfinite(got[:2]).all() and (got[4] == 0).all() and not np.isfinite(got[2:4]).any()


def test_scaled_products():
    rng = np.random.default_rng(0)
    draw = lambda *s: rng.normal(size=s).astype("float32")
    x, y, a, b = draw(2, 5, 8), draw(2, 8, 4), draw(2, 5, 2), draw(2, 4, 4)
    kw = {"lhs_scale": a, "rhs_scale": b}
    want = np.repeat(a, 4, 2) * x @ (np.repeat(b, 2, 1) * y)
    ours = {k: fx.asarray(v) for k, v in kw.items()}
    got = lax.scaled_dot(fx.asarray(x), fx.asarray(y), **ours, preferred_element_type=fx.float32)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-5)
    theirs = jax.lax.scaled_dot(x, y, **kw, preferred_element_type=jax.numpy.float32)
    np.testing.assert_allclose(got.numpy(), theirs, atol=0.1)  # JAX's goes by bfloat16
    assert lax.scaled_dot(fx.asarray(x), fx.asarray(y)).dtype == fx.bfloat16
    numbers = (((1,), (1,)), ((0,), (0,)))
    turned = lax.scaled_dot(
        fx.asarray(x).mT, fx.asarray(y), lhs_scale=ours["lhs_scale"].mT,
        rhs_scale=ours["rhs_scale"], dimension_numbers=numbers, preferred_element_type=fx.float32,
    )  # fmt: skip
    np.testing.assert_allclose(turned.numpy(), want, rtol=1e-5, atol=1e-5)
    f = lambda a: lax.scaled_dot(x, y, lhs_scale=a, preferred_element_type=fx.float32).sum()
    slope = fx.grad(f)(fx.asarray(a)).numpy()
    np.testing.assert_allclose(
        slope, (x.reshape(2, 5, 2, 4) * y.sum(2).reshape(2, 1, 2, 4)).sum(-1), rtol=1e-4, atol=1e-5
    )


def test_what_is_refused():
    x, y, sizes, numbers = (
        fx.asarray(v) if isinstance(v, np.ndarray) else v for v in _case("rows")
    )
    call = lambda *args, **kw: lambda: lax.ragged_dot_general(*args, **kw)
    for f, error, says in (
        (call(x, y, sizes, (numbers[0], [0, 1], [0])), fx.errors.ArgumentError, "one axis"),
        (call(x, y, sizes, (*numbers[:2], [])), fx.errors.ShapeError, "rhs has an axis"),
        (call(x, y, sizes[None].expand((3, 2)), numbers), fx.errors.ShapeError, "group_sizes"),
        (call(x, y, sizes, numbers, group_offset=sizes), fx.errors.ArgumentError, "group_offset"),
        (lambda: lax.scaled_dot(x, x.mT, lhs_scale=x[:, :2]), fx.errors.ShapeError, "lhs_scale"),
        (lambda: lax.scaled_dot(x, y), fx.errors.ArgumentError, "give dimension_numbers"),
    ):  # fmt: skip
        with pytest.raises(error, match=says):
            f()


def test_the_dtype_of_keys():
    assert fx.random.key_dtype() == fx.random.key(0).dtype == fx.uint32
    with pytest.raises(ValueError, match="key_dtype: fx draws from one generator"):
        fx.random.key_dtype("threefry2x32")
