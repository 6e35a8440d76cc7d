"""What kernels that factor and solve are called with, for eager calls and compiled graphs alike.

A plan is made of the specs of a primitive's arguments and its parameters. ``words`` lists what the
kernel takes behind its tasks: numbers, ``read(i)`` and ``write(i)`` for arrays, ``routine(name,
char)`` for one of LAPACK, and ``THREADS`` for the setting of its threads.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

from fx.backends.cpu.llvm.machines import lane_bytes

THREADS = ("threads",)


class Plan(NamedTuple):
    """A call of a kernel.

    Args:
        name: the kernel, a function of ``irregular``.
        char: NumPy's letter of its elements.
        tasks: how many there are.
        price: nanoseconds of one.
        words: what it takes.
        scratch: bytes of each area of memory that the tasks of one thread share.
        group: the file of ``irregular``.
    """

    name: str
    char: str
    tasks: int
    price: float
    words: tuple[Any, ...]
    scratch: tuple[int, ...] = ()
    group: str = "lapack"

    def area(self, i: int) -> int:
        """Where an area of scratch memory begins; behind the last one it ends, in bytes."""
        return sum(-(-n // _UNIT) * _UNIT for n in self.scratch[:i])

    @property
    def room(self) -> int:
        """Scratch memory in units of 16 bytes."""
        return self.area(len(self.scratch)) // _UNIT


_UNIT = 16


def read(i: int) -> Any:
    """Argument ``i`` of the primitive."""
    return "read", i


def write(i: int) -> Any:
    """Its result ``i``."""
    return "write", i


def routine(name: str, char: str) -> Any:
    """The address of a routine of LAPACK or BLAS."""
    return "routine", name, char


def scratch(i: int) -> Any:
    """An area of scratch memory."""
    return "scratch", i


_ROOM = (("room",), ("chunk",))  # scratch memory of a thread, and tasks that have one


def _flops(char: str) -> float:
    """Nanoseconds of a multiplication and an addition inside LAPACK, on one thread."""
    return {"f": 0.03, "d": 0.06, "F": 0.12, "D": 0.24}[char]


def _in_lanes(
    a: Any, name: str, words: Any, vectors: int, price: float, group: str, *more: int
) -> Plan | None:
    """A kernel for the lanes of vectors, where matrices are small, real and many.

    Args:
        words: what it takes before the number of matrices.
        vectors: scratch memory.
        price: nanoseconds of a matrix in float32.
        more: bytes of other scratch memory.
    """
    most, count, width = max(a.shape[-2:]), prod(a.shape[:-2]), lane_bytes() // a.dtype.itemsize
    if most > _MOST_IN_LANES or count < width // 2 or a.dtype.kind == "c":
        return None
    areas = (lane_bytes() * vectors, *more)
    words = (*words, count, *[scratch(i) for i in range(len(areas))], *_ROOM)
    return Plan(name, a.dtype.char, -(-count // width), 16 * price, words, areas, group)


_MOST_IN_LANES = 64  # rows


def _up(n: int) -> int:
    """The next multiple of 4."""
    return -(-n // 4) * 4


def _eliminated(a: Any, name: str, words: Any, sides: int, price: float, *more: int) -> Plan | None:
    """A kernel of ``irregular/lanes/elimination.py``, of matrices with so many right sides."""
    size = _up(a.shape[-1])
    vectors = 2 * size * (size + _up(sides) + 1) + 2 * size + 2
    return _in_lanes(a, name, words, vectors, price, "elimination", *more)


def cholesky(a: Any) -> Plan:
    """a (*B, n, n) -> lower factors, info (*B)."""
    n, char = a.shape[-1], a.dtype.char
    words: tuple[Any, ...] = (read(0), write(0), write(1), n)
    found = _in_lanes(
        a, "cholesky", words, _up(n) * (_up(n) + 1), n * n / 4 + n**3 / 50, "triangles"
    )
    if found is not None:
        return found
    words = (*words, routine("potrf", char), THREADS)
    return Plan("cholesky", char, prod(a.shape[:-2]), 300 + n**3 / 3 * _flops(char), words)


def cholesky_pulled(a: Any, b: Any) -> Plan | None:
    """Factors a and cotangents b (*B, n, n) -> as a; None where no lanes do it."""
    n = a.shape[-1]
    words = (read(0), read(1), write(0), n)
    vectors, price = 3 * _up(n) * _up(n), n * n + n**3 / 12
    return _in_lanes(a, "cholesky_pulled", words, vectors, price, "triangles")


def triangular_solve(
    a: Any, b: Any, *, left: bool, lower: bool, transposed: bool, unit: bool
) -> Plan:
    """a (*B, n, n), b (*B, m, k) -> x as b."""
    (m, k), char = b.shape[-2:], a.dtype.char
    words = (
        read(0), read(1), write(0), m, k, left, lower, transposed, unit,
        routine("trsm", char), THREADS,
    )  # fmt: skip
    n, sides = a.shape[-1], k if left else m
    vectors = _up(n) * (_up(n) + _up(sides))
    in_lanes, price = words[:-2], n * n / 4 + n * _up(sides) * (n / 40 + 0.2)
    found = _in_lanes(a, "triangular_solve", in_lanes, vectors, price, "triangles")
    if found is not None and sides <= _MOST_IN_LANES:
        return found
    price = 300 + m * k * n * _flops(char)
    return Plan("triangular_solve", char, prod(b.shape[:-2]), price, words)


def lu(a: Any) -> Plan:
    """a (*B, m, n) -> factors, pivots, order, info."""
    (m, n), char = a.shape[-2:], a.dtype.char
    size = _up(n)
    vectors = 2 * (size + 1) * (size + 1) + 2 * size + 2
    found = None
    if m == n:
        words = (read(0), *map(write, range(4)), n)
        found = _in_lanes(a, "lu", words, vectors, n * n / 2 + n**3 / 30, "factored")
    if found is not None:
        return found
    words = (read(0), *map(write, range(4)), m, n, *_work("getrf", char))
    price = 500 + m * n * min(m, n) * 0.8 * _flops(char)
    return Plan("lu", char, prod(a.shape[:-2]), price, words, _bytes(a, m * n))


def lu_solve(a: Any, order: Any, b: Any, *, transposed: bool) -> Plan:
    """a (*B, n, n), order (*B, n), b (*B, n, k) -> x as b."""
    (n, k), char = b.shape[-2:], a.dtype.char
    words = (read(0), read(1), read(2), write(0), n, k, transposed)
    if k <= _MOST_IN_LANES:
        vectors = _up(n) * (_up(n) + _up(k))
        price = n * n / 2 + n * _up(k) * (n / 20 + 0.5)
        found = _in_lanes(a, "lu_solve", words, vectors, price, "factored")
        if found is not None:
            return found
    price = 500 + 2 * n * n * k * _flops(char)
    words = (*words, *_work("trsm", char))
    return Plan("lu_solve", char, prod(a.shape[:-2]), price, words, _bytes(a, n * k))


def order_of(pivots: Any, *, size: int) -> Plan:
    """pivots (*B, k) -> order (*B, size)."""
    k = pivots.shape[-1]
    words = (read(0), write(0), k, size)
    return Plan("order_of", "i", prod(pivots.shape[:-1]), 5.0 + k + size, words)


def _bytes(a: Any, count: int) -> tuple[int]:
    """Scratch memory of so many elements."""
    return (count * a.dtype.itemsize,)


def _work(name: str, char: str) -> tuple[Any, ...]:
    return routine(name, char), THREADS, scratch(0), *_ROOM


def solve(a: Any, b: Any) -> Plan:
    """a (*B, n, n), b (*B, n, k) -> x as b, info (*B)."""
    (n, k), char = b.shape[-2:], a.dtype.char
    words = (read(0), read(1), write(0), write(1), n, k)
    price = n * (n + k) / 2 + n * n * (n + k) / 30
    found = _eliminated(a, "solve", words, k, price) if k <= _MOST_IN_LANES else None
    if found is not None:
        return found
    words = (*words, *_work("gesv", char))
    price = 500 + n * n * (0.7 * n + k) * _flops(char)
    return Plan("solve", char, prod(a.shape[:-2]), price, words, _bytes(a, n * n + n * k + n))


def inv(a: Any) -> Plan:
    """a (*B, n, n) -> x as a, info (*B)."""
    n, char = a.shape[-1], a.dtype.char
    words: tuple[Any, ...] = (read(0), write(0), write(1), n)
    found = _eliminated(a, "inv", words, 0, n * n + n**3 / 12)
    if found is not None:
        return found
    words = (*words, *_work("gesv", char))
    price = 500 + 1.7 * n**3 * _flops(char)
    return Plan("inv", char, prod(a.shape[:-2]), price, words, _bytes(a, 2 * n * n + n))


def cofactors(a: Any) -> Plan | None:
    """a (*B, n, n) -> as a; None where no lanes do it."""
    return _transposed(a, True)


def inverse_transposed(a: Any) -> Plan | None:
    """a (*B, n, n) -> as a; None where no lanes do it."""
    return _transposed(a, False)


def _transposed(a: Any, cofactors: bool) -> Plan | None:
    n = a.shape[-1]
    words = (read(0), write(0), n, cofactors)
    return _eliminated(a, "inverse_transposed", words, 0, n * n + n**3 / 12, 64)


def slogdet(a: Any) -> Plan:
    """a (*B, n, n) -> signs (*B), real logarithms (*B)."""
    return _determined("slogdet", a, read(0), write(0), write(1))


def det(a: Any) -> Plan:
    """a (*B, n, n) -> (*B)."""
    return _determined("det", a, read(0), write(0))


def _determined(name: str, a: Any, *words: Any) -> Plan:
    n, char = a.shape[-1], a.dtype.char
    found = _eliminated(a, name, (*words, n), 0, n * n / 2 + n**3 / 30, 64)
    if found is not None:
        return found
    words = (*words, n, *_work("getrf", char))
    areas = _bytes(a, n * n + n + 2)
    return Plan(name, char, prod(a.shape[:-2]), _of_lu(n, char), words, areas)


def _of_lu(n: int, char: str) -> float:
    return 500 + 0.7 * n**3 * _flops(char)


def _spectral(a: Any, name: str, price: float, words: Any, *areas: int) -> Plan:
    """A kernel of ``irregular/spectral.py``, with areas of scratch memory."""
    listed = [scratch(i) for i in range(len(areas))]
    return Plan(
        name,
        a.dtype.char,
        prod(a.shape[:-2]),
        price,
        (*words, *listed, *_ROOM, THREADS),
        areas,
        "spectral",
    )


def qr(a: Any, *, full: bool) -> Plan:
    """a (*B, m, n) -> q (*B, m, k), r (*B, k, n)."""
    (m, n), char = a.shape[-2:], a.dtype.char
    few, k, size = min(m, n), m if full else min(m, n), _BLOCK * max(m, n)
    words = (
        read(0), write(0), write(1), m, n, k, routine("gelqf", char), routine("orglq", char), size,
    )  # fmt: skip
    areas = a.dtype.itemsize * (m * n + few + size), 4
    vectors, price = m * (n + k + 2) + few + 1, m * (n + k) / 2 + m * n * few / 10
    found = _in_lanes(a, "qr", (*words, THREADS), vectors, price, "reflections", *areas)
    if found is not None:
        return found
    price = 600 + 2 * m * n * few * _flops(char)
    return _spectral(a, "qr", price, words, *areas)


_BLOCK = 32  # columns that LAPACK takes at once


def _eigh(a: Any, vectors: bool) -> Plan:
    n, char, complex = a.shape[-1], a.dtype.char, a.dtype.kind == "c"
    square = n * n if vectors else 0
    if complex:
        size, reals = n * (_BLOCK + 1) + square, 1 + 5 * n + 2 * square
    else:
        size, reals = 1 + n * (_BLOCK + 6) + 2 * square, 0
    integers = 3 + 5 * n
    outs = (write(0), write(1), write(2)) if vectors else (write(0), read(0), write(1))
    words = (
        read(0), *outs, n, vectors, routine("syevd", char), size, reals, integers,
    )  # fmt: skip
    extra = 0 if vectors else n * n
    areas = (a.dtype.itemsize * (size + extra), a.dtype.itemsize * reals, 4 * integers)
    in_lanes = (*words[:-2], integers, THREADS)
    price = 20 * n * n + (0.3 if vectors else 0.1) * n**3
    found = _in_lanes(
        a, "eigh", in_lanes, 2 * n * (n + 1) + 7 * n + 2, price, "symmetric", areas[0], areas[2]
    )
    if found is not None:
        return found
    price = 1500 + 400 * n + (9 if vectors else 3) * n**3 * _flops(char)
    return _spectral(a, "eigh", price, words, *areas)


def _svd(a: Any, ku: int, kv: int, vectors: bool) -> Plan:
    (m, n), char = a.shape[-2:], a.dtype.char
    few, most = min(m, n), max(m, n)
    size = 4 * few * few + 8 * few + most + _BLOCK * (m + n)
    reals = max(5 * few * few + 7 * few, 2 * most * few + 2 * few * few + few)
    reals = reals if a.dtype.kind == "c" else 0
    outs = (
        (write(0), write(1), write(2), write(3)) if vectors
        else (read(0), write(0), read(0), write(1))
    )  # fmt: skip
    words = (
        read(0), *outs, m, n, ku, kv, vectors, routine("gesdd", char), size,
    )  # fmt: skip
    areas = (a.dtype.itemsize * (m * n + size), a.dtype.itemsize * reals, 32 * few)
    price = 3000 + 800 * few + (20 if vectors else 4) * m * n * few * _flops(char)
    return _spectral(a, "svd", price, words, *areas)


def _svd_in_lanes(a: Any, plan: Plan, vectors: bool) -> Plan:
    """The plan of a kernel for lanes, if there is one: LAPACK's words but for complex numbers."""
    m, n = a.shape[-2:]
    few, most = min(m, n), max(m, n)
    count = (most + few) * (few + 1) + few * (most + 1) + 9 * few + 2
    price = 40 * few * few + (0.6 if vectors else 0.2) * m * n * few
    words, areas = plan.words[:12], (plan.scratch[0], plan.scratch[2])
    return _in_lanes(a, "svd", (*words, THREADS), count, price, "singular", *areas) or plan


def svd(a: Any, *, full: bool) -> Plan:
    """a (*B, m, n) -> u (*B, m, ku), s (*B, k), vh (*B, kv, n), info (*B)."""
    m, n = a.shape[-2:]
    few = min(m, n)
    plan = _svd(a, m if full else few, n if full else few, True)
    return plan if full and m != n else _svd_in_lanes(a, plan, True)


def svdvals(a: Any) -> Plan:
    """a (*B, m, n) -> s (*B, k), info (*B)."""
    few = min(a.shape[-2:])
    return _svd_in_lanes(a, _svd(a, few, few, False), False)


def _eig(a: Any, vectors: bool) -> Plan:
    n, char = a.shape[-1], a.dtype.char
    size = n * (_BLOCK + 4)
    outs = (write(0), write(1), write(2)) if vectors else (write(0), read(0), write(1))
    words = (read(0), *outs, n, vectors, routine("geev", char), size)
    price = 3000 + 1000 * n + (25 if vectors else 10) * n**3 * _flops(char)
    areas = (a.dtype.itemsize * (2 * n * n + 2 * n + size), a.dtype.itemsize * 2 * n)
    return _spectral(a, "eig", price, words, *areas)


def pinv(a: Any, *, rtol: float, atol: float) -> Plan:
    """a (*B, m, n) -> p (*B, n, m), rank (*B), info (*B)."""
    (m, n), char, width = a.shape[-2:], a.dtype.char, a.dtype.itemsize
    few = min(m, n)
    svd = _svd(a, few, few, True)
    size = svd.scratch[0] // width - m * n
    words = (
        read(0), write(0), write(1), write(2), m, n, float(rtol), float(atol),
        routine("gesdd", char), routine("gemm", char), size,
    )  # fmt: skip
    areas = (svd.scratch[0] + width * few * (m + n), svd.scratch[1] + width * few, svd.scratch[2])
    price = svd.price + 2 * m * n * few * _flops(char)
    return _spectral(a, "pinv", price, words, *areas)._replace(group="functions")


def matrix_exp(a: Any) -> Plan:
    """a (*B, n, n) -> as a."""
    n, char = a.shape[-1], a.dtype.char
    routines = [routine(name, char) for name in ("gemm", "gesv")]
    areas = (a.dtype.itemsize * 7 * n * n, 4 * (n + 1))
    price = 2000 + 12 * n**3 * _flops(char)
    found = _spectral(a, "matrix_exp", price, (read(0), write(0), n, *routines), *areas)
    return found._replace(group="functions")


PLANS: dict[str, Callable[..., Plan]] = {
    "cholesky": cholesky,
    "det": det,
    "inv": inv,
    "lu": lu,
    "lu_solve": lu_solve,
    "order_of": order_of,
    "slogdet": slogdet,
    "solve": solve,
    "triangular_solve": triangular_solve,
    "qr": qr,
    "eigh": lambda a: _eigh(a, True),
    "eigvalsh": lambda a: _eigh(a, False),
    "svd": svd,
    "svdvals": svdvals,
    "eig": lambda a: _eig(a, True),
    "eigvals": lambda a: _eig(a, False),
    "pinv": pinv,
    "matrix_exp": matrix_exp,
}
