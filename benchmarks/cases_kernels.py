"""Single kernels at the sizes of a real network."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.harness import Case, Run


def _array(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def _function(work: Callable[..., Any], *shapes: tuple[int, ...], backward: bool = False) -> Any:
    """Setups of ``work(F, *tensors)``, forward alone or with the gradients of all tensors."""

    def setup(library: str) -> Run:
        m, functional = import_module(library), import_module(f"{library}.nn.functional")
        xs = [m.tensor(_array(*s), requires_grad=backward) for s in shapes]
        if not backward:
            return lambda: work(functional, *xs)
        ct = m.tensor(_array(*work(functional, *xs).shape))

        def run() -> None:
            for x in xs:
                x.grad = None
            work(functional, *xs).backward(ct)

        return run

    return {"fx": lambda: setup("fx"), "torch": lambda: setup("torch")}


def _jax(work: Callable[..., Any], *shapes: tuple[int, ...]) -> Callable[[], Run]:
    """A setup of ``work(jax, *arrays)``."""

    def setup() -> Run:
        import jax
        import jax.numpy as jnp

        xs = [jnp.asarray(_array(*s)) for s in shapes]
        return lambda: work(jax, *xs).block_until_ready()

    return setup


def _conv(f: Any, x: Any, w: Any) -> Any:
    return f.conv2d(x, w, padding=1)


def _jax_conv(jax: Any, x: Any, w: Any) -> Any:
    return jax.lax.conv(x, w, (1, 1), "SAME")


def _layer_norm(f: Any, x: Any) -> Any:
    return f.layer_norm(x, (1024,))


def _random(library: str, name: str) -> Run:
    draw = getattr(import_module(library), name)
    return lambda: draw(1_000_000)


SMALL = ((32, 8, 16, 16), (16, 8, 3, 3))
CONVOLUTIONS = {  # 3x3, by channels
    16: ((8, 16, 56, 56), (16, 16, 3, 3)),
    64: ((8, 64, 56, 56), (64, 64, 3, 3)),
    256: ((16, 256, 14, 14), (256, 256, 3, 3)),
}
ROWS = (1024, 1024)

CASES = [
    Case(
        "conv_small",
        "conv2d 3x3, 8 to 16 channels, 32x16x16",
        {**_function(_conv, *SMALL), "jax": _jax(_jax_conv, *SMALL)},
    ),
    *[
        Case(
            f"conv_{channels}",
            f"conv2d 3x3, {channels} to {channels} channels, {x[0]}x{x[2]}x{x[3]}",
            {**_function(_conv, x, w), "jax": _jax(_jax_conv, x, w)},
        )
        for channels, (x, w) in CONVOLUTIONS.items()
    ],
    *[
        Case(
            f"conv_{channels}_backward",
            f"the one of {channels} channels with both gradients",
            _function(_conv, x, w, backward=True),
        )
        for channels, (x, w) in CONVOLUTIONS.items()
    ],
    Case(
        "max_pool",
        "max_pool2d 2, 32x16x32x32",
        _function(lambda f, x: f.max_pool2d(x, 2), (32, 16, 32, 32)),
    ),
    Case(
        "softmax",
        "softmax over rows, 1024x1024",
        {
            **_function(lambda f, x: f.softmax(x, -1), ROWS),
            "jax": _jax(lambda jax, x: jax.nn.softmax(x, -1), ROWS),
        },
    ),
    Case("layer_norm", "layer_norm over rows, 1024x1024", _function(_layer_norm, ROWS)),
    Case(
        "layer_norm_backward",
        "the same with its gradient",
        _function(_layer_norm, ROWS, backward=True),
    ),
    Case(
        "randn",
        "`randn(1_000_000)`",
        {"fx": lambda: _random("fx", "randn"), "torch": lambda: _random("torch", "randn")},
    ),
]
