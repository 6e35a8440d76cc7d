"""Sums over ranks by pieces: each rank gets its piece of all, adds them by pairs, sends the sum.

    rank 0 | a0 a1 |   | a0 b0 |   | a0+b0       |   | a0+b0 a1+b1 |
    rank 1 | b0 b1 |   | a1 b1 |   |       a1+b1 |   | a0+b0 a1+b1 |

As ``fx/distributed/exchange.py`` does it for eager sums, with the same bits. Every byte crosses
twice whatever the number of ranks, and fx's own loop adds: from some kilobytes on that takes half
the time of ``MPI_Iallreduce``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fx import limits
from fx.backends.cpu.collective import INDEX
from fx.backends.cpu.llvm.ir import (
    Frame,
    at,
    i8,
    i32,
    i64,
    in_vectors,
    lanes_for,
    load_item,
    part,
    store_item,
)
from fx.backends.cpu.llvm.node_steps.kernel import SpecialStep, tasks_for
from fx.backends.cpu.llvm.node_steps.messages import Messages
from fx.compiler.step import Step
from fx.dtypes import float32, float64
from fx.graph.ir import Node

_TAG = (1 << 15) + 1  # eager messages have lower ones


def by_pieces(size: int, nbytes: int, dtype: Any) -> bool:
    """Whether a sum over so many ranks goes by pieces."""
    enough = nbytes >= limits.RANK_PIECES and 1 < size <= limits.RANKS_BY_PIECES
    return enough and dtype in (float32, float64)


def pieces_room(size: int, count: int, itemsize: int) -> int:
    """Bytes for the pieces that come."""
    return (size - 1) * _longest(size, count) * itemsize


def _longest(size: int, count: int) -> int:
    return -(-count // size)


Sum = tuple[Any, Any, Any, int]  # x and out (count,), room for the pieces that come, count


def sums_by_pieces(m: Messages, sums: Sequence[Sum], size: int, dtype: Any) -> None:
    """Sums of elements of each rank, x (count,) -> out (count,): they cross at the same time."""
    b, index, item = m.b, m.word(INDEX), dtype.itemsize
    kind, bytes_of = m.datatype(None), lambda n: b.mul(n, i64(item))
    place = lambda base, first: at(b, base, bytes_of(first), i8)
    # the others as seen from here: index + 1, index + 2, ... around
    others = [b.urem(b.add(index, i64(k)), i64(size)) for k in range(1, size)]

    def piece(r: Any, count: int) -> tuple[Any, Any]:
        """Where the piece of rank r begins, and its length."""
        cut = lambda r: b.udiv(b.mul(i64(count), r), i64(size))
        start = cut(r)
        return start, b.sub(cut(b.add(r, i64(1))), start)

    def slots(room: Any, count: int) -> list[Any]:
        return [at(b, room, i64(k * _longest(size, count) * item), i8) for k in range(size - 1)]

    def swap(mine: Any, theirs: Sequence[Any], tag: int) -> None:
        """``mine(r)`` to each other rank r, from whom ``theirs`` come: addresses and lengths."""
        for r, (address, n) in zip(others, theirs):
            m.post("Irecv", address, bytes_of(n), kind, b.trunc(r, i32), i32(tag))
        for r in others:
            address, n = mine(r)
            m.post("Isend", address, bytes_of(n), kind, b.trunc(r, i32), i32(tag))

    for x, _, room, count in sums:
        mine = lambda r, x=x, count=count: (place(x, piece(r, count)[0]), piece(r, count)[1])
        length = piece(index, count)[1]
        swap(mine, [(slot, length) for slot in slots(room, count)], _TAG)
    with m.then():
        for x, out, room, count in sums:
            start, length = piece(index, count)
            own, target = place(x, start), place(out, start)
            ordered = [_of_rank(m, r, own, slots(room, count), index, size) for r in range(size)]

            def add(i: Any, lanes: int | None, terms: Any = ordered, target: Any = target) -> None:
                found = [load_item(b, each, i, dtype, lanes) for each in terms]
                store_item(b, _by_pairs(b, found), target, i, dtype)

            in_vectors(b, 0, length, lanes_for(dtype), add)
            theirs = [(place(out, piece(r, count)[0]), piece(r, count)[1]) for r in others]
            swap(lambda r, here=(target, length): here, theirs, _TAG + 1)


def _by_pairs(b: Any, level: list[Any]) -> Any:
    """The sum of some numbers, as ``reductions.tree`` adds them; nothing may take it apart."""
    while len(level) > 1:
        pairs = [b.fadd(p, q) for p, q in zip(level[::2], level[1::2])]
        level = pairs + level[len(pairs) * 2 :]
    return level[0]


def ordered_sum(node: Node) -> Step | None:
    """The step of ``fx/distributed/ordered.py``."""
    dtype, size = node.out.spec.dtype, node.out.spec.size
    if dtype not in (float32, float64) or not size:
        return None
    cost = 0.1 * node.out.spec.nbytes * (1 + len(node.inputs))
    tasks = tasks_for(cost, size // lanes_for(dtype))

    def body(frame: Frame) -> None:
        b = frame.b

        def add(i: Any, lanes: int | None) -> None:
            terms = [load_item(b, x, i, dtype, lanes) for x in frame.reads]
            store_item(b, _by_pairs(b, terms), frame.writes[0], i, dtype)

        with frame.tasks() as task:
            in_vectors(b, *part(b, task, tasks, size), lanes_for(dtype), add)

    return SpecialStep(node, body, tasks=tasks, cost=cost)


def _of_rank(m: Messages, r: int, own: Any, slots: Sequence[Any], index: Any, size: int) -> Any:
    """Where the piece of rank ``r`` lies here: its distance from this rank tells the slot."""
    b, found = m.b, own
    away = b.urem(b.sub(i64(r + size), index), i64(size))
    for k, slot in enumerate(slots, 1):
        found = b.select(b.icmp_unsigned("==", away, i64(k)), slot, found)
    return found
