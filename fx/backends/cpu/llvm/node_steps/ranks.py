"""Collectives between the ranks of a mesh, as steps of compiled code.

What a step sends and how it waits is in ``messages.py``; nothing about ranks stands in the code.
What MPI reports is told as an unfit value is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu import collective
from fx.backends.cpu.collective import INDEX, OPERATIONS
from fx.backends.cpu.llvm import externals
from fx.backends.cpu.llvm.failures import LOST, UNLIKE
from fx.backends.cpu.llvm.ir import Frame, at, clear, copy, i8, i32, i64, store_item
from fx.backends.cpu.llvm.node_steps.checked import CheckedStep
from fx.backends.cpu.llvm.node_steps.kernel import SpecialStep, has_elements
from fx.backends.cpu.llvm.node_steps.messages import LATE, Messages
from fx.backends.cpu.llvm.node_steps.rank_sums import (
    by_pieces,
    ordered_sum,
    pieces_room,
    sums_by_pieces,
)
from fx.compiler.step import Step
from fx.dtypes import bool_, int64, uint64
from fx.graph.ir import Node

_TAG = 1 << 15  # eager messages have lower ones
_APART = 8  # terms of a sum that get messages of their own, at most
# a message takes longer than a step that keeps Python's lock may
_LATENCY, _BYTE = 30_000.0, 0.2  # nanoseconds


class _MessageStep(CheckedStep):
    words = (LOST,)


class _AgreementStep(CheckedStep):
    words = (LOST, UNLIKE)


Post = Callable[[Messages, Sequence[Any], Sequence[Any], Any], None]


def _message(node: Node, post: Post, scratch: int = 0) -> Step | None:
    """A step that begins messages and waits for them; the last values are tokens."""
    if not has_elements(node) or type(node.params["axis"]) is not str:
        return None

    def body(frame: Frame) -> None:
        b, ends = frame.b, [*frame.writes]
        status, token, reads = ends.pop(), ends.pop(), frame.reads[:-1]
        messages = Messages(frame, node)
        post(messages, reads, ends, frame.scratch)
        store_item(b, i8(0), token, i64(0), node.outs[-1].spec.dtype)
        messages.finish(status)
        for end in messages.behind:
            end()
        b.ret_void()

    cost = _LATENCY + _BYTE * sum(v.spec.nbytes for v in node.outs)
    return _MessageStep(node, body, _failure(node), cost=cost, scratch=scratch)


def _failure(node: Node) -> str:
    name = node.params.get("of") or node.primitive.name.removesuffix("_after")
    return (
        f"{name} along axis {node.params['axis']}: MPI gave up with its code %lld "
        f"({LATE}: not every rank came to it within the timeout of the group)"
    )


def _agreement(node: Node) -> Step | None:
    """Whether ranks do the same: the least of words and of their complements (``agreement.py``)."""
    keys = node.inputs[:-1]
    if keys and keys[0].spec.shape != (_KEY,):
        return None
    count = _KEY // 2 if keys else 1
    nbytes = 8 * count

    def body(frame: Frame) -> None:
        b = frame.b
        out, token, status = frame.writes
        mine, least = frame.scratch, at(b, frame.scratch, i64(2 * nbytes), i8)
        words = [
            b.load(at(b, frame.reads[0], i, i64), align=4, typ=i64)
            for i in range(count if keys else 0)
        ]
        words = words or [i64(node.params["digest"])]
        for i, word in enumerate(words):
            store_item(b, word, mine, i64(i), int64)
            store_item(b, b.not_(word), mine, i64(count + i), int64)
        messages = Messages(frame, node)
        kind, op = messages.datatype(uint64), messages.word(OPERATIONS["min", uint64])
        messages.post("Iallreduce", mine, least, i64(2 * count), kind, op)
        store_item(b, i8(0), out, i64(0), bool_)
        store_item(b, i8(0), token, i64(0), bool_)
        bad = messages.finish(status)
        unlike = ir.Constant(ir.IntType(1), 0)
        for i, word in enumerate([*words, *[b.not_(w) for w in words]]):
            found = b.load(at(b, least, i, i64), typ=i64)
            unlike = b.or_(unlike, b.icmp_signed("!=", found, word))
        with b.if_then(b.and_(unlike, b.not_(bad)), likely=False):
            store_item(b, i64(UNLIKE), status, i64(0), int64)
            tells = words[0] if keys else i64(node.params["tells"])
            store_item(b, tells, status, i64(1), int64)
        b.ret_void()

    return _AgreementStep(node, body, _failure(node), cost=_LATENCY, scratch=4 * nbytes)


_KEY = 6  # words of a key (``fx/random/README.md``)


# one a primitive ----------------------------------------------------------------------------------


def _reduction(name: str) -> Callable[[Node], Step | None]:
    def step(node: Node) -> Step | None:
        if node.primitive.name == "unshard_after":
            if node.params["how"] == "rows":
                return _gather(node)
            sent = node.inputs[:1]
        else:
            sent = node.inputs[:-1]
        dtype = sent[0].spec.dtype
        if any(v.spec.dtype != dtype for v in sent) or (name, dtype) not in OPERATIONS:
            return None
        sizes, size = [v.spec.nbytes for v in sent], node.params["size"]
        alone, nbytes = size == 1, sum(sizes)
        count = nbytes // dtype.itemsize
        cut = name == "sum" and by_pieces(size, nbytes, dtype)
        # long terms stay where they are, and cross with the others, which are laid side by side
        apart = [i for i, n in enumerate(sizes) if cut and n >= limits.RANK_ALONE][:_APART]
        beside = [i for i in range(len(sizes)) if i not in apart]
        joined = [sizes[i] for i in beside]
        packed = 2 * sum(joined) if len(beside) > 1 and not alone else 0

        def post(m: Messages, reads: Any, writes: Any, scratch: Any) -> None:
            b = m.b
            if alone:
                for x, out, n in zip(reads, writes, sizes):
                    copy(b, out, x, n)
                return
            spans = [(reads[i], writes[i], sizes[i]) for i in apart]
            if len(beside) == 1:
                spans.append((reads[beside[0]], writes[beside[0]], joined[0]))
            elif beside:
                x, out = scratch, at(b, scratch, i64(sum(joined)), i8)
                for i, place in zip(beside, _starts(joined)):
                    copy(b, at(b, x, i64(place), i8), reads[i], sizes[i])
                m.behind.append(lambda: _unpack(b, out, [writes[i] for i in beside], joined))
                spans.append((x, out, sum(joined)))
            if cut:
                at_room, sums = packed, []
                for x, out, n in spans:
                    n //= dtype.itemsize
                    sums.append((x, out, at(b, scratch, i64(at_room), i8), n))
                    at_room += pieces_room(size, n, dtype.itemsize)
                sums_by_pieces(m, sums, size, dtype)
                return
            ((x, out, _),) = spans
            kind, op = m.datatype(dtype), m.word(OPERATIONS[name, dtype])
            m.post("Iallreduce", x, out, i64(count), kind, op)

        lengths = [n // dtype.itemsize for n in [*[sizes[i] for i in apart], sum(joined)] if n]
        room = sum(pieces_room(size, n, dtype.itemsize) for n in lengths) if cut else 0
        return _message(node, post, packed + room)

    return step


def _starts(sizes: Sequence[int]) -> list[int]:
    return [sum(sizes[:i]) for i in range(len(sizes))]


def _unpack(b: Any, source: Any, writes: Sequence[Any], sizes: Sequence[int]) -> None:
    for out, place, n in zip(writes, _starts(sizes), sizes):
        copy(b, out, at(b, source, i64(place), i8), n)


def _to_all(function: str) -> Callable[[Node], Step | None]:
    """Bytes of each rank to each."""

    def step(node: Node) -> Step | None:
        nbytes, size = node.outs[0].spec.nbytes, node.params["size"]

        def post(m: Messages, reads: Any, writes: Any, scratch: Any) -> None:
            if size == 1:
                copy(m.b, writes[0], reads[0], nbytes)
                return
            end = [i64(nbytes // size), m.datatype(None)]
            m.post(function, reads[0], *end, writes[0], *end)

        return _message(node, post)

    return step


_gather = _to_all("Iallgather")


def _scatter(node: Node) -> Step | None:
    spec, size = node.outs[0].spec, node.params["size"]
    if ("sum", spec.dtype) not in OPERATIONS:
        return None

    def post(m: Messages, reads: Any, writes: Any, scratch: Any) -> None:
        if size == 1:
            copy(m.b, writes[0], reads[0], spec.nbytes)
            return
        kind, op = m.datatype(spec.dtype), m.word(OPERATIONS["sum", spec.dtype])
        m.post("Ireduce_scatter_block", reads[0], writes[0], i64(spec.size), kind, op)

    return _message(node, post)


def _broadcast(node: Node) -> Step | None:
    nbytes, params = node.outs[0].spec.nbytes, node.params

    def post(m: Messages, reads: Any, writes: Any, scratch: Any) -> None:
        copy(m.b, writes[0], reads[0], nbytes)
        if params["size"] > 1:
            m.post("Ibcast", writes[0], i64(nbytes), m.datatype(None), i32(params["source"]))

    return _message(node, post)


def _permute(node: Node) -> Step | None:
    nbytes, sources = node.outs[0].spec.nbytes, node.params["sources"]

    def post(m: Messages, reads: Any, writes: Any, scratch: Any) -> None:
        b, index, count = m.b, m.word(INDEX), i64(nbytes)
        source, to = i32(_NOBODY), i32(_NOBODY)
        for i, s in enumerate(sources):
            here = b.icmp_signed("==", index, i64(i))
            source = b.select(here, i32(s if s >= 0 else _NOBODY), source)
            if i in sources:
                to = b.select(here, i32(sources.index(i)), to)
        clear(b, writes[0], nbytes)
        own = b.icmp_signed("==", b.sext(source, i64), index)
        with b.if_then(own):
            copy(b, writes[0], reads[0], nbytes)
        if len(sources) == 1:
            return
        nobody = b.trunc(m.word(collective.NOBODY), i32)
        source = b.select(b.or_(own, b.icmp_signed("<", source, i32(0))), nobody, source)
        to = b.select(b.or_(own, b.icmp_signed("<", to, i32(0))), nobody, to)
        m.post("Irecv", writes[0], count, m.datatype(None), source, i32(_TAG))
        m.post("Isend", reads[0], count, m.datatype(None), to, i32(_TAG))

    return _message(node, post)


_NOBODY = -1


# what needs no message ---------------------------------------------------------------------------


def _index(node: Node) -> Step | None:
    axis = node.params["axis"]
    if type(axis) is not str:
        return None

    def body(frame: Frame) -> None:
        b = frame.b
        words = externals.ranks(b.module, axis)
        store_item(b, b.load(at(b, words, INDEX, i64), typ=i64), frame.writes[0], i64(0), int64)
        b.ret_void()

    return SpecialStep(node, body, cost=5.0)


def _shard(node: Node) -> Step | None:
    if node.params["how"] != "rows" or not has_elements(node):
        return None
    nbytes = node.out.spec.nbytes

    def body(frame: Frame) -> None:
        b, (x, lane) = frame.b, frame.reads
        start = b.mul(b.load(lane, typ=i64), i64(nbytes))
        copy(b, frame.writes[0], at(b, x, start, i8), nbytes)
        b.ret_void()

    return SpecialStep(node, body, cost=5.0 + 0.1 * nbytes)


def _as_it_is(node: Node) -> Step | None:
    """A part that is the whole already."""
    if node.params["how"] != "first" or type(node.params["axis"]) is not str:
        return None
    nbytes = node.out.spec.nbytes
    if not nbytes:
        return None

    def body(frame: Frame) -> None:
        copy(frame.b, frame.writes[0], frame.reads[0], nbytes)
        frame.b.ret_void()

    return SpecialStep(node, body, cost=5.0 + 0.1 * nbytes)


STEPS: dict[str, Callable[[Node], Step | None]] = {
    "ranks_agree_after": _agreement,
    "psum_after": _reduction("sum"),
    "pmax_after": _reduction("max"),
    "pmin_after": _reduction("min"),
    "unshard_after": _reduction("sum"),
    "all_gather_after": _gather,
    "all_to_all_after": _to_all("Ialltoall"),
    "psum_scatter_after": _scatter,
    "pbroadcast_after": _broadcast,
    "ppermute_after": _permute,
    "ordered_sum": ordered_sum,
    "mesh_index": _index,
    "shard": _shard,
    "unshard": _as_it_is,
}
