"""jvp, the Jacobians, the Hessian, hvp: against JAX."""

import numpy as np
import pytest

import fx
from fx.errors import BackwardError, DTypeError, ShapeError, TreeError
from tests.transforms.oracle import jax, jnp, ours, same, says, theirs, x64

X = np.array([0.3, -1.2, 2.0])
Y = np.array([[1.0, 2.0, -0.5], [0.2, 0.1, 3.0]])
TREE = {"x": X, "rest": (Y, [X * 2])}


def f(m, x, y):
    return {"a": m.tanh(y @ x), "b": (m.sum(x * x), y[:, :1] * x)}


def of_tree(m, t):
    return f(m, t["x"] * t["rest"][1][0], t["rest"][0])


def test_jvp_equals_jax():
    found = fx.jvp(lambda x, y: f(fx, x, y), ours((X, Y)), ours((X * 2, Y * 3)))
    with x64():
        same(found, jax.jvp(lambda x, y: f(jnp, x, y), theirs((X, Y)), theirs((X * 2, Y * 3))))


def test_jvp_with_aux():
    def g(x):
        return x * x, {"word": "w", "y": x * 3}

    out, pushed, aux = fx.jvp(g, ours((X,)), ours((X,)), has_aux=True)
    assert aux["word"] == "w"
    same((out, pushed, aux["y"]), (X**2, 2 * X**2, 3 * X))


def test_a_result_that_does_not_move_has_a_zero_tangent():
    out, pushed = fx.jvp(lambda x: (x, 3.0, fx.tensor([1, 2])), ours((X,)), ours((X,)))
    assert out[1] == 3.0
    same(pushed, (X, 0.0, np.zeros(2)))


@pytest.mark.parametrize("chunk", [None, 1, 4])
@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1,)])
@pytest.mark.parametrize("name", ["jacfwd", "jacrev"])
def test_jacobians_equal_jax(name, argnums, chunk):
    ours_of = getattr(fx, name)(lambda x, y: f(fx, x, y), argnums, chunk_size=chunk)
    with x64():
        oracle = jax.jit(getattr(jax, name)(lambda x, y: f(jnp, x, y), argnums))
        expected = oracle(*theirs((X, Y)))
        same(ours_of(*ours((X, Y))), expected)


@pytest.mark.parametrize("name", ["jacfwd", "jacrev"])
def test_jacobians_of_trees_equal_jax(name):
    found = getattr(fx, name)(lambda t: of_tree(fx, t))(ours(TREE))
    with x64():
        same(found, jax.jit(getattr(jax, name)(lambda t: of_tree(jnp, t)))(theirs(TREE)))


@pytest.mark.parametrize("outer", ["jacfwd", "jacrev"])
@pytest.mark.parametrize("inner", ["jacfwd", "jacrev"])
def test_second_derivatives_equal_jax(outer, inner):
    found = getattr(fx, outer)(getattr(fx, inner)(lambda t: of_tree(fx, t)))(ours(TREE))
    with x64():
        oracle = jax.jit(getattr(jax, outer)(getattr(jax, inner)(lambda t: of_tree(jnp, t))))
        expected = oracle(theirs(TREE))
        same(found, expected)


@pytest.mark.parametrize("argnums", [0, (0, 1)])
def test_hessians_equal_jax(argnums):
    def loss(m, x, y):
        return m.sum(m.tanh(y @ x) ** 2) * m.sum(x**3)

    found = fx.hessian(lambda x, y: loss(fx, x, y), argnums, chunk_size=2)(*ours((X, Y)))
    with x64():
        oracle = jax.jit(jax.hessian(lambda x, y: loss(jnp, x, y), argnums))
        same(found, oracle(*theirs((X, Y))))


@pytest.mark.parametrize("name", ["jacfwd", "jacrev", "hessian"])
def test_aux(name):
    found, aux = getattr(fx, name)(lambda x: ((x**3).sum(), ("w", x * 2)), has_aux=True)(ours(X))
    assert aux[0] == "w"
    same((found, aux[1]), (np.diag(6 * X) if name == "hessian" else 3 * X**2, 2 * X))


def test_keywords_and_vmap_of_a_hessian():
    found = fx.vmap(fx.hessian(lambda x, *, k: (x**k).sum()), (0,))(
        ours(Y), k=ours(np.full(2, 3.0))
    )
    same(found, np.stack([np.diag(6 * row) for row in Y]))


def test_hvp_equals_the_hessian_times_the_vector():
    def loss(t, y):
        return (fx.tanh(y @ t["a"]) * t["b"]).sum() ** 2

    args = ours(({"a": X, "b": X[:2]}, Y))
    vector = ours(({"a": X[::-1].copy(), "b": X[1:]}, Y * 0.5))
    found = fx.hvp(loss, args, vector)
    same(found, fx.tree.map(fx.Tensor.numpy, fx.jvp(fx.grad(loss, (0, 1)), args, vector)[1]))
    h = fx.hessian(lambda x: (x**3).sum())(ours(X))
    same(fx.hvp(lambda x: (x**3).sum(), ours((X,)), ours((X,))), (h @ ours(X)).numpy())


def test_jacobians_keep_dtypes_apart():
    x, y = fx.ones(2, dtype=fx.float32), fx.ones(2, dtype=fx.float64)
    a, b = fx.jacfwd(lambda x, y: x.astype(fx.float64) * y, (0, 1))(x, y)
    assert (a.dtype, b.dtype) == (fx.float64, fx.float64)
    a, b = fx.jacrev(lambda x, y: x.astype(fx.float64) * y, (0, 1))(x, y)
    assert (a.dtype, b.dtype) == (fx.float32, fx.float64)


def test_a_jacobian_is_connected_to_a_leaf_outside():
    w = ours(X).requires_grad_()
    fx.jacfwd(lambda x: w * x * x)(ours(X)).sum().backward()
    same(w.grad, 2 * X)


def test_messages():
    x = ours(X)
    with says(TypeError, "jvp takes primals and tangents as tuples", "fx.jvp(f, (x,), (t,))"):
        fx.jvp(fx.sin, x, x)
    with says(TreeError, "must have the structure of primals"):
        fx.jvp(fx.sin, (x,), (x, x))
    with says(ShapeError, "a tangent has shape (2,), its primal has (3,)"):
        fx.jvp(fx.sin, (x,), (x[:2],))
    with says(DTypeError, "a tangent has dtype float32", "t.astype(fx.float64)"):
        fx.jvp(fx.sin, (x,), (x.astype(fx.float32),))
    with says(DTypeError, "jvp differentiates with respect to floating tensors"):
        fx.jvp(fx.sin, (fx.tensor([1, 2]),), (fx.tensor([1, 2]),))
    for jacobian in (fx.jacfwd, fx.jacrev):
        with says(DTypeError, "jac", "a tensor of dtype int64", "x.astype(fx.float32)"):
            jacobian(lambda x: x)(fx.tensor([1, 2]))
        with says(TypeError, "argnums=1 names argument 1"):
            jacobian(lambda x: x, 1)(x)
        with says(TypeError, "<lambda> must return a pair (result, aux), got a tensor"):
            jacobian(lambda x: x, has_aux=True)(x)
    with says(BackwardError, "must return floating tensors, got int64[2]", "has_aux=True"):
        fx.jacrev(lambda x: fx.tensor([1, 2]))(x)
