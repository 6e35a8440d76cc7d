"""The kernels: stages one after the other."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from fx.backends.cpu.llvm import ir as v
from fx.backends.cpu.llvm.any_size.fourier.butterflies import passes
from fx.backends.cpu.llvm.any_size.fourier.lanes import Lanes
from fx.backends.cpu.llvm.any_size.fourier.rows import Rows
from fx.backends.cpu.llvm.any_size.fourier.stage import FUNCTION
from fx.backends.cpu.llvm.any_size.fourier.words import (
    CHUNK,
    EACH,
    KERNELS,
    WAY,
    WAYS,
)


def emit(module: ir.Module, dtype: Any, name: str) -> None:
    """Add the kernel ``lines`` or ``halves``: how many stages there are, and their words.

    Each knows some of the ways to do a stage. A task does its part of every stage.
    """
    kind = v.memory_type(dtype)
    width = v.target().vector_bytes // v.size_of(kind)
    run_passes = passes(module, kind, width)
    ways = {way: _stage(module, kind, width, run_passes, way) for way in KERNELS[name]}
    function = ir.Function(module, FUNCTION, name)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    words, begin, end, scratch = function.args
    word = lambda at, i: b.load(v.at(b, at, i, v.i64), typ=v.i64, align=8)
    count = word(words, 0)

    def stage(i: Any, first: Any, last: Any) -> None:
        here = v.at(b, words, v.add(b, v.times(b, i, CHUNK + 1), 1), v.i64)
        each = word(here, EACH)
        for way, found in ways.items():
            with b.if_then(b.icmp_signed("==", word(here, WAY), v.const(WAYS.index(way)))):
                b.call(found, [here, b.mul(first, each), b.mul(last, each), scratch])

    def task(i: Any) -> None:
        v.loop(b, 0, count, lambda k: stage(k, i, b.add(i, v.const(1))), name="stage")

    with b.if_else(b.icmp_signed("==", count, v.const(1))) as (one, several):
        with one:
            stage(v.const(0), begin, end)
        with several:
            v.loop(b, begin, end, task, name="task")
    b.ret_void()


def _stage(module: ir.Module, kind: ir.Type, width: int, run_passes: Any, way: str) -> Any:
    maker = Lanes if way in ("columns", "rows") else Rows
    found = maker(module, kind, width, run_passes, way)
    getattr(found, way)()
    return found.function
