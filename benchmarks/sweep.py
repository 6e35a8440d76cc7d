"""``python -m benchmarks sweep``: eager functions beside PyTorch's on 1M and on 100 elements.

The slowest by comparison come first. Each row is the median of ratios within rounds, on one thread;
with ``--grad`` it is the function recorded and gone back over.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch

import fx
import fx.torch
from benchmarks.harness import timed

Function = Callable[..., Any]


def _named(where: str, names: str) -> dict[str, tuple[Function, int]]:
    """Functions of one tensor or, after a slash, of two."""
    found: dict[str, tuple[Function, int]] = {}
    for count, group in enumerate(names.split("/"), 1):
        for name in group.split():

            def call(m: Any, *xs: Any, name: str = name) -> Any:
                home = m.nn.functional if where == "F" else m
                return getattr(home, name)(*xs)

            found[name if where == "m" else f"F.{name}"] = call, count
    return found


FUNCTIONS: dict[str, tuple[Function, int]] = {
    **_named(
        "m",
        """abs neg sqrt rsqrt square exp exp2 expm1 log log1p log2 sin cos tan tanh sinh cosh asin
        acos atan asinh atanh sigmoid erf erfc floor ceil round trunc sign reciprocal relu isnan
        isfinite sum mean amax amin argmax var std norm clone
        / add sub mul div maximum minimum fmod remainder atan2 hypot eq lt dot""",
    ),
    **_named(
        "F",
        """elu selu celu gelu silu mish leaky_relu relu6 hardtanh hardsigmoid hardswish hardshrink
        softshrink tanhshrink softsign softplus logsigmoid glu
        / mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits""",
    ),
    "logsumexp": (lambda m, x: m.logsumexp(x.reshape(10, -1), 1), 1),
    "cumsum": (lambda m, x: m.cumsum(x, 0), 1),
    "F.cosine_similarity": (lambda m, x, y: m.nn.functional.cosine_similarity(
        x.reshape(10, -1), y.reshape(10, -1)), 2),
    "sort": (lambda m, x: m.sort(x)[0], 1),
    "pow": (lambda m, x, y: x.abs() ** 1.7, 2),
    "F.softmax": (lambda m, x: m.nn.functional.softmax(x.reshape(10, -1), 1), 1),
    "F.log_softmax": (lambda m, x: m.nn.functional.log_softmax(x.reshape(10, -1), 1), 1),
    "F.normalize": (lambda m, x: m.nn.functional.normalize(x.reshape(10, -1)), 1),
    "where": (lambda m, x, y: m.where(x > 0, x, y), 2),
    "masked_fill": (lambda m, x, y: x.masked_fill(y > 0, 0.5), 2),
    "mask added": (lambda m, x, y: x + (y > 0), 2),
    "bias added": (lambda m, x: x.reshape(-1, 10) + x[:10], 1),
    "clamp": (lambda m, x: m.clamp(x, -0.5, 0.5), 1),
    "lerp": (lambda m, x, y: m.lerp(x, y, 0.3), 2),
    "addcmul": (lambda m, x, y: m.addcmul(x, x, y, value=0.5), 2),
    "softmax of columns": (lambda m, x: m.softmax(x.reshape(-1, 10), 0), 1),
    "F.layer_norm": (lambda m, x: m.nn.functional.layer_norm(x.reshape(-1, 10), (10,)), 1),
    "F.prelu": (lambda m, x, y: m.nn.functional.prelu(x.reshape(1, 10, -1), y[:10]), 2),
    "cdist": (lambda m, x, y: m.cdist(_square(x), _square(y)), 2),
    "F.interpolate": (lambda m, x: m.nn.functional.interpolate(
        _square(x)[None, None], scale_factor=2, mode="bilinear"), 1),
}  # fmt: skip


def _square(x: Any) -> Any:
    side = int(x.shape[0] ** 0.5) // 2
    return x[: side * side].reshape(side, side)


def ratio(f: Function, count: int, size: int, rounds: int, grad: bool) -> tuple[float, float]:
    """fx / torch, and the seconds of fx."""
    random = np.random.default_rng(0)
    arrays = [random.normal(size=size).astype(np.float32) for _ in range(count)]

    def run(m: Any) -> Callable[[], Any]:
        xs = [m.tensor(a, requires_grad=grad) for a in arrays]
        if not grad:
            return lambda: f(m, *xs)
        ct = m.ones_like(f(m, *xs).detach())
        return lambda: m.autograd.grad(f(m, *xs), xs, ct, allow_unused=True)

    mine, peer = timed(run(fx.torch)), timed(run(torch))
    pairs = [(mine(), peer()) for _ in range(rounds)]
    return median([a / b for a, b in pairs]), median([a for a, _ in pairs])


def main(words: list[str]) -> None:
    """Print the tables that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks sweep", description=__doc__)
    parser.add_argument("names", nargs="*", help="functions whose names contain one of these")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--size", type=int, nargs="*", default=[1_000_000, 100])
    parser.add_argument("--grad", action="store_true")
    options = parser.parse_args(words)
    torch.set_num_threads(1)
    fx.set_num_threads(1)
    for size in options.size:
        rows = []
        for name, (f, count) in FUNCTIONS.items():
            if options.names and not any(part in name for part in options.names):
                continue
            try:
                rows.append((*ratio(f, count, size, options.rounds, options.grad), name))
            except (TypeError, RuntimeError, AttributeError) as error:
                print(f"{name}: {error}")
        print(f"\n| {size} elements | fx / torch | fx |\n| --- | --- | --- |")
        for found, seconds, name in sorted(rows, reverse=True):
            print(f"| {name} | {found:.2f} | {seconds * 1e6:.1f} us |")
