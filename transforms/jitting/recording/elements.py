"""Recording of elements: ``x.item()`` is a number that is there when its segment has run.

What the function stores, returns or computes of it, Python does after the segment has run; what it
asks about it is a question, which ends the segment.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fx.config import modes
from fx.dtypes import float64
from fx.graph.ir import Node, Value
from fx.graph.passes.effects import is_effectful
from fx.graph.staging import StageTracer
from fx.graph.surroundings import Outside
from fx.staged_number import StagedNumber
from fx.tensor import Tensor
from fx.transforms.jitting.program import Program
from fx.transforms.jitting.recording.host import Fits, asks_types

_TOTAL = (operator.add, operator.sub, operator.mul, operator.truediv)


class ElementRecording:
    """The part of a recording that knows elements of tensors."""

    program: Program
    call: Any
    nodes: list[Node]
    path: list[Any]
    depth: int
    outer: Any
    items: dict[Value, None]

    if TYPE_CHECKING:

        def lower(self, x: Any) -> Any: ...
        def value_of(self, x: Any) -> Any: ...

    def number_of(self, x: Tensor) -> Any:
        """What stands for the one element of a tensor; None where its value must be asked for."""
        lowered = self.lower(x)
        if modes.stage is not self or self.outer is not None or not self.may_wait:
            return None
        if type(lowered) is not StageTracer or lowered.size != 1 or lowered.dtype.kind not in "fiu":
            return None
        value = self.value_of(lowered)
        if value.constant is not None:
            return None
        now = self.now_of(value)
        if now is None:
            return None
        self.items[value] = None
        return StagedNumber(self, None, now._a.item(), self.program.table.item(value))

    @cached_property
    def may_wait(self) -> bool:
        """Whether elements of tensors may be numbers that come when all has run."""
        tensors = self.call.signature.tensors
        plain = not modes.lanes and modes.turn is None and all(x.level < 0 for x in tensors)
        return plain and not asks_types(self.call.jitted.function)

    def is_total(self, function: Any, args: Sequence[Any]) -> bool:
        """Whether an operator on elements of tensors gives the same type for all of them.

        What else it takes has been asked for: that it is no zero, or can be a float.
        """
        table = self.program.table
        staged = [type(x) is StagedNumber for x in args]
        late = [s and bool(table.items_of(x.host.place)) for s, x in zip(staged, args)]
        if not any(late) or function not in _TOTAL or len(args) != 2:
            return False
        if function is operator.truediv and (late[1] or not args[1]):
            return False
        for x, is_staged, is_late in zip(args, staged, late):
            now = x.now if is_staged else x
            if type(now) is int and is_late and x.host.place not in table.items:
                return False  # 10**400 is no float
            if type(now) is int and is_staged and not is_late:
                x.known(Fits(float64))
            if type(now) not in (int, float):
                return False
        return True

    def now_of(self, value: Value) -> Tensor | None:
        """What a value is in this call; None where that cannot be told without effects."""
        if self.depth < len(self.path):
            return self.call.peek(value)  # type: ignore[no-any-return]
        nodes = {v: node for node in self.nodes for v in node.outs}
        needed: dict[Node, None] = {}
        waiting = [value]
        while waiting:
            node = nodes.get(waiting.pop())
            if node is not None and node not in needed:
                needed[node] = None
                waiting += node.inputs
        with Outside(self):  # type: ignore[arg-type]
            values: dict[Value, Any] = {}
            for node in self.nodes:
                if node not in needed:
                    continue
                if is_effectful(node):
                    return None
                args = [values[v] if v in values else self.call.peek(v) for v in node.inputs]
                outs = node.primitive(*args, **node.params)
                values.update(zip(node.outs, outs if node.primitive.multiple else (outs,)))
            return values[value] if value in values else self.call.peek(value)
