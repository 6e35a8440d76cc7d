"""What a convolution with channels in lanes computes where: taps, phases, blocks, tiles, tasks.

``conv`` and ``conv_input_grad`` are one computation here. Source planes are copied into zero-padded
planes; there, output i of a dimension reads tap t at ``step * i + offset[t]``. The forward pass has
one *phase* (set of taps). The input gradient of a strided convolution has one for each residue
of the output's place: the taps that reach such places, so that nothing is multiplied by the zeros
between the samples of a strided cotangent.

Shapes: N samples, G groups, K channels of a group that are summed over, M channels of a group that
come out. One to three spatial dimensions are always three, the first ones of size 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

from fx import limits
from fx.backends.cpu.llvm.ir import Machine
from fx.compiler.extents import Sizes
from fx.graph.ir import Value

Ints = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """The samples of a convolution.

    Attributes:
        samples: how many; an extent where that is known when it runs.
        sizes: those that it is made of then.
    """

    samples: int
    sizes: Sizes | None = None

    @property
    def planned(self) -> int:
        """How many the work is cut for: nearly all primes for a class of sizes give one number."""
        n = int(self.samples)
        return n if self.sizes is None else 1 << n.bit_length() - 1

    @property
    def reads(self) -> tuple[Value, ...]:
        """What a kernel reads that asks for the number."""
        return () if self.sizes is None else (self.sizes.words,)

    def room(self, count: int) -> int:
        """Elements for so many of known number; no prime for a size divides them."""
        if self.sizes is None:
            return count
        high = 1 << (count - 1).bit_length()
        return high if count > high // 4 * 3 else high // 4 * 3


@dataclass(frozen=True, slots=True)
class Phase:
    """Outputs at ``first + spread * i`` for i below ``counts``, and the taps that they read."""

    first: Ints
    counts: Ints
    offsets: tuple[Ints, ...]  # of each tap, in a padded plane
    taps: Ints  # which place in the weights' window each of them is


@dataclass(frozen=True, slots=True)
class Job:
    """A convolution on padded planes; see the module."""

    dtype: str
    samples: int
    groups: int
    K: int
    M: int
    window: int  # taps of the weights
    transposed: bool  # weights are (G*K, M, window); else (G*M, K, window)
    source: Ints  # sizes of the input
    low: Ints  # place in the input of a padded plane's first element
    step: Ints
    span: Ints  # what the taps of one output span in a padded plane
    out: Ints
    spread: Ints
    phases: tuple[Phase, ...]

    @property
    def counts(self) -> Ints:
        """Outputs of the largest phase in each dimension."""
        return tuple([max([p.counts[i] for p in self.phases]) for i in range(3)])

    @property
    def pads(self) -> bool:
        """Whether an output reads places outside of the input."""
        return any(
            lo < 0 or lo + (n - 1) * s + span > size
            for lo, n, s, span, size in zip(
                self.low, self.counts, self.step, self.span, self.source
            )
        )


def lifted(entries: Any, fill: Any) -> tuple[Any, ...]:
    """One to three entries as three."""
    return (fill,) * (3 - len(entries)) + tuple(entries)


def _grid(per_dimension: list[list[Any]]) -> list[tuple[Any, ...]]:
    d, h, w = per_dimension
    return [(i, j, k) for i in d for j in h for k in w]


@lru_cache(maxsize=256)
def forward_job(
    dtype: str, x: Ints, w: Ints, stride: Ints, padding: Any, dilation: Ints, groups: int
) -> Job:
    """``conv`` of x (N, C, *S) and w (O, C // groups, *kernel)."""
    size, window = lifted(x[2:], 1), lifted(w[2:], 1)
    step, dil = lifted(stride, 1), lifted(dilation, 1)
    pads = lifted(padding, (0, 0))
    span = tuple([d * (k - 1) + 1 for k, d in zip(window, dil)])
    out = tuple([(n + lo + hi - s) // st + 1 for n, (lo, hi), s, st in zip(size, pads, span, step)])
    offsets = _grid([[d * k for k in range(n)] for n, d in zip(window, dil)])
    phase = Phase((0, 0, 0), out, tuple(offsets), tuple(range(len(offsets))))
    return Job(
        dtype, x[0], groups, w[1], w[0] // groups, prod(window), False,
        size, tuple([-lo for lo, _ in pads]), step, span, out, (1, 1, 1), (phase,),
    )  # fmt: skip


@lru_cache(maxsize=256)
def input_job(
    dtype: str, g: Ints, w: Ints, input_size: Ints, stride: Ints, padding: Any, dilation: Ints,
    groups: int,
) -> Job:  # fmt: skip
    """``conv_input_grad`` of g (N, O, *out) and w (O, C // groups, *kernel)."""
    out, window = lifted(input_size, 1), lifted(w[2:], 1)
    source = lifted(g[2:], 1)
    spread, dil = lifted(stride, 1), lifted(dilation, 1)
    low_pad = [lo for lo, _ in lifted(padding, (0, 0))]
    # x[s*i + r] meets g[i + e] by tap k where s*e = r + low - dil*k
    reach: list[list[list[tuple[int, int]]]] = []  # [dimension][residue] -> (e, k)
    for s, lo, d, n in zip(spread, low_pad, dil, window):
        found: list[list[tuple[int, int]]] = [[] for _ in range(s)]
        for r in range(s):
            for k in range(n):
                e, rest = divmod(r + lo - d * k, s)
                if not rest:
                    found[r].append((e, k))
        reach.append(found)
    low, span = [], []
    for found, n in zip(reach, out):
        every = [e for r, hits in enumerate(found) if r < n for e, _ in hits] or [0]
        low.append(min(every))
        span.append(max(every) - min(every) + 1)
    phases = []
    for first in _grid([list(range(min(s, n))) for s, n in zip(spread, out)]):
        hits = _grid([reach[i][r] for i, r in enumerate(first)])
        counts = tuple([(n - r + s - 1) // s for n, r, s in zip(out, first, spread)])
        offsets = [tuple([e - lo for (e, _), lo in zip(hit, low)]) for hit in hits]
        taps = [(a[1] * window[1] + b[1]) * window[2] + c[1] for a, b, c in hits]
        phases.append(Phase(first, counts, tuple(offsets), tuple(taps)))
    return Job(
        dtype, g[0], groups, w[0] // groups, w[1], prod(window), True,
        source, tuple(low), (1, 1, 1), tuple(span), out, spread, tuple(phases),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Block:
    """Output channels that one tile computes: ``vectors`` of ``lanes``, ``valid`` of them real."""

    vectors: int
    lanes: int
    valid: int

    @property
    def width(self) -> int:
        """Channels with the idle lanes."""
        return self.vectors * self.lanes


def blocks(channels: int, itemsize: int, target: Machine) -> tuple[int, Block, Block | None]:
    """How many whole blocks make up the channels of a group, the whole one, and the last one."""
    lanes = target.vector_bytes // itemsize
    whole = Block(2, lanes, 2 * lanes)
    count, rest = divmod(channels, 2 * lanes)
    if not rest:
        return count, whole, None
    if rest > lanes:
        return count, whole, Block(2, lanes, rest)
    narrow = lanes
    while narrow // 2 >= max(rest, 16 // itemsize):
        narrow //= 2
    return count, whole, Block(1, narrow, rest)


def split(count: int, most: int) -> list[tuple[int, int]]:
    """``count`` in pieces of at most ``most``, of one size or of two: (size, how many)."""
    if count <= most:
        return [(count, 1)]
    for size in range(most, most // 2, -1):
        if count % size == 0:
            return [(size, count // size)]
    pieces = -(-count // most)
    size, larger = divmod(count, pieces)
    return [(s, n) for s, n in ((size + 1, larger), (size, pieces - larger)) if n]


def tap_ranges(job: Job, phase: Phase) -> list[tuple[int, int]]:
    """For each row of outputs (each depth, if taps span several): its first tap and how many.

    The others see nothing but padding there. Taps come in rows, so those left are side by side.
    """
    i = 1 if job.span[0] == 1 else 0
    found = []
    for n in range(phase.counts[i]):
        start = n * job.step[i] + job.low[i]
        seen = [t for t, o in enumerate(phase.offsets) if 0 <= start + o[i] < job.source[i]]
        found.append((seen[0], len(seen)) if seen else (0, 0))
    return found


def column_profile(job: Job, phase: Phase) -> tuple[range, ...]:
    """The columns of outputs that each tap of a row of taps reaches; one range if all reach all."""
    everything = (range(phase.counts[2]),)
    row = [o[2] for o in phase.offsets if o[:2] == phase.offsets[0][:2]]
    if not 1 < len(row) <= limits.CONV_UNROLLED:
        return everything
    found = []
    for offset in row:
        places = [c * job.step[2] + job.low[2] + offset for c in range(phase.counts[2])]
        seen = [c for c, at in enumerate(places) if 0 <= at < job.source[2]]
        found.append(range(seen[0], seen[-1] + 1) if seen else range(0))
    return everything if all(r == everything[0] for r in found) else tuple(found)


def inner_rows(job: Job, phase: Phase) -> tuple[int, int]:
    """The rows [first, last) of outputs that all taps of the phase reach."""
    if job.span[0] > 1:
        return 0, phase.counts[1]
    rows = [h for h, (_, n) in enumerate(tap_ranges(job, phase)) if n == len(phase.taps)]
    return (rows[0], rows[-1] + 1) if rows else (0, 0)


Pieces = list[tuple[int, int, int]]  # (start, size, stop)


def tiles(
    counts: Ints, positions: int, inner: tuple[int, int], bands: bool, strips: bool
) -> tuple[Pieces, Pieces]:
    """How rows and columns of outputs are cut into tiles: parts of a row, or several whole rows.

    Tiles of several rows are for rows that all taps reach, and for planes in one band.
    """
    if strips:
        whole = counts[2] // positions * positions
        columns = [(0, positions, whole), (whole, counts[2] - whole, counts[2])]
        columns = [piece for piece in columns if piece[0] < piece[2]]
    else:
        columns = _pieces(0, counts[2], positions)
    most = positions // counts[2]
    if bands or most < 2:
        return [(0, 1, counts[1])], columns
    first, last = inner
    rows = [(0, 1, first), *_pieces(first, last, most), (last, 1, counts[1])]
    return [piece for piece in rows if piece[0] < piece[2]], columns


def _pieces(start: int, stop: int, most: int) -> Pieces:
    found = []
    for size, count in split(stop - start, most) if stop > start else []:
        found.append((start, size, start + size * count))
        start += size * count
    return found


@dataclass(frozen=True, slots=True)
class Cut:
    """How the work is cut into tasks: one for each stack, output depth, band and channel part."""

    together: int  # samples of a stack, which share the weights that are in cache
    rows: int  # outputs of a band, before the spread
    columns: int
    bands: int
    strips: int
    parts: int  # of the channel blocks
    channels: int  # most channels of the source that a task copies
    plane: Ints  # sizes of a padded plane as far as a task needs it
    channel_step: int  # elements from one channel to the next

    @property
    def sample_step(self) -> int:
        """Elements from one sample's padded planes to the next one's."""
        return self.channels * self.channel_step

    @property
    def scratch(self) -> int:
        """Elements of padded planes."""
        return self.together * self.sample_step


def cut(job: Job, units: int, wide: int, itemsize: int) -> Cut:
    """Choose the tasks; ``units`` channel blocks in all groups, tiles of ``wide`` columns."""
    _, high, long = job.counts
    per_group = units // job.groups
    depth, rows = job.span[0], high
    room = limits.CONV_PLANES // (itemsize * job.groups * job.K * depth)
    fixed = all(p.counts[1:] == (high, long) for p in job.phases)
    single = len(job.phases) == 1 and fixed

    def plane(rows: int, columns: int) -> Ints:
        return (
            depth,
            (rows - 1) * job.step[1] + job.span[1],
            (columns - 1) * job.step[2] + job.span[2],
        )

    columns = long
    whole_rows = long > wide // 2  # else a tile takes several rows and bands would cut it
    if whole_rows:
        while rows > 1 and prod(plane(rows, columns)[1:]) > room:
            rows = -(-rows // 2)
        if rows == 1 and single and prod(plane(1, columns)[1:]) > room and long > 2 * wide:
            columns = max(wide, room // (job.step[2] * job.span[1]) // wide * wide)
            columns = min(columns, long)
        share = job.samples * job.counts[0] * -(-long // columns)
        while rows > 4 and share * -(-high // rows) < limits.CONV_TASKS:
            rows = -(-rows // 2)
    bands, strips = -(-high // rows), -(-long // columns)
    sizes = plane(rows, columns)
    step = -(-prod(sizes) * itemsize // 64) | 1  # odd lines: channels meet in no cache set
    together = 1
    if bands * strips * job.counts[0] == 1:
        wanted = -(-limits.CONV_POSITIONS // (high * long))
        fits = limits.CONV_STACK // (job.groups * job.K * step * 64)
        together = max(1, min(wanted, fits, job.samples // 8))
    pieces = -(-job.samples // together) * job.counts[0] * bands * strips
    parts = min(units, max(1, -(-limits.CONV_TASKS // pieces))) if pieces < limits.CONV_TASKS else 1
    most_units = -(-units // parts)
    in_groups = min(job.groups, (most_units - 1) // per_group + 2)
    return Cut(
        together, rows, columns, bands, strips, parts,
        job.K * (job.groups if parts == 1 else in_groups), sizes, step * 64 // itemsize,
    )  # fmt: skip
