"""``vmap`` of ``grad``: gradients per sample."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from benchmarks.harness import Case, Run

SIZES = (64, 64, 10)
BATCH = 32


def _arrays() -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Parameters of an MLP, inputs (batch, 64) and one-hot targets (batch, 10)."""
    rng = np.random.default_rng(0)
    parameters = {}
    for i, (n, m) in enumerate(pairwise(SIZES)):
        parameters[f"w{i}"] = (rng.normal(size=(n, m)) / np.sqrt(n)).astype(np.float32)
        parameters[f"b{i}"] = np.zeros(m, np.float32)
    x = rng.normal(size=(BATCH, SIZES[0])).astype(np.float32)
    return parameters, x, np.eye(10, dtype=np.float32)[rng.integers(0, 10, BATCH)]


def _loss(m: Any) -> Any:
    """The cross entropy of one sample, in the functions that fx, torch and jax.numpy share."""

    def loss(p: Any, x: Any, y: Any) -> Any:
        h = m.tanh(x @ p["w0"] + p["b0"])
        z = h @ p["w1"] + p["b1"]
        return m.log(m.exp(z).sum()) - (z * y).sum()

    return loss


def _fx() -> Run:
    import fx

    parameters, x, y = _arrays()
    p = {name: fx.tensor(a) for name, a in parameters.items()}
    x, y = fx.tensor(x), fx.tensor(y)
    per_sample = fx.vmap(fx.grad(_loss(fx)), (None, 0, 0))
    return lambda: per_sample(p, x, y)


def _torch() -> Run:
    import torch

    parameters, x, y = _arrays()
    p = {name: torch.tensor(a) for name, a in parameters.items()}
    x, y = torch.tensor(x), torch.tensor(y)
    per_sample = torch.func.vmap(torch.func.grad(_loss(torch)), (None, 0, 0))
    return lambda: per_sample(p, x, y)


def _jax() -> Run:
    import jax
    import jax.numpy as jnp

    parameters, x, y = _arrays()
    p = {name: jnp.asarray(a) for name, a in parameters.items()}
    x, y = jnp.asarray(x), jnp.asarray(y)
    per_sample = jax.vmap(jax.grad(_loss(jnp)), (None, 0, 0))
    return lambda: jax.block_until_ready(per_sample(p, x, y))


CASES = [
    Case(
        "per_sample",
        "`vmap(grad(loss), (None, 0, 0))`, MLP 64-64-10, batch 32",
        {"fx": _fx, "torch": _torch, "jax": _jax},
    )
]
