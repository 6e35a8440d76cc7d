"""linearize and linear_transpose: against JAX, and what is refused."""

import numpy as np
import pytest

import fx
from fx.errors import BackwardError, DTypeError, ShapeError, TreeError
from tests.transforms.oracle import array, jax, jnp, ours, same, says, theirs, x64

X = np.array([0.3, -1.2, 2.0])
Y = np.array([[1.0, 2.0, -0.5], [0.2, 0.1, 3.0]])


def f(m, x, y):
    h = m.tanh(y @ x)
    return {"a": h * m.sum(x), "b": (m.exp(y[0]), m.sum(y))}


def test_linearize_equals_jax():
    out, push = fx.linearize(lambda x, y: f(fx, x, y), *ours((X, Y)))
    with x64():
        expected, expected_push = jax.linearize(lambda x, y: f(jnp, x, y), *theirs((X, Y)))
        same(out, expected)
        for scale in (1.0, -2.0):
            same(push(*ours((X * scale, Y))), expected_push(*theirs((X * scale, Y))))


def test_the_function_runs_once_and_only_its_linear_part_again():
    runs = []

    def g(x):
        runs.append(1)
        return fx.exp(fx.sin(x) * x)

    _, push = fx.linearize(g, ours(X))
    for _ in range(3):
        push(ours(X))
    assert len(runs) == 1
    kernels = count_kernels(lambda: push(ours(X)))
    assert kernels == {"multiply": 4, "add": 1}, kernels


def count_kernels(run):
    """How often each primitive runs."""
    counts = {}
    originals = {}
    from fx.primitive import registry

    for name, primitive in registry.items():
        originals[name] = primitive.cpu

        def counted(*arrays, _name=name, _cpu=primitive.cpu, **params):
            counts[_name] = counts.get(_name, 0) + 1
            return _cpu(*arrays, **params)

        primitive.cpu = counted
    try:
        run()
    finally:
        for name, primitive in registry.items():
            primitive.cpu = originals[name]
    return counts


def test_the_linear_function_takes_every_transform():
    _, push = fx.linearize(lambda x: fx.sin(x) * x, ours(X))
    slope = np.cos(X) * X + np.sin(X)
    same(fx.vmap(push)(ours(np.eye(3))), np.diag(slope))
    same(fx.grad(lambda t: push(t).sum())(ours(X)), slope)
    same(fx.jvp(push, (ours(X),), (ours(X * 2),)), (slope * X, slope * X * 2))
    same(fx.linear_transpose(push, ours(X))(ours(X)), (slope * X,))
    same(fx.jacfwd(push)(ours(X)), np.diag(slope))
    t = ours(X).requires_grad_()
    push(t).sum().backward()
    same(t.grad, slope)


def test_it_is_differentiable_where_it_was_taken():
    def g(x):
        return fx.linearize(lambda x: (x**3).sum(), x)[1](x)

    same(fx.grad(g)(ours(X)), 9 * X**2)
    w = ours(X).requires_grad_()
    fx.linearize(lambda x: (w * x * x).sum(), ours(X))[1](ours(X)).backward()
    same(w.grad, 2 * X * X)
    same(fx.vmap(lambda v: fx.linearize(lambda x: v * x * x, v)[1](v))(ours(X)), 2 * X**3)


def test_aux_and_results_that_do_not_move():
    out, push, aux = fx.linearize(lambda x: ((x * 2, 3.0), "word"), ours(X), has_aux=True)
    assert aux == "word" and out[1] == 3.0
    same(push(ours(X)), (2 * X, 0.0))


def test_what_was_not_needed_is_dropped():
    def g(x):
        fx.exp(fx.exp(x))
        return x * 2.0

    _, push = fx.linearize(g, ours(X))
    assert count_kernels(lambda: push(ours(X))) == {"multiply": 1}


# linear_transpose -------------------------------------------------------------------------------

K = np.array([1.0, -2.0, 0.5])
LINEAR = {
    "scaled": lambda m, x, y: 3.0 * x / 2.0 - x,
    "matmul": lambda m, x, y: (y @ (m.asarray(Y).T @ y), x @ m.asarray(Y).T)[1],
    "shapes": lambda m, x, y: m.reshape(y.T, (-1,))[::2],
    "both": lambda m, x, y: (x[None, :] * K + y * K).sum(0),
    "tree": lambda m, x, y: {"a": (x.sum(), y.sum(0)), "b": -x},
    "concatenated": lambda m, x, y: m.flip(
        m.concat([x, y[0]]) if m is fx else m.concatenate([x, y[0]])
    ),
    "masked": lambda m, x, y: m.where(K > 0 if m is jnp else fx.tensor(K) > 0, x, 0.0),
    "accumulated": lambda m, x, y: m.cumulative_sum(y, axis=1) if m is fx else m.cumsum(y, axis=1),
    "zero": lambda m, x, y: m.zeros(2, dtype=m.float64),
}


@pytest.mark.parametrize("g", LINEAR.values(), ids=LINEAR)
def test_transposes_equal_the_pullback(g):
    specs = [fx.TensorSpec(X.shape, fx.float64), ours(Y)]
    pull = fx.linear_transpose(lambda x, y: g(fx, x, y), *specs)
    with x64():
        out, expected = jax.vjp(lambda x, y: g(jnp, x, y), *theirs((X, Y)))
        ct = jax.tree_util.tree_map(lambda a: np.cos(np.arange(a.size)).reshape(a.shape), out)
        same(pull(ours(ct)), expected(theirs(ct)))
        twice = jax.tree_util.tree_map(lambda a: 2 * a, ct)
        lanes = jax.tree_util.tree_map(lambda *a: np.stack(a), ct, twice)
        same([t[1] for t in fx.vmap(pull)(ours(lanes))], list(expected(theirs(twice))))


def test_a_transpose_twice_is_the_function():
    a = ours(Y)
    pull = fx.linear_transpose(lambda x: a @ x, fx.TensorSpec((3,), fx.float64))
    again = fx.linear_transpose(lambda ct: pull(ct)[0], fx.TensorSpec((2,), fx.float64))
    same(again(ours(X))[0], Y @ X)


def test_a_transpose_is_differentiable_in_what_it_closes_over():
    def g(a):
        (x,) = fx.linear_transpose(lambda x: a @ x, fx.TensorSpec((3,), fx.float64))(ours(X[:2]))
        return (x * x).sum()

    same(fx.grad(g)(ours(Y)), 2 * np.outer(X[:2], Y.T @ X[:2]))


NOT_LINEAR = {
    "multiply": (lambda x: x * x, "it applies multiply"),
    "sin": (fx.sin, "it applies sin"),
    "divide": (lambda x: 1.0 / x, "it applies divide"),
    "abs": (fx.abs, "it applies abs"),
    "max": (lambda x: x.max(), "it applies max"),
    "greater": (lambda x: x > 0, "it applies greater"),
    "detach": (lambda x: x.detach(), "it applies stop_gradient"),
    "add": (lambda x: x + 1.0, "is affine, not linear: add adds a constant"),
    "pad": (lambda x: fx.where(fx.tensor(K) > 0, x, 2.0), "where adds a constant"),
    "constant": (lambda x: fx.tensor(K), "does not depend on its arguments and is not zero"),
    "bool": (lambda x: x if x.sum() > 0 else -x, "it applies greater"),
    "item": (lambda x: x * x.sum().item(), "has no value while a function is linearized"),
}


@pytest.mark.parametrize("case", NOT_LINEAR.values(), ids=NOT_LINEAR)
def test_what_is_not_linear_is_named(case):
    g, message = case
    with says(BackwardError, message):
        fx.linear_transpose(g, ours(X))


def test_messages():
    _, push = fx.linearize(fx.sin, ours(X))
    with says(TreeError, "linearize: a tangent of structure"):
        push(ours(X), ours(X))
    with says(ShapeError, "linearize: a tangent has shape (2,), expected (3,)"):
        push(ours(X[:2]))
    with says(DTypeError, "dtype float32, expected float64", "t.astype(fx.float64)"):
        push(ours(X).astype(fx.float32))
    with says(DTypeError, "linearize differentiates with respect to floating tensors"):
        fx.linearize(fx.sin, fx.tensor([1]))
    with says(DTypeError, "linear_transpose takes floating arguments, got int64[1]"):
        fx.linear_transpose(fx.sin, fx.tensor([1]))
    with says(ShapeError, "linear_transpose: a cotangent has shape (2,), expected (3,)"):
        fx.linear_transpose(lambda x: x * 2.0, ours(X))(ours(X[:2]))
    with says(TypeError, "linearize with has_aux=True: sin must return a pair"):
        fx.linearize(fx.sin, ours(X), has_aux=True)
    assert array(push(1.0 * ours(X))).shape == (3,)


@pytest.mark.parametrize(
    "function",
    [
        lambda v: v * fx.tanh(v),
        lambda v: (v * 2, fx.argmax(v), fx.var(v, axis=-1) ** 2, fx.ones(2)),
        lambda v: fx.scan(lambda c, a: (c * a, c), v, fx.stack([v, v])),
        lambda v: fx.cond(v.sum() > 0, lambda v: fx.sin(v), lambda v: v, v),
        lambda v: fx.fori_loop(0, 3, lambda i, c: c * v + i, v),
    ],
)
def test_a_compiled_function_is_linearized_as_itself(function):
    x, t = fx.tensor([0.5, 2.0]), fx.tensor([1.0, -3.0])
    fast = fx.jit(function)
    out, push = fx.linearize(fast, x)
    want, pushed = fx.jvp(function, (x,), (t,))
    for got, expected in zip(fx.tree.leaves((out, push(t))), fx.tree.leaves((want, pushed))):
        assert type(got) is fx.Tensor
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-6)


def test_a_compiled_function_then_something_that_is_not_linear_in_tangents():
    g = lambda x: fx.sin(fx.var(fx.jit(lambda v: v * fx.tanh(v))(x), axis=-1))
    x = fx.tensor([0.5, 2.0, 1.0])
    assert fx.linearize(g, x)[1](x) == pytest.approx(float(fx.jvp(g, (x,), (x,))[1]), rel=1e-5)


LOOPS = {
    "fori_loop": lambda v: fx.fori_loop(0, 2, lambda i, c: fx.sin(c) + 0.1, v),
    "while_loop": lambda v: fx.while_loop(lambda c: c.sum() < 100, lambda c: c * c + 2.0, v),
    "scan": lambda v: fx.scan(lambda c, _: (fx.sin(c), fx.cos(c)), v, None, length=3)[1].sum(0),
    "cond": lambda v: fx.cond(v.sum() > 0, fx.sin, fx.cos, v),
    "jit": lambda v: fx.jit(fx.sin)(v),
    "checkpoint": fx.checkpoint(lambda v: fx.sin(v) * v),
}
AFTER = {
    "nothing": lambda v: v,
    "a step": lambda v: fx.floor(v) * v,
    "a detached factor": lambda v: v.detach() * v,
    "checkpoint": fx.checkpoint(lambda v: fx.sin(v) * v),
    "places": lambda v: v[fx.argsort(v)] * fx.arange(3),
}


@pytest.mark.parametrize("after", AFTER.values(), ids=AFTER)
@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
def test_results_of_loops_are_known_while_a_staged_function_is_linearized(loop, after):
    """A loop's values are no tangents, though one operation computes both."""
    f, x, t = lambda v: after(loop(v)), ours(X), ours(X[::-1].copy())

    def linear(x, t):
        out, push = fx.linearize(f, x)
        return out, push(t)

    same(fx.jit(linear)(x, t), fx.jvp(f, (x,), (t,)))
