"""Collectives between ranks, and over lanes that all hold the same where nothing is batched.

``axes`` has the axes of the meshes of this process (``fx.distributed.mesh`` puts them there): this
file knows nothing of what carries their messages.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fx.backends.cpu._arrays import narrowed, widen
from fx.dtypes import COMPLEX, INTEGRAL, bool_, complex64, complex128, float32, float64
from fx.errors import DistError

engine: Any = None  # ``address(name)`` of MPI's functions (``fx.distributed.mpi``)
compiled: Any = None  # graph with messages -> the one that is compiled for it
told: Any = None  # what a kernel says of ranks that differ -> what all of them do
axes: dict[str, Any] = {}  # by key: ``fx.distributed.ranks.Ranks``

# the words of an axis, which compiled code reads: what MPI calls its ranks, datatypes, operations
# NOBODY: the rank that takes and sends nothing; LIMIT: nanoseconds of a wait, 0 for ever
# RECORD: the address of the record that tells of its messages
# APART: the communicator of messages from one rank to another
COMM, INDEX, NOBODY, LIMIT, RECORD, APART = 0, 1, 2, 3, 4, 5
_NUMBERS = (*sorted(INTEGRAL, key=lambda d: d.name), float32, float64, complex64, complex128)
DATATYPES = {dtype: i for i, dtype in enumerate((None, bool_, *_NUMBERS), 6)}  # None: bytes
OPERATIONS = {
    key: i
    for i, key in enumerate(
        [("sum", d) for d in (bool_, *_NUMBERS)]
        + [(name, d) for name in ("max", "min") for d in (bool_, *_NUMBERS) if d not in COMPLEX],
        6 + len(DATATYPES),
    )
}
WORDS = 6 + len(DATATYPES) + len(OPERATIONS)


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array that a message fills, in memory that is used again."""
    from fx.backends.cpu.llvm import allocation

    return allocation.empty(shape, dtype)


def ranks_of(axis: str) -> Any:
    """The ranks along an axis of a mesh.

    Raises:
        DistError: if no mesh of this process has that axis: the program is another process's.
    """
    found = axes.get(axis)
    if found is None:
        raise DistError(f"no mesh of this process has the axis {axis!r}; make the fx.Mesh first")
    return found


def _sum(x: np.ndarray, size: int) -> np.ndarray:
    """The sum of ``size`` equal terms, in the dtype of ``x``; any() of bool."""
    x = np.asarray(x)
    if x.dtype == bool:
        return x if size else np.zeros_like(x)
    wide = widen(x)
    return narrowed(np.multiply(wide, wide.dtype.type(size)), x.dtype)


def psum(*xs: np.ndarray, axis: Any, size: int) -> tuple[np.ndarray, ...]:
    """Sums over ranks, or of ``size`` equal terms."""
    if type(axis) is str:
        return tuple([ranks_of(axis).reduce(x, "sum") for x in xs])
    return tuple([_sum(x, size) for x in xs])


def pmax(x: np.ndarray, *, axis: Any, size: int) -> np.ndarray:
    """The maximum over ranks, or of equal values."""
    return ranks_of(axis).reduce(x, "max") if type(axis) is str else x


def pmin(x: np.ndarray, *, axis: Any, size: int) -> np.ndarray:
    """The minimum over ranks, or of equal values."""
    return ranks_of(axis).reduce(x, "min") if type(axis) is str else x


def all_gather(x: np.ndarray, lane: np.ndarray, *, axis: Any, size: int) -> np.ndarray:
    """The sum over ``size`` lanes that each put ``x`` into row ``lane``: x (*S) -> (size, *S)."""
    if type(axis) is str:
        return ranks_of(axis).gather(x)  # type: ignore[no-any-return]
    out = np.zeros((size, *x.shape), x.dtype)
    out[int(lane)] = _sum(x, size)
    return out


def psum_scatter(x: np.ndarray, lane: np.ndarray, *, axis: Any, size: int) -> np.ndarray:
    """The row ``lane`` of the sum: x (size, *S) -> (*S)."""
    if type(axis) is str:
        return ranks_of(axis).reduce_scatter(x)  # type: ignore[no-any-return]
    return _sum(x[int(lane)], size)


def all_to_all(x: np.ndarray, lane: np.ndarray, *, axis: Any, size: int) -> np.ndarray:
    """Row j to rank j, and its row from each; lanes that all are lane ``lane`` add up there."""
    if type(axis) is str:
        return ranks_of(axis).exchange(x)  # type: ignore[no-any-return]
    out = np.zeros_like(x)
    out[int(lane)] = _sum(x[int(lane)], size)
    return out


def pbroadcast(x: np.ndarray, lane: np.ndarray, *, axis: Any, size: int, source: int) -> Any:
    """What ``source`` holds; lanes that all are lane ``lane`` add up if they are that one."""
    if type(axis) is str:
        return ranks_of(axis).broadcast(x, source)
    return _sum(x, size) if int(lane) == source else np.zeros_like(x)


def ppermute(
    x: np.ndarray, lane: np.ndarray, *, axis: Any, size: int, sources: tuple[int, ...]
) -> np.ndarray:
    """``x``, or zeros where nobody sends to ``lane``."""
    if type(axis) is str:
        return ranks_of(axis).permute(x, sources)  # type: ignore[no-any-return]
    return x if sources[int(lane)] >= 0 else np.zeros_like(x)


def mesh_index(*, axis: Any, device: str) -> np.ndarray:
    """The place of this rank along an axis, () int64."""
    return np.asarray(ranks_of(axis).index if type(axis) is str else 0, np.int64)


def shard(x: np.ndarray, lane: np.ndarray, *, axis: Any, size: int, how: str) -> np.ndarray:
    """The part of this rank (``fx/prims/mesh.py``)."""
    if how == "rows":
        return x[int(lane)]
    return x if how == "same" or int(lane) == 0 else np.zeros_like(x)


def unshard(x: np.ndarray, lane: np.ndarray, *, axis: Any, size: int, how: str) -> np.ndarray:
    """The whole of the parts of all ranks; of one rank that is ``lane`` where ``axis`` is none."""
    if type(axis) is str:
        if how == "first":
            return x
        ranks = ranks_of(axis)
        return ranks.gather(x) if how == "rows" else ranks.reduce(x, "sum")  # type: ignore[no-any-return]
    if how == "rows":
        out = np.zeros((size, *x.shape), x.dtype)
        out[int(lane)] = x
        return out
    return x if how == "same" or int(lane) == 0 else np.zeros_like(x)
