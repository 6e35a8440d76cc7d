"""Attention with its gradient, eagerly and compiled."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.harness import Case, Run

SIZES = {  # batch, heads, tokens, features
    "attention": (2, 4, 1200, 48),
    "attention_short": (8, 4, 64, 32),
}


def _arrays(batch: int, heads: int, tokens: int, features: int) -> list[np.ndarray]:
    """Query, key, value and a cotangent, with heads next to each other as layers give them."""
    rng = np.random.default_rng(0)
    shape = (batch, tokens, heads, features)
    return [rng.normal(size=shape).astype(np.float32).swapaxes(1, 2) for _ in range(4)]


def _recorded(library: str, sizes: tuple[int, ...], compiled: str = "") -> Run:
    """``backward`` through causal attention."""
    m = import_module(library)
    attend = m.nn.functional.scaled_dot_product_attention
    *given, ct = [m.tensor(a) for a in _arrays(*sizes)]
    for x in given:
        x.requires_grad = True

    def step(q: Any, k: Any, v: Any) -> Any:
        return m.autograd.grad(attend(q, k, v, is_causal=True), (q, k, v), ct)

    run = getattr(m, compiled)(step) if compiled else step
    return lambda: run(*given)


def _jax(sizes: tuple[int, ...], compiled: bool = False) -> Run:
    import jax

    q, k, v, ct = [jax.numpy.asarray(a.swapaxes(1, 2)) for a in _arrays(*sizes)]

    def step(q: Any, k: Any, v: Any) -> Any:
        attend = lambda *xs: jax.nn.dot_product_attention(*xs, is_causal=True)
        return jax.vjp(attend, q, k, v)[1](ct)

    run = jax.jit(step) if compiled else step
    return lambda: jax.block_until_ready(run(q, k, v))


def _eager(sizes: tuple[int, ...]) -> dict[str, Callable[[], Run]]:
    return {
        "fx": lambda: _recorded("fx", sizes),
        "torch": lambda: _recorded("torch", sizes),
        "jax": lambda: _jax(sizes),
    }


def _compiled(sizes: tuple[int, ...]) -> dict[str, Callable[[], Run]]:
    return {
        "fx": lambda: _recorded("fx", sizes, "jit"),
        "torch": lambda: _recorded("torch", sizes),
        "compile": lambda: _recorded("torch", sizes, "compile"),
        "jax": lambda: _jax(sizes, compiled=True),
    }


def _title(sizes: tuple[int, ...]) -> str:
    return f"causal attention with gradient, {' x '.join(map(str, sizes))}"


CASES = [Case(name, _title(sizes), _eager(sizes)) for name, sizes in SIZES.items()] + [
    Case(f"jit_{name}", _title(sizes), _compiled(sizes), table="jit")
    for name, sizes in SIZES.items()
]
