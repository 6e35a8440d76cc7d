"""Emitter: the dialect as methods, for code in which arithmetic of places prevails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir import loops, masks, values, vectors


def _bound(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Emitter, *args: Any, **named: Any) -> Any:
        return function(self.b, *args, **named)

    method.__doc__ = function.__doc__
    return method


class Emitter:
    """Emits into a new function: ``e.times(x, y)`` is ``times(e.b, x, y)``.

    Args:
        function: the ``ir.Function`` to fill.
    """

    def __init__(self, function: ir.Function) -> None:
        self.module = function.module
        self.b = ir.IRBuilder(function.append_basic_block("entry"))

    add, sub, times, split = map(_bound, (values.add, values.sub, values.times, values.split))
    smaller, larger, loop = map(_bound, (values.smaller, values.larger, loops.loop))
    splat, shuffle = map(_bound, (vectors.splat, vectors.shuffle))
    multiply_add, store = map(_bound, (vectors.multiply_add, masks.store))
