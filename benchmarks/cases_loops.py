"""Loops of small steps inside one compiled function, beside ``jax.jit``.

An adaptive Runge-Kutta method in ``while_loop``, a Kalman filter in ``scan``, a Gaussian process
and a Newton step. What the libraries give is compared before it is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.harness import Case, Run

# Dormand and Prince, A family of embedded Runge-Kutta formulae, 1980
STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
RTOL, ATOL, END = 1e-5, 1e-6, 10.0


class _Library:
    """The names that the programs use, of fx and of JAX."""

    def __init__(self, name: str) -> None:
        m = import_module("jax" if name == "jax" else "fx")
        self.name, self.jit, self.grad, self.vmap = name, m.jit, m.grad, m.vmap
        self.numpy = m.numpy if name == "jax" else m
        lax = m.lax if name == "jax" else m
        self.while_loop, self.scan = lax.while_loop, lax.scan
        self.tensor = m.numpy.asarray if name == "jax" else m.tensor
        self.wait = m.block_until_ready if name == "jax" else (lambda x: x)


# an adaptive Runge-Kutta method ------------------------------------------------------------------


def _combined(weights: tuple[float, ...], slopes: list[Any]) -> Any:
    terms = [k * w for w, k in zip(weights, slopes, strict=True) if w]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _integrated(m: _Library, f: Callable[[Any], Any], y: Any) -> Any:
    """y at the time ``END``, and how many steps were tried."""
    xp = m.numpy

    def step(carry: Any) -> Any:
        t, h, y, first, tried = carry
        h = xp.minimum(h, END - t)
        slopes = [first]
        for weights in STAGES:
            new = y + h * _combined(weights, slopes)
            slopes.append(f(new))
        scale = ATOL + RTOL * xp.maximum(xp.abs(y), xp.abs(new))
        error = h * _combined(ERROR, slopes) / scale
        norm = xp.sqrt(xp.mean(error * error))
        good = norm <= 1.0
        factor = xp.clip(0.9 * xp.maximum(norm, 1e-8) ** -0.2, 0.2, 5.0)
        y, first = xp.where(good, new, y), xp.where(good, slopes[-1], first)
        return xp.where(good, t + h, t), h * factor, y, first, tried + 1

    zero = m.tensor(np.float32(0.0))
    carry = (zero, m.tensor(np.float32(0.01)), y, f(y), m.tensor(np.int32(0)))
    found = m.while_loop(lambda carry: carry[0] < END - 1e-4, step, carry)
    return found[2], found[4]


def _van_der_pol(xp: Any, y: Any) -> Any:
    return xp.stack([y[1], 2.0 * (1.0 - y[0] * y[0]) * y[1] - y[0]])


def _lorenz_96(xp: Any, y: Any) -> Any:
    return (xp.roll(y, -1) - xp.roll(y, 2)) * xp.roll(y, 1) - y + 2.0


SYSTEMS = {2: _van_der_pol, 8: _lorenz_96, 100: _lorenz_96}


def _runge_kutta(library: str, n: int) -> Run:
    m = _Library(library)
    start = np.random.default_rng(n).normal(size=n).astype(np.float32) + 1
    y, system = m.tensor(start), SYSTEMS[n]
    run = m.jit(lambda y: _integrated(m, lambda y: system(m.numpy, y), y))
    return lambda: m.wait(run(y))


def _state(found: Any) -> list[np.ndarray]:
    return [np.asarray(found[0])]


# a Kalman filter ---------------------------------------------------------------------------------

MANY, STEPS = 64, 200


def _tracks() -> tuple[np.ndarray, ...]:
    """Observed places (STEPS, MANY, 2), and the matrices of a body that drifts in a plane."""
    random = np.random.default_rng(0)
    places = np.cumsum(np.cumsum(random.normal(size=(STEPS, MANY, 2)) * 0.1, 0), 0)
    move = np.eye(4) + 0.1 * np.eye(4, k=2)
    given = (places + random.normal(size=places.shape), move, 0.01 * np.eye(4), np.eye(2))
    return tuple(x.astype(np.float32) for x in given)


def _likelihood(m: _Library, seen: Any, move: Any, noise: Any, doubt: Any) -> Any:
    """The logarithm of the likelihood of ``seen``, summed over the tracks."""
    xp, look = m.numpy, m.tensor(np.eye(2, 4, dtype=np.float32))
    mean = xp.zeros((MANY, 4, 1), dtype=seen.dtype)
    spread = xp.zeros((MANY, 4, 4), dtype=seen.dtype) + xp.eye(4, dtype=seen.dtype)

    def step(carry: Any, place: Any) -> Any:
        mean, spread, total = carry
        mean, spread = move @ mean, move @ spread @ move.T + noise
        off = place[..., None] - look @ mean
        around = look @ spread @ look.T + doubt
        both = xp.linalg.solve(around, xp.concat([look @ spread, off], axis=-1))
        gain, scaled = both[..., :4], both[..., 4:]
        mean = mean + spread @ look.T @ scaled
        spread = spread - spread @ look.T @ gain
        total = total - 0.5 * ((off * scaled).sum() + xp.linalg.slogdet(around)[1].sum())
        return (mean, spread, total), mean

    (_, _, total), means = m.scan(step, (mean, spread, m.tensor(np.float32(0.0))), seen)
    return total, means


def _kalman(library: str, slopes: bool) -> Run:
    m = _Library(library)
    given = [m.tensor(x) for x in _tracks()]
    f = lambda *xs: _likelihood(m, *xs)
    if slopes:
        run = m.jit(m.grad(lambda *xs: f(*xs)[0], (1, 2, 3)))
    else:
        run = m.jit(f)
    return lambda: m.wait(run(*given))


def _each(found: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in found]


# a Gaussian process and a Newton step ------------------------------------------------------------


def _process(library: str, slopes: bool) -> Run:
    """The marginal likelihood of 100 points in length, height and noise, or its gradient."""
    m = _Library(library)
    xp, random = m.numpy, np.random.default_rng(1)
    x = random.uniform(size=(100, 3)).astype(np.float32)
    y = np.sin(5 * x.sum(1)).astype(np.float32)

    def likelihood(logs: Any, x: Any, y: Any) -> Any:
        length, height, noise = xp.exp(logs[0]), xp.exp(logs[1]), xp.exp(logs[2])
        apart = ((x[:, None] - x[None]) ** 2).sum(-1)
        cov = height * xp.exp(-0.5 * apart / length**2) + noise * xp.eye(100, dtype=x.dtype)
        root = xp.linalg.cholesky(cov)
        if m.name == "jax":
            half = import_module("jax").scipy.linalg.solve_triangular(root, y[:, None], lower=True)
        else:
            half = xp.linalg.solve_triangular(root, y[:, None], upper=False)
        return -0.5 * (half**2).sum() - xp.log(xp.linalg.diagonal(root)).sum()

    given = [m.tensor(a) for a in (np.float32([-0.5, 0.1, -2.0]), x, y)]
    run = m.jit(m.grad(likelihood) if slopes else likelihood)
    return lambda: m.wait(run(*given))


def _newton(library: str) -> Run:
    """A step of logistic regression: 200 examples of 8 features."""
    m = _Library(library)
    xp, random = m.numpy, np.random.default_rng(2)
    x = random.normal(size=(200, 8)).astype(np.float32)
    y = (x.sum(1) + random.normal(size=200) > 0).astype(np.float32)

    def loss(w: Any, x: Any, y: Any) -> Any:
        z = x @ w
        return (xp.log1p(xp.exp(-xp.abs(z))) + xp.maximum(z, 0.0) - y * z).sum() + (w * w).sum()

    slope = m.grad(loss)

    def step(w: Any, x: Any, y: Any) -> Any:
        p = 1.0 / (1.0 + xp.exp(-(x @ w)))
        hessian = (x * (p * (1.0 - p))[:, None]).T @ x + 2.0 * xp.eye(8, dtype=x.dtype)
        return w - xp.linalg.solve(hessian, slope(w, x, y))

    given = [m.tensor(a) for a in (np.full(8, 0.1, np.float32), x, y)]
    run = m.jit(step)
    return lambda: m.wait(run(*given))


def _alone(found: Any) -> list[np.ndarray]:
    return [np.asarray(found)]


def _case(name: str, title: str, setup: Callable[..., Run], alike: Any, *given: Any) -> Case:
    setups: dict[str, Any] = {
        library: (lambda library=library: setup(library, *given)) for library in ("fx", "jax")
    }
    return Case(f"loop_{name}", title, setups, table="loops", alike=alike)


CASES = [
    *[
        _case(f"runge_kutta_{n}", f"Dormand-Prince, {n} equations", _runge_kutta, _state, n)
        for n in SYSTEMS
    ],
    _case("kalman", f"Kalman filter, {MANY} tracks, {STEPS} steps", _kalman, _each, False),
    _case("kalman_grad", "gradient of its likelihood", _kalman, _each, True),
    _case("process", "Gaussian process, 100 points", _process, _alone, False),
    _case("process_grad", "gradient of its likelihood", _process, _alone, True),
    _case("newton", "Newton step, 200 examples, 8 weights", _newton, _alone),
]
