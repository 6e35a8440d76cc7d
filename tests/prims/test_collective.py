"""Collectives at their own level: JAX's values and conventions, and outer gradients."""

import numpy as np
import pytest

import fx
import fx.prims.collective as prims
from fx.config import modes
from fx.errors import ShapeError
from fx.prims.reduction import sum as total
from fx.transforms.batching import lane_index
from tests.prims.tools import array, draws, run, tensor

jax = pytest.importorskip("jax")
LANES = 3


def here():
    level = modes.axes[-1]
    return {"axis": level.number, "size": level.size}


class Ours:
    psum = staticmethod(lambda x: prims.psum(x, **here())[0])
    pmax = staticmethod(lambda x: prims.pmax(x, **here()))
    pmin = staticmethod(lambda x: prims.pmin(x, **here()))
    all_gather = staticmethod(lambda x: prims.all_gather(x, lane_index(modes.axes[-1]), **here()))
    sum = staticmethod(lambda x: total(x, axes=tuple(range(x.ndim)), keepdims=False))

    @staticmethod
    def ppermute(x, sources):
        return prims.ppermute(x, lane_index(modes.axes[-1]), sources=sources, **here())


class Theirs:
    psum = staticmethod(lambda x: jax.lax.psum(x, "i"))
    pmax = staticmethod(lambda x: jax.lax.pmax(x, "i"))
    pmin = staticmethod(lambda x: jax.lax.pmin(x, "i"))
    all_gather = staticmethod(lambda x: jax.lax.all_gather(x, "i"))
    sum = staticmethod(lambda x: x.sum())

    @staticmethod
    def ppermute(x, sources):
        return jax.lax.ppermute(x, "i", [(s, lane) for lane, s in enumerate(sources)])


FUNCTIONS = {
    "psum": lambda m: lambda x, y: m.sum(m.psum(x * x) * y),
    "all_gather": lambda m: lambda x, y: m.sum(m.all_gather(x * x) * y),
    "ppermute": lambda m: lambda x, y: m.sum(m.ppermute(x * x, (2, 0, 1)) * y),
    "pmax": lambda m: lambda x, y: m.sum(m.pmax(x * x) * y),
    "pmin": lambda m: lambda x, y: m.sum(m.pmin(x) * y),
}
LINEAR = ["psum", "all_gather", "ppermute"]  # JAX has no derivative of pmax
AXES = [(0, 0), (0, None), (None, 0)]


def arguments(axes):
    x, y = draws(LANES, 4, dtype=np.float32), draws(LANES, 4, seed=1, dtype=np.float32)
    return x if axes[0] == 0 else x[0], y if axes[1] == 0 else y[0]


def transformed(word, f, grad, jvp, total):
    if word == "value":
        return f
    if word == "jvp":
        return lambda x, y: jvp(f, (x, y), (x * 2.0, y * 3.0))[1]
    wrt = int(word[-1])
    if word.startswith("grad of grad"):
        return grad(lambda x, y: total(grad(f, wrt)(x, y) * x * y), wrt)
    return grad(f, wrt)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_follow_jax(name, axes):
    check("value", name, axes)


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("word", ["jvp", "grad 0", "grad 1", "grad of grad 0"])
def test_derivatives_inside_follow_jax(word, name, axes):
    check(word, name, axes)


def check(word, name, axes):
    x, y = arguments(axes)
    f = transformed(word, FUNCTIONS[name](Ours), fx.grad, fx.jvp, Ours.sum)
    g = transformed(word, FUNCTIONS[name](Theirs), jax.grad, jax.jvp, Theirs.sum)
    got = array(fx.vmap(f, axes, axis_name="i")(tensor(x), tensor(y)))
    want = jax.vmap(g, axes, axis_name="i")(x, y)
    np.testing.assert_allclose(got, np.asarray(want), rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_outside_are_differences(name):
    x, y = draws(LANES, 4), draws(LANES, 4, seed=1)
    weights = tensor(np.arange(1.0, LANES + 1))

    def outer(x):
        return Ours.sum(fx.vmap(FUNCTIONS[name](Ours), axis_name="i")(x, tensor(y)) * weights)

    got = array(fx.grad(outer)(tensor(x)))
    want = np.empty_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = 1e-6
        want[i] = (outer(tensor(x + step))._a - outer(tensor(x - step))._a) / 2e-6
    np.testing.assert_allclose(got, want, atol=1e-7)


@pytest.mark.parametrize("name", ["pmax", "pmin"])
def test_lanes_that_tie_share_the_derivative(name):
    x = np.array([2.0, 2.0, 1.0, 1.0])
    f = fx.grad(getattr(Ours, name))
    got = array(fx.vmap(f, axis_name="i")(tensor(x)))
    # every lane's own cotangent 1 comes back from all four, and two winners share it
    np.testing.assert_array_equal(got, [2, 2, 0, 0] if name == "pmax" else [0, 0, 2, 2])


def test_who_receives_from_nobody_holds_zeros():
    x, ct = draws(LANES, 4), draws(LANES, 4, seed=1)
    f = lambda x: Ours.ppermute(x, (-1, 2, 0))

    def pulled(x, ct):
        out, pullback = fx.vjp(f, x)
        return out, pullback(ct)[0]

    out, dx = fx.vmap(pulled, axis_name="i")(tensor(x), tensor(ct))
    np.testing.assert_array_equal(array(out), [0 * x[0], x[2], x[0]])
    np.testing.assert_array_equal(array(dx), [ct[2], 0 * ct[0], ct[1]])
    same = fx.vmap(lambda i: f(tensor(x[0])) + i * 0.0, axis_name="i")
    np.testing.assert_array_equal(array(same(tensor(np.zeros(LANES)))), [0 * x[0], x[0], x[0]])


def test_the_outer_of_two_named_axes():
    x = draws(2, 3, 4)

    def inner(row):
        outer, own = modes.axes
        (over_outer,) = prims.psum(row, axis=outer.number, size=outer.size)
        return over_outer, prims.pmax(row, axis=own.number, size=own.size)

    rows, peak = fx.vmap(fx.vmap(inner, axis_name="j"), axis_name="i")(tensor(x))
    np.testing.assert_allclose(array(rows), np.broadcast_to(x.sum(0), x.shape))
    np.testing.assert_allclose(array(peak), np.broadcast_to(x.max(1, keepdims=True), x.shape))


def test_lane_index_counts_lanes():
    index = lambda x: lane_index(modes.axes[-1])
    got = array(fx.vmap(index, axis_name="i")(tensor(np.zeros(4))))
    np.testing.assert_array_equal(got, np.arange(4))


def test_bad_arguments_are_named():
    with pytest.raises(ShapeError, match="must name, for each of 3 lanes, a lane that sends to it"):
        prims.ppermute.spec(tensor(0.0).spec, tensor(0).spec, axis=1, size=3, sources=(0, 0, 1))
    with pytest.raises(ShapeError, match=r"the lane must be a scalar, got shape \(2,\)"):
        run(prims.all_gather, 0.0, np.arange(2), axis=1, size=3)
