"""A Gaussian process: log marginal likelihood by Cholesky, and its gradient, against PyTorch."""

import math

import numpy as np
import torch

import fx
from fx.backends.cpu.llvm.this_cpu import this_cpu
from fx.compiler.schedule import schedule
from fx.compiler.step import PythonStep
from fx.graph.manager import optimize
from fx.graph.staging import stage
from fx.spec import TensorSpec

N = 60


def data():
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-3, 3, N))
    return x, np.sin(2 * x) + 0.1 * rng.normal(size=N)


def evidence(xp, solve_triangular, log_scales, x, y):
    """log p(y | x) under a squared exponential kernel; log_scales: length, amplitude, noise."""
    length, amplitude, noise = xp.exp(log_scales)
    apart = (x[:, None] - x[None, :]) / length
    kernel = amplitude**2 * xp.exp(-0.5 * apart**2) + noise**2 * xp.eye(N, dtype=x.dtype)
    factor = xp.linalg.cholesky(kernel)
    white = solve_triangular(factor, y[:, None], upper=False)
    logs = xp.log(xp.linalg.diagonal(factor)).sum()
    return -0.5 * (white**2).sum() - logs - 0.5 * N * math.log(2 * math.pi)


def ours(log_scales, x, y):
    return evidence(fx, fx.linalg.solve_triangular, log_scales, x, y)


START = np.array([0.1, -0.2, -1.0])


def test_the_evidence_and_its_gradient_are_pytorchs():
    x, y = data()
    scales = torch.tensor(START, requires_grad=True)
    want = evidence(torch, torch.linalg.solve_triangular, scales, torch.tensor(x), torch.tensor(y))
    want.backward()
    value, slope = fx.jit(fx.value_and_grad(ours))(*map(fx.asarray, (START, x, y)))
    assert np.isclose(value.item(), want.item(), rtol=1e-12)
    assert np.allclose(slope.numpy(), scales.grad.numpy(), rtol=1e-9)


def test_it_compiles_to_native_code_alone():
    x, y = data()
    specs = [TensorSpec(a.shape, a.dtype) for a in (START, x, y)]
    graph, _ = stage(fx.value_and_grad(ours), specs, "evidence")
    steps = schedule(optimize(graph), this_cpu()).steps
    assert not [step for step in steps if isinstance(step, PythonStep)]


def test_gradient_ascent_learns_the_noise():
    x, y = (fx.asarray(a) for a in data())
    step = fx.jit(fx.value_and_grad(ours))
    scales, first = fx.asarray(START), None
    for _ in range(150):
        value, slope = step(scales, x, y)
        first = value if first is None else first
        scales = scales + 0.005 * slope
    assert value > first + 5
    assert abs(fx.exp(scales)[2].item() - 0.1) < 0.03
