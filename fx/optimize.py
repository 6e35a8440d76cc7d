"""The least value of a function, by the name of ``jax.scipy.optimize``: BFGS, within a program."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import fx
from fx.dtypes import FLOATING
from fx.errors import ArgumentError, DTypeError, ShapeError
from fx.ops.operands import argument
from fx.tensor import Tensor

_DECREASE, _CURVATURE = 1e-4, 0.9  # Wolfe's conditions, as strict as Nocedal and Wright advise


class OptimizeResults(NamedTuple):
    """What ``minimize`` gives.

    Attributes:
        x: (n,), the place.
        success: bool (): whether the gradient is small enough there.
        status: int64 (): 0 for that; 1 after ``maxiter`` iterations; 3 where no step along a
            direction fulfils Wolfe's conditions.
        fun, jac: the value () and the gradient (n,) there.
        hess_inv: (n, n), the estimate of the inverse of the Hessian.
        nfev, njev, nit: int64 (): how often function and gradient were computed; the iterations.
    """

    x: Tensor
    success: Tensor
    status: Tensor
    fun: Tensor
    jac: Tensor
    hess_inv: Tensor
    nfev: Tensor
    njev: Tensor
    nit: Tensor


def minimize(
    fun: Callable[..., Any], x0: Any, args: tuple[Any, ...] = (), *, method: str,
    tol: float | None = None, options: Mapping[str, Any] | None = None,
) -> OptimizeResults:  # fmt: skip
    """Where a function is least, near a place.

    Its loops are ``fx.while_loop``, so it can stand in ``jit`` and ``vmap``. Derivatives would go
    through each iteration: write ``fx.lax.stop_gradient`` where they are not wanted.

    Args:
        fun: ``fun(x, *args)``, a floating tensor ().
        x0: (n,), floating: where to begin.
        args: a tuple.
        method: ``"BFGS"``.
        tol: how large the gradient may be in the end; ``gtol`` of the options.
        options: ``gtol`` (1e-5), ``norm`` in which the gradient is measured (inf), ``maxiter``
            (200 n), and ``line_search_maxiter`` (20), the tries for the length of a step.

    Raises:
        ArgumentError: for another method or option, and ``args`` that are no tuple.
        ShapeError: if ``x0`` is no vector, or ``fun`` gives no scalar.
        DTypeError: if ``x0`` is not floating.

    Source: J. Nocedal, S. J. Wright, Numerical Optimization, 2006, algorithms 3.5, 3.6 and 6.1;
    ``jax.scipy.optimize.minimize``.

    Example:
        >>> import fx
        >>> f = lambda x: ((x - fx.tensor([1.0, -2.0])) ** 2).sum()
        >>> found = fx.optimize.minimize(f, fx.zeros(2), method="BFGS")
        >>> found.x.round(decimals=3), bool(found.success)
        (tensor([ 1., -2.]), True)
    """
    if str(method).lower() != "bfgs":
        raise ArgumentError(f"minimize: the method is 'BFGS', got {method!r}; fx.optim has others")
    if not isinstance(args, tuple):
        raise ArgumentError(f"minimize: args is a tuple, got {type(args).__name__}; write (args,)")
    given = dict(options or {})
    x = argument("minimize", x0)
    if x.dtype not in FLOATING:
        raise DTypeError(
            f"minimize: x0 is floating, got {x.dtype.name}; write x.astype(fx.float32)"
        )
    if x.ndim != 1:
        raise ShapeError(f"minimize: x0 is a vector, got {x.shape}; write x.reshape(-1)")
    most = given.pop("maxiter", None)
    most = 200 * x.shape[0] if most is None else most
    gtol = given.pop("gtol", 1e-5 if tol is None else tol)
    norm, tries = given.pop("norm", math.inf), given.pop("line_search_maxiter", 20)
    if given:
        raise ArgumentError(
            f"minimize: the options are gtol, norm, maxiter and line_search_maxiter, got "
            f"{', '.join(given)}"
        )
    return _bfgs(lambda x: fun(x, *args), x, most, gtol, norm, tries)


class _State(NamedTuple):
    x: Tensor
    f: Tensor
    g: Tensor  # (n,)
    h: Tensor  # (n, n)
    before: Tensor  # the value before the last step
    done: Tensor
    failed: Tensor
    calls: Tensor
    steps: Tensor


def _bfgs(
    fun: Callable[[Tensor], Any], x: Tensor, most: int, gtol: float, norm: Any, tries: int
) -> OptimizeResults:
    def scalar(x: Tensor) -> Tensor:
        f = argument("minimize", fun(x))
        if f.shape != ():
            raise ShapeError(f"minimize: fun gives a scalar, got shape {f.shape}; write .sum()")
        return f

    def value(x: Tensor) -> tuple[Tensor, Tensor]:
        f, g = fx.value_and_grad(scalar)(x)
        return f.astype(x.dtype), g

    small = lambda g: fx.linalg.vector_norm(g, ord=norm) < gtol
    unit = fx.eye(x.shape[0], dtype=x.dtype, device=x.device)
    f, g = value(x)
    false = fx.zeros((), dtype=fx.bool, device=x.device)
    one = fx.ones((), dtype=fx.int64, device=x.device)
    # the first step is as long as if the value had come down by half of the slope
    before = f + fx.linalg.vector_norm(g) * 0.5
    start = _State(x, f, g, unit, before, small(g), false, one, one * 0)

    def step(s: _State) -> _State:
        along = -(s.h @ s.g)
        found = _length(value, s, along, tries)
        moved, change = along * found.a, found.g - s.g
        bend = (moved * change).sum()
        usable = fx.isfinite(1.0 / bend)
        part = fx.where(usable, 1.0 / fx.where(usable, bend, 1.0), 0.0).astype(x.dtype)
        left = unit - part * fx.outer(moved, change)
        h = left @ s.h @ left.mT + part * fx.outer(moved, moved)
        fine = found.done
        keep = lambda new, old: fx.where(fine, new, old)
        return _State(
            keep(s.x + moved, s.x), keep(found.f, s.f), keep(found.g, s.g),
            keep(fx.where(usable, h, s.h), s.h), keep(s.f, s.before), fine & small(found.g),
            ~fine, s.calls + found.k, s.steps + 1,
        )  # fmt: skip

    go_on = lambda s: ~s.done & ~s.failed & (s.steps < most)
    end = fx.while_loop(go_on, step, start)
    status = fx.where(end.done, 0, fx.where(end.failed, 3, 1)).astype(fx.int64)
    return OptimizeResults(
        end.x, end.done, status, end.f, end.g, end.h, end.calls, end.calls, end.steps
    )


class _Search(NamedTuple):
    """A search for the length of a step.

    ``lo`` and ``hi`` have (length, value, slope). Before ``zooms`` lengths grow and ``lo`` is the
    one before; then a good length lies between the two, and ``lo`` is the better of them.
    """

    a: Tensor
    f: Tensor
    g: Tensor  # (n,)
    lo: Tensor  # (3,)
    hi: Tensor  # (3,)
    zooms: Tensor
    done: Tensor
    k: Tensor


def _length(value: Any, s: _State, along: Tensor, tries: int) -> _Search:
    """A length that fulfils Wolfe's strong conditions; the value and the gradient there."""
    slope = (s.g * along).sum()
    first = 2.02 * (s.f - s.before) / slope
    first = fx.where(first > 0, fx.minimum(first, 1.0), 1.0).astype(s.f.dtype)
    here = fx.stack([s.f * 0.0, s.f, slope])
    no = fx.zeros((), dtype=fx.bool, device=along.device)
    zero = fx.zeros((), dtype=fx.int64, device=along.device)

    def try_one(now: _Search) -> _Search:
        a = now.a
        f, g = value(s.x + a * along)
        d = (g * along).sum()
        point = fx.stack([a, f, d])
        falls = f <= s.f + _DECREASE * a * slope  # no, also where f is NaN
        worse = ~falls | ((f >= now.lo[1]) & (now.zooms | (now.k > 0)))
        good = ~worse & (abs(d) <= -_CURVATURE * slope)
        # between lo and hi the slope at lo points towards hi
        passed = ~worse & fx.where(now.zooms, d * (now.hi[0] - now.lo[0]) >= 0, d >= 0)
        hi = fx.where(worse, point, fx.where(passed, now.lo, now.hi))
        lo = fx.where(worse, now.lo, point)
        zooms = now.zooms | worse | passed
        a = fx.where(zooms, _between(lo, hi), a * 2.0)
        a = fx.where(good, now.a, a).astype(now.a.dtype)
        return _Search(a, f, g, lo, hi, zooms, good, now.k + 1)

    return fx.while_loop(  # type: ignore[no-any-return]
        lambda now: ~now.done & (now.k < tries), try_one,
        _Search(first, s.f, s.g, here, here, no, no, zero),
    )  # fmt: skip


def _between(lo: Tensor, hi: Tensor) -> Tensor:
    """The least place of the cubic through two points and their slopes, or the middle of them."""
    (a, f, d), (b, e, c) = (tuple(p[i] for i in range(3)) for p in (lo, hi))
    width = b - a
    u = d + c - 3.0 * (f - e) / (a - b)
    v = fx.sign(width) * fx.sqrt(u * u - d * c)
    part = 1.0 - (c + v - u) / (c - d + 2.0 * v)
    fits = (part > 0.1) & (part < 0.9)  # no, where it is NaN
    return a + width * fx.where(fits, part, 0.5)


__all__ = ["OptimizeResults", "minimize"]
