"""``lax.custom_root`` and ``lax.custom_linear_solve``: values, slopes of every kind, refusals."""

import numpy as np
import pytest

import fx
from fx import lax


def _newton(f, x):
    return lax.fori_loop(0, 40, lambda _, x: x - f(x) / fx.jvp(f, (x,), (fx.ones_like(x),))[1], x)


def _divided(g, y):
    return y / g(fx.ones_like(y))


def _cube_root(a):
    guess = fx.ones_like(a)
    return lax.custom_root(lambda x: x * x * x - a, guess, _newton, _divided)


AT = fx.tensor([0.3, 2.0, 7.0], dtype=fx.float64)


def test_a_root():
    want = AT.numpy() ** (1 / 3)
    ones = fx.ones_like(AT)
    for f in (_cube_root, fx.jit(_cube_root), fx.vmap(_cube_root)):
        np.testing.assert_allclose(f(AT).numpy(), want, rtol=1e-14)
        slope = fx.grad(lambda a, f=f: f(a).sum())(AT)
        np.testing.assert_allclose(slope.numpy(), want / AT.numpy() / 3, rtol=1e-13)
        pushed = fx.jvp(f, (AT,), (ones,))[1]
        np.testing.assert_allclose(pushed.numpy(), want / AT.numpy() / 3, rtol=1e-13)
    second = want / AT.numpy() ** 2 * (-2 / 9)
    total = lambda a: _cube_root(a).sum()
    twice = fx.grad(lambda a: fx.grad(total)(a).sum())(AT)
    np.testing.assert_allclose(twice.numpy(), second, rtol=1e-12)
    mixed = fx.jvp(fx.grad(total), (AT,), (ones,))[1]
    np.testing.assert_allclose(mixed.numpy(), second, rtol=1e-12)
    lanes = fx.vmap(fx.grad(_cube_root))(AT)
    np.testing.assert_allclose(lanes.numpy(), want / AT.numpy() / 3, rtol=1e-13)
    leaf = AT.clone().requires_grad_()
    _cube_root(leaf).sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), want / AT.numpy() / 3, rtol=1e-13)


def test_the_way_to_a_root_is_not_differentiated():
    def bisection(f, x):  # piecewise constant: its own slope is 0
        def halve(_, ends):
            low, high = ends
            middle = (low + high) * 0.5
            above = f(middle) > 0
            return fx.where(above, low, middle), fx.where(above, middle, high)

        return lax.fori_loop(0, 60, halve, (x, x + 4.0))[0]

    def root(a):
        guess = fx.zeros_like(a)
        found, steps = lax.custom_root(
            lambda x: x * x - a, guess, lambda f, x: (bisection(f, x), fx.tensor(60)), _divided,
            has_aux=True,
        )  # fmt: skip
        assert int(steps) == 60
        return found

    got = fx.grad(lambda a: root(a).sum())(AT)
    np.testing.assert_allclose(got.numpy(), 0.5 / np.sqrt(AT.numpy()), rtol=1e-9)


def test_a_root_of_many():
    rng = np.random.default_rng(0)
    m, b = fx.asarray(rng.normal(size=(3, 3)) * 0.2), fx.asarray(rng.normal(size=3))

    def fixed(m, b):
        f = lambda t: {"x": t["x"] - fx.tanh(m @ t["x"] + b)}
        solve = lambda f, t: lax.fori_loop(0, 80, lambda _, t: {"x": t["x"] - f(t)["x"]}, t)

        def tangent_solve(g, y):
            jacobian = fx.vmap(lambda v: g({"x": v})["x"], out_axes=1)(fx.eye(3, dtype=fx.float64))
            return {"x": fx.linalg.solve(jacobian, y["x"])}

        return lax.custom_root(f, {"x": fx.zeros_like(b)}, solve, tangent_solve)["x"]

    unrolled = lambda m, b: lax.fori_loop(0, 80, lambda _, x: fx.tanh(m @ x + b), fx.zeros_like(b))
    np.testing.assert_allclose(fixed(m, b).numpy(), unrolled(m, b).numpy(), rtol=1e-12)
    for i in range(2):
        loss = lambda f: lambda m, b: (f(m, b) ** 2).sum()
        got, want = (fx.grad(loss(f), i)(m, b).numpy() for f in (fixed, unrolled))
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-13)


def _dense(f, b):
    return fx.linalg.solve(fx.vmap(f, out_axes=1)(fx.eye(b.shape[0], dtype=b.dtype)), b)


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_linear_system(symmetric):
    rng = np.random.default_rng(1)
    a = rng.normal(size=(3, 3)) + 3 * np.eye(3)
    a, b = fx.asarray(a + a.T if symmetric else a), fx.asarray(rng.normal(size=3))
    given = {"symmetric": True} if symmetric else {"transpose_solve": _dense}
    half = lambda a: (a + a.mT) / 2 if symmetric else a
    f = lambda a, b: lax.custom_linear_solve(lambda x: half(a) @ x, b, _dense, **given)
    peer = lambda a, b: fx.linalg.solve(half(a), b)
    ta, tb = fx.asarray(rng.normal(size=(3, 3))), fx.asarray(rng.normal(size=3))
    close = lambda x, y: np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-11, atol=1e-13)
    close(f(a, b), peer(a, b))
    close(fx.jit(f)(a, b), peer(a, b))
    close(fx.vmap(f, (None, 0))(a, fx.stack([b, tb]))[1], peer(a, tb))
    close(fx.vmap(f)(fx.stack([a, a * 2]), fx.stack([b, tb]))[1], peer(a * 2, tb))
    close(fx.jvp(f, (a, b), (ta, tb))[1], fx.jvp(peer, (a, b), (ta, tb))[1])
    loss = lambda f: lambda a, b: (f(a, b) ** 3).sum()
    for i in range(2):
        close(fx.grad(loss(f), i)(a, b), fx.grad(loss(peer), i)(a, b))
        close(fx.jit(fx.grad(loss(f), i))(a, b), fx.grad(loss(peer), i)(a, b))
        for j in range(2):
            twice = lambda f, i=i, j=j: fx.jacrev(fx.grad(loss(f), i), j)(a, b)
            close(twice(f), twice(peer))
        pushed = lambda f, i=i: fx.jvp(fx.grad(loss(f), i), (a, b), (ta, tb))[1]
        close(pushed(f), pushed(peer))


def test_what_is_refused():
    a, b = fx.eye(2), fx.ones(2)
    f = lambda b: lax.custom_linear_solve(lambda x: a @ x, b, _dense)
    assert f(b).tolist() == [1.0, 1.0]
    with pytest.raises(fx.errors.ArgumentError, match="give transpose_solve, or symmetric=True"):
        fx.grad(lambda b: f(b).sum())(b)
    with pytest.raises(fx.errors.TreeError, match=r"lax\.custom_root: the function gives"):
        lax.custom_root(lambda x: x[:1], b, _newton, _divided)
    with pytest.raises(fx.errors.ArgumentError, match="may not rebind cells or draw"):
        lax.custom_root(lambda x: x + fx.rand(2), b, _newton, _divided)
