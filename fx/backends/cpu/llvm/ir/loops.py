"""Loops: ``for i in range(start, stop, step)``, with values that go from one turn to the next.

``loop`` is given a function that emits the body, ``Turns`` is the same as a ``with`` block; a body
that is in place is easier to read, one that is given is emitted as often as it pays. A loop of one
known turn is no loop. What is tested is the end of a turn, and once, before the first, whether
there is one, where that is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir.types import i64
from fx.backends.cpu.llvm.ir.values import Index, add, const, known


class Turns:
    """A loop that carries values.

    Args:
        b: the builder.
        carried: the values before the first turn.

    Attributes:
        values: those values; the body sets them anew, and behind the loop they are the last.
    """

    def __init__(self, b: ir.IRBuilder, carried: Sequence[Any] = ()) -> None:
        self.b = b
        self.values: list[Any] = list(carried)

    @contextmanager
    def range(self, start: Index, stop: Index, step: int = 1, name: str = "loop") -> Iterator[Any]:
        """The loop; a ``with`` block has to be emitted, so this is one even if it has no turns."""
        b, first = self.b, self.values
        start, stop = const(start), const(stop)
        low, high = known(start), known(stop)
        surely = low is not None and high is not None and low < high
        if surely and low + step >= high:  # type: ignore[operator]
            yield start
            return
        before = b.block
        inside, after = b.append_basic_block(name), b.append_basic_block(f"{name}.end")
        if surely:
            b.branch(inside)
        else:
            b.cbranch(b.icmp_signed("<", start, stop), inside, after)
        b.position_at_end(inside)
        index = b.phi(i64, "i")
        phis = [b.phi(value.type) for value in first]
        self.values = list(phis)
        yield index
        following = b.add(index, i64(step), flags=("nsw",))
        last = b.block
        for phi, old, new in zip(
            (index, *phis), (start, *first), (following, *self.values), strict=True
        ):
            phi.add_incoming(old, before)
            phi.add_incoming(new, last)
        b.cbranch(b.icmp_signed("<", following, stop), inside, after)
        b.position_at_end(after)
        if surely:
            return
        final = []
        for old, new in zip(first, self.values):
            phi = b.phi(old.type)
            phi.add_incoming(old, before)
            phi.add_incoming(new, last)
            final.append(phi)
        self.values = final


@contextmanager
def turns(b: ir.IRBuilder, start: Index, stop: Index, step: int = 1) -> Iterator[Any]:
    """A loop that carries nothing."""
    with Turns(b).range(start, stop, step) as i:
        yield i


def loop(
    b: ir.IRBuilder,
    start: Index,
    stop: Index,
    body: Callable[..., Sequence[Any] | None],
    carried: Sequence[Any] = (),
    step: int = 1,
    name: str = "loop",
) -> list[Any]:
    """``carried = body(i, *carried)`` for i from ``start`` below ``stop``; what is carried last."""
    low, high = known(start), known(stop)
    if low is not None and high is not None and low >= high:
        return list(carried)
    turns = Turns(b, carried)
    with turns.range(start, stop, step, name) as i:
        turns.values = list(body(i, *turns.values) or ())
    return turns.values


def in_vectors(
    b: ir.IRBuilder, start: Index, stop: Index, lanes: int, body: Callable[[Any, int | None], None]
) -> None:
    """``body(i, lanes)`` for whole vectors from ``start`` on, ``body(i, None)`` for the rest."""
    if lanes > 1:
        count = b.sub(const(stop), const(start))
        whole = b.add(const(start), b.and_(count, i64(-lanes)))
        loop(b, start, whole, lambda i: body(i, lanes), step=lanes)
        start = whole
    loop(b, start, stop, lambda i: body(i, None))


def part(b: ir.IRBuilder, task: Any, tasks: int, pieces: Index) -> tuple[Any, Any]:
    """Where the pieces of a task begin and end."""
    if tasks == 1:
        return i64(0), const(pieces)
    first = b.udiv(b.mul(task, const(pieces)), i64(tasks))
    last = b.udiv(b.mul(add(b, task, 1), const(pieces)), i64(tasks))
    return first, last
