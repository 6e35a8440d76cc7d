"""Models of the benchmarks, written once for fx and torch, and the same losses for JAX."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np


def mlp(nn: Any, *sizes: int) -> Any:
    """Linear layers with ReLU between."""
    layers: list[Any] = []
    for n, m in pairwise(sizes):
        layers += [nn.Linear(n, m), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def lenet(nn: Any) -> Any:
    """LeNet-5 with ReLU and max pooling, for 1x28x28."""
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def lstm(nn: Any) -> Any:
    """A classifier of sequences of 64 numbers: an LSTM of 128 and a linear layer on its last."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(64, 128, batch_first=True)
            self.head = nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][:, -1])

    return Model()


def transformer(nn: Any, blocks: int, width: int = 128, heads: int = 4, words: int = 64) -> Any:
    """Pre-norm transformer blocks with causal attention, from tokens to logits."""
    functional = nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any, mask: Any) -> Any:
            b, t, c = x.shape
            qkv = self.qkv(self.ln1(x)).reshape(b, t, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
            q, k, v = qkv[0], qkv[1], qkv[2]
            scores = q @ k.transpose(-2, -1) * (c // heads) ** -0.5 + mask
            y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c)
            x = x + self.out(y)
            return x + self.down(functional.gelu(self.up(self.ln2(x))))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(words, width)
            self.blocks = nn.ModuleList([Block() for _ in range(blocks)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

        def forward(self, tokens: Any, mask: Any) -> Any:
            x = self.embedding(tokens)
            for block in self.blocks:
                x = block(x, mask)
            return self.head(self.norm(x)).reshape(-1, words)

    return Model()


def causal(length: int) -> np.ndarray:
    """The additive mask of causal attention."""
    return np.triu(np.full((length, length), -1e9, np.float32), 1)


# the same for JAX -------------------------------------------------------------------------------


def jax_cross_entropy(jax: Any, logits: Any, y: Any) -> Any:
    """Mean cross entropy with integer targets."""
    z = jax.nn.log_softmax(logits)
    return -jax.numpy.take_along_axis(z, y[:, None], 1).mean()


def jax_mlp(jax: Any, *sizes: int) -> tuple[Any, Callable[..., Any]]:
    """Parameters and ``(parameters, x) -> logits``."""
    rng, jnp = np.random.default_rng(0), jax.numpy
    parameters = [
        (jnp.asarray(rng.normal(size=(m, n)).astype(np.float32) / np.sqrt(n)), jnp.zeros(m))
        for n, m in pairwise(sizes)
    ]

    def forward(parameters: Any, x: Any) -> Any:
        for i, (w, b) in enumerate(parameters):
            x = x @ w.T + b
            x = jax.nn.relu(x) if i < len(parameters) - 1 else x
        return x

    return parameters, forward


def jax_lenet(jax: Any) -> tuple[Any, Callable[..., Any]]:
    """Parameters and ``(parameters, x) -> logits``."""
    rng, jnp, lax = np.random.default_rng(0), jax.numpy, jax.lax
    make = lambda *shape: jnp.asarray(rng.normal(size=shape).astype(np.float32) * 0.05)
    parameters = [(make(6, 1, 5, 5), make(6)), (make(16, 6, 5, 5), make(16))]
    parameters += [(make(m, n), make(m)) for n, m in ((400, 120), (120, 84), (84, 10))]

    def forward(parameters: Any, x: Any) -> Any:
        for (w, b), pad in zip(parameters[:2], (2, 0)):
            x = lax.conv(x, w, (1, 1), [(pad, pad)] * 2) + b[:, None, None]
            x = lax.reduce_window(
                jax.nn.relu(x), -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"
            )
        x = x.reshape(x.shape[0], -1)
        for i, (w, b) in enumerate(parameters[2:]):
            x = x @ w.T + b
            x = jax.nn.relu(x) if i < 2 else x
        return x

    return parameters, forward


def jax_lstm(jax: Any) -> tuple[Any, Callable[..., Any]]:
    """Parameters and ``(parameters, x) -> logits``."""
    rng, jnp = np.random.default_rng(0), jax.numpy
    make = lambda *shape: jnp.asarray(rng.normal(size=shape).astype(np.float32) * 0.05)
    parameters = [make(512, 64), make(512), make(512, 128), make(512), make(10, 128), make(10)]

    def forward(parameters: Any, x: Any) -> Any:
        w, b, u, c, head, bias = parameters
        given = (x @ w.T + b).swapaxes(0, 1)

        def step(state: Any, g: Any) -> Any:
            h, cell = state
            i, f, g, o = jnp.split(g + h @ u.T + c, 4, axis=-1)
            cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(cell), cell), None

        zero = jnp.zeros((x.shape[0], 128))
        (h, _), _ = jax.lax.scan(step, (zero, zero), given)
        return h @ head.T + bias

    return parameters, forward


def jax_transformer(
    jax: Any, blocks: int, width: int = 128, heads: int = 4, words: int = 64
) -> tuple[Any, Callable[..., Any]]:
    """Parameters and ``(parameters, tokens, mask) -> logits``."""
    rng, jnp = np.random.default_rng(0), jax.numpy
    make = lambda *shape: jnp.asarray(rng.normal(size=shape).astype(np.float32) * 0.05)
    dense = lambda n, m: (make(m, n), make(m))
    norm = lambda: (jnp.ones(width), jnp.zeros(width))
    parameters = {
        "embedding": make(words, width),
        "blocks": [
            {
                "ln1": norm(), "ln2": norm(), "qkv": dense(width, 3 * width),
                "out": dense(width, width), "up": dense(width, 4 * width),
                "down": dense(4 * width, width),
            }
            for _ in range(blocks)
        ],
        "norm": norm(),
        "head": dense(width, words),
    }  # fmt: skip

    def linear(p: Any, x: Any) -> Any:
        return x @ p[0].T + p[1]

    def normed(p: Any, x: Any) -> Any:
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p[0] + p[1]

    def forward(parameters: Any, tokens: Any, mask: Any) -> Any:
        x = parameters["embedding"][tokens]
        b, t, c = x.shape
        for p in parameters["blocks"]:
            qkv = linear(p["qkv"], normed(p["ln1"], x)).reshape(b, t, 3, heads, c // heads)
            q, k, v = qkv.transpose(2, 0, 3, 1, 4)
            scores = q @ k.swapaxes(-2, -1) * (c // heads) ** -0.5 + mask
            y = (jax.nn.softmax(scores) @ v).swapaxes(1, 2).reshape(b, t, c)
            x = x + linear(p["out"], y)
            z = jax.nn.gelu(linear(p["up"], normed(p["ln2"], x)), approximate=False)
            x = x + linear(p["down"], z)
        return linear(parameters["head"], normed(parameters["norm"], x)).reshape(-1, words)

    return parameters, forward
