"""What moves between ranks: collectives on arrays, as steps that ask MPI and go on when it is done.

Each function is a generator of steps (``work.py``) that returns arrays. Arrays lie in a row. A
group of one, and one that only has shapes, moves nothing: every rank would have what this one has.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np

from fx import limits
from fx.devices import backend
from fx.distributed import mpi, reductions
from fx.distributed.errors import DistError
from fx.distributed.mpi import buffer, raw
from fx.distributed.reductions import Array, ReduceOp
from fx.distributed.work import Steps
from fx.frames import user_line

collective: Any = backend("cpu").between_ranks()
_TEXT = 4000  # bytes of what a rank says of its call
_TAGS = 1 << 13


def _moves(group: Any) -> bool:
    return group.comm is not None and len(group.ranks) > 1


# whether the ranks call the same ------------------------------------------------------------------


@lru_cache(maxsize=1024)
def print_of(key: Any) -> tuple[Array, bytes]:
    """A number of what a rank calls, and its complement: their least tell whether all agree."""
    digest = hashlib.blake2b(_text_of(key).encode(), digest_size=8).digest()
    number = np.frombuffer(digest, np.uint64)
    both = np.concatenate((number, ~number))
    return both, both.tobytes()


def _text_of(key: tuple[Any, ...]) -> str:
    """What a rank calls, in words: the name, then specs (dtype, shape) and texts."""
    said = [f"{k[0].name}{list(k[1])}" if isinstance(k, tuple) else str(k) for k in key[1:]]
    return f"{key[0]}({', '.join(said)})"


def checked(group: Any, key: tuple[Any, ...], steps: Steps, later: bool = False) -> Steps:
    """A collective, of which it is known in the end that all ranks called the same.

    Args:
        key: what must be the same in every rank: its name, shapes, dtypes.
        later: nobody waits for it now.

    The numbers that are compared travel beside the data; after a call that did not fit the group
    goes on by other communicators. With ``FX_DIST_DEBUG=1`` what is waited for is compared before
    anything moves.
    """
    if not _moves(group):
        return (yield from steps)
    mine, same = print_of(key)
    line = user_line() if _debug() else ""
    least = np.empty(2, np.uint64)
    comm, number = group.comm, group.count()
    asked = comm.Iallreduce(mine, least, _least())
    moving = () if line and not later else next(steps, ())
    yield (asked,)
    fits = least.tobytes() == same
    if not fits and group.comm is comm:
        yield from differ(group, key, line, number, (steps, moving) if moving else ())
    out = None
    if fits:
        try:
            yield moving or next(steps)
            out = yield from steps
        except StopIteration as stop:
            out = stop.value
    if not fits or (group.comm is not comm and number > group.spoiled):
        raise DistError(
            f"{_text_of(key)} was under way on {group!r} when another call did not fit; what came "
            f"may be of either"
        )
    return out


def agreed(group: Any, key: tuple[Any, ...]) -> Steps:
    """Only that all ranks called the same."""
    return checked(group, key, iter(()))  # type: ignore[arg-type]


def differ(
    group: Any, key: tuple[Any, ...], line: str, number: int, moving: tuple[Any, ...]
) -> Steps:
    """Raise what shows the calls of all ranks; where data moves already, the group leaves it."""
    text = f"{'moving' if moving else ''}\n{_text_of(key)} at {line or user_line()}"
    mine = np.frombuffer(text.encode()[:_TEXT].ljust(_TEXT), np.uint8)
    all_of_them = np.empty((len(group.ranks), _TEXT), np.uint8)
    yield (group.apart.Iallgather(raw(mine), raw(all_of_them)),)
    said = [row.tobytes().decode(errors="replace").rstrip() for row in all_of_them]
    told = [text.partition("\n") for text in said]
    if any(moves for moves, _, _ in told):
        made = [group.apart.Idup() for _ in range(2)]
        yield tuple([request for _, request in made])
        group.leave(number, moving, *[comm for comm, _ in made])
    listed = "\n".join(f"  rank {r}: {text}" for r, (_, _, text) in zip(group.ranks, told))
    raise DistError(f"the ranks of {group!r} do not call the same:\n{listed}")


def _debug() -> bool:
    return os.environ.get("FX_DIST_DEBUG", "0") not in ("", "0")


@lru_cache(maxsize=1)
def _least() -> Any:
    return mpi.start().MIN


# reductions ---------------------------------------------------------------------------------------


def reduce_all(group: Any, x: Array, op: ReduceOp) -> Steps:
    """The reduction of all ranks' ``x``, in each."""
    if not _moves(group):
        return reductions.before(op, x).copy()
    by = None if group.ordered else mpi.operation(op.work, x.dtype)
    if by is None or by_pieces(len(group.ranks), x.nbytes, op):
        return (yield from _ordered(group, x, op))
    out = np.empty(x.shape, x.dtype)
    given = reductions.before(op, x)
    yield (group.comm.Iallreduce(buffer(given), buffer(out), by),)
    return reductions.after(op, out, len(group.ranks))


def mean_in_order(group: Any, x: Array, terms: int, dtype: Any) -> Steps:
    """The sum of all ranks' ``x`` in their order, over ``terms``."""
    total = (yield from _ordered(group, x, ReduceOp.SUM)) if _moves(group) else x
    return np.divide(total, terms, out=total).astype(dtype, copy=False)


def by_pieces(size: int, nbytes: int, op: ReduceOp) -> bool:
    """Whether fx adds what so many ranks have, as compiled code does (``rank_sums.py``)."""
    enough = nbytes >= limits.RANK_PIECES and 1 < size <= limits.RANKS_BY_PIECES
    return enough and op.work == "sum"


def _ordered(group: Any, x: Array, op: ReduceOp) -> Steps:
    """fx's own: by pairs in the order of ranks, of everything here or of a piece in each rank."""
    if x.nbytes < limits.RANK_ORDERED:
        parts = yield from gather_all(group, x)
        return reductions.tree(op, list(parts), x.dtype)
    return (yield from pieces(group.apart, _tag(group), x, op))


def pieces(comm: Any, tag: int, x: Array, op: ReduceOp) -> Steps:
    """Each rank reduces a piece of all, in the order of ranks, and sends it to all.

    By messages of two tags of their own, so that other collectives may begin between the steps.
    """
    n, mine = comm.size, comm.rank
    flat, out = x.reshape(-1), collective.empty((x.size,), x.dtype)
    cuts = [x.size * r // n for r in range(n + 1)]
    parts = [flat[a:b] for a, b in pairwise(cuts)]
    done, sent = out[cuts[mine] : cuts[mine + 1]], raw(x)[0]
    others, item = [r for r in range(n) if r != mine], x.itemsize
    for r in others:  # what comes from the first of them lies where the sum will
        parts[r] = done if r == others[0] else collective.empty(done.shape, x.dtype)
    byte = mpi.start().BYTE
    yield (
        *[comm.Irecv(raw(parts[r]), r, tag) for r in others],
        *[comm.Isend([sent[cuts[r] * item : cuts[r + 1] * item], byte], r, tag) for r in others],
    )
    reductions.tree(op, parts, x.dtype, done)
    yield (
        *[comm.Irecv(raw(out[cuts[r] : cuts[r + 1]]), r, tag + 1) for r in others],
        *[comm.Isend(raw(done), r, tag + 1) for r in others],
    )
    return out.reshape(x.shape)


def _tag(group: Any) -> int:
    """The first of two tags for the messages of one collective, the same in all ranks."""
    group.calls += 1
    return 2 * (group.calls % _TAGS)


def reduce_to(group: Any, x: Array, op: ReduceOp, root: int) -> Steps:
    """The reduction in one rank; None in the others."""
    if not _moves(group):
        return reductions.before(op, x).copy() if group.rank() == root else None
    here = group.rank() == root
    by = None if group.ordered else mpi.operation(op.work, x.dtype)
    if by is None:
        parts = yield from gather_to(group, x, root)
        return reductions.tree(op, list(parts), x.dtype) if here else None
    out = np.empty(x.shape, x.dtype) if here else None
    into = None if out is None else buffer(out)
    given = reductions.before(op, x)
    yield (group.comm.Ireduce(buffer(given), into, by, root),)
    return None if out is None else reductions.after(op, out, len(group.ranks))


def reduce_scatter(group: Any, x: Array, op: ReduceOp) -> Steps:
    """Of ``x``, a part for each rank, (ranks, *shape): the reduction of this rank's part."""
    if not _moves(group):
        return reductions.before(op, x)[group.rank()].copy()
    by = None if group.ordered else mpi.operation(op.work, x.dtype)
    if by is None:
        parts = yield from all_to_all(group, x)
        return reductions.tree(op, list(parts), x.dtype)
    out = np.empty(x.shape[1:], x.dtype)
    given = reductions.before(op, x)
    yield (group.comm.Ireduce_scatter_block(buffer(given), buffer(out), by),)
    return reductions.after(op, out, len(group.ranks))


def reduce_scatter_ragged(group: Any, parts: Sequence[Array], op: ReduceOp) -> Steps:
    """Of a part of its own shape for each rank: the reduction of this rank's."""
    mine = parts[group.rank()]
    if not _moves(group):
        return reductions.before(op, mine).copy()
    found = yield from all_to_all_ragged(group, parts, [np.empty_like(mine) for _ in parts])
    return reductions.tree(op, found, mine.dtype)


# moves --------------------------------------------------------------------------------------------


def gather_all(group: Any, x: Array) -> Steps:
    """All ranks' ``x``, in each: (ranks, *shape)."""
    out = np.empty((len(group.ranks), *x.shape), x.dtype)
    if not _moves(group):
        out[...] = x
        return out
    yield (group.comm.Iallgather(raw(x), raw(out)),)
    return out


def gather_to(group: Any, x: Array, root: int) -> Steps:
    """All ranks' ``x`` in one, (ranks, *shape); None in the others."""
    if not _moves(group):
        return np.stack([x] * len(group.ranks)) if group.rank() == root else None
    out = np.empty((len(group.ranks), *x.shape), x.dtype) if group.rank() == root else None
    yield (group.comm.Igather(raw(x), None if out is None else raw(out), root),)
    return out


def scatter(group: Any, parts: Array | None, like: Array, root: int) -> Steps:
    """Of ``parts`` in one rank, (ranks, *shape), this rank's; it has the shape of ``like``."""
    if not _moves(group):
        return (like if parts is None else parts[group.rank()]).copy()
    out = np.empty(like.shape, like.dtype)
    yield (group.comm.Iscatter(None if parts is None else raw(parts), raw(out), root),)
    return out


def broadcast(group: Any, x: Array, root: int) -> Steps:
    """One rank's ``x``, in each."""
    if not _moves(group):
        return x.copy()
    out = x.copy() if group.rank() == root else np.empty(x.shape, x.dtype)
    yield (group.comm.Ibcast(raw(out), root),)
    return out


def all_to_all(group: Any, x: Array) -> Steps:
    """Of ``x``, a part for each rank, (ranks, *shape): what the ranks have for this one."""
    if not _moves(group):
        return x.copy()
    out = np.empty(x.shape, x.dtype)
    yield (group.comm.Ialltoall(raw(x), raw(out)),)
    return out


def all_to_all_ragged(group: Any, parts: Sequence[Array], out: Sequence[Array]) -> Steps:
    """A part of its own size for each rank; what comes is written into ``out``.

    Raises:
        DistError: if a rank has more or less for this one than there is room.
    """
    if not _moves(group):
        for into, part in zip(out, parts):
            into[...] = part if into.shape == part.shape else 0
        return list(out)
    comm, tag = group.apart, _tag(group)
    gives = np.array([p.nbytes for p in parts], np.int64)
    room = np.array([o.nbytes for o in out], np.int64)
    come = np.empty_like(room)
    yield (group.comm.Ialltoall(raw(gives), raw(come)),)
    if (come != room).any():
        r = int(np.flatnonzero(come != room)[0])
        raise DistError(
            f"rank {group.ranks[r]} of {group!r} sends {come[r]} bytes to rank "
            f"{group.ranks[group.rank()]}, where there is room for {room[r]}, at {user_line()}"
        )
    yield (
        *[comm.Irecv(raw(into), r, tag) for r, into in enumerate(out)],
        *[comm.Isend(raw(part), r, tag) for r, part in enumerate(parts)],
    )
    return list(out)


def barrier(group: Any) -> Steps:
    """Until all ranks are here."""
    if _moves(group):
        yield (group.comm.Ibarrier(),)
