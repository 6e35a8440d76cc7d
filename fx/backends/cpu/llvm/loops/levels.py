"""Levels: places inside a loop nest where code can still be added while deeper loops are built.

The block before a loop is left open until the loop is complete, so that what a deeper level needs
only once is emitted where it belongs, instead of being left to the optimiser.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir import i64


class Level:
    """A place where code can be added, and what is known there."""

    __slots__ = ("block", "values")

    def __init__(self, block: Any) -> None:
        self.block = block
        self.values: dict[Any, Any] = {}


class Levels:
    """The levels that are open, the deepest last; the builder stands in the deepest.

    A loop that is no level of the nest, but cuts one into stretches, is hidden: its level has no
    depth, and nothing is looked up or kept there.
    """

    def __init__(self, function: ir.Function) -> None:
        self.function = function
        self.b = ir.IRBuilder(function.append_basic_block())
        self.stack = [Level(self.b.block)]
        self.shown = [self.stack[0]]

    def level(self, depth: int) -> Level:
        """The level of a depth, the deepest that there is if it is not that deep."""
        return self.shown[depth] if depth < len(self.shown) else self.shown[-1]

    def at(self, depth: int, emit: Callable[[], Any]) -> Any:
        """Run ``emit`` with the builder at the end of the level ``depth``."""
        level = self.level(depth)
        if level is self.stack[-1]:
            return emit()
        here = self.b.block
        self.b.position_at_end(level.block)
        found = emit()
        level.block = self.b.block
        self.b.position_at_end(here)
        return found

    def known(self, depth: int, key: Any, emit: Callable[[], Any]) -> Any:
        """What ``emit`` gave at that level, emitted once."""
        values = self.level(depth).values
        found = values.get(key)
        if found is None:
            found = values[key] = self.at(depth, emit)
        return found

    def _push(self, block: Any, hidden: bool) -> None:
        self.stack.append(Level(block))
        if not hidden:
            self.shown.append(self.stack[-1])

    def _pop(self, hidden: bool) -> None:
        self.stack.pop()
        if not hidden:
            self.shown.pop()

    def scope(self, body: Callable[[], Any]) -> Any:
        """Run ``body`` one level deeper, without a loop."""
        self.stack[-1].block = self.b.block
        block = self.function.append_basic_block()
        self._push(block, False)
        self.b.position_at_end(block)
        found = body()
        end = self.b.block
        self._pop(False)
        outer = self.stack[-1]
        self.b.position_at_end(outer.block)
        self.b.branch(block)
        self.b.position_at_end(end)
        outer.block = end
        return found

    def loop(
        self,
        start: Any,
        stop: Any,
        step: int,
        carried: Sequence[Any],
        body: Callable[[Any, list[Any]], Sequence[Any]],
        surely: bool = False,
        hidden: bool = False,
    ) -> list[Any]:
        """``for i in range(start, stop, step): carried = body(i, carried)``; the last ``carried``.

        Args:
            start, stop: i64.
            step: at least 1.
            carried: values that go from one iteration to the next.
            body: emits one iteration.
            surely: whether there is at least one iteration.
            hidden: whether it only cuts a loop into stretches.
        """
        b, append = self.b, self.function.append_basic_block
        self.stack[-1].block = b.block
        head = append()
        b.position_at_end(head)
        i = b.phi(i64)
        phis = [b.phi(v.type) for v in carried]
        if not surely:
            inside, after = append(), append()
            b.cbranch(b.icmp_signed("<", i, stop), inside, after)
            b.position_at_end(inside)
        self._push(b.block, hidden)
        found = list(body(i, list(phis)))
        following = b.add(i, i64(step), flags=("nsw",))
        end = b.block
        if surely:
            after = append()
            b.cbranch(b.icmp_signed("<", following, stop), head, after)
        else:
            b.branch(head)
        self._pop(hidden)
        outer = self.stack[-1]
        b.position_at_end(outer.block)
        b.branch(head)
        for phi, first, last in zip((i, *phis), (start, *carried), (following, *found)):
            phi.add_incoming(first, outer.block)
            phi.add_incoming(last, end)
        b.position_at_end(after)
        outer.block = after
        return found if surely else list(phis)
