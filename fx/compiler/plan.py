"""Plan: how a nest runs, which loop is the vector, what a task is, what it costs.

A softmax of x (30, 70), outer i0 (30) and rows i1 (70), with vectors of 16: elements lie side by
side along i1, so that is the vector (``in_rows``); ``max`` is known after a pass over the row,
``sum`` after a second one, and the quotients are stored by a third (``passes``). ``exp`` is heavy
and needed by two of them, so that a row of it is kept in ``scratch``. An *item* is one row, a task
some of them. The column sums of x have outer i0 (70) and rows i1 (30): the vector is the outer
loop, an item is a block of columns, and there is one pass.
"""

from __future__ import annotations

from math import prod
from typing import Any

from fx import limits
from fx.compiler.extents import is_known
from fx.compiler.maps import Form
from fx.compiler.nest import Nest, accesses, form_of, mixed
from fx.compiler.target import Target
from fx.dtypes import COMPLEX, bool_, real_of
from fx.primitive import registry

HEAVY = 5  # from this weight on a value is kept rather than computed again
_LIGHT = 8  # instructions a vector of a pass whose sums are float64 throughout
_WORK = 12  # instructions a vector from which a pass leaves the memory idle
_STREAMS = 2  # arrays that are fetched ahead


def weight(name: str) -> int:
    """About how many instructions a vector a primitive takes."""
    primitive = registry.get(name)
    return 1 if primitive is None else primitive.weight


def plan_of(nest: Nest, target: Target) -> Plan:
    """The plan of a nest that does not change any more."""
    if nest.plan is None:
        nest.plan = Plan(nest, target)
    return nest.plan  # type: ignore[no-any-return]


class Plan:
    """How a nest runs.

    Attributes:
        vector: the loop whose iterations are the lanes; None if the nest has no loops.
        in_rows: whether that is a loop of the rows.
        lanes: elements of a vector.
        unroll: vectors of one iteration of the innermost loop.
        unrolls: the same for each pass over the rows.
        block: iterations of the vector loop in one item (only where it is an outer loop).
        blocks: items along the vector loop.
        items: independent pieces.
        per_task: items of a task.
        tasks: tasks.
        cost: estimated nanoseconds of all.
        depth: for each loop how deep it stands; 0 is the whole kernel, 1 an item.
        base: the depth at which the result of a reduction is known.
        levels: for each expression the depth at which it is computed.
        tile: the loop that is run in blocks of ``lanes``, for reads that are transposed; or None.
        tiled: those reads, and the number of the buffer of each.
        untiled: whether there would be such reads, were the sizes known.
        phases: for each expression the pass over the row before which it is known.
        passes: the number of passes over a row, at least 1.
        buffers: expression -> (pass that computes it, offset in scratch).
        scratch: bytes of scratch.
        kept: sinks that float64 takes up from rows in float32 -> the offset of those in scratch.
        fetches: what the pass ``fetching`` fetches into the cache for the next one.
    """

    def __init__(self, nest: Nest, target: Target) -> None:
        self.nest, self.target = nest, target
        self.deps = nest.loops_of()
        self.phases = nest.phases()
        self._choose_vector()
        self._choose_tile()
        self._choose_depths()
        self.passes = max(
            [self.phases[e] + (not nest.rows or self._in_row(form)) for _, form, e in nest.outputs]
            + [self.phases[e] + 1 for _, _, e, _ in nest.sinks]
        )
        self.passes = max(1, self.passes)
        self.body = self._body_weight()
        self._choose_blocks()
        self._choose_buffers()
        self._choose_kept()
        self._choose_fetches()

    # the vector loop ----------------------------------------------------------------------------

    def _choose_vector(self) -> None:
        nest = self.nest
        self.vector: Any = None
        candidates = [loops[-1] for loops in (nest.outer, nest.rows) if loops]
        if nest.sinks:
            candidates = [nest.rows[-1]]
        if nest.ragged is not None:  # lanes run together: one cannot end before the others
            candidates = [d for d in candidates if d != nest.ragged[1]]
        if not candidates:
            self.in_rows, self.lanes = bool(nest.rows), 1
            return
        near = dict.fromkeys(candidates, 0.0)
        for bytes_, form in accesses(nest):
            for d, c in form[1]:
                if d in near and abs(c) == 1:
                    near[d] += bytes_
        self.vector = max(candidates, key=lambda d: (near[d], nest.sizes[d]))
        if len(candidates) == 2:  # a short one leaves most lanes empty
            other = candidates[1 - candidates.index(self.vector)]
            short = 8 if not any(self._in_row(f) for _, f, _ in nest.outputs) else 3
            if nest.sizes[self.vector] <= short and nest.sizes[other] >= limits.SHORT_BESIDE:
                self.vector = other
        self.in_rows = self.vector in nest.rows
        counts: dict[int, int] = {}
        for e, deps in zip(nest.exprs, self.deps):
            if self.vector in deps and e.dtype != bool_ and e.kind != "reduce":
                dtype = real_of(e.dtype) if e.dtype in COMPLEX else e.dtype
                size = max(4, dtype.itemsize) if dtype.kind in "fV" else dtype.itemsize
                counts[size] = counts.get(size, 0) + 1 + (e.kind == "op") * weight(e.name)
        widest = max(counts, key=lambda s: (counts[s], s), default=4)
        self.lanes = min(32, self.target.vector_bytes // widest)
        n = nest.sizes[self.vector]
        if self.target.exact and is_known(n) and n < self.lanes:
            self.lanes = max(2, 1 << (n - 1).bit_length())

    def _choose_tile(self) -> None:
        """Reads whose elements lie side by side along another loop are transposed in tiles."""
        nest, vector = self.nest, self.vector
        self.tile: Any = None
        self.tiled: dict[int, int] = {}
        self.untiled = False
        if nest.rows or vector is None or self.lanes < 4 or nest.sizes[vector] < limits.TILE_FROM:
            return
        found: dict[int, list[int]] = {}
        for i, e in enumerate(nest.exprs):
            if e.kind == "load" and not e.args:
                strides = dict(e.data[1][1])
                if abs(strides.get(vector, 1)) > 1:
                    for d, c in strides.items():
                        if c == 1 and nest.sizes[d] >= limits.TILE_FROM:
                            found.setdefault(d, []).append(i)
        if found and not is_known(*nest.sizes):
            self.untiled = True
        elif found:
            best = max(found, key=lambda d: (len(found[d]), nest.sizes[d]))
            self.tile = best
            self.tiled = {i: k for k, i in enumerate(found[best])}
            if any(nest.exprs[i].name for i in self.tiled):  # parts: a line holds half as many
                self.lanes //= 2

    def _choose_depths(self) -> None:
        """How deep each loop stands, and so how often each expression is computed.

        0 is the whole kernel, 1 an item (2 with sinks), then the vector loop where it is an outer
        one, then the rows: what depends on i0 alone is computed once an item.
        """
        nest = self.nest
        at = 2 if nest.sinks else 1  # with sinks the tasks are a level of their own
        depth = dict.fromkeys(nest.outer, at)
        if self.vector is not None and not self.in_rows:
            at = 2
            depth[self.vector] = at
        if self.tile is not None:
            depth[self.tile] = 3
        self.base = at
        for d in nest.rows:
            at += 1
            depth[d] = at
        self.depth = depth
        self.levels: list[int] = []
        for e in nest.exprs:
            if e.kind == "reduce":
                self.levels.append(self.base)
                continue
            form = form_of(e)
            level = max([depth[d] for d, _ in form[1]], default=0) if form is not None else 0
            self.levels.append(max([level, *[self.levels[a] for a in e.args]]))

    def _in_row(self, form: Form) -> bool:
        """Whether an output has an element for each iteration of the rows."""
        return any(d in self.nest.rows for d, _ in form[1])

    def _body_weight(self) -> int:
        """Instructions of one iteration of the innermost loop."""
        total = 0
        inner = self.base + len(self.nest.rows)
        for e, level in zip(self.nest.exprs, self.levels):
            if level >= max(2, inner) or e.kind == "reduce":
                total += weight(e.name) if e.kind == "op" else 1
        return max(1, total)

    # items and tasks ----------------------------------------------------------------------------

    def _choose_blocks(self) -> None:
        nest, vector = self.nest, self.vector
        sizes = nest.sizes
        inner = prod([sizes[d] for d in nest.rows])
        outer = prod([sizes[d] for d in nest.outer])
        reads = sum([n * d.itemsize for d, n in (*nest.reads, *nest.writes)])
        vectors = outer * inner / self.lanes
        near, far = reads < self.target.near, reads < self.target.far
        speed = 60.0 if near else 30.0 if far else 14.0  # bytes a nanosecond
        self.cost = max(reads / speed, vectors * (0.4 + 0.3 * self.body)) + 20.0
        reduces = any(e.kind == "reduce" for e in nest.exprs)
        self.unroll = _unroll(self.body)
        if vector is None:
            self.unroll = self.block = self.blocks = 1
        elif self.in_rows:
            self.block = self.blocks = 1
        else:
            n = sizes[vector]
            if nest.rows:
                if reduces and self.body <= 24:
                    self.unroll = max(2, self.unroll)
                self.block = self.lanes * self.unroll
                if self.cost < limits.TASK:
                    self.block = n
            else:
                share = max(1.0, limits.TASK * n / max(self.cost, 1.0) * (outer // n))
                step = self.lanes * self.unroll
                self.block = n if share * 2 >= n else max(step, int(share) // step * step)
            self.block = min(self.block, n)
            self.blocks = -(-n // self.block)
            outer //= n
            if self.tile is not None:
                self.unroll = 1
                m = sizes[self.tile]
                outer = outer // m * -(-m // self.lanes)
        if vector is not None:
            n = sizes[vector] if self.in_rows else self.block
            self.unroll = _fitting(self.unroll, n // self.lanes)
        self.items = outer * self.blocks
        if nest.share:
            self.per_task = nest.share
            self.tasks = -(-self.items // self.per_task)
            return
        wanted = max(1, min(self.items, int(self.cost / limits.TASK)))
        if not is_known(self.items):  # who calls it knows how many make a task
            wanted = self.items
        self.per_task = -(-self.items // wanted)
        self.tasks = -(-self.items // self.per_task)

    # what is kept between passes ----------------------------------------------------------------

    def _choose_buffers(self) -> None:
        """Heavy values that two passes over a row need are kept in scratch."""
        self.buffers: dict[int, tuple[int, int]] = {}
        self.roots: list[list[int]] = [[] for _ in range(self.passes)]
        nest, inner = self.nest, self.base
        for i, e in enumerate(nest.exprs):
            if e.kind == "reduce" and self.phases[i] <= self.passes:
                self.roots[self.phases[i] - 1].append(i)
        self.last: list[tuple[int, int]] = []  # outputs that are written after the passes
        for k, (_, form, x) in enumerate(nest.outputs):
            phase = self.phases[x]
            if phase < self.passes and (not nest.rows or self._in_row(form)):
                self.roots[phase].append(-1 - k)
            else:
                self.last.append((k, x))
        for k, (_, _, x, _) in enumerate(nest.sinks):
            self.roots[self.phases[x]].append(-1 - len(nest.outputs) - k)
        self.scratch = 0
        self.unrolls = [self.unroll] * self.passes
        self.works = [0] * self.passes
        if self.passes == 1 or not nest.rows:
            return
        lanes = self.lanes * (1 if self.in_rows else self.unroll)
        row = prod([nest.sizes[d] for d in nest.rows])
        if self.in_rows:
            line = nest.sizes[self.vector]
            row = row // line * -(-line // lanes) * lanes
        else:
            row *= lanes
        # a pass computes what its roots need; what an earlier pass has is read again if it is heavy
        weights = self._weights()
        stored = [e for _, _, e in nest.outputs] + [e for _, _, e, _ in nest.sinks]
        computed: dict[int, int] = {}
        for p, roots in enumerate(self.roots):
            mine: set[int] = set()
            todo = [stored[-1 - r] if r < 0 else nest.exprs[r].args[0] for r in roots]
            while todo:
                i = todo.pop()
                if i in mine or self.levels[i] <= inner:
                    continue
                mine.add(i)
                e = nest.exprs[i]
                if i in self.buffers:
                    continue
                if i in computed and weights[i] >= HEAVY and self.vector in self.deps[i]:
                    size = row * max(4, e.dtype.itemsize)
                    if e.dtype != bool_ and self.scratch + size <= limits.ROW_BUFFER:
                        self.buffers[i] = computed[i], self.scratch
                        self.scratch += -(-size // 64) * 64
                        continue
                todo += e.args
            for i in mine:
                computed.setdefault(i, p)
            if self.in_rows:
                work = self.works[p] = sum([self._work(i, p) for i in mine]) + len(roots)
                vectors = nest.sizes[self.vector] // self.lanes
                self.unrolls[p] = _fitting(_unroll(work), vectors)

    def _choose_kept(self) -> None:
        """Sinks of float64 add up a few rows in float32 first, while those are near."""
        nest = self.nest
        self.kept: dict[int, int] = {}
        size = -(-4 * prod([nest.sizes[d] for d in nest.rows]) // 64) * 64
        for k, (w, _, e, _) in enumerate(nest.sinks):
            heavy = not self.light(self.phases[e]) and size <= limits.ROW_BUFFER
            if heavy and mixed(nest.writes[w][0], nest.exprs[e].dtype):
                self.kept[k] = self.scratch
                self.scratch += size

    def _choose_fetches(self) -> None:
        """What the pass with most work fetches ahead: the next row, and where this one is stored.

        Otherwise the memory waits while a row is computed, and the other way round.
        """
        self.fetches: list[tuple[int, Form, bool]] = []  # array, form, whether it is written
        self.fetching = 0
        nest = self.nest
        if self.passes < 2 or not self.in_rows or not nest.outer or self.items < limits.FETCH_ITEMS:
            return
        if max(self.works) < _WORK:
            return
        self.fetching = max(range(self.passes), key=lambda p: self.works[p])
        inner = nest.outer[-1]
        seen = set()
        for i, e in enumerate(nest.exprs):
            if e.kind == "load" and not e.args and self.vector in self.deps[i]:
                read, form = e.data
                strides = dict(form[1])
                large = nest.reads[read][1] * e.dtype.itemsize > limits.FETCH_BYTES
                if (
                    large
                    and strides.get(self.vector) == 1
                    and inner in strides
                    and read not in seen
                ):
                    seen.add(read)
                    ahead = form[0] + strides[inner], form[1]
                    self.fetches.append((read, ahead, False))
        for w, form, x in nest.outputs:
            late = self._in_row(form) and self.phases[x] > self.fetching
            large = nest.writes[w][1] * nest.writes[w][0].itemsize > limits.FETCH_BYTES
            if late and large and dict(form[1]).get(self.vector) == 1:
                self.fetches.append((w, form, True))
        if len(self.fetches) > _STREAMS:
            self.fetches = []

    def light(self, p: int) -> bool:
        """Whether the pass computes so little that its sums can be as wide as they should.

        A row that other passes go over as well lies near: then even widening takes time.
        """
        return (self.passes == 1 or not self.in_rows) and (self.works[p] or self.body) <= _LIGHT

    def _work(self, i: int, p: int) -> int:
        """The instructions of one expression in a pass."""
        e = self.nest.exprs[i]
        kept = i in self.buffers and self.buffers[i][0] < p
        return weight(e.name) if e.kind == "op" and not kept else int(e.kind != "const")

    def _weights(self) -> list[int]:
        """The instructions that computing each expression of a row again takes."""
        found: list[int] = []
        for i, e in enumerate(self.nest.exprs):
            if self.levels[i] <= self.base or e.kind == "reduce":
                found.append(0)
            else:
                own = weight(e.name) if e.kind == "op" else int(e.kind == "load")
                found.append(min(1000, own + sum([found[a] for a in e.args])))
        return found


def _unroll(work: int) -> int:
    """How many vectors are worth computing at a time for so many instructions each."""
    return 4 if work <= 6 else 2 if work <= 16 else 1


def _fitting(unroll: int, vectors: int) -> int:
    """At most so many that little is left over of a loop over ``vectors``."""
    if not is_known(vectors):
        return max(1, min(unroll, int(vectors) // 4))
    if vectors < unroll:
        return max(1, vectors)
    if vectors % unroll and vectors < limits.EVEN_VECTORS:
        return max([u for u in (4, 3, 2, 1) if u <= unroll and not vectors % u])
    return unroll
