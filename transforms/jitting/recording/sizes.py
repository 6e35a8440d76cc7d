"""Recording of sizes: what Python is told of shapes while arguments of other sizes are known.

A program that serves any size (``short/lengths.py``) must not hold what Python made of one of them.
So the user, who asks for a shape, is told numbers that stand for the sizes that vary: what is done
with them is noted as of a number that is an argument, and where they go into shapes again, those
are lengths that vary. Every other reader of a shape is noted with what it was told, but for those
of ``indifferent.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fx.frames import is_internal
from fx.transforms.jitting.program import SIZE, Program
from fx.transforms.jitting.recording.indifferent import INDIFFERENT, USER, makes_shape, reader

_CALLS = 160  # LOAD_METHOD of CPython 3.11: what is looked up is called at once


class SizeRecording:
    """The part of a recording that knows who is told sizes."""

    program: Program
    measured = False  # whether sizes, or lengths of slices, may vary
    varying: Mapping[int, tuple[int, int]] = MappingProxyType({})  # with an argument and its axis

    if TYPE_CHECKING:

        def _number(self, place: Any, now: Any) -> Any: ...

    def varies(self, axes: Sequence[tuple[int, int]], tensors: Sequence[Any]) -> None:
        """Which sizes of arguments other programs have others of."""
        self.measured, found = True, {}
        for place, axis in axes:
            n = tensors[place].shape[axis]
            if n > 1:  # one and none are not as others are
                found.setdefault(n, (place, axis))
        self.varying = found

    def tells(self, shape: Any, own: bool = False) -> Any:
        """Note what shapes somebody is told, which may be sizes that vary."""
        if not self.measured:
            return shape
        who = reader()
        if who is INDIFFERENT:
            return shape
        if who is USER and own and any(n in self.varying for n in shape):
            told = tuple([self._size(n) for n in shape])
            self.was_told(tuple([self.varying.get(n, n) for n in shape]))
            return told
        self.was_told(shape)
        return shape

    def was_told(self, shape: Any) -> None:
        """Note what somebody was told otherwise, or at another time."""
        self.program.shapes = hash((self.program.shapes, shape))

    def serves_sizes(self) -> bool:
        """Whether what is staged may serve other sizes, or lengths, than are at hand."""
        return self.measured

    def called(self, x: Any) -> Any:
        """What ``x.size`` is for a user who calls it at once; None where it is a number."""
        frame: Any = sys._getframe(2)
        code = frame.f_code
        if not self.measured or is_internal(code.co_filename):
            return None
        if code.co_code[frame.f_lasti] != _CALLS:
            return None

        def called_size(dim: Any = None) -> Any:
            return x.shape if dim is None else x.shape[dim]

        return called_size

    def becomes_length(self, number: Any) -> bool:
        """Whether a number that is computed of sizes alone is asked for to be one of a shape."""
        if not self.measured or not self.of_sizes(number.host):
            return False
        return makes_shape()

    def of_sizes(self, host: Any) -> bool:
        """Whether a number is computed of nothing but sizes of arguments."""
        return is_of_sizes(self.program, host)

    def _size(self, n: int) -> Any:
        place = self.varying.get(n)
        return n if place is None else self._number((SIZE, place), n)


def is_of_sizes(program: Program, host: Any) -> bool:
    """Whether a number is computed of nothing but sizes of arguments."""
    table = program.table
    if table.is_drawn(host.place) or table.items_of(host.place):
        return False
    return all(program.numbers[i][0] is SIZE for i in table.roots([host.place]))
