"""Index maps: where an element of a node lies, as affine functions of the loops of a kernel.

A ``Form`` is ``constant + sum(coefficient * loop)``; a map is one form an axis. Going through a
reshape may split a loop in two; a form that was made before that is brought up to date by
``Space.resolve``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

Form = tuple[int, tuple[tuple[int, int], ...]]  # constant, sorted (loop, coefficient) pairs
Map = tuple[Form, ...]

ZERO: Form = (0, ())


class NoMap(Exception):
    """An index that is no affine function of the loops."""


class Space:
    """The loops of one kernel, by number; a loop that was split is replaced by two.

    Attributes:
        sizes: the number of iterations of each loop.
        splits: of a loop that was split: the outer loop, the inner loop.
        given: what is known of sizes for which numbers stand here (``extents.Sizes``), or None.
    """

    __slots__ = ("given", "sizes", "splits")

    def __init__(self) -> None:
        self.given: Any = None
        self.sizes: list[int] = []
        self.splits: dict[int, tuple[int, int]] = {}

    def loop(self, size: int) -> int:
        """A new loop."""
        self.sizes.append(size)
        return len(self.sizes) - 1

    def axis(self, size: int) -> Form:
        """A new loop as a form; zero for an axis of size 1."""
        return ZERO if size == 1 else (0, ((self.loop(size), 1),))

    def split(self, loop: int, inner: int) -> tuple[int, int]:
        """Replace ``loop`` by an outer and an inner one, the latter of ``inner`` iterations."""
        pair = self.loop(self.sizes[loop] // inner), self.loop(inner)
        self.splits[loop] = pair
        return pair

    def resolve(self, form: Form) -> Form:
        """The form in terms of the loops that exist now."""
        splits = self.splits
        if not splits or not any(d in splits for d, _ in form[1]):
            return form
        terms: dict[int, int] = {}
        todo = list(form[1])
        while todo:
            d, c = todo.pop()
            if d in splits:
                outer, inner = splits[d]
                todo += [(outer, c * self.sizes[inner]), (inner, c)]
            else:
                terms[d] = terms.get(d, 0) + c
        return form[0], tuple(sorted(terms.items()))

    def resolve_map(self, index: Map) -> Map:
        """``resolve`` of each form."""
        return tuple([self.resolve(f) for f in index]) if self.splits else index

    def loops_of(self, index: Map) -> set[int]:
        """The loops that a map depends on."""
        return {d for form in index for d, _ in self.resolve(form)[1]}

    def reshape(self, index: Map, new: Sequence[int], old: Sequence[int]) -> Map:
        """Through ``reshape``: a map of the shape ``new`` as one of the shape ``old``.

        The linear index falls apart into digits, the last axis of ``old`` first: (i, j) of (4, 6)
        is 6i + j; in (2, 12) that is (i // 2, 6 (i % 2) + j), so that i is split in two loops.

        Raises:
            NoMap: if the parts of the linear index do not fall into the axes of ``old``.
            NoExtentsError: if they fall there for the numbers at hand, and perhaps not for the
                sizes for which these stand: place 5 of (3, n), in one line, is in the first row
                only if n > 5.
        """
        constant, terms = self.resolve(linear(index, new))
        for _, c in terms:
            if c < 0:
                raise NoMap
        todo = sorted(terms, key=lambda t: t[1])
        out: list[Form] = []
        sizes = self.sizes
        stride = 1
        for size in reversed(old):
            end = stride * size
            mine: dict[int, int] = {}
            top = constant // stride % size
            own = top
            later = []
            for d, c in todo:
                if c >= end:
                    later.append((d, c))
                    continue
                if c % stride:
                    raise NoMap
                if c * (sizes[d] - 1) >= end:  # it reaches into the next axis
                    inner, rest = divmod(end, c)
                    if rest or sizes[d] % inner or d in mine:
                        raise NoMap
                    hi, lo = self.split(d, inner)
                    later.append((hi, end))
                    d = lo
                mine[d] = mine.get(d, 0) + c // stride
                top += (c // stride) * (sizes[d] - 1)
            if top >= size:
                raise NoMap
            if self.given is not None:
                most: list[Any] = [own, 1]
                for d, c in mine.items():
                    most.extend(((c, sizes[d]), -c))
                self.given.ensure(most, [size])
            out.append((own, tuple(sorted(mine.items()))))
            todo = sorted(later, key=lambda t: t[1])
            stride = end
        if todo:
            raise NoMap
        out.reverse()
        return tuple([self.resolve(f) for f in out])


def strides_of(shape: Sequence[int]) -> list[int]:
    """Elements from one index to the next along each axis of a dense array."""
    out = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        out[i] = out[i + 1] * shape[i + 1]
    return out


def add(*forms: Form) -> Form:
    """The sum."""
    constant, terms = 0, dict[int, int]()
    for c, pairs in forms:
        constant += c
        for d, k in pairs:
            terms[d] = terms.get(d, 0) + k
    return constant, tuple(sorted([(d, k) for d, k in terms.items() if k]))


def scale(form: Form, factor: int, offset: int = 0) -> Form:
    """``form * factor + offset``."""
    if factor == 1 and not offset:
        return form
    if not factor:
        return offset, ()
    return form[0] * factor + offset, tuple([(d, c * factor) for d, c in form[1]])


def linear(index: Map, shape: Sequence[int]) -> Form:
    """Which element of a dense array of ``shape``."""
    parts = [scale(f, s) for f, s in zip(index, strides_of(shape)) if f != ZERO]
    return parts[0] if len(parts) == 1 else add(*parts)


def broadcast(index: Map, shape: Sequence[int]) -> Map:
    """The map of an operand of ``shape`` that is broadcast to what ``index`` maps."""
    lead = len(index) - len(shape)
    return tuple([ZERO if n == 1 else index[lead + i] for i, n in enumerate(shape)])


def through(space: Space, node: Any, index: Map) -> Map:
    """The map of a view's argument, given the map of its result.

    Args:
        space: whose loops may be split.
        node: a reshape, transpose, broadcast_to, slice, flip or stop_gradient.
        index: of the result.

    Raises:
        NoMap: for a reshape that takes the loops apart.
    """
    name, params = node.primitive.name, node.params
    shape = node.inputs[0].spec.shape
    if name == "stop_gradient":
        return index
    if name == "reshape":
        return space.reshape(index, node.outs[0].spec.shape, shape)
    if name == "transpose":
        out: list[Form] = [ZERO] * len(shape)
        for form, a in zip(index, params["axes"]):
            out[a] = form
        return tuple(out)
    if name == "broadcast_to":
        return broadcast(index, shape)
    if name == "flip":
        axes = params["axes"]
        return tuple([scale(f, -1, n - 1) if i in axes else f
                      for i, (f, n) in enumerate(zip(index, shape))])  # fmt: skip
    if name == "slice":
        rest, drop = iter(index), params.get("drop", ())
        found = []
        for i, (start, step) in enumerate(zip(params["start"], params["step"])):
            form = ZERO if i in drop else next(rest)
            found.append(scale(form, step, start))
        return tuple(found)
    raise NoMap


# what ``through`` knows
VIEWS = frozenset(("reshape", "transpose", "broadcast_to", "slice", "flip", "stop_gradient"))


def covers(space: Space, index: Map, shape: Sequence[int], loops: Sequence[int]) -> bool:
    """Whether the map takes every element of ``shape`` once as ``loops`` run."""
    constant, terms = space.resolve(linear(index, shape))
    if constant:
        return _covers_flipped(space, index, shape, loops)
    wanted = {d for d in loops if space.sizes[d] > 1}
    at = 1
    for d, c in sorted(terms, key=lambda t: t[1]):
        if d not in wanted or c != at:
            return False
        wanted.discard(d)
        at *= space.sizes[d]
    return not wanted and at == prod(shape)


def _covers_flipped(space: Space, index: Map, shape: Sequence[int], loops: Sequence[int]) -> bool:
    plain = tuple([(0, tuple([(d, abs(c)) for d, c in f[1]])) for f in index])
    for form in index:
        low = form[0] + sum([min(0, c * (space.sizes[d] - 1)) for d, c in form[1]])
        if low:
            return False
    return covers(space, plain, shape, loops)
