"""``python -m benchmarks.accuracy``: errors of float32 against float64, beside PyTorch's.

Each row is the largest error divided by the largest value of what is right. Those of networks
(batch 4, normalisation in training) are the worst of all their parameters' gradients, and the
quotient is the worst of any parameter's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch

import fx
import fx.torch
from benchmarks.networks import NETWORKS, build

Arrays = list[np.ndarray]
HALF_ULP = 2.0**-24


class Row(NamedTuple):
    """A line of the table: errors of fx, eagerly and compiled, and of PyTorch."""

    title: str
    eager: float
    compiled: float
    peer: float
    worst: float  # of an error of fx divided by PyTorch's

    def shown(self) -> str:
        """As Markdown."""
        numbers = (f"{x:.1e}" for x in (self.eager, self.compiled, self.peer))
        return f"| {self.title} | {' | '.join(numbers)} | {self.worst:.1f} |"


def errors(found: Arrays, right: Arrays) -> list[float]:
    """The largest error of each array, by the largest value of what is right."""
    pairs = zip(found, right, strict=True)
    return [float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs]


def compared(title: str, mine: list[Arrays], peer: Arrays, right: Arrays) -> Row:
    """One row of several arrays: the worst of each column, and the worst quotient.

    Arrays that are zero but for rounding are left out, as the gradient of what a normalisation
    takes away again.
    """
    sizes = [np.abs(b).max() for b in right]
    kept = [i for i, size in enumerate(sizes) if size > 1e-9 * max(sizes)]
    mine = [[way[i] for i in kept] for way in mine]
    peer, right = [peer[i] for i in kept], [right[i] for i in kept]
    ours, theirs = [errors(a, right) for a in mine], errors(peer, right)
    worst = max(a / max(b, HALF_ULP) for way in ours for a, b in zip(way, theirs, strict=True))
    return Row(title, max(ours[0]), max(ours[1]), max(theirs), worst)


def function(title: str, f: Callable[..., Any], *shapes: tuple[int, ...]) -> list[Row]:
    """A function of arrays: its value, and its gradients."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    out = f(torch, *[torch.tensor(a) for a in arrays])
    ct = rng.standard_normal(out.shape).astype(np.float32)

    def theirs(dtype: type) -> Arrays:
        leaves = [torch.tensor(a.astype(dtype), requires_grad=True) for a in arrays]
        y = f(torch, *leaves)
        found = (y, *torch.autograd.grad(y, leaves, torch.tensor(ct.astype(dtype))))
        return [a.detach().numpy().astype(float) for a in found]

    def mine(*args: Any) -> Any:
        y, pullback = fx.vjp(lambda *xs: f(fx.torch, *xs), *args)
        return y, *pullback(fx.tensor(ct))

    tensors = [fx.tensor(a) for a in arrays]
    ways = [[a.numpy().astype(float) for a in way(*tensors)] for way in (mine, fx.jit(mine))]
    right, peer = theirs(np.float64), theirs(np.float32)
    return [
        compared(title, [w[:1] for w in ways], peer[:1], right[:1]),
        compared(f"{title}: gradients", [w[1:] for w in ways], peer[1:], right[1:]),
    ]


def network(name: str) -> Row:
    """The gradients of all parameters of a network, of the cross entropy of four images."""
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    start = {k: v.numpy().copy() for k, v in build(torch, name).state_dict().items()}
    x, labels = rng.standard_normal((4, 3, 32, 32)).astype(np.float32), rng.integers(0, 10, 4)

    def gradients(t: Any, dtype: Any, jit: Callable[[Any], Any] = lambda f: f) -> Arrays:
        model = build(t, name).to(dtype)
        model.load_state_dict({k: t.tensor(v) for k, v in start.items()})

        def step(x: Any, labels: Any) -> None:
            t.nn.functional.cross_entropy(model(x), labels).backward()

        jit(step)(t.tensor(x).to(dtype), t.tensor(labels))
        return [p.grad.detach().numpy().astype(float) for p in model.parameters()]

    mine = [gradients(fx.torch, fx.torch.float32, way) for way in ((lambda f: f), fx.jit)]
    peer, right = gradients(torch, torch.float32), gradients(torch, torch.float64)
    return compared(f"{name}: gradients", mine, peer, right)


def rows() -> Iterator[Row]:
    """All of them."""
    yield from function("product, k = 5000", lambda t, x, y: x @ y, (64, 5000), (5000, 64))
    conv = lambda t, x, w: t.nn.functional.conv2d(x, w, padding=1)
    yield from function("convolution of 512 channels", conv, (4, 512, 7, 7), (512, 512, 3, 3))
    yield from function("sum of a million", lambda t, x: (x + 10).sum(), (1_000_000,))
    yield from function("variance of rows", lambda t, x: (x + 100).var(-1), (20, 50_000))
    for name in NETWORKS:
        yield network(name)


def main() -> None:
    """Print the table."""
    print("| float32 against float64 | fx | fx, jit | torch | worst ratio |")
    print("| --- | --- | --- | --- | --- |")
    for row in rows():
        print(row.shown(), flush=True)


if __name__ == "__main__":
    main()
