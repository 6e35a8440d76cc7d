"""Extents: sizes that are known when a kernel runs, as ints that stand for them.

An ``Extent`` is the int that a plan decides by, and the formula by which the real one is found:
where ``n`` stands for a length, ``-(-n // 512)`` is the number of its blocks. Compared with numbers
an extent is the int, so that one plan serves a class of sizes; it equals no number, and another
extent only where the formulas are the same.

A graph is staged with primes for such sizes. What a nest then holds says by its factors what it
is: with 1009 for ``n`` and 10007 for ``m`` a stride of 2018 is ``2 * n``. So nothing above knows of
extents. What is made of one size, as ``n - 1`` is, is such a factor too: primes are chosen by which
it has a large prime of its own. What is neither (the middle of an axis) is a number here, and other
primes show that it is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np

from fx.compiler.maps import Form
from fx.compiler.nest import Nest, form_of, with_form
from fx.dtypes import FLOATING, int64
from fx.graph.size_formulas import Base, value_of

PLAIN = 64  # numbers up to it are what they are
LEAST = 2  # no size that is known when code runs is smaller
ANY = 1 << 62  # where all are that no prime divides, since other primes give the same


def size_class(n: int) -> int:
    """The class of a size, by that size alone: from 4 on, 16, 64 and so on."""
    return (int(n).bit_length() + 1) // 2


class NoExtentsError(Exception):
    """A number of a nest that is no product of sizes."""


class Extent(int):
    """``factor`` times the product of ``atoms``: names, or ``(operator, x, y)`` of others."""

    factor: int
    atoms: tuple[Any, ...]
    _hash: int
    _words: str | None  # atoms share others: to spell or hash each again walks a graph as a tree

    def __new__(cls, value: int, factor: int, atoms: Sequence[Any]) -> Extent:
        self = super().__new__(cls, value)
        self.factor = factor
        self.atoms = tuple(sorted(atoms, key=repr) if len(atoms) > 1 else atoms)
        self._hash = hash((factor, self.atoms))
        self._words = None
        return self

    def __eq__(self, other: object) -> bool:
        if type(other) is not Extent:
            return False
        if self._hash != other._hash:
            return False
        return self.factor == other.factor and self.atoms == other.atoms

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        return True  # it is never known to be nothing

    def __repr__(self) -> str:
        """The formula in Python's words."""
        if self._words is None:
            told = [a if isinstance(a, str) else _told(*a) for a in self.atoms]
            self._words = "*".join([*([str(self.factor)] if self.factor != 1 else ()), *told])
        return self._words

    __str__ = __repr__

    def __mul__(self, other: int) -> int:  # type: ignore[override]
        if type(other) is Extent:
            value = int(self) * int(other)
            return Extent(value, self.factor * other.factor, self.atoms + other.atoms)
        if type(other) is not int:
            return int(self) * other
        return Extent(int(self) * other, self.factor * other, self.atoms) if other else 0

    __rmul__ = __mul__

    def __neg__(self) -> int:
        return self * -1

    def __abs__(self) -> int:
        return -self if int(self) < 0 else self

    def __add__(self, other: int) -> int:  # type: ignore[override]
        if type(other) not in (int, Extent):
            return int(self) + other
        return _atom("+", self, other) if other else self

    __radd__ = __add__

    def __sub__(self, other: int) -> int:  # type: ignore[override]
        return self + -other

    def __rsub__(self, other: int) -> int:  # type: ignore[override]
        return -self + other

    def __floordiv__(self, other: int) -> int:  # type: ignore[override]
        if type(other) not in (int, Extent):
            return int(self) // other
        left, below = list(self.atoms), other.atoms if type(other) is Extent else ()
        factor = other.factor if type(other) is Extent else other
        if all(left.count(a) >= below.count(a) for a in below) and not self.factor % factor:
            for a in below:
                left.remove(a)
            factor = self.factor // factor
            return Extent(int(self) // int(other), factor, left) if left else factor
        return _atom("//", self, other)

    def __rfloordiv__(self, other: int) -> int:  # type: ignore[override]
        return _atom("//", other, self) if type(other) is int else other // int(self)

    def __mod__(self, other: int) -> int:  # type: ignore[override]
        return self - self // other * other

    def __rmod__(self, other: int) -> int:  # type: ignore[override]
        return other - other // self * self


_APPLY = {"+": lambda x, y: x + y, "//": lambda x, y: x // y, "max": max, "min": min}


def _atom(operator: str, x: int, y: int) -> Extent:
    return Extent(_APPLY[operator](int(x), int(y)), 1, [(operator, x, y)])


def _told(operator: str, x: int, y: int) -> str:
    return f"{operator}({x!r}, {y!r})" if operator.isalpha() else f"({x!r} {operator} ({y!r}))"


def larger(x: int, y: int) -> int:
    """The larger of two sizes."""
    return max(x, y) if is_known(x, y) else _atom("max", x, y)


def smaller(x: int, y: int) -> int:
    """The smaller of two sizes."""
    return min(x, y) if is_known(x, y) else _atom("min", x, y)


def is_known(*sizes: Any) -> bool:
    """Whether sizes are numbers now."""
    return all(type(n) is not Extent for n in sizes)


class Sizes:
    """The sizes of a graph that are known when it runs.

    Args:
        primes: names, by the primes that stand for them.
        plain: numbers up to it may be what they are, or a factor of an extent.
        words: the array that kernels of compiled graphs find the sizes in, in the order of names.
        bases: what is made of sizes, with a large prime of its own in each.
        ends: how large the sizes are at the most, by name, for who divides work.
    """

    def __init__(
        self, primes: Mapping[int, str], plain: int = PLAIN, words: Any = None,
        bases: Sequence[Base] = (), ends: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        self.plain, self.words = plain, words
        self.ends = ends or {name: 1 << 2 * size_class(p) for p, name in primes.items()}
        self.places = {name: i for i, name in enumerate(primes.values())}
        self._told: dict[int, Any] = dict(primes)
        given = {name: p for p, name in primes.items()}
        for base in bases:
            value = value_of(base, given)
            if value >= LEAST:
                name, factor, constant = base
                made = _atom("+", Extent(factor * given[name], factor, (name,)), constant)
                self._told[value] = made.atoms[0]
        values = list(self._told)
        several = range(1, len(primes) + 1)
        self.counts = [n for k in several for n in _products_of(values, k)]
        self._inverses = {n for k in several for n in _products_of(list(primes), k)}

    def extent(self, n: int) -> int:
        """A number as an extent, or itself.

        Raises:
            NoExtentsError: if it is too large to be plain, and no product of sizes.
        """
        if type(n) is Extent:
            return n
        left, atoms = abs(n), []
        for value, atom in self._told.items():
            while left and left % value == 0:
                left //= value
                atoms.append(atom)
        if left > self.plain:
            raise NoExtentsError(f"{n}")
        return Extent(n, left if n > 0 else -left, atoms) if atoms else n

    def shape(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Each size of a shape as an extent, or itself.

        What is counted is a product of these. As a number of its own it may have the factors of a
        base where none of its sizes has them.
        """
        return tuple(map(self.extent, sizes))

    def most(self, n: int) -> int:
        """How large an extent is at the most, which is no number of the sizes at hand."""
        return _at(n, self.ends)

    def touch(self, data: Any) -> bool:
        """Whether there is one among plain data."""
        if type(data) in (tuple, list):
            return any(map(self.touch, data))
        return isinstance(data, int) and any(data and data % p == 0 for p in self._told)

    def surely(self, small: Sequence[int], large: Sequence[int]) -> bool:
        """Whether the sum of some numbers is at most that of others, whatever the sizes are.

        A number may be a product of several, as a tuple.
        """
        total: dict[tuple[str, ...], int] = {}
        try:
            for sign, numbers in ((-1, small), (1, large)):
                for n in numbers:
                    for part, k in _expanded(n, self).items():
                        total[part] = total.get(part, 0) + sign * k
        except NoExtentsError:
            return False
        return all(k >= 0 for k in total.values())

    def ensure(self, small: Sequence[int], large: Sequence[int]) -> None:
        """See that ``surely`` holds.

        Raises:
            NoExtentsError: if not.
        """
        if not self.surely(small, large):
            raise NoExtentsError(f"{small} may be more than {large}")

    def form(self, form: Form) -> Form:
        """A form with extents."""
        constant, terms = form
        return self.extent(constant), tuple([(d, self.extent(c)) for d, c in terms])

    def count(self, value: Any) -> int | None:
        """The extent that a floating number counts; the inverse of one is refused.

        That of a base, as 1 / 10 may be, is refused by the next primes, if it is one.
        """
        for n in self.counts:
            with np.errstate(all="ignore"):
                if value == value.dtype.type(n):
                    return self.extent(n)
                if n in self._inverses and value == value.dtype.type(1.0 / n):
                    raise NoExtentsError(f"1 / {n}")
        if self.plain == ANY and 1 < abs(value) < 1 << 24 and value == int(value):
            found = self.extent(int(value))
            return None if is_known(found) else found
        return None


def _at(n: int, sizes: Mapping[str, int]) -> int:
    """An extent at some sizes."""
    if type(n) is not Extent:
        return n
    found = n.factor
    for atom in n.atoms:
        if isinstance(atom, str):
            found *= sizes[atom]
        else:
            operator, x, y = atom
            found *= _APPLY[operator](_at(x, sizes), _at(y, sizes))
    return found


def _products_of(values: Sequence[int], count: int) -> list[int]:
    return [prod(some) for some in combinations(values, count)]


def _expanded(n: Any, sizes: Sizes) -> dict[tuple[str, ...], int]:
    """A number as a polynomial in what sizes are beyond the least, which is 2."""
    if type(n) is tuple:
        found = {(): 1}
        for part in n:
            found = _times(found, _expanded(part, sizes))
        return found
    n = sizes.extent(n)
    if type(n) is not Extent:
        return {(): int(n)}
    found = {(): n.factor}
    for atom in n.atoms:
        if isinstance(atom, str):
            found = _times(found, {(atom,): 1, (): LEAST})
            continue
        if atom[0] != "+":
            raise NoExtentsError(f"{n}")
        left, right = (_expanded(x, sizes) for x in atom[1:])
        found = _times(found, {k: left.get(k, 0) + right.get(k, 0) for k in {**left, **right}})
    return found


def _times(x: dict[tuple[str, ...], int], y: dict[tuple[str, ...], int]) -> Any:
    found: dict[tuple[str, ...], int] = {}
    for (p, j), (q, k) in product(x.items(), y.items()):
        part = tuple(sorted(p + q))
        found[part] = found.get(part, 0) + j * k
    return found


def named(nest: Nest, sizes: Sizes) -> Nest:
    """The nest, changed: with extents for what is made of sizes.

    Raises:
        NoExtentsError: for a number that is no product of them.
    """
    exprs, nest.exprs, nest.table = nest.exprs, [], {}
    place: list[int] = []
    for e in exprs:
        form, data = form_of(e), e.data
        if form is not None:
            data = with_form(e, sizes.form(form))
            if e.kind == "inside":
                data = (data[0], *map(sizes.extent, data[1:]))
        elif e.kind == "const" and e.dtype in FLOATING:
            found = sizes.count(np.frombuffer(data, e.dtype)[0])
            if found is not None:
                index = nest.expr("index", "", (), (found, ()), int64)
                place.append(nest.op("astype", (index,), e.dtype, (("dtype", e.dtype),)))
                continue
        place.append(nest.expr(e.kind, e.name, [place[a] for a in e.args], data, e.dtype))
    nest.outputs = [(w, sizes.form(f), place[e]) for w, f, e in nest.outputs]
    nest.sizes = [sizes.extent(n) for n in nest.sizes]
    nest.reads = [(d, sizes.extent(n)) for d, n in nest.reads]
    nest.writes = [(d, sizes.extent(n)) for d, n in nest.writes]
    return nest
