"""What kernels of Fourier transforms are told of a size: how it is cut, and roots of one.

A table is one block of memory that begins with words; see ``WORDS``. Its numbers are computed in
more digits than they have, from angles of at most pi / 4, so that they are rounded but once.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

# of n = N1 * N2 points: N2 in whole vectors, and how many; and where in the table, in bytes, are
# the passes of N1 and of N2 points, the roots between them, and those of real numbers
WORDS = N1, N2, N2_UP, VECTORS, FIRST, SECOND, CROSS, STARTS, REAL = tuple(range(9))
_PASS = {2: 1.0, 3: 1.6, 4: 1.25, 5: 2.3, 7: 3.6, 8: 1.75}  # prices of a pass, an element


@lru_cache(4096)
def radices(n: int) -> tuple[int, ...] | None:
    """The radices of the passes of n points; None where it has a prime factor above 7."""
    found = []
    for r in (7, 5, 3):
        while n % r == 0:
            found.append(r)
            n //= r
    power = n.bit_length() - 1
    if n != 1 << power:
        return None
    fours = {0: 0, 1: 2, 2: 1}[power % 3]
    if power == 1:
        return (*found, 2)
    return (*found, *[4] * fours, *[8] * ((power - 2 * fours) // 3))


def _price(n: int) -> float:
    return n * (1.0 + sum([_PASS[r] for r in radices(n) or ()]))


@lru_cache(4096)
def cut(n: int, width: int) -> tuple[int, int]:
    """n as a product whose factors fill vectors best, each of at least 2."""
    best = None
    for n1 in _divisors(n):
        n2 = n // n1
        if n1 > 1 and n2 > 1:
            price = -(-n2 // width) * _price(n1) + -(-n1 // width) * _price(n2)
            if best is None or price < best[0]:
                best = price, n1, n2
    return (n, 1) if best is None else best[1:]


def _divisors(n: int) -> Iterator[int]:
    factors: dict[int, int] = {}
    for r in radices(n) or ():
        for p in {8: (2, 2, 2), 4: (2, 2)}.get(r, (r,)):
            factors[p] = factors.get(p, 0) + 1
    for powers in product(*[[p**i for i in range(k + 1)] for p, k in factors.items()]):
        yield prod(powers)


def roots(numerators: np.ndarray, n: int, dtype: np.dtype) -> np.ndarray:
    """exp(-2 pi i k / n) of integers k: (*K, 2), the real and the imaginary part."""
    wide = np.longdouble if dtype == np.float64 else np.float64
    k = numerators % n
    quarter = (4 * k + n // 2) // n  # the nearest one
    angle = (4 * k - quarter * n).astype(wide) * (np.arctan2(wide(0), wide(-1)) / (2 * wide(n)))
    near, far = np.cos(angle), np.sin(angle)
    quarter %= 4
    real = np.choose(quarter, [near, -far, -near, far])
    imaginary = np.choose(quarter, [-far, -near, far, near])
    return np.stack([real, imaginary], -1).astype(dtype)


def _of_passes(n: int, dtype: np.dtype) -> tuple[list[int], np.ndarray]:
    """The words of the passes, with places among the roots, and these."""
    words, made, count, done = [], [np.zeros(0, dtype)], 0, 1
    found = radices(n)
    assert found is not None
    for r in found:
        m = n // (done * r)
        words += [r, m, done, count]
        made.append(roots(np.outer(np.arange(1, m), np.arange(1, r)), r * m, dtype).ravel())
        count += made[-1].size
        done *= r
    return [len(found), *words], np.concatenate(made)


class _Block:
    """A table that grows; parts begin on cache lines."""

    def __init__(self) -> None:
        self.words = np.zeros(len(WORDS), np.int64)
        self.parts: list[np.ndarray] = []
        self.size = self._up(self.words.nbytes)

    @staticmethod
    def _up(n: int) -> int:
        return -(-n // 64) * 64

    def add(self, part: np.ndarray) -> int:
        """A part more; where it begins."""
        start = self.size
        self.parts.append(part)
        self.size += self._up(part.nbytes)
        return start

    def passes(self, n: int, dtype: np.dtype) -> int:
        """The words of passes, their roots before them."""
        words, found = _of_passes(n, dtype)
        start = self.add(found)
        words[4::4] = [start + i * dtype.itemsize for i in words[4::4]]
        return self.add(np.array(words, np.int64))

    def whole(self) -> np.ndarray:
        """The table, on a cache line."""
        memory = np.zeros(self.size + 64, np.uint8)
        start = -memory.ctypes.data % 64
        out = memory[start : start + self.size]
        at = 0
        for part in (self.words, *self.parts):
            out[at : at + part.nbytes] = np.ascontiguousarray(part).view(np.uint8).ravel()
            at += self._up(part.nbytes)
        return out


def _in_vectors(pairs: np.ndarray, width: int) -> np.ndarray:
    """(*K, n, 2) -> (*K, vectors, 2, width), the last one filled up with zeros."""
    *rest, n, _ = pairs.shape
    out = np.zeros((*rest, -(-n // width) * width, 2), pairs.dtype)
    out[..., :n, :] = pairs
    return out.reshape(*rest, -1, width, 2).swapaxes(-1, -2)


def _made(kind: str, half: bool, n: int, width: int, dtype: np.dtype) -> np.ndarray:
    block, words = _Block(), np.zeros(len(WORDS), np.int64)
    n1, n2 = (n, 1) if kind == "lanes" else cut(n, width)
    vectors = -(-n2 // width)
    words[[N1, N2, N2_UP, VECTORS]] = n1, n2, vectors * width, vectors
    words[FIRST] = block.passes(n1, dtype)
    if half:
        found = roots(np.arange(n // 2 + 1), 2 * n, dtype)
        found = np.stack([found[:, 1], -found[:, 0]], -1)  # -i times them
        words[REAL] = block.add(found if kind == "lanes" else _in_vectors(found[1:], width))
    k, starts = np.arange(n1), np.arange(vectors) * width
    if kind != "lanes":
        words[SECOND] = block.passes(n2, dtype)
    if kind == "row":
        every = roots(np.outer(np.arange(n2), k), n, dtype)  # (n2, n1, 2)
        lined = _in_vectors(every.transpose(1, 0, 2), width)  # (n1, vectors, 2, width)
        words[CROSS] = block.add(lined.swapaxes(0, 1))
    if kind == "halves":
        words[CROSS] = block.add(_in_vectors(roots(np.outer(k, np.arange(width)), n, dtype), width))
        words[STARTS] = block.add(roots(np.outer(starts, k), n, dtype))
    block.words[:] = words
    return block.whole()


@lru_cache(64)
def table(kind: str, half: bool, n: int, width: int, char: str) -> np.ndarray:
    """The table of a size.

    Args:
        kind: "lanes", whose roots of real numbers are pairs; or "row", whose are vectors; or
            "halves", of large rows: the roots between the passes are products of two.
        half: whether there are any of real numbers.
        n: complex points.
        width: lanes of a vector.
        char: NumPy's letter of the real numbers.
    """
    return _made(kind, half, n, width, np.dtype(char))


_kept: dict[str, np.ndarray] = {}


def name_of(kind: str, half: bool, n: int, width: int, char: str) -> str:
    """What compiled code calls a table."""
    return f"fx.roots.{kind}-{half:d}-{n}-{width}.{char}"


def address(name: str) -> int:
    """Where the table of that name is, from now on."""
    found = _kept.get(name)
    if found is None:
        _, _, told, char = name.split(".")
        kind, *numbers = told.split("-")
        half, n, width = map(int, numbers)
        found = _kept.setdefault(name, table(kind, bool(half), n, width, char))
    return int(found.ctypes.data)
