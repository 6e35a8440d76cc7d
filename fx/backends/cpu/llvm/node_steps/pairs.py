"""Messages from one rank to another, as a step of compiled code (``fx/distributed/pairs.py``).

They go by the group's communicator and the user's tags, as bytes, so that the other rank may be an
eager one. All are under way together. A message that is shorter than its place is told by its
bytes; one that is longer is MPI's own error.
"""

from __future__ import annotations

from typing import Any

from fx.backends.cpu.collective import COMM
from fx.backends.cpu.llvm.failures import LOST, UNLIKE
from fx.backends.cpu.llvm.ir import Frame, i8, i32, i64, store_item
from fx.backends.cpu.llvm.node_steps.checked import CheckedStep
from fx.backends.cpu.llvm.node_steps.kernel import has_elements
from fx.backends.cpu.llvm.node_steps.messages import LATE, Messages
from fx.compiler.step import Step
from fx.dtypes import bool_, int64
from fx.graph.ir import Node

_COST = 30_000.0  # nanoseconds


class _PairsStep(CheckedStep):
    words = (LOST, UNLIKE)


def pair_messages(node: Node) -> Step | None:
    """The step of a node that sends its inputs, and receives its results."""
    if not has_elements(node):
        return None
    sends, receives = node.params["sends"], node.params["receives"]

    def body(frame: Frame) -> None:
        b, ends = frame.b, [*frame.writes]
        status, token = ends.pop(), ends.pop()
        messages = Messages(frame, node)
        byte = messages.datatype(None)
        for out, v, (_, _, peer, tag) in zip(ends, node.outs, receives):
            count = i64(v.spec.nbytes)
            ask = (out, count, byte, i32(peer), i32(tag))
            messages.post("Irecv", *ask, comm=COMM, expects=v.spec.nbytes)
        for x, v, (peer, tag) in zip(frame.reads, node.inputs, sends):
            ask = (x, i64(v.spec.nbytes), byte, i32(peer), i32(tag))
            messages.post("Isend", *ask, comm=COMM)
        if not receives:
            store_item(b, i8(0), ends[0], i64(0), bool_)
        store_item(b, i8(0), token, i64(0), bool_)
        bad = messages.finish(status)
        wrong = messages.wrong_count()
        if wrong is not None:
            unlike = b.and_(b.icmp_signed(">=", wrong, i64(0)), b.not_(bad))
            with b.if_then(unlike, likely=False):
                store_item(b, i64(UNLIKE), status, i64(0), int64)
                store_item(b, wrong, status, i64(1), int64)
        b.ret_void()

    return _PairsStep(node, body, _failure(node), cost=_COST)


def _failure(node: Node) -> str:
    """What is said of what MPI reports, and of a message of another number of bytes: its words end
    where that number will stand (``failures.RanksDiffer``)."""
    lost = (
        f"send and recv among the ranks of {node.params['among']} ({LATE}: not every rank came to "
        f"it within the timeout of the group; a message that is longer than its place is an error "
        f"of MPI): MPI gave up with its code %lld"
    )
    told = [
        f"{v.spec!r} is {v.spec.nbytes} bytes, and rank {peer} of its group sent"
        for v, (_, _, peer, _) in zip(node.outs, node.params["receives"])
    ]
    return f"{lost}\nrecv: {', or '.join(told)} " if told else lost


STEPS: dict[str, Any] = {"pair_messages_after": pair_messages}
