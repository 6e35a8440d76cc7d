"""A Kalman filter and smoother: in `scan`, compiled, with gradients, against the same in JAX."""

import jax
import numpy as np
import pytest

import fx
from fx.backends.cpu.llvm.this_cpu import this_cpu
from fx.compiler.schedule import schedule
from fx.compiler.step import PythonStep
from fx.graph.manager import optimize

STATES, SEEN, STEPS = 4, 2, 25


def model(seed=0):
    """A turning and damped motion of which two coordinates are seen, in noise."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.normal(size=(STATES, STATES)))[0] * 0.95
    noise = 0.3 * np.eye(STATES) + 0.05
    return {
        "move": turn, "look": np.eye(SEEN, STATES), "noise": noise @ noise.T,
        "blur": 0.2 * np.eye(SEEN),
    }  # fmt: skip


def observations(seed=1, lanes=()):
    return np.random.default_rng(seed).normal(size=(*lanes, STEPS, SEEN))


def filtered(library, scan, model, seen):
    """Means and covariances before and after each observation, and the log-likelihood."""
    move, look, noise, blur = (model[k] for k in ("move", "look", "noise", "blur"))
    linalg, one = library.linalg, library.eye(STATES, dtype=seen.dtype)

    def step(carry, y):
        mean, cov, told = carry
        mean, cov = move @ mean, move @ cov @ move.T + noise
        spread = look @ cov @ look.T + blur
        gain = linalg.solve(spread, look @ cov).T
        missed = y - look @ mean
        told = told - 0.5 * (missed @ linalg.solve(spread, missed) + linalg.slogdet(spread)[1])
        after, left = mean + gain @ missed, (one - gain @ look) @ cov
        return (after, left, told), (mean, cov, after, left)

    (_, _, told), path = scan(step, (seen[0, :1] * 0 + one[0] * 0, one, seen.sum() * 0), seen)
    return told, path


def smoothed(library, scan, model, seen):
    """Means given all observations, by Rauch, Tung and Striebel's pass from the end."""
    told, (before, spread, after, left) = filtered(library, scan, model, seen)

    def step(carry, now):
        mean, cov = carry
        before, spread, after, left = now
        gain = library.linalg.solve(spread, model["move"] @ left).T
        found = after + gain @ (mean - before), left + gain @ (cov - spread) @ gain.T
        return found, found[0]

    rest = (before[1:], spread[1:], after[:-1], left[:-1])
    _, means = scan(step, (after[-1], left[-1]), rest, reverse=True)
    return told, means


def loss(library, scan, model, seen):
    told, means = smoothed(library, scan, model, seen)
    return (means * means).sum() - told


@pytest.fixture
def wide():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def ours(function):
    return lambda model, seen: function(fx, fx.scan, model, seen)


def theirs(function):
    return lambda model, seen: function(jax.numpy, jax.lax.scan, model, seen)


def tensors(tree):
    return {k: fx.asarray(v) for k, v in tree.items()}


def alike(got, want):
    got, want = map(jax.tree.leaves, (fx.tree.map(lambda x: x.numpy(), got), want))
    for a, b in zip(got, want, strict=True):
        assert np.allclose(a, b, rtol=1e-9, atol=1e-9)


def test_smoothed_means_are_those_of_jax(wide):
    want = jax.jit(theirs(smoothed))(model(), observations())
    given = tensors(model()), fx.asarray(observations())
    alike(ours(smoothed)(*given), want)
    alike(fx.jit(ours(smoothed))(*given), want)


def test_gradients_are_those_of_jax(wide):
    want = jax.jit(jax.grad(theirs(loss)))(model(), observations())
    given = tensors(model()), fx.asarray(observations())
    alike(fx.jit(fx.grad(ours(loss)))(*given), want)


def test_lanes_are_those_of_jax(wide):
    seen = observations(lanes=(3,))
    want = jax.vmap(theirs(smoothed), (None, 0))(model(), seen)
    alike(fx.jit(fx.vmap(ours(smoothed), (None, 0)))(tensors(model()), fx.asarray(seen)), want)


def test_all_of_it_is_one_native_call():
    graph = fx.make_graph(fx.grad(ours(loss)))(tensors(model()), fx.asarray(observations()))
    steps = schedule(optimize(graph), this_cpu()).steps
    assert not any(isinstance(step, PythonStep) for step in steps)
