"""Comparison of arrays, and derivatives by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fx.dtypes import INEXACT
from fx.tensor import Tensor
from fx.testing.case import Arrays, Mismatch


def expect_close(got: np.ndarray, want: np.ndarray, tolerance: float, what: str) -> None:
    """Compare shapes and values; the tolerance is relative to each element and to the largest.

    Raises:
        Mismatch: naming the worst element.
    """
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        raise Mismatch(f"{what}: shape {got.shape}, expected {want.shape}")
    if got.size == 0:
        return
    if got.dtype not in INEXACT:
        if not np.array_equal(got, want):
            raise Mismatch(f"{what}: got {got.tolist()}, expected {want.tolist()}")
        return
    wide = np.complex128 if "c" in (got.dtype.kind, want.dtype.kind) else np.float64
    got, want = got.astype(wide), want.astype(wide)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    if same.all():
        return
    size = np.where(np.isfinite(want), np.abs(want), 0.0)
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(got - want))
    allowed = tolerance * (size + 1e-3 * size.max() + min(1.0, size.max() + 1e-3))
    worst = np.unravel_index(
        np.argmax(np.where(np.isnan(error), np.inf, error / allowed)), error.shape
    )
    if not error[worst] <= allowed[worst]:
        where = f" at {tuple(map(int, worst))}" if got.ndim else ""
        raise Mismatch(
            f"{what}{where}: got {got[worst]:.12g}, expected {want[worst]:.12g} "
            f"(difference {error[worst]:.3g}, allowed {allowed[worst]:.3g})"
        )


def expect_all_close(got: Arrays, want: Arrays, tolerance: float, what: str) -> None:
    """``expect_close`` for each pair."""
    if len(got) != len(want):
        raise Mismatch(f"{what}: {len(got)} results, expected {len(want)}")
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        expect_close(g, w, tolerance, what if len(got) == 1 else f"{what}, number {i}")


def expect_like(x: Any, like: np.ndarray, what: str) -> None:
    """Compare shape and dtype.

    Raises:
        Mismatch: if they differ, or ``x`` is no tensor.
    """
    if not isinstance(x, Tensor):
        raise Mismatch(f"{what}: got {x!r}, expected {like.dtype.name}{like.shape}")
    if x.shape != like.shape or x.dtype != like.dtype:
        raise Mismatch(
            f"{what}: got {x.dtype.name}{x.shape}, expected {like.dtype.name}{like.shape}"
        )


def inner(xs: Arrays, ys: Arrays) -> tuple[float, float]:
    """The inner product of two lists of arrays, and the sum of the absolute terms.

    Complex numbers are paired without a conjugate: ``Re(sum(x * y))``.
    """
    total, size = 0.0, 0.0
    for x, y in zip(xs, ys, strict=True):
        terms = (x.astype(np.complex128) * y.astype(np.complex128)).real
        total += float(terms.sum())
        size += float(np.abs(terms).sum())
    return total, size


STEP = 2.0**-12  # exact in binary; the fourth-order formula is then good to about 1e-11


DIFFERENCES = 1e-6  # the relative tolerance against differences


def differences(
    function: Callable[..., Arrays], at: Sequence[np.ndarray], along: Sequence[np.ndarray]
) -> Arrays:
    """The derivative of ``function`` at ``at`` along a direction, by central differences."""

    def moved(steps: float) -> Arrays:
        return function(*[x + steps * STEP * t for x, t in zip(at, along, strict=True)])

    return combine(moved(1), moved(-1), moved(2), moved(-2))


def combine(plus: Arrays, minus: Arrays, plus2: Arrays, minus2: Arrays) -> Arrays:
    """The fourth-order formula on values at +h, -h, +2h, -2h."""
    return [
        (8 * (p - m) - (pp - mm)) / (12 * STEP)
        for p, m, pp, mm in zip(plus, minus, plus2, minus2, strict=True)
    ]
