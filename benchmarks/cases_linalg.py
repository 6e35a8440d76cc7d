"""Stacks of small matrices: factorisations, solves and their gradients.

Eagerly beside torch, and compiled beside ``jax.jit``. What the libraries give is compared before it
is timed: what of a result does not depend on a choice, such as the sign of an eigenvector.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.harness import Case, Run

COUNTS = {4: 1000, 8: 1000, 16: 1000, 32: 250, 64: 64}  # matrices of a size
Maker = Callable[[int, int, str], tuple[np.ndarray, ...]]


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape)


def _general(count: int, n: int) -> np.ndarray:
    return _random(count, n, n) / n**0.5


def _positive(count: int, n: int) -> np.ndarray:
    x = _random(count, n, n)
    return x @ x.swapaxes(1, 2) + n * np.eye(n)


def _triangles(count: int, n: int) -> np.ndarray:
    return np.linalg.cholesky(_positive(count, n))


def _alone(x: Any) -> list[np.ndarray]:
    return [np.asarray(x)]


def _each(x: Any) -> list[np.ndarray]:
    return [np.asarray(one) for one in x]


def _gram(x: Any) -> list[np.ndarray]:  # signs of rows of r are free
    r = np.asarray(x[1])
    return [r.swapaxes(1, 2) @ r, np.asarray(x[0]) @ r]


def _spectrum(x: Any) -> list[np.ndarray]:
    w, v = map(np.asarray, x)
    return [w, (v * w[:, None]) @ v.swapaxes(1, 2)]


def _singular(x: Any) -> list[np.ndarray]:
    u, s, vh = map(np.asarray, x)
    return [s, (u * s[:, None]) @ vh]


def _triangular(m: Any, a: Any, b: Any) -> Any:
    if m.__name__ == "jax.numpy":
        return import_module("jax").scipy.linalg.solve_triangular(a, b, lower=True)
    return m.linalg.solve_triangular(a, b, upper=False)


def _svd(m: Any, a: Any) -> Any:
    return m.linalg.svd(a, full_matrices=False)


def _solve_loss(m: Any, a: Any, b: Any) -> Any:
    x = m.linalg.solve(a, b)
    return (x * x).sum()


def _cholesky_loss(m: Any, a: Any) -> Any:
    x = m.linalg.cholesky(a)
    return (x * x * x).sum()


# name: what it is, what it does, its matrices, columns of right sides, what is compared
WORK: dict[str, tuple[str, Callable[..., Any], Any, int, Callable[[Any], list[np.ndarray]]]] = {
    "solve": ("solve", lambda m, a, b: m.linalg.solve(a, b), _general, 1, _alone),
    "solve_n": ("solve, n sides", lambda m, a, b: m.linalg.solve(a, b), _general, 0, _alone),
    "cholesky": ("cholesky", lambda m, a: m.linalg.cholesky(a), _positive, -1, _alone),
    "inv": ("inv", lambda m, a: m.linalg.inv(a), _general, -1, _alone),
    "det": ("det", lambda m, a: m.linalg.det(a), _general, -1, _alone),
    "slogdet": ("slogdet", lambda m, a: m.linalg.slogdet(a), _general, -1, _each),
    "triangular": ("solve_triangular", _triangular, _triangles, 1, _alone),
    "triangular_n": ("solve_triangular, n sides", _triangular, _triangles, 0, _alone),
    "qr": ("qr", lambda m, a: m.linalg.qr(a), _general, -1, _gram),
    "eigh": ("eigh", lambda m, a: m.linalg.eigh(a), _positive, -1, _spectrum),
    "svd": ("svd", _svd, _general, -1, _singular),
}
GRADIENTS = {
    "solve_grad": ("gradient of solve", _solve_loss, _general, 1, _each),
    "cholesky_grad": ("gradient of cholesky", _cholesky_loss, _positive, -1, _each),
}


def _arrays(kind: Any, sides: int, n: int, dtype: str) -> list[np.ndarray]:
    a = kind(COUNTS[n], n)
    given = [a] if sides < 0 else [a, _random(COUNTS[n], n, sides or n)]
    return [x.astype(dtype) for x in given]


def _run(library: str, compiled: bool, work: Any, arrays: list[np.ndarray], slopes: bool) -> Run:
    if library == "jax":
        jax = import_module("jax")
        f = lambda *xs: work(jax.numpy, *xs)
        run = jax.jit(jax.grad(f, tuple(range(len(arrays)))) if slopes else f)
        given = [jax.numpy.asarray(x) for x in arrays]
        return lambda: jax.block_until_ready(run(*given))
    m = import_module(library)
    xs = [m.tensor(x) for x in arrays]
    if library == "torch" and slopes:
        leaves = [x.requires_grad_() for x in xs]
        return lambda: m.autograd.grad(work(m, *leaves), leaves)
    f = lambda *xs: work(m, *xs)
    if slopes:
        f = m.grad(f, tuple(range(len(xs))))
    if compiled:
        f = m.jit(f)
    return lambda: f(*xs)


def _cases(name: str, n: int, compiled: bool, dtype: str) -> Case:
    slopes = name in GRADIENTS
    title, work, kind, sides, alike = (GRADIENTS if slopes else WORK)[name]
    peer = "jax" if compiled else "torch"

    def setup(library: str) -> Run:
        return _run(library, compiled, work, _arrays(kind, sides, n, dtype), slopes)

    return Case(
        f"stack_{'jit_' if compiled else ''}{name}_{n}{'_double' if dtype == 'float64' else ''}",
        f"{title}, {COUNTS[n]} of {n}x{n}{', float64' if dtype == 'float64' else ''}",
        {library: (lambda library=library: setup(library)) for library in ("fx", peer)},
        table="stacks_jit" if compiled else "stacks",
        alike=alike,
    )


CASES = [
    _cases(name, n, compiled, dtype)
    for compiled, dtype in ((False, "float32"), (False, "float64"), (True, "float32"))
    for name in (*WORK, *GRADIENTS)
    for n in COUNTS
]
