"""Single operations and short chains on tiny tensors: what a call costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import Case, Run

A = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
W = np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32)


def _tensor(m: Any, array: np.ndarray, requires_grad: bool = False) -> Any:
    return m.tensor(array.tolist(), requires_grad=requires_grad)


def _add(m: Any, recorded: bool) -> Run:
    a, b = _tensor(m, A, recorded), _tensor(m, W)
    return lambda: a + b


def _backward(m: Any) -> Run:
    a, w = _tensor(m, A), _tensor(m, W, True)

    def run() -> None:
        w.grad = None
        (a @ w).tanh().sum().backward()

    return run


def _chain(m: Any, length: int) -> Run:
    x = m.tensor(1.0, requires_grad=True)
    half = m.tensor(0.5)

    def run() -> None:
        x.grad = None
        y = x
        for _ in range(length):
            y = y * half
        y.backward()

    return run


def _fx() -> Any:
    import fx

    return fx


def _torch() -> Any:
    import torch

    return torch


def _jax_add() -> Run:
    import jax.numpy as jnp

    a, b = jnp.asarray(A), jnp.asarray(W)
    return lambda: (a + b).block_until_ready()


def _fx_grad() -> Run:
    import fx

    a, w = fx.tensor(A), fx.tensor(W)
    gradient = fx.grad(lambda w: fx.tanh(a @ w).sum())
    return lambda: gradient(w)


def _torch_grad() -> Run:
    import torch

    a, w = torch.tensor(A), torch.tensor(W)
    gradient = torch.func.grad(lambda w: torch.tanh(a @ w).sum())
    return lambda: gradient(w)


def _jax_grad() -> Run:
    import jax
    import jax.numpy as jnp

    a, w = jnp.asarray(A), jnp.asarray(W)
    gradient = jax.grad(lambda w: jnp.tanh(a @ w).sum())
    return lambda: gradient(w).block_until_ready()


def _both(setup: Any, *args: Any) -> dict[str, Any]:
    """The same code for the two libraries that share PyTorch's names."""
    return {"fx": lambda: setup(_fx(), *args), "torch": lambda: setup(_torch(), *args)}


CASES = [
    Case("add", "`a + b`, 4x4", {**_both(_add, False), "jax": _jax_add}),
    Case("add_recorded", "`a + b`, 4x4, recorded", _both(_add, True)),
    Case("backward", "`(a @ w).tanh().sum().backward()`, 4x4", _both(_backward)),
    Case(
        "grad",
        "`grad(lambda w: tanh(a @ w).sum())(w)`, 4x4",
        {"fx": _fx_grad, "torch": _torch_grad, "jax": _jax_grad},
    ),
    Case(
        "chain_10k",
        "chain of 10,000 recorded products, forward and backward, per product",
        _both(_chain, 10_000),
        per=10_000,
    ),
    Case(
        "chain_100k",
        "chain of 100,000 recorded products, the same",
        _both(_chain, 100_000),
        per=100_000,
    ),
]
