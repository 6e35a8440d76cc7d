"""What the kernels of ``irregular/lapack.py`` are called with, for eager calls and compiled graphs.

A plan is made of the specs of a primitive's arguments and its parameters. ``words`` lists what the
kernel takes behind its tasks: numbers, ``read(i)`` and ``write(i)`` for arrays, ``routine(name,
char)`` for one of LAPACK, and ``THREADS`` for the setting of its threads.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

THREADS = ("threads",)


class Plan(NamedTuple):
    """A call of a kernel.

    Args:
        name: the kernel, a function of ``irregular/lapack.py``.
        char: NumPy's letter of its elements.
        tasks: how many there are.
        price: nanoseconds of one.
        words: what it takes.
    """

    name: str
    char: str
    tasks: int
    price: float
    words: tuple[Any, ...]


def read(i: int) -> Any:
    """Argument ``i`` of the primitive."""
    return "read", i


def write(i: int) -> Any:
    """Its result ``i``."""
    return "write", i


def routine(name: str, char: str) -> Any:
    """The address of a routine of LAPACK or BLAS."""
    return "routine", name, char


def _flops(char: str) -> float:
    """Nanoseconds of a multiplication and an addition inside LAPACK, on one thread."""
    return {"f": 0.03, "d": 0.06, "F": 0.12, "D": 0.24}[char]


def cholesky(a: Any) -> Plan:
    """a (*B, n, n) -> lower factors, info (*B)."""
    n, char = a.shape[-1], a.dtype.char
    words = (read(0), write(0), write(1), n, routine("potrf", char), THREADS)
    return Plan("cholesky", char, prod(a.shape[:-2]), 300 + n**3 / 3 * _flops(char), words)


def triangular_solve(
    a: Any, b: Any, *, left: bool, lower: bool, transposed: bool, unit: bool
) -> Plan:
    """a (*B, n, n), b (*B, m, k) -> x as b."""
    (m, k), char = b.shape[-2:], a.dtype.char
    words = (
        read(0), read(1), write(0), m, k, left, lower, transposed, unit,
        routine("trsm", char), THREADS,
    )  # fmt: skip
    price = 300 + m * k * a.shape[-1] * _flops(char)
    return Plan("triangular_solve", char, prod(b.shape[:-2]), price, words)


PLANS: dict[str, Callable[..., Plan]] = {
    "cholesky": cholesky,
    "triangular_solve": triangular_solve,
}
