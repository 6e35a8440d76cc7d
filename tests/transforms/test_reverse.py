"""grad, value_and_grad, vjp: argnums, aux, pytrees, nesting, against JAX."""

import dataclasses
from typing import NamedTuple

import attrs
import numpy as np
import pytest

import fx
from fx.errors import BackwardError, DTypeError, ShapeError, TreeError
from tests.transforms.oracle import array, jax, jnp, ours, same, says, theirs, x64

X = np.array([0.3, -1.2, 2.0])
Y = np.array([[1.0, 2.0, -0.5], [0.2, 0.1, 3.0]])


def loss(m, x, y, scale=1.0):
    return m.sum(m.tanh(y @ x) * scale) + m.sum(x * x)


@pytest.mark.parametrize("argnums", [0, 1, (0,), (1, 0), -1, (0, -1)])
def test_argnums_equal_jax(argnums):
    found = fx.value_and_grad(lambda x, y: loss(fx, x, y), argnums)(*ours((X, Y)))
    with x64():
        expected = jax.value_and_grad(lambda x, y: loss(jnp, x, y), argnums)(*theirs((X, Y)))
        same(found, expected)


def test_aux_and_keywords_equal_jax():
    def f(m, x, y, scale):
        z = y @ x
        return loss(m, x, y, scale), {"z": z, "name": None, "twice": (2 * z, [z])}

    found = fx.value_and_grad(lambda x, y, scale: f(fx, x, y, scale), has_aux=True)(
        *ours((X, Y)), scale=2.0
    )
    with x64():
        expected = jax.value_and_grad(lambda x, y, scale: f(jnp, x, y, scale), has_aux=True)(
            *theirs((X, Y)), scale=2.0
        )
        same(found, expected)
    gradient, aux = fx.grad(lambda x: ((x * x).sum(), "a word"), has_aux=True)(ours(X))
    assert aux == "a word" and gradient.shape == (3,)


def test_aux_is_below_every_level():
    def inner(x):
        z = x * x
        return z.sum(), z

    def outer(x):
        gradient, aux = fx.grad(inner, has_aux=True)(x)
        return (gradient * aux).sum(), aux

    g, aux = fx.grad(outer, has_aux=True)(ours(X))
    np.testing.assert_allclose(array(g), 6 * X**2)
    assert type(aux) is fx.Tensor


class Point(NamedTuple):
    a: object
    b: object


@dataclasses.dataclass
class Data:
    w: object
    rest: object


@attrs.define
class Attrs:
    w: object
    rest: object = None


TREES = {
    "tuple": lambda a, b: (a, b),
    "list": lambda a, b: [a, [b]],
    "dict": lambda a, b: {"z": a, "b": {"c": b}},
    "named tuple": Point,
    "none": lambda a, b: (None, {"a": a, "none": None}, b),
    "dataclass": lambda a, b: Data(a, {"b": b}),
    "attrs": lambda a, b: Attrs(a, Attrs(b)),
    "mixed": lambda a, b: [Point(Data(a, (b, None)), Attrs({"k": a}))],
}


@pytest.mark.parametrize("make", TREES.values(), ids=TREES)
def test_gradients_have_the_structure_of_the_argument(make):
    tree = make(*ours((X, X + 1.0)))

    def f(t):
        a, b, *rest = fx.tree.leaves(t)
        return (a * a * b).sum() + sum((r * b).sum() for r in rest)

    gradient = fx.grad(f)(tree)
    assert fx.tree.structure(gradient) == fx.tree.structure(tree)
    leaves = fx.tree.leaves(tree)
    flat = fx.grad(lambda *ls: f(list(ls)), tuple(range(len(leaves))))(*leaves)
    same(fx.tree.leaves(gradient), [array(g) for g in flat])
    pushed = fx.jvp(f, (tree,), (tree,))[1]
    total = sum(float((g * x).sum()) for g, x in zip(flat, leaves, strict=True))
    np.testing.assert_allclose(array(pushed), total)


@pytest.mark.parametrize("make", TREES.values(), ids=TREES)
def test_results_of_any_structure(make):
    def f(x):
        return make(fx.sin(x), (x * x).sum())

    out, pullback = fx.vjp(f, ours(X))
    (gradient,) = pullback(out)
    wanted = fx.grad(lambda x: sum((y * z).sum() for y, z in zip(*map(leaves, (f(x), out)))))(
        ours(X)
    )
    same(gradient, array(wanted))
    primal, tangent = fx.jvp(f, (ours(X),), (ours(X),))
    assert fx.tree.structure(primal) == fx.tree.structure(tangent) == fx.tree.structure(out)


def leaves(tree):
    return fx.tree.leaves(tree)


def test_a_pullback_may_be_called_again():
    _, pullback = fx.vjp(lambda x, y: (fx.exp(x) * y, y @ x), *ours((X, Y)))
    with x64():
        _, expected = jax.vjp(lambda x, y: (jnp.exp(x) * y, y @ x), *theirs((X, Y)))
        for scale in (1.0, 2.0):
            ct = (Y * scale, np.array([1.0, -scale]))
            same(pullback(ours(ct)), expected(theirs(ct)))


def test_vjp_with_aux():
    out, pullback, aux = fx.vjp(lambda x: (x * x, x.shape), ours(X), has_aux=True)
    assert aux == (3,) and out.shape == (3,)
    same(pullback(ours(X)), (2 * X * X,))


def test_a_python_float_is_an_argument():
    assert fx.grad(lambda x: x * x)(3.0).item() == 6.0
    value, gradient = fx.value_and_grad(lambda x: 3.0)(1.0)
    assert value.item() == 3.0 and gradient.item() == 0.0


def test_unused_arguments_have_zero_gradients():
    gx, gy = fx.grad(lambda x, y: x.sum(), (0, 1))(*ours((X, Y)))
    assert gy.shape == Y.shape and not array(gy).any() and array(gx).all()


def test_dtypes_are_kept():
    for dtype in (fx.float16, fx.bfloat16, fx.float32, fx.float64):
        x = fx.ones(3, dtype=dtype)
        value, gradient = fx.value_and_grad(lambda x: (x * x * 0.5).sum())(x)
        assert value.dtype == gradient.dtype == dtype
        assert fx.jvp(lambda x: x * 2, (x,), (x,))[1].dtype == dtype


def test_modules_are_pytrees():
    net = fx.nn.Linear(3, 2)
    gradient = fx.grad(lambda m: m(ours(X).astype(fx.float32)).sum())(net)
    assert type(gradient) is type(net)
    np.testing.assert_allclose(array(gradient.weight), np.tile(X, (2, 1)), rtol=1e-6)
    assert net.weight.grad is None


# perturbation confusion -------------------------------------------------------------------------


def derivative_by_jvp(f):
    return lambda x: fx.jvp(f, (x,), (fx.ones(()),))[1]


def derivative_by_backward(f):
    def g(x):
        x = (x + 0.0).requires_grad_()
        y = f(x)
        return fx.autograd.grad(y, x, create_graph=True)[0] if y.requires_grad else fx.zeros(())

    return g


DERIVATIVES = [fx.grad, derivative_by_jvp, derivative_by_backward]


def test_a_function_that_makes_functions():
    """Manzyuk et al., "Perturbation confusion in forward automatic differentiation", 2019."""

    def shift(u):
        return lambda f: lambda x: f(x + u)

    found = fx.jvp(lambda u: derivative_by_jvp(shift(u)(fx.sin))(fx.tensor(0.5)), *ones())[1]
    np.testing.assert_allclose(found.item(), -np.sin(0.5), rtol=1e-6)
    twice = fx.grad(lambda u: fx.grad(shift(u)(fx.grad(shift(u)(fx.sin))))(fx.tensor(0.5)))
    np.testing.assert_allclose(twice(fx.tensor(0.0)).item(), 2 * -np.cos(0.5), rtol=1e-5)


@pytest.mark.parametrize("inner", DERIVATIVES)
@pytest.mark.parametrize("outer", DERIVATIVES)
def test_perturbations_are_not_confused(inner, outer):
    """d/dx (x * d/dy (x + y)) = 1; a mixed-up tag gives 2. Siskind and Pearlmutter, 2005."""
    found = outer(lambda x: x * inner(lambda y: x + y)(x * 0.0 + 1.0))(fx.tensor(1.0))
    assert found.item() == 1.0


@pytest.mark.parametrize("inner", DERIVATIVES[:2])
@pytest.mark.parametrize("outer", DERIVATIVES[:2])
def test_perturbations_are_not_confused_where_the_same_value_is_passed_on(inner, outer):
    """d/dx (x * d/dy (x * y) at y = x) = 2x, and not 3x or 0."""
    found = outer(lambda x: x * inner(lambda y: x * y)(x))(fx.tensor(3.0))
    assert found.item() == 6.0


def ones():
    return (fx.tensor(0.0),), (fx.tensor(1.0),)


# closed-over leaves of .backward() --------------------------------------------------------------


def test_a_leaf_outside_gets_its_gradient_beside_the_transform():
    torch = pytest.importorskip("torch")

    def both(m, grad):
        w, x = m.tensor(X, requires_grad=True), m.tensor(X)
        g = grad(lambda x: (w * w * x * x).sum())(x)
        (g * g).sum().backward()
        return np.asarray(g.detach()), np.asarray(w.grad)

    for a, b in zip(both(fx, fx.grad), both(torch, torch.func.grad), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_backward_inside_grad_inside_vmap():
    def slope_of_slope(x):
        def slope(x):
            x = x.requires_grad_()
            (x**4).backward()
            return x.grad

        return fx.grad(slope)(x)

    same(fx.vmap(slope_of_slope)(ours(X)), 12 * X**2)


def test_values_may_leave_on_the_inner_tape():
    def f(x):
        x = x.requires_grad_()
        y = x * x
        y.sum().backward(retain_graph=True)
        return y.sum(), (x.grad, y, x)

    gradient, aux = fx.grad(f, has_aux=True)(ours(X))
    same((gradient, aux), (2 * X, (2 * X, X**2, X)))
    same(fx.vmap(f)(ours(X)), (X**2, (2 * X, X**2, X)))
    out, pushed = fx.jvp(f, (ours(X),), (ours(X),))
    same(out, ((X**2).sum(), (2 * X, X**2, X)))
    same(pushed, ((2 * X * X).sum(), (2 * X, 2 * X * X, X)))


def test_stop_gradient():
    x = ours({"a": X, "n": 3})
    assert fx.stop_gradient({"word": "w", "none": None}) == {"word": "w", "none": None}
    found = fx.grad(lambda t: (fx.stop_gradient(t)["a"] * t["a"]).sum())({"a": x["a"]})
    same(found, {"a": X})
    same(fx.jvp(lambda x: fx.stop_gradient(x) * x, (x["a"],), (x["a"],))[1], X * X)
    same(fx.vmap(fx.grad(lambda x: fx.stop_gradient(x) * x))(x["a"]), X)


# messages ---------------------------------------------------------------------------------------


def test_messages():
    x = ours(X)
    with says(BackwardError, "grad: <lambda> must return a scalar, got shape (3,)", ".sum()"):
        fx.grad(lambda x: x * x)(x)
    with says(BackwardError, "must return one scalar", "has_aux=True"):
        fx.grad(lambda x: (x.sum(), x))(x)
    with says(BackwardError, "must return floating tensors, got int64"):
        fx.grad(lambda x: fx.tensor(3))(x)
    with says(DTypeError, "floating tensors, got a tensor of dtype int64", "x.astype(fx.float32)"):
        fx.grad(lambda x: x.sum())(fx.tensor([1, 2]))
    with says(DTypeError, "got 'word' of type str", "argnums="):
        fx.grad(lambda x: x)("word")
    with says(DTypeError, "got 3 of type int", "float(x)"):
        fx.grad(lambda x: x * x)(3)
    with says(TypeError, "argnums=2 names argument 2", "2 positional arguments"):
        fx.grad(lambda x, y: x, 2)(x, x)
    with says(TypeError, "must return a pair (result, aux), got a tensor"):
        fx.grad(lambda x: x.sum(), has_aux=True)(x)
    _, pullback = fx.vjp(lambda x: (x, x), x)
    with says(TreeError, "the cotangent must have the structure of the result"):
        pullback(x)
    _, pullback = fx.vjp(lambda x: x, x)
    with says(ShapeError, "a cotangent has shape (2,), but the result has (3,)"):
        pullback(x[:2])
    with says(DTypeError, "dtype float32, but the result has float64", "ct.astype(fx.float64)"):
        pullback(x.astype(fx.float32))
