"""A Kalman filter in ``scan`` and a Newton step: values, gradients, and native code alone."""

import numpy as np
import torch

import fx
from fx.backends.cpu.llvm.this_cpu import this_cpu
from fx.compiler.schedule import schedule
from fx.compiler.step import PythonStep
from fx.graph.manager import optimize
from fx.graph.staging import stage
from fx.spec import TensorSpec

MANY, STEPS = 20, 12


def native_alone(function, *arrays):
    """Whether no step of a compiled function is left to Python."""
    specs = [TensorSpec(a.shape, a.dtype) for a in arrays]
    graph, _ = stage(function, specs, "program")
    steps = schedule(optimize(graph), this_cpu()).steps
    return not [step for step in steps if isinstance(step, PythonStep)]


def tracks():
    """Places (STEPS, MANY, 2), how a state moves (4, 4), and how far that and a place are off."""
    rng = np.random.default_rng(0)
    seen = np.cumsum(rng.normal(size=(STEPS, MANY, 2)), 0)
    return seen, np.eye(4) + 0.1 * np.eye(4, k=2), 0.01 * np.eye(4), np.eye(2)


def step(xp, look, carry, place, move, noise, doubt):
    mean, spread, total = carry
    mean, spread = move @ mean, move @ spread @ move.T + noise
    off = place[..., None] - look @ mean  # (many, 2, 1)
    around = look @ spread @ look.T + doubt  # (many, 2, 2)
    both = xp.linalg.solve(around, xp.concat([look @ spread, off], -1))  # (many, 2, 5)
    spread_of_seen = spread @ look.T
    mean = mean + spread_of_seen @ both[..., 4:]
    total = total - 0.5 * ((off * both[..., 4:]).sum() + xp.linalg.slogdet(around)[1].sum())
    return mean, spread - spread_of_seen @ both[..., :4], total


def start(xp):
    zeros = xp.zeros((MANY, 4, 1), dtype=xp.float64)
    return zeros, zeros + xp.eye(4, dtype=xp.float64), zeros.sum()


def filtered(seen, *matrices):
    look = fx.eye(2, 4, dtype=fx.float64)

    def body(carry, place):
        carry = step(fx, look, carry, place, *matrices)
        return carry, carry[0]

    carry, means = fx.scan(body, start(fx), seen)
    return carry[2], means


def test_the_filter_and_its_gradient_are_those_of_a_loop():
    arrays = tracks()
    carry, means = start(torch), []
    seen, *matrices = [torch.tensor(a, requires_grad=True) for a in arrays]
    for place in seen:
        carry = step(torch, torch.eye(2, 4, dtype=torch.float64), carry, place, *matrices)
        means.append(carry[0].detach().numpy())
    slopes = torch.autograd.grad(carry[2], matrices)
    given = [fx.asarray(a) for a in arrays]
    total, found = fx.jit(filtered)(*given)
    assert np.isclose(total.item(), carry[2].item(), rtol=1e-12)
    assert np.allclose(found.numpy(), np.stack(means), rtol=1e-10)
    ours = fx.jit(fx.grad(lambda *xs: filtered(*xs)[0], (1, 2, 3)))(*given)
    for got, want in zip(ours, slopes, strict=True):
        assert np.allclose(got.numpy(), want.numpy(), rtol=1e-8, atol=1e-8)


def test_the_filter_and_its_gradient_compile_to_native_code_alone():
    assert native_alone(filtered, *tracks())
    assert native_alone(fx.grad(lambda *xs: filtered(*xs)[0], (1, 2, 3)), *tracks())


def test_a_newton_step_is_numpys_and_native_code_alone():
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(50, 4)), np.full(4, 0.1)
    y = (x.sum(1) > 0).astype(float)

    def loss(w):
        z = fx.asarray(x) @ w
        return (fx.log1p(fx.exp(z)) - fx.asarray(y) * z).sum() + 0.5 * (w * w).sum()

    def newton(w):
        return w - fx.linalg.solve(fx.hessian(loss)(w), fx.grad(loss)(w))

    p = 1 / (1 + np.exp(-x @ w))
    hessian = (x * (p * (1 - p))[:, None]).T @ x + np.eye(4)
    want = w - np.linalg.solve(hessian, x.T @ (p - y) + w)
    assert np.allclose(fx.jit(newton)(fx.asarray(w)).numpy(), want, rtol=1e-10)
    assert native_alone(newton, w)
