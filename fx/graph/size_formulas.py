"""Formulas of sizes: what the numbers of graphs are that are one but for their sizes.

A number is a product of sizes and a factor, such as ``64 * a``, or such a product with *bases* in
it, sizes that a slice, a pad or a concatenation makes of one of them: ``a - 1``, ``2 * a + 3``.
Primes stand for sizes while a program for any size is planned, chosen so that what divides a number
says which sizes and bases are in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from math import gcd, prod

_DEGREE = 4  # sizes in a product, at most
_BASES = 6  # of a family
_LEAST = 5  # a prime that tells a size from the factors of others
_FAR = 4096  # beyond a few times the size: where no primes are found by then, there are none

Base = tuple[str, int, int]  # of a size: ``factor * size + constant``


class Formula:
    """``factor`` times a product of named sizes and of bases.

    Args:
        factor: a number.
        names: as often as each is in the product.
        bases: the same.
    """

    __slots__ = ("bases", "factor", "names")

    def __init__(self, factor: int, names: Sequence[str], bases: Sequence[Base] = ()) -> None:
        self.factor, self.names, self.bases = factor, tuple(names), tuple(bases)

    def __call__(self, sizes: Mapping[str, int]) -> int:
        found = self.factor * prod([sizes[n] for n in self.names])
        for base in self.bases:
            found *= value_of(base, sizes)
        return found

    def used(self) -> set[str]:
        """The sizes that it depends on."""
        return {*self.names, *[name for name, _, _ in self.bases]}


def value_of(base: Base, sizes: Mapping[str, int]) -> int:
    """A base at some sizes."""
    name, factor, constant = base
    return factor * sizes[name] + constant


class Formulas:
    """Finds what numbers are by their values in several graphs.

    Args:
        sizes: by name, in each of the graphs.
    """

    def __init__(self, sizes: Mapping[str, tuple[int, ...]]) -> None:
        self._sizes = dict(sizes)
        self._known: dict[tuple[int, ...], Formula | None] = {}
        self.bases: list[Base] = []
        self._products = _products(self._sizes, ())

    def of(self, column: tuple[int, ...]) -> Formula | None:
        """What a number is; the shortest product that fits, None where there is none."""
        if column not in self._known:
            self._known[column] = self._found(column)
        return self._known[column]

    def _found(self, column: tuple[int, ...]) -> Formula | None:
        for known, (names, bases) in self._products.items():
            if all(known) and not column[0] % known[0]:
                factor = column[0] // known[0]
                if factor and all(n == factor * k for n, k in zip(column, known)):
                    return Formula(factor, names, bases)
        return None

    def look_for_bases(self, columns: Sequence[tuple[int, ...]]) -> None:
        """Take what is no product, but is made of one size, for further sizes."""
        found: list[tuple[Base, tuple[int, ...]]] = []
        for column in dict.fromkeys(columns):
            if self.of(column) is None and (base := self._base(column)) is not None:
                found.append((base, column))
        found.sort(key=lambda known: (abs(known[0][1]), abs(known[0][2])))
        for base, column in found:  # the simple ones explain most of the others
            if len(self.bases) < _BASES and self.of(column) is None:
                self.bases.append(base)
                self._products = _products(self._sizes, self.bases)
                self._known.clear()

    def _base(self, column: tuple[int, ...]) -> Base | None:
        fits = []
        for name, size in self._sizes.items():
            other = next((i for i, n in enumerate(size) if n != size[0]), None)
            if other is None:
                continue
            factor, rest = divmod(column[other] - column[0], size[other] - size[0])
            constant = column[0] - factor * size[0]
            if rest or not factor or not constant:
                continue
            if all(factor * n + constant == c for n, c in zip(size, column)):
                common = gcd(factor, constant)
                fits.append((name, factor // common, constant // common))
        return min(fits, key=lambda base: (abs(base[1]), abs(base[2])), default=None)


def _products(
    sizes: Mapping[str, tuple[int, ...]], bases: Sequence[Base]
) -> dict[tuple[int, ...], tuple[tuple[str, ...], tuple[Base, ...]]]:
    columns: dict[str | Base, tuple[int, ...]] = dict(sizes)
    count = len(next(iter(sizes.values()), ()))
    for name, factor, constant in bases:
        columns[name, factor, constant] = tuple([factor * n + constant for n in sizes[name]])
    found: dict[tuple[int, ...], tuple[tuple[str, ...], tuple[Base, ...]]] = {}
    for some in ([*sizes], [*columns]):  # bases only where it takes them
        for degree in range(1, _DEGREE + 1):
            for parts in combinations_with_replacement(some, degree):
                column = tuple([prod([columns[p][i] for p in parts]) for i in range(count)])
                names = tuple([p for p in parts if isinstance(p, str)])
                found.setdefault(column, (names, tuple([p for p in parts if type(p) is tuple])))
    return found


def formula_of(column: Sequence[int], sizes: Mapping[str, tuple[int, ...]]) -> Formula | None:
    """The product of sizes and a factor that a number is, or such a base; None where it is none.

    Args:
        column: the number, in one graph after the other.
        sizes: by name, in each of these.
    """
    formulas = Formulas(sizes)
    formulas.look_for_bases([tuple(column)])
    return formulas.of(tuple(column))


def bases_of(
    names: Sequence[str], found: Sequence[Base], parts: Mapping[str, tuple[int, int]]
) -> list[Base]:
    """The bases to plan with: those of the graph, the last index of each size, and what the first
    elements of all parts of an axis span.

    Args:
        names: of the sizes.
        found: those of the graph.
        parts: of names that are parts of an axis: ``(m, r)`` where it has ``m * a + r`` elements.
    """
    last = [(name, 1, -1) for name in names]
    for name, (m, r) in parts.items():
        shared = [(gcd(m, c), c) for c in (r - 1, 1 - m) if c]
        last += [(name, m // common, c // common) for common, c in shared]
    return list(dict.fromkeys([*last, *found]))


def primes_for(
    sizes: Mapping[str, int], plain: Sequence[int], bases: Sequence[Base] = (),
    most: Mapping[str, int | None] | None = None,
) -> Iterator[dict[str, int]]:  # fmt: skip
    """Primes in the place of sizes, no smaller than those, that divide none of the plain numbers.

    Neither do the primes that tell bases. Each time others, so much larger that no dtype rounds
    numbers of both to the same.

    Args:
        sizes: about which size each has, by name.
        plain: the numbers that depend on no size.
        bases: what is made of sizes.
        most: how large sizes can be, where that is known.

    Raises:
        ValueError: if there are none up to that, or none near: two bases may have all in common.
    """
    taken: set[int] = set()
    known = [n for n in {*map(abs, plain)} if n > 1]
    while True:
        found = {}
        for name, n in sizes.items():
            n = max(n, _LEAST)
            far = 4 * n + _FAR
            own = [b for b in bases if b[0] == name]
            while (told := _told(name, n, own)) is None or any(
                r in taken or any(k % r == 0 for k in known) for r in told
            ):
                n += 1
                if n > min((most or {}).get(name) or n, far):
                    raise ValueError(f"no prime for {name}")
            taken.update(told)
            found[name] = n
        yield found
        sizes = {name: n + n // 32 for name, n in found.items()}


def _told(name: str, n: int, bases: Sequence[Base]) -> list[int] | None:
    """The primes that tell a size and its bases, if it is one and each has its own."""
    if not _is_prime(n):
        return None
    found = [n]
    for base in bases:
        value = value_of(base, {name: n})
        if value < 1 and base[1] < 0:
            continue  # what is left of a known size, where nothing is
        found.append(largest_prime(value))
    return found if len({*found}) == len(found) and min(found) >= _LEAST else None


def largest_prime(n: int) -> int:
    """The largest prime that divides a number; 1 if there is none."""
    found, k = 1, 2
    while n > 1 and k * k <= n:
        if n % k:
            k += 1
        else:
            n //= k
            found = k
    return max(found, n) if n > 1 else found


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % k for k in range(2, int(n**0.5) + 1))
