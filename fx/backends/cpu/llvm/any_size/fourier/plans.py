"""Which kernels a transform calls, with what, for eager calls and compiled graphs alike.

What is chosen depends on shapes and dtypes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from fx import limits
from fx.backends.cpu.llvm.any_size.fourier import tables
from fx.backends.cpu.llvm.any_size.fourier import words as kernels
from fx.backends.cpu.llvm.machines import target

READ, OUT, BETWEEN = range(3)  # the arrays: what is given, the result, memory of its own
_LANES_MOST = 1 << 12  # complex points: of transforms side by side, at most
_ROWS_MOST = 1 << 7  # of rows that are transposed for that, where one row would do
_TOGETHER = 4  # stages: of one call, at most


class Stage(NamedTuple):
    """Transforms along one axis, by one of the ways of this package.

    Args:
        way: its name.
        source, target: arrays: what it reads and what it writes.
        table: what names its table: kind, whether for half spectra, points, width, letter.
        scale: what sums are multiplied by.
        numbers: the words from KIND_IN to BEFORE_OUT.
        tasks, price: how many there are, and nanoseconds of one.
        room: bytes of scratch memory.
    """

    way: str
    source: int
    target: int
    table: tuple[str, bool, int, int, str]
    scale: float
    numbers: tuple[int, ...]
    tasks: int
    price: float
    room: int


class Call(NamedTuple):
    """A call of a kernel: of each of ``tasks`` pieces of an array all stages."""

    tasks: int
    stages: tuple[Stage, ...]

    @property
    def kernel(self) -> tuple[str, str, str]:
        """Group, name and letter."""
        way = self.stages[0].way
        name = next(name for name, ways in kernels.KERNELS.items() if way in ways)
        return "fourier", name, self.stages[0].table[-1]

    @property
    def price(self) -> float:
        """Nanoseconds of a task."""
        return sum([s.tasks * s.price for s in self.stages]) / self.tasks

    @property
    def room(self) -> int:
        """Bytes of scratch memory."""
        return max([s.room for s in self.stages])

    def words(
        self, source: Any, target: Any, table: Callable[..., Any], scratch: Any, room: int,
        chunk: int,
    ) -> list[Any]:  # fmt: skip
        """What the kernel takes behind its tasks.

        Args:
            source, target: the arrays of the call; stages but the first one go on in the second.
            table: makes a table.
            scratch: where memory is for each so many tasks, ``chunk``, or None for the stack.
            room: of that for each, in units of 16 bytes.
            chunk: how many.
        """
        words: list[Any] = [len(self.stages)]
        for s in self.stages:
            each = s.tasks // self.tasks
            words += [
                kernels.WAYS.index(s.way), each, source, target, table(*s.table), s.scale,
                *s.numbers, scratch, room, chunk * each,
            ]  # fmt: skip
            source = target
        return words


class Transform(NamedTuple):
    """The calls of a primitive, and how many real numbers the memory of its own has."""

    calls: tuple[Call, ...]
    between: int = 0


class _Line(NamedTuple):
    """One axis of an array: what the kernels are told of it.

    Attributes:
        before, after: elements before and after the axis.
        lines: places before that belong together.
        n: complex points of the passes.
        kind_in, kind_out, inverse, form: words of the kernels.
        given, made: points along the axis as these kinds count them, in and out.
        scale: what sums are multiplied by.
    """

    before: int
    after: int
    lines: int
    n: int
    kind_in: int
    kind_out: int
    inverse: int
    form: int
    given: int
    made: int
    scale: float

    @property
    def halved(self) -> bool:
        """Whether pairs of real numbers are points."""
        return self.form in (kernels.TO_HALF, kernels.FROM_HALF)


def _stages(line: _Line, char: str, source: int) -> tuple[list[Stage], int] | None:
    """The stages of transforms along one axis and what is between; None where it has no kernel."""
    width = target().vector_bytes // np.dtype(char).itemsize
    if tables.radices(line.n) is None:
        return None
    if line.after > 1:
        return _side_by_side(line, char, source, width)
    there = {kernels.PAIRS: kernels.COMPLEX}  # of a row they lie as complex numbers do
    kind_in, kind_out = line.kind_in, line.kind_out
    line = line._replace(
        kind_in=there.get(kind_in, kind_in), kind_out=there.get(kind_out, kind_out)
    )
    odd = kernels.REALS in (kind_in, kind_out) and line.made != line.given
    whole = tables.cut(line.n, width)[1] == 1
    lanes = (line.lines >= width // 2 and line.n <= _ROWS_MOST) or line.n < width
    if odd or whole or lanes:
        return _side_by_side(line, char, source, width)
    return _long(line, char, source, width)


def _size(kind: int, count: int) -> int:
    """Real numbers of so many points."""
    return count * (1 if kind == kernels.REALS else 2)


def _numbers(line: _Line, lines: int) -> tuple[int, ...]:
    return (
        line.kind_in, line.kind_out, line.inverse, line.form, line.given, line.made, lines,
        _size(line.kind_in, line.given) * line.after,
        _size(line.kind_out, line.made) * line.after,
    )  # fmt: skip


def _side_by_side(
    line: _Line, char: str, source: int, width: int
) -> tuple[list[Stage], int] | None:
    if line.n > _LANES_MOST:
        return None
    columns = line.after > 1
    price = line.n * (3.0 + 1.2 * float(np.log2(line.n + 1)))
    lines = line.after if columns else line.lines
    tasks = -(-lines // width) * (line.before if columns else line.before // lines)
    room = 4 * width * (line.n + 1 + width) * np.dtype(char).itemsize + 64
    name = "columns" if columns else "rows"
    table, numbers = ("lanes", line.halved, line.n, width, char), _numbers(line, lines)
    return [Stage(name, source, OUT, table, line.scale, numbers, tasks, price, room)], 0


def _long(line: _Line, char: str, source: int, width: int) -> tuple[list[Stage], int]:
    """Rows one by one, or in halves."""
    size, rows = np.dtype(char).itemsize, line.before
    large = line.n > limits.FOURIER_ROW
    table = ("halves" if large else "row", line.halved, line.n, width, char)
    n1, n2 = tables.cut(line.n, width)
    vectors, others = -(-n1 // width), -(-n2 // width)
    between = vectors * others * width * 2 * width
    price = line.n * (1.0 + 0.15 * float(np.log2(line.n))) * size / 8
    room = (4 * max(n1, n2) * width + between) * size + 64
    whole = Stage("long", source, OUT, table, line.scale, _numbers(line, rows), rows, price, room)
    if not large:
        return [whole], 0
    ends = whole._replace(price=line.n * 2.0, room=64)
    pitch = kernels.BEFORE_IN - kernels.KIND_IN
    inside = list(whole.numbers)
    stages = []
    if line.form == kernels.FROM_HALF:
        stages.append(ends._replace(way="from_half"))
        inside[pitch], source = 2 * line.n, OUT
    numbers = tuple(inside)
    stages += [
        Stage("first", source, BETWEEN, table, line.scale, numbers, rows * others, price / others,
              4 * n1 * width * size + 64),
        Stage("second", BETWEEN, OUT, table, line.scale, numbers, rows * vectors, price / vectors,
              2 * n2 * width * size + 64),
    ]  # fmt: skip
    if line.form == kernels.TO_HALF:
        inside[pitch] = whole.numbers[pitch + 1]
        stages.append(ends._replace(way="to_half", source=OUT, numbers=tuple(inside)))
    return stages, rows * between


def _transform(lines: Sequence[_Line], char: str, planes: int, size: int) -> Transform | None:
    """The calls of some axes, one after the other.

    Args:
        lines: what is told of each.
        char: the letter of the real numbers.
        planes: independent pieces of the array.
        size: bytes of one, of the result.
    """
    stages: list[Stage] = []
    between, source = 0, READ
    for line in lines:
        found = _stages(line, char, source)
        if found is None:
            return None
        stages += found[0]
        between = max(between, found[1])
        source = OUT
    together = len(stages) in range(2, _TOGETHER + 1) and not between and size <= limits.NEAR_MEMORY
    if together:
        return Transform((Call(planes, tuple(stages)),))
    return Transform(tuple([Call(s.tasks, (s,)) for s in stages]), between)


# the primitives ---------------------------------------------------------------------------------

_REAL = {"f": "f", "d": "d", "F": "f", "D": "d"}


def _around(shape: tuple[int, ...], axis: int) -> tuple[int, int]:
    return prod(shape[:axis]), prod(shape[axis + 1 :])


def _whole(shape: tuple[int, ...], kind: int) -> _Line:
    """All numbers of an array as they are: transforms of one point."""
    return _Line(1, prod(shape), 1, 1, kind, kernels.COMPLEX, 0, kernels.PLAIN, 1, 1, 1.0)


def _along(
    shape: tuple[int, ...], axes: Sequence[int], kind: int, inverse: bool, scale: float, planes: int
) -> list[_Line]:
    """Complex transforms along axes of a shape, the last one first; ``kind`` is what is read."""
    lines = []
    for axis in sorted(axes, reverse=True):
        n, (before, after) = shape[axis], _around(shape, axis)
        lines.append(_Line(
            before, after, before // planes, n, kind, kernels.COMPLEX, int(inverse),
            kernels.PLAIN, n, n, float(n) ** scale,
        ))  # fmt: skip
        kind = kernels.COMPLEX
    return lines


def _planes(shape: tuple[int, ...], axes: Sequence[int]) -> int:
    """How many pieces of a shape are independent; those of one axis stay together."""
    return prod(shape[: min(axes)]) if len(axes) > 1 else 1


def fft(x: Any, *, axes: tuple[int, ...], inverse: bool, scale: float) -> Transform | None:
    """The calls of ``fft``."""
    char = _REAL.get(x.dtype.char)
    if char is None or not prod(x.shape):
        return None
    kind = kernels.COMPLEX if x.dtype.kind == "c" else kernels.REALS
    if not axes:
        return _transform([_whole(x.shape, kind)], char, 1, 0)
    planes = _planes(x.shape, axes)
    lines = _along(x.shape, axes, kind, inverse, scale, planes)
    return _transform(lines, char, planes, prod(x.shape) // planes * 2 * np.dtype(char).itemsize)


def rfft(x: Any, *, axes: tuple[int, ...], scale: float) -> Transform | None:
    """The calls of ``rfft``: half the spectrum along the last axis, then the others of that."""
    if x.dtype.char not in "fd" or not prod(x.shape):
        return None
    *others, last = axes
    planes, n, (before, after) = _planes(x.shape, axes), x.shape[last], _around(x.shape, last)
    n_in, kind, form = (
        (n, kernels.REALS, kernels.PLAIN) if n % 2 else (n // 2, kernels.PAIRS, kernels.TO_HALF)
    )
    half = n // 2 + 1
    first = _Line(
        before, after, before // planes, n_in, kind, kernels.COMPLEX, 0, form, n_in, half,
        float(n) ** scale,
    )  # fmt: skip
    shape = (*x.shape[:last], half, *x.shape[last + 1 :])
    lines = [first, *_along(shape, others, kernels.COMPLEX, False, scale, planes)]
    size = prod(shape) // planes * 2 * x.dtype.itemsize
    return _transform(lines, x.dtype.char, planes, size)


def irfft(x: Any, *, axes: tuple[int, ...], n: int, scale: float) -> Transform | None:
    """The calls of ``irfft``: along all axes but the last, then real numbers along that."""
    char = _REAL.get(x.dtype.char)
    if char is None or not prod(x.shape):
        return None
    *others, last = axes
    before, after = _around(x.shape, last)
    n_out, kind, form = (
        (n, kernels.REALS, kernels.ODD_FROM_HALF) if n % 2
        else (n // 2, kernels.PAIRS, kernels.FROM_HALF)
    )  # fmt: skip
    line = _Line(
        before, after, before, n_out, kernels.COMPLEX, kind, 1, form, n // 2 + 1, n_out,
        float(n) ** scale,
    )  # fmt: skip
    if x.dtype.kind == "c" and not others:
        return _transform([line], char, 1, 0)
    # what is half a spectrum in the end, complex numbers, lies in memory of its own
    given = kernels.COMPLEX if x.dtype.kind == "c" else kernels.REALS
    lines = _along(x.shape, others, given, True, scale, 1) or [_whole(x.shape, given)]
    stages: list[Stage] = []
    for one in lines:
        found = _stages(one, char, BETWEEN if stages else READ)
        if found is None or found[1]:
            return None
        stages += [s._replace(target=BETWEEN) for s in found[0]]
    found = _stages(line, char, BETWEEN)
    if found is None:
        return None
    calls = [Call(s.tasks, (s,)) for s in (*stages, *found[0])]
    return Transform(tuple(calls), max(2 * prod(x.shape), found[1]))


PLANS = {"fft": fft, "rfft": rfft, "irfft": irfft}
