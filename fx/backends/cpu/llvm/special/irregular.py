"""Steps that are kernels of ``fx/backends/cpu/irregular``: sorts and searches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from fx import limits
from fx.backends.cpu import sort
from fx.backends.cpu.llvm import externals
from fx.backends.cpu.llvm.ir import Frame, i64, pointer
from fx.backends.cpu.llvm.special.kernel import SpecialStep, around, has_elements
from fx.compiler.step import Step
from fx.graph.ir import Node


def call(frame: Frame, kernel: tuple[str, str, str], words: Sequence[Any]) -> None:
    """Do the tasks by a kernel: (group, name, char), and its words as addresses or numbers."""
    b = frame.b
    table = b.alloca(ir.ArrayType(i64, len(words)))
    for i, word in enumerate(words):
        word = i64(int(word)) if isinstance(word, int) else b.ptrtoint(word, i64)
        b.store(word, b.gep(table, [i64(0), i64(i)]))
    function = externals.declare(b.module, ".".join(("fx", *kernel)))
    b.call(function, [table, frame.begin, frame.end, ir.Constant(pointer, None)])
    b.ret_void()


def first(node: Node) -> Step | None:
    """The places of elements in order: argsort, and the first of them."""
    x, params = node.inputs[0].spec, node.params
    word = sort.WORDS.get(x.dtype)
    if word is None or not has_elements(node):
        return None
    char, kind = word
    before, n, after = around(x.shape, params["axis"])
    k = params.get("k", n)
    largest = params["largest" if "k" in params else "descending"]
    lines = before * after

    def body(frame: Frame) -> None:
        (source,), (places,) = frame.reads, frame.writes
        call(frame, ("order", "first", char), [
            source, places, places, n, k, after, kind, largest, False, limits.RANKED_ROW,
            frame.scratch, 0, lines,
        ])  # fmt: skip

    cost = lines * sort.price(n, k, x.dtype.itemsize)
    return SpecialStep(node, body, tasks=lines, cost=cost, scratch=8 * sort.work_words(n, k))


def searchsorted(node: Node) -> Step | None:
    """Where values go in their sorted sequences."""
    sequence, values = (v.spec for v in node.inputs)
    word = sort.WORDS.get(values.dtype)
    if word is None or not has_elements(node):
        return None
    char, kind = word
    n, rows = sequence.shape[-1], sequence.ndim > 1
    m = values.shape[-1] if rows else values.size

    def body(frame: Frame) -> None:
        words = [*frame.reads, *frame.writes, n, m, rows, kind, node.params["side"] == "right"]
        call(frame, ("order", "search", char), words)

    cost = values.size * sort.search_price(n)
    return SpecialStep(node, body, tasks=math.prod(values.shape), cost=cost)
