"""Cumulative operations: each element of a line from the one before it.

Lines beside each other are the lanes of a vector, and are done side by side, place by place. What
adds or multiplies floats carries them in float64, so that errors do not pile up along a line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir

from fx import limits
from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.vecmath import arithmetic, logarithm
from fx.backends.cpu.llvm.vecmath.algebra import Int, Mask, Num, any_lane
from fx.backends.cpu.llvm.vecmath.casts import load_convert, rounded, store_convert, term
from fx.backends.cpu.llvm.vecmath.outlined import outlined
from fx.dtypes import FLOATING, float64, int64

Rule = Callable[[Any, list[Any], list[Any]], list[Any]]


class _Scan(NamedTuple):
    """What a scan does, for a dtype.

    Attributes:
        first: ``first(place, elements, [])`` gives what the first element of a line leaves.
        following: ``following(place, elements, carried)`` gives what another leaves; what is
            carried is stored, one value an output.
        inputs: how many arrays it reads.
        placed: whether it writes places (int64), too.
        wide: whether floats are float64 to the rules, and carried as that.
        wins: ``wins(elements, carried)``, of a scan whose ``following`` leaves what is carried
            alone where that is false.
    """

    first: Rule
    following: Rule
    inputs: int = 1
    placed: bool = False
    wide: bool = True
    wins: Callable[[list[Any], list[Any]], Any] | None = None


def _itself(place: Int, x: list[Any], _: list[Any]) -> list[Any]:
    return [x[0]]


def _combined(operation: Callable[..., Any]) -> Callable[[Any], _Scan]:
    def scan(dtype: Any) -> _Scan:
        carried = float64 if dtype in FLOATING else dtype
        return _Scan(_itself, lambda _, x, c: [operation(carried, c[0], x[0])])

    return scan


def _logaddexp(_: Int, x: list[Num], c: list[Num]) -> list[Num]:
    return [outlined("logaddexp", logarithm.logaddexp, c[0], x[0])]


def _record(relation: Callable[..., Any]) -> Callable[[Any], _Scan]:
    """The extreme so far, NaN above all, and the place where it was met last."""

    def scan(dtype: Any) -> _Scan:
        def wins(x: list[Any], c: list[Any]) -> Any:
            found = relation(dtype, x[0], c[0])
            return found | x[0].isnan() if isinstance(x[0], Num) else found

        def following(place: Int, x: list[Any], c: list[Any]) -> list[Any]:
            new = wins(x, c)
            return [new.pick(x[0], c[0]), new.pick(place, c[1])]

        first: Rule = lambda place, x, _: [x[0], place]
        return _Scan(first, following, placed=True, wide=False, wins=wins)

    return scan


_SCANS: dict[str, Callable[[Any], _Scan]] = {
    "cumsum": _combined(arithmetic.add),
    "cumprod": _combined(arithmetic.multiply),
    "cummax": _record(arithmetic.greater_equal),
    "cummin": _record(arithmetic.less_equal),
    "logcumsumexp": lambda dtype: _Scan(_itself, _logaddexp),
    "recurrence": lambda dtype: _Scan(
        lambda _, x, c: [x[1]], lambda _, x, c: [x[0] * c[0] + x[1]], inputs=2
    ),
}


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add a scan: ``reads writes n after reverse``, of arrays (before, n, after).

    A task is a row of them, of at most ``limits.SCAN_COLUMNS`` columns.
    """
    kinds = [v.pointer, v.i64, v.i64, v.pointer]
    function = ir.Function(module, ir.FunctionType(v.void, kinds), name)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    table, begin, end, _ = function.args
    kernel = _Kernel(b, dtype, _SCANS[name](dtype), table)
    most = v.const(limits.SCAN_COLUMNS)
    blocks = b.udiv(b.add(kernel.after, v.const(limits.SCAN_COLUMNS - 1)), most)
    with v.turns(b, begin, end) as task:
        row = b.mul(b.udiv(task, blocks), b.mul(kernel.n, kernel.after))
        low = b.mul(b.urem(task, blocks), most)
        high = v.smaller(b, b.add(low, most), kernel.after)
        few = b.icmp_signed("<", kernel.after, v.const(kernel.lanes))
        with b.if_else(few) as (alone, beside):
            with alone, v.turns(b, low, high) as column:
                kernel.alone(b.add(row, column))
            with beside:
                kernel.side_by_side(b.add(row, low), b.sub(high, low))
    b.ret_void()


class _Kernel:
    def __init__(self, b: Any, dtype: Any, scan: _Scan, table: Any) -> None:
        self.b, self.dtype, self.scan = b, dtype, scan
        self.outs = [dtype, int64] if scan.placed else [dtype]
        self.lanes = min(v.lanes_for(dtype), 16)
        arrays = scan.inputs + len(self.outs)
        words = [
            b.load(v.at(b, table, i, v.i64), typ=v.pointer if i < arrays else v.i64, align=8)
            for i in range(arrays + 3)
        ]
        self.reads, self.writes = words[: scan.inputs], words[scan.inputs : arrays]
        self.n, self.after, reverse = words[arrays:]
        backwards = b.icmp_signed("!=", reverse, v.const(0))
        self.start = b.select(backwards, b.sub(self.n, v.const(1)), v.const(0))
        self.step = b.select(backwards, v.const(-1), v.const(1))
        self.wide = scan.wide and dtype in FLOATING and dtype != float64
        # float64 of what is carried, for side_by_side: (outputs, columns)
        room = limits.SCAN_COLUMNS * len(self.outs) if self.wide else 0
        self.carried = v.room(b, v.f64, room) if room else None

    def _read(self, array: Any, at: Any, dtype: Any, width: int | None) -> Any:
        raw = v.load_item(self.b, array, at, dtype, width)
        found = term(self.b, load_convert(self.b, raw, dtype), dtype)
        return found.to(v.f64) if self.wide else found

    def _elements(self, at: Any, width: int | None) -> list[Any]:
        return [self._read(array, at, self.dtype, width) for array in self.reads]

    def _write(self, values: list[Any], at: Any) -> None:
        b = self.b
        for array, value, dtype in zip(self.writes, values, self.outs, strict=True):
            value = value.to(v.f32) if self.wide else value
            value = rounded(value, dtype) if dtype in v.NARROW else value
            v.store_item(b, store_convert(b, value.v, dtype), array, at, dtype)

    def alone(self, base: Any) -> None:
        """One line; what is carried stays in registers."""
        b = self.b
        at = b.add(base, b.mul(self.start, self.after))
        carried = self.scan.first(Int(b, self.start), self._elements(at, None), [])
        self._write(carried, at)
        done, kinds = v.const(1), [type(c) for c in carried]
        state = [c.v for c in carried]
        if self.scan.wins is not None:
            dense = b.icmp_signed("==", self.after, v.const(1))
            last = b.sub(self.n, v.const(1))
            blocks = b.select(dense, b.sdiv(last, v.const(self.lanes)), v.const(0))
            turns = v.Turns(b, state)
            with turns.range(0, blocks) as i:
                done = b.add(b.mul(i, v.const(self.lanes)), v.const(1))
                turns.values = self._block(base, done, turns.values, kinds)
            state = turns.values
            done = b.add(b.mul(blocks, v.const(self.lanes)), v.const(1))
        self._line(base, done, self.n, state, kinds)

    def _line(self, base: Any, done: Any, stop: Any, state: list[Any], kinds: list[Any]) -> None:
        """The turns ``done`` to ``stop`` of a line, element by element."""
        b = self.b
        stride = b.mul(self.step, self.after)
        before = b.add(self.start, b.mul(self.step, b.sub(done, v.const(1))))
        turns = v.Turns(b, [before, b.add(base, b.mul(before, self.after)), *state])
        with turns.range(done, stop):
            place, at = b.add(turns.values[0], self.step), b.add(turns.values[1], stride)
            old = [kind(b, value) for kind, value in zip(kinds, turns.values[2:])]
            new = self.scan.following(Int(b, place), self._elements(at, None), old)
            self._write(new, at)
            turns.values = [place, at, *[c.v for c in new]]

    def _block(self, base: Any, done: Any, state: list[Any], kinds: list[Any]) -> list[Any]:
        """A vector of a dense line: where none of its elements wins, what is carried is written."""
        b, wins = self.b, self.scan.wins
        assert wins is not None
        end = b.add(done, v.const(self.lanes - 1))
        sides = [b.add(self.start, b.mul(self.step, turn)) for turn in (done, end)]
        at = b.add(base, v.smaller(b, *sides))
        spread = [kind(b, v.splat(b, x, self.lanes)) for kind, x in zip(kinds, state)]
        some = any_lane(b, wins(self._elements(at, self.lanes), spread).v)
        with b.if_else(some, likely=False) as (new, old):
            with new:
                found = self._prefixes(done, at, spread)
                left = b.block
            with old:
                self._write(spread, at)
                right = b.block
        out = []
        for x, y in zip(found, state):
            phi = b.phi(y.type)
            phi.add_incoming(x, left)
            phi.add_incoming(y, right)
            out.append(phi)
        return out

    def _prefixes(self, done: Any, at: Any, carried: list[Any]) -> list[Any]:
        """The same where some wins: records of 2, 4, ... neighbours, and then what is carried."""
        b, wins, lanes = self.b, self.scan.wins, self.lanes
        assert wins is not None
        back = Mask(b, v.splat(b, b.icmp_signed("<", self.step, v.const(0)), lanes))

        def turned(x: Any) -> Any:
            return back.pick(type(x)(b, v.backwards(b, x.v)), x)

        x = turned(self._elements(at, lanes)[0])
        lane = Int(b, v.numbers(v.i32, range(lanes)))
        gap = 1
        while gap < lanes:
            shift = [max(i - gap, 0) for i in range(lanes)]
            y, place = (type(z)(b, v.shuffle(b, z.v, z.v, shift)) for z in (x, lane))
            own = wins([x], [y])  # a record of what has the first element keeps it
            x, lane, gap = own.pick(x, y), own.pick(lane, place), 2 * gap
        step = Int(b, v.splat(b, self.step, lanes))
        here = Int(b, v.splat(b, b.add(self.start, b.mul(self.step, done)), lanes))
        new = wins([x], carried)
        values = [new.pick(x, carried[0]), new.pick(here + step * lane.to(v.i64), carried[1])]
        self._write([turned(z) for z in values], at)
        return [b.extract_element(z.v, v.i32(lanes - 1)) for z in values]

    def side_by_side(self, base: Any, count: Any) -> None:
        """Some lines beside each other, place by place."""
        b = self.b

        def some(place: Any, before: Any) -> Any:
            """The elements at a place; ``before`` is where the row before it begins, if it does."""
            row = b.add(base, b.mul(place, self.after))

            def body(column: Any, width: int | None) -> None:
                at = b.add(row, column)
                here = Int(b, place if width is None else v.splat(b, place, width))
                elements = self._elements(at, width)
                if before is None:
                    new = self.scan.first(here, elements, [])
                else:
                    new = self.scan.following(here, elements, self._old(before, column, width))
                self._write(new, at)
                if self.wide:
                    for i, value in enumerate(new):
                        v.store_item(b, value.v, self.carried, self._kept(i, column), float64)

            return body

        v.in_vectors(b, v.const(0), count, self.lanes, some(self.start, None))
        turns = v.Turns(b, [self.start])
        with turns.range(1, self.n):
            place = b.add(turns.values[0], self.step)
            row = b.add(base, b.mul(turns.values[0], self.after))
            v.in_vectors(b, v.const(0), count, self.lanes, some(place, row))
            turns.values = [place]

    def _kept(self, i: int, column: Any) -> Any:
        return v.add(self.b, column, i * limits.SCAN_COLUMNS)

    def _old(self, row: Any, column: Any, width: int | None) -> list[Any]:
        """What is carried: float64, or what was written for the elements of the row before."""
        if not self.wide:
            at = self.b.add(row, column)
            return [
                self._read(array, at, dtype, width)
                for array, dtype in zip(self.writes, self.outs, strict=True)
            ]
        found = []
        for i in range(len(self.outs)):
            raw = v.load_item(self.b, self.carried, self._kept(i, column), float64, width)
            found.append(term(self.b, raw, float64))
        return found
