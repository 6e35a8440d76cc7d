"""JAX's names at top level: custom_gradient, disable_jit, make_jaxpr."""

import numpy as np
import pytest

import fx


@fx.custom_gradient
def _product(x, y):
    z = fx.sin(x)
    return z * y, lambda ct: (ct * y * 3, ct * z)


def test_custom_gradients():
    x, y = fx.tensor([0.5, 1.5]), fx.tensor([2.0, 3.0])
    np.testing.assert_allclose(_product(x, y).numpy(), (fx.sin(x) * y).numpy())
    total = lambda x, y: _product(x, y).sum()
    for f in (total, fx.jit(total), lambda x, y: fx.vmap(_product)(x, y).sum()):
        dx, dy = fx.grad(f, (0, 1))(x, y)
        np.testing.assert_allclose(dx.numpy(), 3 * y.numpy())
        np.testing.assert_allclose(dy.numpy(), np.sin(x.numpy()), rtol=1e-6)
    pushed = fx.jvp(_product, (x, y), (fx.ones(2), fx.zeros(2)))[1]
    np.testing.assert_allclose(pushed.numpy(), 3 * y.numpy())
    lanes = fx.vmap(fx.grad(_product))(x, y)
    np.testing.assert_allclose(lanes.numpy(), 3 * y.numpy())
    leaf = x.clone().requires_grad_()
    _product(leaf, y).sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), 3 * y.numpy())
    twice = fx.grad(lambda y: fx.grad(total)(x, y).sum())(y)  # of the rule, which is linear in y
    np.testing.assert_allclose(twice.numpy(), [3.0, 3.0])
    alone = fx.custom_gradient(lambda t: (t["a"] ** 2, lambda ct: {"a": ct * 7}))
    assert fx.grad(lambda a: alone({"a": a}))(fx.tensor(2.0)) == 7.0
    with pytest.raises(TypeError, match=r"custom_gradient: .* gives its result and a function"):
        fx.custom_gradient(lambda x: x)(x)


def test_jit_is_off_in_a_context():
    seen = []

    @fx.jit
    def f(x):
        seen.append(type(x) is fx.Tensor)
        return x * 2 + 1

    x = fx.tensor([1.0, 2.0])
    want = f(x)
    f(x)
    assert not any(seen)  # what is staged sees no values
    seen.clear()
    with fx.disable_jit():
        with fx.disable_jit(), fx.disable_jit(False):
            assert (f(x) == want).all()
        assert (f(x) == want).all()
        assert (fx.grad(lambda x: f(x).sum())(x) == 2.0).all()
    assert seen[:2] == [True, True] and len(seen) == 3
    seen.clear()
    with fx.disable_jit(False):
        assert (f(x) == want).all()
    with pytest.raises(ZeroDivisionError), fx.disable_jit():
        raise ZeroDivisionError
    f(x)
    assert not any(seen)


def test_graphs_by_jaxs_name():
    x = fx.ones((2, 3))
    f = lambda x, n: {"y": (x * n).sum(1)}
    graph = fx.make_jaxpr(f, static_argnums=1)(x, 3)
    assert str(graph) == str(fx.make_graph(lambda x: f(x, 3))(x))
    _, shapes = fx.make_jaxpr(f, static_argnums=(-1,), return_shape=True)(x, 3)
    assert shapes["y"].shape == (2,) and shapes["y"].dtype == fx.float32
    with pytest.raises(fx.errors.ArgumentError, match="axes have their names"):
        fx.make_jaxpr(f, axis_env=[("i", 2)])


@pytest.mark.parametrize("name", ["named_scope", "debug_nans", "ds"])
def test_what_is_not_there_says_what_to_write(name):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}': "):
        getattr(fx, name)
