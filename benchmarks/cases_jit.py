"""Compiled functions: small calls, whole training steps, fused kernels."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import models
from benchmarks.harness import Case, Run

RATE = 1e-3
WIDE = 1 << 20


def _array(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def _compiler(library: str) -> tuple[Any, Callable[[Any], Any]]:
    """The module of a library, and what compiles a function of it."""
    if library == "compile":
        torch = import_module("torch")
        return torch, torch.compile
    m = import_module(library)
    return m, m.jit if library == "fx" else (lambda f: f)


# functions ---------------------------------------------------------------------------------------


def _function(work: Callable[..., Any], *shapes: tuple[int, ...]) -> dict[str, Callable[[], Run]]:
    """``work(m, F, *tensors)`` in all libraries."""

    def setup(library: str) -> Run:
        m, compiled = _compiler(library)
        functional = m.nn.functional
        xs = [m.tensor(_array(*s)) for s in shapes]
        run = compiled(lambda *xs: work(m, functional, *xs))
        return lambda: run(*xs)

    def jax() -> Run:
        jax = import_module("jax")
        xs = [jax.numpy.asarray(_array(*s)) for s in shapes]
        run = jax.jit(lambda *xs: work(jax.numpy, _JaxFunctional(jax), *xs))
        return lambda: jax.block_until_ready(run(*xs))

    return {**{n: (lambda n=n: setup(n)) for n in ("fx", "torch", "compile")}, "jax": jax}


class _JaxFunctional:
    """The functions of ``nn.functional`` that the cases use, for JAX."""

    def __init__(self, jax: Any) -> None:
        self.jax = jax

    def gelu(self, x: Any) -> Any:
        return self.jax.nn.gelu(x, approximate=False)

    def softmax(self, x: Any, dim: int) -> Any:
        return self.jax.nn.softmax(x, axis=dim)

    def layer_norm(self, x: Any, shape: Any, weight: Any, bias: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x * self.jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight + bias


def _adam(size: int) -> dict[str, Callable[[], Run]]:
    """One Adam update of a vector."""

    def fx() -> Run:
        fx = import_module("fx")
        p = fx.nn.Parameter(fx.tensor(_array(size)))
        optimizer = fx.optim.Adam([p], lr=RATE)
        gradient = fx.tensor(_array(size))
        p.grad = gradient

        @fx.jit
        def step() -> None:
            optimizer.step()

        return step

    def torch() -> Run:
        torch = import_module("torch")
        p = torch.nn.Parameter(torch.tensor(_array(size)))
        optimizer = torch.optim.Adam([p], lr=RATE, fused=True)
        p.grad = torch.tensor(_array(size))
        return optimizer.step

    def jax() -> Run:
        jax = import_module("jax")
        jnp = jax.numpy

        def update(p: Any, m: Any, v: Any, t: Any, g: Any) -> Any:
            t = t + 1
            m, v = m + (g - m) * 0.1, v * 0.999 + g * g * 0.001
            root = jnp.sqrt(v / (1 - 0.999**t)) + 1e-8
            return p - RATE * (m / (1 - 0.9**t)) / root, m, v, t

        run = jax.jit(update, donate_argnums=(0, 1, 2, 3))
        state = (jnp.asarray(_array(size)), jnp.zeros(size), jnp.zeros(size), jnp.zeros(()))
        g = jnp.asarray(_array(size))

        def step() -> None:
            nonlocal state
            state = run(*state, g)
            jax.block_until_ready(state)

        return step

    # four arrays are read and three written
    return {"fx": fx, "torch": torch, "jax": jax, "copy": _copy(7 * size // 2)}


def _copy(*shape: int) -> Callable[[], Run]:
    """A copy of the same bytes: the floor of what is bound by memory."""

    def setup() -> Run:
        x = _array(*shape)
        y = np.empty_like(x)
        return lambda: np.copyto(y, x)

    return setup


# training steps ----------------------------------------------------------------------------------


def step_of(library: str, build: Callable[[Any], Any], *inputs: np.ndarray) -> Run:
    """The five lines of a training script; the last of ``inputs`` are the targets."""
    m, compiled = _compiler(library)
    *xs, y = [m.tensor(x) for x in inputs]
    model, criterion = build(m.nn), m.nn.CrossEntropyLoss()
    optimizer = m.optim.SGD(model.parameters(), lr=RATE)

    def step(*given: Any) -> Any:
        *xs, y = given
        optimizer.zero_grad()
        loss = criterion(model(*xs), y)
        loss.backward()
        optimizer.step()
        return loss

    if library == "compile":
        model = compiled(model)
    elif library == "fx":
        step = compiled(step)
    return lambda: step(*xs, y)


def jax_step_of(build: Callable[[Any], Any], *inputs: np.ndarray) -> Run:
    """The same as a jitted pure function."""
    jax = import_module("jax")
    *xs, y = [jax.numpy.asarray(x) for x in inputs]
    parameters, forward = build(jax)

    def loss(parameters: Any, *given: Any) -> Any:
        *xs, y = given
        return models.jax_cross_entropy(jax, forward(parameters, *xs), y)

    def step(parameters: Any, *given: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(parameters, *given)
        return value, jax.tree.map(lambda p, g: p - RATE * g, parameters, grads)

    run = jax.jit(step, donate_argnums=0)

    def once() -> Any:
        nonlocal parameters
        value, parameters = run(parameters, *xs, y)
        return jax.block_until_ready(value)

    return once


def _training(
    build: Callable[[Any], Any], jax_build: Callable[[Any], Any], *inputs: np.ndarray
) -> dict[str, Callable[[], Run]]:
    libraries = ("fx", "torch", "compile")
    return {
        **{n: (lambda n=n: step_of(n, build, *inputs)) for n in libraries},
        "jax": lambda: jax_step_of(jax_build, *inputs),
    }


def _labels(count: int, classes: int = 10) -> np.ndarray:
    return np.random.default_rng(1).integers(0, classes, count)


def tokens(batch: int = 8, length: int = 64, words: int = 64) -> tuple[np.ndarray, ...]:
    """Inputs of the transformer: tokens, mask, targets."""
    rng = np.random.default_rng(0)
    found = rng.integers(0, words, (batch, length))
    return found, models.causal(length), rng.integers(0, words, batch * length)


ROWS = (4096, 1024)
CASES = [
    Case("jit_call", "call of a compiled sin(x) * 2 + 1 on 4 elements",
         _function(lambda m, f, x: m.sin(x) * 2 + 1, (4,)), table="jit"),
    Case("jit_mlp_small", "whole step, MLP 64-64-10, batch 32, SGD",
         _training(lambda nn: models.mlp(nn, 64, 64, 10),
                   lambda jax: models.jax_mlp(jax, 64, 64, 10), _array(32, 64), _labels(32)),
         table="jit"),
    Case("jit_mlp", "whole step, MLP 784-256-10, batch 128, SGD",
         _training(lambda nn: models.mlp(nn, 784, 256, 10),
                   lambda jax: models.jax_mlp(jax, 784, 256, 10), _array(128, 784), _labels(128)),
         table="jit"),
    Case("jit_lenet", "whole step, LeNet on 1x28x28, batch 64, SGD",
         _training(models.lenet, models.jax_lenet, _array(64, 1, 28, 28), _labels(64)),
         table="jit"),
    Case("jit_transformer", "whole step, 3-block transformer, 8x64 tokens, SGD",
         _training(lambda nn: models.transformer(nn, 3),
                   lambda jax: models.jax_transformer(jax, 3), *tokens()), table="jit"),
    Case("jit_lstm", "whole step, LSTM 64-128 over 32 steps, batch 32, SGD",
         _training(models.lstm, models.jax_lstm, _array(32, 32, 64), _labels(32)), table="jit"),
    Case("jit_gelu_1m", "gelu(x * w + b), 1M elements",
         {**_function(lambda m, f, x, w, b: f.gelu(x * w + b), *[(WIDE,)] * 3),
          "copy": _copy(2 * WIDE)}, table="jit"),
    Case("jit_gelu_16m", "gelu(x * w + b), 16M elements",
         {**_function(lambda m, f, x, w, b: f.gelu(x * w + b), *[(16 * WIDE,)] * 3),
          "copy": _copy(32 * WIDE)}, table="jit"),
    Case("jit_softmax", "softmax, 4096x1024",
         {**_function(lambda m, f, x: f.softmax(x, -1), ROWS), "copy": _copy(*ROWS)}, table="jit"),
    Case("jit_layer_norm", "layer norm, 4096x1024",
         {**_function(lambda m, f, x, w, b: f.layer_norm(x, (1024,), w, b), ROWS, (1024,), (1024,)),
          "copy": _copy(*ROWS)}, table="jit"),
    Case("jit_adam_1m", "Adam update, 1M parameters", _adam(WIDE), table="jit"),
    Case("jit_adam_16m", "Adam update, 16M parameters", _adam(16 * WIDE), table="jit"),
]  # fmt: skip
