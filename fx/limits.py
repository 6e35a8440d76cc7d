"""Limits: every size from which on something is done in another way, in one table.

A kernel that is cut into tasks, a list that is compared item by item, a product that goes to
another library: each takes its limit from here, at the moment at which it decides. So a test
crosses all of them with arrays of a few elements:

```python
from fx import limits

with limits.tiny():  # all of them
    check(fx.jit(f)(x))

with limits.given(LOOP_TASK=10.0, HALVES_CHUNK=16):  # some
    check(fx.jit(f)(x))
```

``FX_LIMITS=tiny`` in the environment does the same for a whole process, and also reaches the few
that are read but once, when a module is imported (``early``): those of native memory.

Both change the program as a whole, other threads too. Compiled code is kept under the limits that
it was made with (``key``), on disk and in memory, and what eager calls have compiled is forgotten
when they change (``on_change``). A jitted function that was compiled before serves the calls inside
from what it has; make it inside.

The numbers change speed, order of summation and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, TypeVar

_Number = TypeVar("_Number", int, float)


class Limit(NamedTuple):
    """A row of the table.

    Attributes:
        normal: the value that serves people.
        tiny: one that a handful of elements crosses.
        told: its unit, and what changes there.
        early: whether it is read but once, so that only ``FX_LIMITS`` can change it.
    """

    normal: float
    tiny: float
    told: str
    early: bool = False


_rows: list[Limit] = []
_told = os.environ.get("FX_LIMITS") or "normal"
if _told not in ("normal", "tiny"):
    raise ValueError(f"FX_LIMITS is 'normal' or 'tiny', got {_told!r}; write FX_LIMITS=tiny")


def _limit(normal: _Number, tiny: _Number, told: str) -> _Number:
    _rows.append(Limit(normal, tiny, told))
    return tiny if _told == "tiny" else normal


def _early(normal: int, tiny: int, told: str) -> int:
    _rows.append(Limit(normal, tiny, told, True))
    return tiny if _told == "tiny" else normal


# fmt: off
# vectors and threads ----------------------------------------------------------------------------
VECTOR_BYTES = _limit(64, 16,
    "bytes: vectors of compiled code are not longer, whatever the CPU has")
PARALLEL_FROM = _limit(40_000.0, 0.0, "ns: a compiled step with more work is shared among threads")
PARALLEL_CHUNK = _limit(30_000.0, 1.0, "ns: work that a thread takes at once from such a step")
RELEASE_FROM = _limit(20_000.0, 0.0, "ns: with more work compiled code gives up the GIL")
TASK = _limit(16_000.0, 10.0, "ns: work of a task of a loop nest, and of a special kernel")

# loop nests -------------------------------------------------------------------------------------
LONG_ROW = _limit(1 << 15, 8, "elements: a longer row is not passed over several times by one task")
ROW_BUFFER = _limit(1 << 18, 256,
    "bytes: scratch that may hold rows between passes; else they are computed again")
SHORT_BESIDE = _limit(64, 4,
    "iterations: a loop as long is the vector where its neighbour is very short")
TILE_FROM = _limit(4, 2, "iterations: two loops as long are transposed in tiles")
SIZED_UNTILED = _limit(1 << 14, 64,
    "iterations: a nest as large is compiled for each size if it transposes")
EVEN_VECTORS = _limit(64, 4, "vectors: fewer are unrolled so that none is left over")
FETCH_BYTES = _limit(1 << 20, 16, "bytes: a larger array is fetched ahead of a pass")
FETCH_ITEMS = _limit(16, 2, "rows: with fewer nothing is fetched ahead")
NEAR_MEMORY = _limit(1 << 20, 64,
    "bytes: up to which memory is reckoned with the speed of the second cache")
FAR_MEMORY = _limit(1 << 24, 256, "bytes: up to which it is reckoned with that of the third")
SUM_STRETCH = _limit(8, 2, "iterations: after so many a sum is added to the one of those before")
HALVES_CHUNK = _limit(1 << 15, 16,
    "elements: a reduction of more is done in two steps; of a chunk, at least")
HALVES_ADDS = _limit(256, 4, "rows: that are added up one after the other, at most")
HALVES_LONG = _limit(1 << 16, 32, "elements: of a row of one chunk, at most")
HALVES_WORK = _limit(60_000.0, 1.0, "ns: from which more tasks are worth a second step")
HALVES_TASKS = _limit(8, 8, "tasks: fewer are too few")
HALVES_LEAST = _limit(16, 2, "iterations: of a chunk, at least")
HALVES_COLUMNS = _limit(64, 4,
    "columns: from which a reduction over rows goes through them in order")
HALVES_ROWS = _limit(64, 4, "rows: with more that pays")
SINK_ROWS = _limit(16, 2, "rows: of a task that adds up rows on its way, at least")
SINK_NEAR = _limit(8, 2, "rows: that such a task adds up in float32 before float64 takes them")
SINK_TASKS = _limit(32, 3, "tasks: of such a nest, at most")
FLAT_TOGETHER = _limit(1 << 15, 16, "elements: smaller flat steps are joined to one")
FLAT_PARTS = _limit(32, 2, "steps: joined to one, at most")

# what is fused ----------------------------------------------------------------------------------
FUSE_SMALL = _limit(1 << 15, 8, "elements: smaller kernels run long rows as one task in any case")
FUSE_NODES = _limit(160, 6, "nodes: of one kernel")
FUSE_USES = _limit(4, 2, "places: a value that is read at more is not computed at each")
MERGE_BYTES = _limit(1 << 14, 16, "bytes: kernels that share an array as large are merged")
MERGE_EXPRS = _limit(260, 24, "expressions: of merged kernels")
MERGE_ARRAYS = _limit(40, 8, "arrays: of merged kernels")
MERGE_TRIES = _limit(4, 2, "kernels: that a kernel is compared with for each value that it reads")
MERGE_READERS = _limit(64, 4, "kernels: the last readers of a value that are looked at")
MERGE_ROWS = _limit(8, 2, "rows: from which sums over them are added up on the way")
MERGE_COLUMNS = _limit(16, 2, "columns: from which that pays")
ORDER_SEARCH = _limit(400, 8, "kernels: that the search for a path between two looks at")
EPILOGUE_ARRAYS = _limit(12, 5, "arrays: of what is done to a product while it is in registers")
EPILOGUE_EXPRS = _limit(60, 8, "expressions: of it")
EPILOGUE_LARGE = _limit(2, 1, "arrays: of the product's size that it reads besides")
JOIN_PIECES = _limit(8, 2, "arrays: that one concatenation joins")
INDEX32_BELOW = _limit(1 << 31, 4, "elements: of an axis along which places are counted in 32 bits")
LINES_SHORT = _limit(64, 2, "elements: of a line in which an index is compared with every place")
LINES_LONG = _limit(1 << 15, 5,
    "elements: of one in which that is done where the line is computed anyway")

# native code ------------------------------------------------------------------------------------
BODY_STEPS = _limit(250, 2, "steps: of one native function")
MODULE_INSTRUCTIONS = _limit(1500, 200, "instructions: of one module")
MODULE_PIECES = _limit(4, 1, "functions of calls: of one module")
INLINE = _limit(3000, 40,
    "instructions: of kernels that become parts of the native loop or branch that runs them")
NEAR_CARRY = _limit(4096, 600,
    "bytes: of the values of a ``while`` that lie on the stack, and in registers")
LOOP_BODY_STEPS = _limit(400, 16,
    "steps: of the body of a native loop or branch; else it runs in Python")
VIEWS_DEEP = _limit(64, 2, "views: that a product looks through")
CACHED_CONSTANTS = _limit(1 << 20, 1 << 10, "bytes: of constants in an entry of the disk cache")
SMALL_RESULT = _early(1024, 64, "bytes: smaller results are NumPy's own memory")
KEPT_MEMORY = _early(256 << 20, 1 << 14,
    "bytes: that wait for the next result of their size")
HUGE_PAGES = _early(4 << 20, 1 << 16, "bytes: from which large pages are asked for")
MEMORY_BUCKETS = _early(256, 2, "lists: of memory that waits")
SWEEP_PARALLEL = _limit(80_000.0, 0.0,
    "ns: an optimizer's update with more work is shared among threads")
SWEEP_CHUNK = _limit(30_000.0, 1.0, "ns: work that a thread takes at once from it")
SWEEP_RELEASE = _limit(20_000.0, 0.0, "ns: with more of it the GIL is given up")

# ranks ------------------------------------------------------------------------------------------
RANK_PIECES = _limit(1 << 18, 24, "bytes: larger sums over ranks go by pieces, which fx adds")
RANK_ORDERED = _limit(1 << 14, 24, "bytes: larger sums in the order of ranks go by pieces too")
RANK_ALONE = _limit(1 << 16, 48, "bytes: larger terms of a sum over ranks lie apart")
RANKS_BY_PIECES = _limit(16, 16, "ranks: with more of them MPI adds")

# products ---------------------------------------------------------------------------------------
GEMM_TASK = _limit(1 << 20, 8, "multiplications: of a task of a compiled product")
GEMM_TASKS = _limit(64, 6, "tasks: of a product, at most")
GEMM_TASKS_PACKED = _limit(16, 3, "tasks: of one whose right factor is packed for all")
GEMM_ROWS = _limit(32, 1, "rows: of a task, at least; twice as many columns")
GEMM_PANEL = _limit(2 << 20, 64,
    "bytes: of the right factor that a task packs; larger ones are always packed")
GEMM_PANEL_TILES = _limit(16, 2, "tiles of rows: from which that pays")
GEMM_NEAR = _limit(512 << 10, 64, "bytes: of a left factor that stays in the second cache")
GEMM_BLOCK = _limit(256 << 10, 64, "bytes: of a left factor that is packed at a time")
GEMM_DEPTH = _limit(256, 2, "steps of k: in one go; sums of more of them lose digits")
GEMM_SPLIT = _limit(256, 2, "steps of k: from which several tasks may add up one product")
SKINNY_TASK = _limit(512 << 10, 32, "bytes: of the right factor that a task of few rows reads")
SKINNY_LARGE = _limit(1 << 20, 8, "bytes: of a right factor that does not stay in the caches")
SKINNY_ROWS = _limit(16, 3, "rows: up to which a product is dot products")
SKINNY_STEPS = _limit(16, 2,
    "steps of k, and vectors of columns: from which rows are added up in order")
SKINNY_COLUMNS = _limit(2048, 4, "columns: of a task of that")
SKINNY_WIDE = _limit(8192, 8, "columns: from which it takes twice as many")
EAGER_GEMM_FROM = _limit(1 << 19, 12,
    "multiplications: from which eager products are compiled kernels")
EAGER_GEMM_ROWS = _limit(6, 2, "rows: from which they are")
EAGER_GEMM_LONG = _limit(512, 5,
    "steps of k: from which they are at any size, as BLAS adds up few products in one chain")
EAGER_GEMM_TASK = _limit(3 << 19, 16, "multiplications: of a task of an eager product")
EAGER_GEMM_TASKS = _limit(64, 4, "tasks: of an eager product, at most")
EAGER_GEMM_PANEL = _limit(512 << 10, 64,
    "bytes: of a right factor that is packed although its rows are dense; of a task's part of one")
EAGER_GEMM_TALL = _limit(96, 2, "rows: from which that pays")
EAGER_GEMM_DEPTH = _limit(256, 2, "steps of k: that a tile of an eager product takes at once")
EAGER_TILES_TOGETHER = _limit(1 << 24, 64,
    "multiplications by tiles: up to which an eager product of 16-bit numbers is one task")
EAGER_TILES_TASK = _limit(1 << 24, 64, "multiplications by tiles: of a task of a larger one")
TILES_FROM = _limit(1 << 17, 64,
    "multiplications by tiles: from which a compiled product of 16-bit numbers is made of them")
EAGER_TILES_NEAR = _limit(512 << 10, 4096,
    "bytes: of a packed left factor that stays in the second cache")
EINSUM_FROM = _limit(4096, 8, "multiplications: from which a product of integers is an einsum")
BLAS_SERIAL = _limit(9216, 8, "multiply-adds: up to which OpenBLAS itself takes one thread")
DOT_SHORT = _limit(1024, 4, "elements: up to which BLAS gives the dot product of vectors")
OUTER_SHORT = _limit(4096, 8, "products: of an outer product that NumPy computes")
BLAS_BLOCK = _limit(1 << 23, 8, "multiply-adds: of a block of a BLAS product on several threads")
BLAS_BLOCKS = _limit(16, 3, "blocks: of a BLAS product, at most")
BLAS_STEP = _limit(16, 2, "rows or columns: blocks are multiples of it")

# convolutions -----------------------------------------------------------------------------------
CONV_FROM = _limit(2_000_000, 16, "multiplications: from which an eager convolution is compiled")
CONV_COLUMNS = _limit(4 << 20, 256, "bytes: of columns at a time, eagerly")
CONV_FLAT = _limit(256, 6, "positions: with fewer in a sample there is one product for all samples")
CONV_PLANES_WORK = _limit(100_000, 64,
    "multiplications: up to which shifted planes do any convolution, eagerly")
CONV_PLANES_UP_TO = _limit(10, 2,
    "output channels a group: up to which shifted planes beat columns, eagerly")
CONV_TILES = _limit(64, 2,
    "output channels a group: from which the CPU's tiles take a convolution of 16-bit numbers")
CONV_TILES_DEPTH = _limit(256, 2, "products of a sum: from which they do")
CONV_SCRATCH = _limit(64 << 20, 1 << 16,
    "bytes: of scratch of a compiled convolution; else it is the eager one")
CONV_PLANES = _limit(320 << 10, 64, "bytes: of padded planes of a task")
CONV_STACK = _limit(512 << 10, 2048, "bytes: of padded planes of several small samples of a task")
CONV_POSITIONS = _limit(100, 8, "outputs: for which a block of weights is brought into the cache")
CONV_UNROLLED = _limit(5, 2, "taps: of a row that a tile may tell apart")
CONV_TASKS = _limit(16, 4, "tasks: so many, where there are as many pieces")
CONV_SUM = _limit(256, 4, "products: that a sum of a convolution takes before it starts anew")
CONV_LINES_PLANES = _limit(128 << 10, 64, "bytes: of padded planes of a task of lines")
CONV_LINES_TAPS = _limit(49, 9, "taps: with more it is not done by lines")
CONV_LINES_STEP = _limit(4, 2, "columns: with a larger step it is not done by lines")
CONV_LINES_SUMS = _limit(24, 3, "vectors: of sums in registers")
CONV_GRAD_BAND = _limit(256 << 10, 64,
    "bytes: of planes and cotangents of a band of a weight gradient")
CONV_GRAD_TASKS = _limit(16, 4, "tasks: of a weight gradient")
CONV_GRAD_PARTIAL = _limit(8 << 20, 1024, "bytes: of its partial sums")
CONV_GRAD_OUTPUTS = _limit(196, 8, "outputs: of samples that make a band")
CONV_GRAD_ALIAS = _limit(1024, 16,
    "bytes: planes that are multiples of it meet in the cache and are copied")
POOL_STRIDE = _limit(4, 2, "columns: with a larger stride lanes are loaded one by one")
POOL_FROM = _limit(200_000, 16, "elements of windows: from which eager pooling is compiled")

# eager kernels ----------------------------------------------------------------------------------
EAGER_SHORT = _limit(10_000.0, 10.0, "ns: shorter calls keep the GIL")
EAGER_LONG = _limit(60_000.0, 20.0, "ns: longer ones are shared among threads")
EAGER_CHUNK = _limit(30_000.0, 1.0, "ns: work that a thread takes at once")
SUM_ROW = _limit(1 << 14, 64, "elements: of a row that a task of an eager sum adds up, of float32")
SUM_LINE = _limit(512, 16, "elements: of rows of which a task adds up a few together, at most")
SUM_ROWS = _limit(512, 64, "rows: that a task adds up column by column, at most, of float32")
SUM_AREA = _limit(1 << 16, 128, "elements: of those rows, about")
SUM_BESIDE = _limit(1 << 14, 32, "elements: from which rows with few columns share vectors")
SUM_NEAR = _limit(1 << 19, 512, "bytes: of more, whole rows are added up side by side")
SUM_COPIED = _limit(1 << 22, 64, "elements: up to which an array that is not dense is copied")
SUM_APART = _limit(1024, 4, "elements: from which one is added up where it lies")
SUM_SHORT = _limit(4096, 4, "elements: from which sums of short rows have vectors across them")
SUM_ACROSS = _limit(63, 4, "elements: of such a row of float32, at most")
FILL_FROM = _limit(1 << 16, 64, "bytes: from which an array of one number has a compiled kernel")
FILL_BLOCK = _limit(1 << 17, 64, "bytes: of it that are a task, whole lines of the cache")
COUNT_FROM = _limit(1 << 12, 4, "numbers: from which an arange of floats has a compiled kernel")
FOLD_FROM = _limit(2048, 4, "elements: from which rows of a few have extrema by columns")
FUSED_FROM = _limit(16, 4, "elements: from which fused primitives are compiled kernels")
CASTS_FROM = _limit(1024, 4, "elements: from which casts to 16-bit floats and back are")
WHERE_FROM = _limit(256, 4, "elements: from which where is")
BROADCAST_FROM = _limit(1 << 14, 8,
    "elements: from which arithmetic of arrays that broadcast is")
FUSED_BLOCK = _limit(2048, 8, "elements: of a task of an elementwise one")
ROW_SHORT = _limit(64, 4, "elements: of a row for which formulas have kernels of their own")
ROW_KEPT = _limit(1 << 14, 64, "elements: of a row that formulas keep between passes, at most")
DISTANCE_LONG = _limit(8, 2,
    "elements: of rows from which Euclidean distances go by a product")
DISTANCE_ROWS = _limit(26, 3, "rows: on both sides from which they do")
PAIR_ROWS = _limit(64, 3, "rows: that are compared with all behind them at once")
STEPS_FROM = _limit(64, 4, "elements: of a state from which a recurrence of a layer is compiled")
RUNS_FROM = _limit(1 << 13, 4, "elements: of the first of arrays whose runs are joined as items")
RUNS = _limit(64, 2, "runs: of an array from which they are")
FILL = _limit(4096, 4, "elements: up to which a number is broadcast by filling an array")
INDEX_WHOLE = _limit(4096, 2, "elements: up to which NumPy's own indexing takes index tensors")
EXTREME_ROW = _limit(4096, 12, "elements: of a row whose extreme and its place are found together")
RANKED_ROW = _limit(64, 4, "elements: up to which those before each of a row are counted")
COUNTED_PLACES = _limit(2048, 8,
    "comparisons: up to which places in a sorted row are found by counting what is before them")
RANKED_FEW = _limit(8, 1, "ranks: up to which each is looked for without sorting the row")
EARLY_CALLS = _limit(20, 0, "calls: that a reference serves before a kernel is made by Numba")
DRAW_PIECE = _limit(2048, 16, "words: that a compiled draw makes at a time")
EARLY_WORDS = _limit(4096, 8, "words: of a draw that NumPy may make while no compiler is loaded")
EARLY_DRAWS = _limit(100, 2, "draws: of a process that NumPy makes then")
SCAN_COLUMNS = _limit(256, 4, "columns: of a task of a cumulative operation")
FOURIER_ROW = _limit(1 << 14, 8,
    "points: of a row that one task transforms; halves of longer ones are tasks")
SCATTER_SCRATCH = _limit(1 << 24, 256,
    "bytes: of scratch of a task that scatters; else it is the eager kernel")
SCATTER_TASKS = _limit(16, 3, "tasks: of a scatter")

ATTENTION_FROM = _limit(4096, 3,
    "scores a feature: of a head, from which attention goes by blocks; a fourth if it is causal")
ATTENTION_FEATURES = _limit(64, 2, "features: with fewer it is from as many scores")
ATTENTION_ROWS = _limit(8, 2, "queries: from which it does")
ATTENTION_QUERIES = _limit(64, 3, "queries: of a block of attention, side by side")
ATTENTION_KEYS = _limit(96, 4, "keys: of a block of attention, one after the other")
ATTENTION_TASKS = _limit(8, 3,
    "tasks: of a gradient of attention with fewer heads of keys, which has so many sums")

# graphs and loops -------------------------------------------------------------------------------
FOLD_RESULT = _limit(4096, 6, "elements: of results that constant folding computes")
FOLD_OPERANDS = _limit(1 << 20, 16, "elements: that folding one node may read")
EQUAL_CONSTANTS = _limit(1024, 16, "bytes: up to which constants are compared by value")
CODE_CONSTANTS = _limit(1024, 16,
    "bytes: of constants whose values may be part of code, and are part of its key")
RECOMPUTED = _limit(8, 2, "nodes: that are run again for one value")
WHILE_BYTES = _limit(1 << 26, 64,
    "bytes: of the carries of a while loop that are kept for going back")
WHILE_LEAST = _limit(16, 2, "carries: that are kept in any case")
WHILE_MOST = _limit(1024, 4, "carries: that are kept, at most")

# jit --------------------------------------------------------------------------------------------
PROGRAMS = _limit(32, 4, "programs: for arguments of one kind; then the function runs uncompiled")
KEPT_PROGRAMS = _limit(512, 10,
    "programs: of one function, for arguments of all kinds; the one used longest ago goes")
PLANS = _limit(8, 2, "short ways: that are tried before the arguments are looked up")
LENGTHS = _limit(4096, 4, "lengths of slices: that one short way keeps its code called for")
ANSWERS = _limit(16, 8, "answers: to one question of one program")
SEGMENTS = _limit(256, 32, "segments: of one program")
SHARED_PROGRAMS = _limit(32, 3, "programs: that functions of one code share")
SHARED_CONSTANT = _limit(1024, 4, "elements: of constants of programs that are shared")
GUARD_ITEMS = _limit(1024, 64, "items: of a container that are looked at one by one")
GUARD_PLAIN = _limit(131_072, 100, "values: of a container of plain values and of those in it")
GUARD_BYTES = _limit(1 << 24, 1 << 10, "bytes: of an array that is compared")
GUARD_CHECKS = _limit(4096, 4096, "comparisons: of one program")
GUARD_DEPTH = _limit(12, 12, "attributes: along which objects are walked")
GUARD_USED_CHECKS = _limit(16_384, 8192, "comparisons: with those on what was seen to be read")
GUARD_USED_DEPTH = _limit(200, 200, "attributes: along which what was seen to be read is walked")
GUARD_GIVEN = _limit(10_000, 200, "objects: below one that is given to code in C")
# fmt: on

TABLE: dict[str, Limit] = dict(
    zip([name for name in globals() if name.isupper()], _rows, strict=True)
)
_listeners: list[Callable[[], object]] = []


def key() -> str:
    """What compiled code is kept under besides what it computes; nothing for normal limits."""
    return _key


def _key_now() -> str:
    now = [f"{name}={_value(name)}" for name, row in TABLE.items() if _value(name) != row.normal]
    if not now:
        return ""
    from hashlib import sha256  # which loads OpenSSL

    return sha256(",".join(now).encode()).hexdigest()[:16]


def _value(name: str) -> float:
    found: float = globals()[name]
    return found


_key = _key_now()


def on_change(forget: Callable[[], object]) -> None:
    """Call ``forget`` whenever limits change: it drops what was made with those before."""
    _listeners.append(forget)


@contextmanager
def given(**values: float) -> Iterator[None]:
    """Limits by name, while a block runs.

    Raises:
        KeyError: for a name that is not in the table.
        ValueError: for one that is read but once.

    Example:
        >>> import fx
        >>> from fx import limits
        >>> with limits.given(FUSE_NODES=2):
        ...     fx.jit(lambda x: fx.exp(fx.sin(x) + 1) * 2)(fx.zeros(2))
        tensor([5.4366, 5.4366])
    """
    for name in values:
        if name not in TABLE:
            raise KeyError(f"limits.given: no limit is called {name}; limits.TABLE has them all")
        if TABLE[name].early:
            raise ValueError(f"limits.given: {name} is read but once; start with FX_LIMITS=tiny")
    before = {name: _value(name) for name in values}
    _set(values)
    try:
        yield
    finally:
        _set(before)


def tiny() -> AbstractContextManager[None]:
    """All limits so small that a handful of elements crosses them, while a block runs."""
    return given(**{name: limit.tiny for name, limit in TABLE.items() if not limit.early})


def normal() -> AbstractContextManager[None]:
    """The limits that serve people, while a block runs: what the others are compared with."""
    return given(**{name: limit.normal for name, limit in TABLE.items() if not limit.early})


def _set(values: dict[str, float]) -> None:
    global _key
    globals().update(values)
    _key = _key_now()
    for forget in _listeners:
        forget()
