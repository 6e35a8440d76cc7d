"""Formulas as functions of the module, emitted once for each type and inlined by LLVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.vecmath.algebra import Term
from fx.backends.cpu.llvm.vecmath.types import suffix


def outlined(name: str, formula: Callable[..., Any], *args: Any, cold: bool = False) -> Any:
    """Call ``formula``, whose result has the type of its first argument, on ``args``.

    It becomes one internal function of the module for these types: emitting a call costs a
    twentieth of emitting the formula, and LLVM's inliner copies faster than text is parsed. A
    ``cold`` one is never inlined: rare cases go there.
    """
    first = args[0]
    b, module = first.b, first.b.module
    types = [a.v.type for a in args]
    full = f"fx.{name}." + ".".join(map(suffix, types))
    function = module.globals.get(full)
    if function is None:
        function = ir.Function(module, ir.FunctionType(types[0], types), full)
        function.linkage = "internal"
        function.attributes.add("nounwind")
        function.attributes.add("noinline" if cold else "alwaysinline")
        if cold:
            function.attributes.add("cold")
        inside = ir.IRBuilder(function.append_basic_block())
        terms: list[Term] = [type(a)(inside, v) for a, v in zip(args, function.args)]
        inside.ret(formula(*terms).v)
    return type(first)(b, b.call(function, [a.v for a in args]))
