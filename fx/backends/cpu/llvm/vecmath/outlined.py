"""Formulas as functions of the module, emitted once for each type and inlined by LLVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm.ir import element_of, i32, lanes_of, suffix
from fx.backends.cpu.llvm.vecmath.algebra import Num, Term


def outlined(name: str, formula: Callable[..., Any], *args: Any) -> Any:
    """Call ``formula``, whose result has the type of its first argument, on ``args``.

    It becomes one internal function of the module for these types: emitting a call costs a
    twentieth of emitting the formula, and LLVM's inliner copies faster than text is parsed.
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
        function.attributes.add("alwaysinline")
        inside = ir.IRBuilder(function.append_basic_block())
        terms: list[Term] = [type(a)(inside, v) for a, v in zip(args, function.args)]
        inside.ret(formula(*terms).v)
    return type(first)(b, b.call(function, [a.v for a in args]))


def lane_by_lane(name: str, formula: Callable[..., Any], *args: Num, results: int = 1) -> list[Num]:
    """Call ``formula`` of scalars on each lane; the tuple of numbers that it gives, as vectors.

    Both the formula and the loop over the lanes are functions that are never inlined: rare cases
    go there.
    """
    b, module = args[0].b, args[0].b.module
    scalar = _of_scalars(module, f"fx.{name}", formula, args, results)
    lanes = lanes_of(args[0].type)
    if lanes is not None:
        scalar = _of_vectors(module, f"fx.{name}.v{lanes}", scalar, lanes)
    found = b.call(scalar, [a.v for a in args])
    return [Num(b, b.extract_value(found, i)) for i in range(len(found.type.elements))]


def _cold(module: Any, name: str, result: Any, types: Any) -> Any:
    function = ir.Function(module, ir.FunctionType(result, types), name)
    function.linkage = "internal"
    for attribute in ("noinline", "cold", "nounwind"):
        function.attributes.add(attribute)
    return function


def _of_scalars(module: Any, name: str, formula: Callable[..., Any], args: Any, count: int) -> Any:
    function = module.globals.get(name)
    if function is None:
        types = [element_of(a.type) for a in args]
        result = ir.LiteralStructType([types[0]] * count)
        function = _cold(module, name, result, types)
        b = ir.IRBuilder(function.append_basic_block())
        out: Any = ir.Constant(result, ir.Undefined)
        for i, value in enumerate(formula(*[Num(b, v) for v in function.args])):
            out = b.insert_value(out, value.v, i)
        b.ret(out)
    return function


def _of_vectors(module: Any, name: str, scalar: Any, lanes: int) -> Any:
    function = module.globals.get(name)
    if function is None:
        one = scalar.function_type.return_type.elements
        types = [ir.VectorType(t, lanes) for t in scalar.function_type.args]
        result = ir.LiteralStructType([ir.VectorType(t, lanes) for t in one])
        function = _cold(module, name, result, types)
        b = ir.IRBuilder(function.append_basic_block())
        entry, head, done = b.block, *[b.append_basic_block() for _ in range(2)]
        b.branch(head)
        b.position_at_end(head)
        i = b.phi(i32)
        i.add_incoming(i32(0), entry)
        sums = [b.phi(t) for t in result.elements]
        found = b.call(scalar, [b.extract_element(v, i) for v in function.args])
        for k, total in enumerate(sums):
            total.add_incoming(ir.Constant(total.type, ir.Undefined), entry)
            following = b.insert_element(total, b.extract_value(found, k), i)
            total.add_incoming(following, head)
        after = b.add(i, i32(1))
        i.add_incoming(after, head)
        b.cbranch(b.icmp_unsigned("<", after, i32(lanes)), head, done)
        b.position_at_end(done)
        out: Any = ir.Constant(result, ir.Undefined)
        for k, total in enumerate(sums):
            out = b.insert_value(out, total.incomings[1][0], k)
        b.ret(out)
    return function
