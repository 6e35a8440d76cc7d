"""Epilogue: what is computed from the elements of a product before they are stored.

Whoever fuses elementwise work into a product hands ``gemm.product(node, epilogue)`` an
``Epilogue`` and gets a list of Steps, the last of which reads the factors and ``epilogue.reads``
and writes ``epilogue.writes`` (one before it may pack a factor)::

    class BiasReLU:
        reads = (bias,)  # values whose arrays are needed besides the factors
        writes = (out,)  # what is stored: row major, as many elements as the product
        key = ("bias, relu",)  # what the code of ``emit`` depends on
        light = True  # few instructions: emitted once a register, not once a row
        cost = 0.1  # nanoseconds an element
        inplace = ()  # optional, see below

        def emit(self, b, x, at):
            return [maximum(b, b.fadd(x, at.operand(0)), 0)]

``emit(b, x, at)`` gets an ``ir.IRBuilder`` that stands where code is to be emitted (it may add
blocks, and leaves the builder where code goes on), and ``x``, a vector of ``at.width`` elements of
the product that lie one after the other in memory, in the type in which they are computed: float
for float32, float16 and bfloat16 (not yet rounded to 16 bits), double for float64. It returns one
vector of the same width for each of ``writes``, in the type in which that dtype is computed
(``vectors.compute_type``: float for the 16-bit ones, i8 for bool). Lanes that ``at.mask`` turns
off hold zeros or garbage; what is computed from them is not stored. A pair (i, j) of ``inplace``
says that ``writes[i]`` may be given the memory of ``reads[j]``: an element of it must be needed
for the element of the result at the same place only, as when a parameter is updated.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import prod
from typing import Any, Protocol

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.graph.ir import Value


class Epilogue(Protocol):
    """What ``gemm.product`` takes; see the module."""

    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    key: Hashable
    light: bool
    cost: float
    # and, where it makes sense, inplace: tuple[tuple[int, int], ...]

    def emit(self, b: ir.IRBuilder, x: ir.Value, at: Place) -> Sequence[ir.Value]:
        """The vectors to store, one for each of ``writes``."""


class Place:
    """Where a vector of elements of the product stands.

    Attributes:
        width: the number of lanes.
        mask: which lanes are live, <width x i1>; None if all are.
        index: i64, the position of the first lane in the product, seen as one row-major array.
        pointers: the arrays of the epilogue's ``reads``.
        shape: the shape of the product, (*batch, rows, columns).
        axis: the axis of ``shape`` along which the lanes go: the last one that is longer than 1.
    """

    __slots__ = (
        "_axes",
        "_b",
        "_lane",
        "_line",
        "axis",
        "index",
        "mask",
        "pointers",
        "reads",
        "shape",
        "width",
    )  # fmt: skip

    def __init__(
        self,
        b: ir.IRBuilder,
        line: ir.Value,
        lane: ir.Value,
        mask: ir.Value | None,
        width: int,
        shape: tuple[int, ...],
        reads: Sequence[Value],
        pointers: Sequence[ir.Value],
    ) -> None:
        self._b = b
        self._line = line  # the number of the row, counted over all axes before ``axis``
        self._lane = lane  # the position of the first lane along ``axis``
        self.axis = len(shape) - 1 if shape[-1] > 1 else len(shape) - 2
        self.mask = mask
        self.width = width
        self.shape = shape
        self.reads = reads
        self.pointers = pointers
        self.index = v.add(b, v.times(b, line, shape[self.axis]), lane)
        self._axes: list[ir.Value] | None = None

    def axes(self) -> list[ir.Value]:
        """The position of the first lane along each axis of ``shape``, i64."""
        if self._axes is None:
            rest = self._line
            found = [v.const(0)] * len(self.shape)
            found[self.axis] = self._lane
            for i in range(self.axis - 1, -1, -1):
                first = not any(n > 1 for n in self.shape[:i])
                rest, found[i] = (v.const(0), rest) if first else v.split(
                    self._b, rest, self.shape[i]
                )  # fmt: skip
            self._axes = found
        return self._axes

    def offset(self, shape: tuple[int, ...]) -> ir.Value:
        """The position of the first lane in a dense array whose shape broadcasts to ``shape``."""
        if prod(shape) == prod(self.shape):
            return self.index
        found = v.const(0)
        lead = len(self.shape) - len(shape)
        for i, n in enumerate(shape):
            if n > 1:
                stride = prod(shape[i + 1 :])
                found = v.add(self._b, found, v.times(self._b, self.axes()[lead + i], stride))
        return found

    def operand(self, i: int) -> ir.Value:
        """The lanes of ``reads[i]``, whose shape broadcasts to that of the product: a vector.

        In the type in which its dtype is computed.
        """
        spec = self.reads[i].spec
        return self.load(self.pointers[i], spec.shape, spec.dtype)

    def load(self, pointer: ir.Value, shape: tuple[int, ...], dtype: Any) -> ir.Value:
        """The same for any dense array."""
        b, kind = self._b, v.memory_type(dtype)
        address = v.at(b, pointer, self.offset(shape), kind)
        place = self.axis - (len(self.shape) - len(shape))
        if place < 0 or shape[place] == 1:
            one = b.load(address, align=v.size_of(kind), typ=kind)
            return v.splat(b, v.widen(b, one, dtype), self.width)
        return v.widen(b, v.load(b, address, kind, self.width, self.mask), dtype)
