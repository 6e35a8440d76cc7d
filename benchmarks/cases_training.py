"""Whole training steps in the style of PyTorch: forward, backward and update."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import models
from benchmarks.harness import Case, Run


def _step(library: str, build: Any, shape: tuple[int, ...]) -> Run:
    m, nn = import_module(library), import_module(f"{library}.nn")
    optim = import_module(f"{library}.optim")
    rng = np.random.default_rng(0)
    x = m.tensor(rng.normal(size=shape).astype(np.float32))
    y = m.tensor(rng.integers(0, 10, shape[0]))
    model, criterion = build(nn), nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def run() -> None:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

    return run


def _jax_mlp() -> Run:
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(128, 784)).astype(np.float32))
    y = jnp.asarray(rng.integers(0, 10, 128))
    parameters = [
        (jnp.asarray(rng.normal(size=(n, m)).astype(np.float32) / np.sqrt(n)), jnp.zeros(m))
        for n, m in ((784, 256), (256, 10))
    ]
    velocity = jax.tree.map(jnp.zeros_like, parameters)

    def loss(parameters: Any) -> Any:
        (w0, b0), (w1, b1) = parameters
        z = jax.nn.log_softmax(jax.nn.relu(x @ w0 + b0) @ w1 + b1)
        return -jnp.take_along_axis(z, y[:, None], 1).mean()

    def run() -> None:
        nonlocal parameters, velocity
        gradient = jax.grad(loss)(parameters)
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, gradient)
        parameters = jax.tree.map(lambda p, v: p - 1e-3 * v, parameters, velocity)
        jax.block_until_ready(parameters)

    return run


def _peers(build: Any, shape: tuple[int, ...]) -> dict[str, Any]:
    return {
        "fx": lambda: _step("fx", build, shape),
        "torch": lambda: _step("torch", build, shape),
    }


CASES = [
    Case(
        "mlp_step",
        "training step, MLP 784-256-10, batch 128, SGD with momentum",
        {**_peers(lambda nn: models.mlp(nn, 784, 256, 10), (128, 784)), "jax": _jax_mlp},
    ),
    Case(
        "lenet_step",
        "training step, LeNet on 1x28x28, batch 64, SGD with momentum",
        _peers(models.lenet, (64, 1, 28, 28)),
    ),
]
