"""Whole training steps in the style of PyTorch: forward, backward and update."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import models
from benchmarks.harness import Case, Run


def _step(
    library: str, build: Any, xs: tuple[np.ndarray, ...], y: np.ndarray, adam: bool = False
) -> Run:
    m, nn = import_module(library), import_module(f"{library}.nn")
    optim = import_module(f"{library}.optim")
    xs, y = tuple(m.tensor(x) for x in xs), m.tensor(y)
    model, criterion = build(nn), nn.CrossEntropyLoss()
    if adam:
        optimizer = optim.Adam(model.parameters(), lr=1e-3)
    else:
        optimizer = optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def run() -> None:
        optimizer.zero_grad()
        criterion(model(*xs), y).backward()
        optimizer.step()

    return run


def _update(library: str, sizes: list[int], **options: Any) -> Run:
    """One Adam update of vectors, alone."""
    m, nn = import_module(library), import_module(f"{library}.nn")
    rng = np.random.default_rng(0)
    values = [rng.normal(size=n).astype(np.float32) for n in sizes]
    parameters = [nn.Parameter(m.tensor(v)) for v in values]
    for p, v in zip(parameters, values):
        p.grad = m.tensor(v)
    step: Run = import_module(f"{library}.optim").Adam(parameters, lr=1e-3, **options).step
    return step


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


def _normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def _integers(most: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(0, most, shape)


def _peers(build: Any, xs: Any, y: np.ndarray, adam: bool = False) -> dict[str, Any]:
    return {
        "fx": lambda: _step("fx", build, xs, y, adam),
        "torch": lambda: _step("torch", build, xs, y, adam),
    }


_mlp = _peers(lambda nn: models.mlp(nn, 784, 256, 10), (_normal(128, 784),), _integers(10, 128))
_tokens = (_integers(64, 8, 64), models.causal(64))
SIZES = [500_000] * 20

CASES = [
    Case(
        "mlp_step",
        "training step, MLP 784-256-10, batch 128, SGD with momentum",
        {**_mlp, "jax": _jax_mlp},
    ),
    Case(
        "lenet_step",
        "training step, LeNet on 1x28x28, batch 64, SGD with momentum",
        _peers(models.lenet, (_normal(64, 1, 28, 28),), _integers(10, 64)),
    ),
    Case(
        "lstm_step",
        "training step, LSTM 64-128 over 32 steps, batch 32, Adam",
        _peers(models.lstm, (_normal(32, 32, 64),), _integers(10, 32), adam=True),
    ),
    Case(
        "gpt_step",
        "training step, 3 transformer blocks of width 128, 8x64 tokens, Adam",
        _peers(lambda nn: models.transformer(nn, 3), _tokens, _integers(64, 512), adam=True),
    ),
    Case(
        "adam_eager",
        "Adam update of 10M parameters in 20 tensors (torch: fused)",
        {
            "fx": lambda: _update("fx", SIZES),
            "torch": lambda: _update("torch", SIZES, fused=True),
        },
    ),
]
