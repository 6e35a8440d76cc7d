"""Attention and its gradient in blocks: no array of targets by sources.

    out[i] = sum over j of p[i, j] * v[j],    p[i, j] = exp(s[i, j] - lse[i]),
    s[i, j] = scale * (q[i] . k[j]) + mask[i, j],    lse[i] = log(sum over j of exp(s[i, j]))

A block of queries is copied with the queries side by side, in lanes. Then scores are a product of
rows of k, read number by number, and this block, (keys, queries); the largest score and the sum of
a query are those of a lane, so nothing goes across lanes; and the result, (depth, queries), is a
product of columns of v, read number by number again, and the exponentials, which lie as they were
made. k and v may lie in any way and are never packed. Where a later block of keys has a larger
score, what was added up before is scaled down.

The gradient computes a block's p once more, from lse. With delta[i] = ct[i] . out[i] and
g = scale * p * (ct . v - delta):

    dq[i] = sum over j of g[i, j] * k[j],  dk[j] = sum over i of g[i, j] * q[i],
    dv[j] = sum over i of p[i, j] * ct[i]

A task is a block of queries forward. Backward it is the queries that share a head of k and v, or
every ``PARTS``-th block of them: dk and dv have sums for each part, which ``total`` adds up.

Source: Dao et al., "FlashAttention: fast and memory-efficient exact attention with IO-awareness",
2022; Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from fx.backends.cpu.attention import BACKWARD_ROWS, FORWARD_ROWS, LINE
from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.any_size.lanes import Lanes
from fx.backends.cpu.llvm.vecmath import logarithm
from fx.backends.cpu.llvm.vecmath.algebra import Num
from fx.backends.cpu.llvm.vecmath.outlined import outlined

# the words: arrays, the address of a float64, the address of the numbers below; and of scratch,
# its bytes for each so many tasks, which a thread does at once, and how many
Q, K, V, MASK, LSE, CT, DELTA, DQ, DK, DV, SCALE, SIZES, SCRATCH, ROOM, AT_ONCE = range(15)
OUT = CT  # of the way forward, which has no words after it but those from SCALE on
# the numbers, of 8 bytes: sizes, how they are cut, strides in elements
(HEADS, GROUP, TARGETS, SOURCES, FEATURES, DEPTH, CAUSAL, QUERIES, KEYS, BLOCKS, PARTS,
 Q0, Q1, Q2, _, K0, K1, K2, K3, V0, V1, V2, V3, M0, M1, M2, M3, O0, O1, O2, _,
 ) = range(31)  # fmt: skip


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add the kernel ``forward``, ``backward`` or ``total``."""
    getattr(_Attention(module, dtype, name), name)()


class _Attention(Lanes):
    """A kernel; ``b`` emits into it, ``w`` are its words and ``n`` its numbers."""

    def __init__(self, module: ir.Module, dtype: Any, name: str) -> None:
        super().__init__(module, dtype)
        self.product = self.area() if name != "total" else None
        kinds = [v.pointer, v.i64, v.i64, v.pointer]
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name)
        b = self.b = ir.IRBuilder(function.append_basic_block("entry"))
        words, self.begin, self.end, _ = function.args
        self.words = words
        self.w = [
            b.load(v.at(b, words, i, v.i64), typ=v.pointer, align=8) for i in range(SIZES + 1)
        ]
        sizes = self.w[SIZES]
        self.n = [b.load(v.at(b, sizes, i, v.i64), typ=v.i64, align=8) for i in range(O2 + 1)]
        self.pitch = self.whole(b, self.n[QUERIES])

    def scratch(self, rows: Sequence[int | None]) -> list[ir.Value]:
        """Where so many rows of a block of queries each begin, in this thread's memory."""
        b = self.b
        at, room, each = [
            b.load(v.at(b, self.words, i, v.i64), typ=v.i64, align=8)
            for i in (SCRATCH, ROOM, AT_ONCE)
        ]
        at = b.add(at, b.mul(b.udiv(self.begin, each), room))
        line = v.const(LINE - 1)
        start = b.inttoptr(b.and_(b.add(at, line), b.not_(line)), v.pointer)
        starts, row = [], v.const(0)
        for count in rows:
            starts.append(v.at(b, start, row, self.kind))
            row = b.add(row, b.mul(v.const(1) if count is None else self.n[count], self.pitch))
        return starts

    # the kernels --------------------------------------------------------------------------------

    def forward(self) -> None:
        """A task is a block of queries of one head; blocks that see most come first."""
        b, n, w = self.b, self.n, self.w
        q, out, p, mask, top, total = self.scratch(FORWARD_ROWS)
        scale = self.scale()

        def task(t: ir.Value) -> None:
            both, i = self.divided(t, n[BLOCKS])
            batch, head = self.divided(both, n[HEADS])
            of_kv = b.udiv(head, n[GROUP])
            first = b.mul(b.sub(b.sub(n[BLOCKS], v.const(1)), i), n[QUERIES])
            block = _Block(self, batch, head, first)
            self.queries_in_lanes(block, q, scale)
            k = self._at(b, w[K], (batch, n[K0]), (of_kv, n[K1]))
            values = self._at(b, w[V], (batch, n[V0]), (of_kv, n[V1]))
            self.fill(top, block.lanes, -math.inf)
            self.fill(total, block.lanes, 0.0)

            def keys(j: ir.Value) -> None:
                count = v.smaller(b, b.sub(block.seen, j), n[KEYS])
                further = b.icmp_signed("!=", j, v.const(0))
                self.scores(block, j, count, k, q, p, mask)
                self.exponentials(block, count, further, p, top, total, out)
                at = self._at(b, values, (j, n[V2]))  # columns of v, as rows
                self.multiply(at, n[V3], n[V2], p, self.pitch, out, self.pitch,
                              n[DEPTH], block.lanes, count, further)  # fmt: skip

            self.by_keys(block, keys)
            self.finish(block, out, top, total)

        v.loop(b, self.begin, self.end, task, name="task")
        b.ret_void()

    def backward(self) -> None:
        """A task is a part of the blocks of queries that share a head of k and v."""
        b, n, w = self.b, self.n, self.w
        q, ct, dq, p, g, mask, lse, delta = self.scratch(BACKWARD_ROWS)
        scale = self.scale()
        kv_heads = b.udiv(n[HEADS], n[GROUP])

        def task(t: ir.Value) -> None:
            both, part = self.divided(t, n[PARTS])
            batch, of_kv = self.divided(both, kv_heads)
            k = self._at(b, w[K], (batch, n[K0]), (of_kv, n[K1]))
            values = self._at(b, w[V], (batch, n[V0]), (of_kv, n[V1]))
            line = b.mul(t, n[SOURCES])
            dk = self._at(b, w[DK], (line, n[FEATURES]))
            dv = self._at(b, w[DV], (line, n[DEPTH]))
            self.clear(dk, n[FEATURES])
            self.clear(dv, n[DEPTH])
            left = b.sub(b.mul(n[GROUP], n[BLOCKS]), part)

            def each(turn: ir.Value) -> None:
                u = b.add(part, b.mul(turn, n[PARTS]))
                which, i = self.divided(u, n[BLOCKS])
                head = b.add(b.mul(of_kv, n[GROUP]), which)
                block = _Block(self, batch, head, b.mul(i, n[QUERIES]))
                self.queries_in_lanes(block, q, scale)
                self.cotangents_in_lanes(block, ct, lse, delta)

                def keys(j: ir.Value) -> None:
                    count = v.smaller(b, b.sub(block.seen, j), n[KEYS])
                    self.scores(block, j, count, k, q, p, mask)
                    self.multiply(self._at(b, values, (j, n[V2])), n[V2], n[V3], ct, self.pitch,
                                  g, self.pitch, count, block.lanes, n[DEPTH], _NO)  # fmt: skip
                    self.score_cotangents(block, count, p, g, lse, delta, scale)
                    for x, y, row, out, length in (
                        (p, block.ct, n[O2], dv, n[DEPTH]), (g, block.q, n[Q2], dk, n[FEATURES])
                    ):  # fmt: skip
                        self.multiply(x, self.pitch, v.const(1), y, row,
                                      self._at(b, out, (j, length)), length,
                                      count, length, block.live, _YES)  # fmt: skip
                    self.multiply(self._at(b, k, (j, n[K2])), n[K3], n[K2], g, self.pitch,
                                  dq, self.pitch, n[FEATURES], block.lanes, count,
                                  b.icmp_signed("!=", j, v.const(0)))  # fmt: skip

                self.by_keys(block, keys)
                at = self._at(b, w[DQ], (block.line, n[FEATURES]))
                self.back_to_rows(dq, n[FEATURES], at, n[FEATURES], block.live)

            v.loop(b, v.const(0), self.up(left, n[PARTS]), each, name="block")

        v.loop(b, self.begin, self.end, task, name="task")
        b.ret_void()

    def total(self) -> None:
        """A task adds up the parts of a head of k or v: ``Q`` (tasks, parts, n) to ``K``."""
        b, w = self.b, self.w
        count = b.mul(self.n[SOURCES], self.n[FEATURES])

        def task(t: ir.Value) -> None:
            line = b.mul(t, self.n[PARTS])

            def one(i: ir.Value) -> None:
                mask = v.first_lanes(b, b.sub(count, i), self.width)

                def read(part: ir.Value | int) -> ir.Value:
                    at = self._at(b, w[Q], (v.add(b, line, part), count), (i, 1))
                    return v.load(b, at, self.kind, self.width, mask)

                add = lambda part, x: [b.fadd(x, read(part))]
                (x,) = v.loop(b, v.const(1), self.n[PARTS], add, [read(0)], name="part")
                v.store(b, x, self._at(b, w[K], (t, count), (i, 1)), mask)

            v.loop(b, v.const(0), count, one, step=self.width, name="vectors")

        v.loop(b, self.begin, self.end, task, name="task")
        b.ret_void()

    # a block of queries -------------------------------------------------------------------------

    def queries_in_lanes(self, block: _Block, q: ir.Value, scale: Num) -> None:
        """q of the block times the scale, (features, queries)."""
        b, n = self.b, self.n
        self.across_lines(b, block.q, n[Q2], v.const(1), q, self.pitch, n[FEATURES], block.live)
        self.rows_of_vectors(
            n[FEATURES], block.lanes, lambda c, i: self.put(self.get(q, c, i) * scale, q, c, i)
        )

    def cotangents_in_lanes(
        self, block: _Block, ct: ir.Value, lse: ir.Value, delta: ir.Value
    ) -> None:
        """ct (features, queries), lse and delta.

        A query that sees nothing has an lse of -inf; with inf its p are 0.
        """
        b, n, w = self.b, self.n, self.w
        self.across_lines(b, block.ct, n[O2], v.const(1), ct, self.pitch, n[DEPTH], block.live)

        def vector(i: ir.Value) -> None:
            mask = v.first_lanes(b, b.sub(block.live, i), self.width)
            for source, target in ((w[LSE], lse), (w[DELTA], delta)):
                at = v.at(b, source, b.add(block.line, i), self.kind)
                x = Num(b, v.load(b, at, self.kind, self.width, mask))
                x = x.eq(-math.inf).pick(math.inf, x) if target is lse else x
                self.put(x, target, 0, i)

        self.vectors(block.lanes, vector)

    def by_keys(self, block: _Block, body: Callable[[ir.Value], None]) -> None:
        """``body(j)`` for each block of keys that some query of the block sees."""
        b, step = self.b, self.n[KEYS]
        turn = lambda i: body(b.mul(i, step))
        v.loop(b, v.const(0), self.up(block.seen, step), turn, name="keys")

    def scores(
        self, block: _Block, j: ir.Value, count: ir.Value, k: ir.Value, q: ir.Value, p: ir.Value,
        mask: ir.Value,
    ) -> None:  # fmt: skip
        """The scores of ``count`` keys from ``j`` on, (keys, queries), -inf where none is seen."""
        b, n, w = self.b, self.n, self.w
        self.multiply(self._at(b, k, (j, n[K2])), n[K2], n[K3], q, self.pitch, p, self.pitch,
                      count, block.lanes, n[FEATURES], _NO)  # fmt: skip
        with b.if_then(b.icmp_unsigned("!=", w[MASK], _NULL)):
            at = self._at(b, block.mask, (j, n[M3]))
            self.across_lines(b, at, n[M2], n[M3], mask, self.pitch, count, block.live)
            add = lambda r, i: self.put(self.get(p, r, i) + self.get(mask, r, i), p, r, i)
            self.rows_of_vectors(count, block.lanes, add)
        some_hidden = b.icmp_signed(">", b.add(j, count), b.add(block.first, v.const(1)))
        causal = b.icmp_signed("!=", n[CAUSAL], v.const(0))
        with b.if_then(b.and_(causal, some_hidden)):
            never = self.full(-math.inf)

            def hide(r: ir.Value, i: ir.Value) -> None:
                ahead = b.sub(b.add(j, r), b.add(block.first, i))
                hidden = v.first_lanes(b, ahead, self.width)
                self.put(Num(b, b.select(hidden, never.v, self.get(p, r, i).v)), p, r, i)

            self.rows_of_vectors(count, block.lanes, hide)

    def exponentials(
        self, block: _Block, count: ir.Value, further: ir.Value, p: ir.Value, top: ir.Value,
        total: ir.Value, out: ir.Value,
    ) -> None:  # fmt: skip
        """Scores to exponentials about the largest so far, and what there was before about it."""
        b, n = self.b, self.n

        def vector(i: ir.Value) -> None:
            before = self.get(top, 0, i)
            largest = lambda x, y: x.larger(y)
            now = self.folded(
                count, self.full(-math.inf), lambda r, t: t.larger(self.get(p, r, i)), largest
            ).larger(before)
            self.put(now, top, 0, i)
            about = now.eq(-math.inf).pick(0.0, now)

            def term(r: ir.Value, s: Num) -> Num:
                x = self.exp(self.get(p, r, i) - about)
                self.put(x, p, r, i)
                return s + x

            found = self.folded(count, self.full(0.0), term, lambda x, y: x + y)
            factor = self.exp(before - about)
            self.put(self.get(total, 0, i) * factor + found, total, 0, i)
            with b.if_then(further):
                again = lambda c: self.put(self.get(out, c, i) * factor, out, c, i)
                v.loop(b, v.const(0), n[DEPTH], again, name="again")

        self.vectors(block.lanes, vector)

    def score_cotangents(
        self, block: _Block, count: ir.Value, p: ir.Value, g: ir.Value, lse: ir.Value,
        delta: ir.Value, scale: Num,
    ) -> None:  # fmt: skip
        """Scores to p, and ct . v to g."""

        def vector(i: ir.Value) -> None:
            about, less = self.get(lse, 0, i), self.get(delta, 0, i)

            def row(r: ir.Value) -> None:
                x = self.exp(self.get(p, r, i) - about)
                self.put(x, p, r, i)
                self.put(x * (self.get(g, r, i) - less) * scale, g, r, i)

            v.loop(self.b, v.const(0), count, row, name="row")

        self.vectors(block.lanes, vector)

    def finish(self, block: _Block, out: ir.Value, top: ir.Value, total: ir.Value) -> None:
        """The results and lse of a block; 0 and -inf for a query that sees nothing."""
        b, n, w = self.b, self.n, self.w

        def vector(i: ir.Value) -> None:
            mask = v.first_lanes(b, b.sub(block.live, i), self.width)
            x = self.get(total, 0, i)
            log = outlined("log", logarithm.log, x)
            lse = self.get(top, 0, i) + log
            v.store(b, lse.v, self._at(b, w[LSE], (b.add(block.line, i), 1)), mask)
            about = x.eq(0.0).pick(1.0, x)
            share = lambda c: self.put(self.get(out, c, i) / about, out, c, i)
            v.loop(b, v.const(0), n[DEPTH], share, name="share")

        self.vectors(block.lanes, vector)
        self.back_to_rows(out, n[DEPTH], block.out, n[O2], block.live)

    # pieces -------------------------------------------------------------------------------------

    def multiply(
        self, x: Any, row: Any, step: Any, y: Any, line: Any, out: Any, pitch: Any, m: Any, n: Any,
        k: Any, more: Any,
    ) -> None:  # fmt: skip
        """``area`` of ``gemm.py`` for a right factor in rows."""
        wide = v.const(self.wide)
        self.b.call(self.product, [x, row, step, y, line, wide, out, pitch, m, n, k, more, _NULL])

    def clear(self, at: ir.Value, length: ir.Value) -> None:
        """Zeros in the rows of all sources."""
        size = v.const(v.size_of(self.kind))
        v.clear(self.b, at, self.b.mul(self.b.mul(length, self.n[SOURCES]), size))

    def scale(self) -> Num:
        """What scores are multiplied with."""
        b = self.b
        wide = b.load(self.w[SCALE], typ=v.f64, align=8)
        return self.number(wide if self.kind is v.f64 else b.fptrunc(wide, self.kind))


class _Block:
    """A block of queries of one head: where its rows are.

    Attributes:
        first, live: its first query, and how many it has.
        lanes: the lanes of the vectors that they take.
        seen: the keys that at least one of them sees.
        line: its place in lse.
        q, mask, out, ct: its rows in these arrays.
    """

    def __init__(
        self, kernel: _Attention, batch: ir.Value, head: ir.Value, first: ir.Value
    ) -> None:
        b, n, w, at = kernel.b, kernel.n, kernel.w, kernel._at
        self.first = first
        self.live = v.smaller(b, b.sub(n[TARGETS], first), n[QUERIES])
        self.lanes = kernel.whole(b, self.live)
        causal = b.icmp_signed("!=", n[CAUSAL], v.const(0))
        before = v.smaller(b, n[SOURCES], b.add(first, self.live))
        self.seen = b.select(causal, before, n[SOURCES])
        line = b.add(b.mul(batch, n[HEADS]), head)
        self.line = b.add(b.mul(line, n[TARGETS]), first)
        rows = lambda which, s: at(b, w[which], (batch, n[s]), (head, n[s + 1]), (first, n[s + 2]))
        self.q, self.mask = rows(Q, Q0), rows(MASK, M0)
        self.out, self.ct = rows(OUT, O0), rows(CT, O0)


_NULL = ir.Constant(v.pointer, None)
_NO, _YES = ir.Constant(v.i1, 0), ir.Constant(v.i1, 1)
