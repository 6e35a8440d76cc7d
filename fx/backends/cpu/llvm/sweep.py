"""Sweep: one elementwise computation over any number of arrays of any lengths, in their own memory.

The loop that a flat nest makes serves every length (``loops/flat.py``), so an update of parameters
is compiled once for each dtype, not once for each model. A call reads the addresses of all arrays,
cuts them into tasks by their lengths alone, and does those on the threads of the native pool. The
builtin that calls it for an optimizer, and stores what comes out, is in ``commit``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu.llvm import disk_cache, engine
from fx.backends.cpu.llvm.commit.records import HEAD
from fx.graph.ir import Graph
from fx.graph.key import graph_key

LENGTH = 1 << 16  # of the arrays that a graph is made for; the code serves every length


class Layout:
    """Where the tasks of a call begin: for arrays of given lengths; one call at a time uses it.

    Attributes:
        words: count of parts, tasks, tasks that a thread takes at once, addresses of the scalars
            and the code, count of vectors, a bit for each that is written, the dtype; for each part
            its first task, its length, and room for the addresses; last whether to give up the GIL
            (1) or take several threads (2).
        scalars: the values of the 0-d inputs, one row of 8 bytes each.
    """

    __slots__ = ("scalars", "words")

    def __init__(self, sweep: Sweep, lengths: Sequence[int]) -> None:
        width = sweep.width + 2
        self.words = np.zeros(HEAD + width * len(lengths) + 1, np.int64)
        self.scalars = np.zeros((max(sweep.scalars, 1), 8 // sweep.dtype.itemsize), sweep.dtype)
        parts = self.words[HEAD : HEAD + width * len(lengths)].reshape(-1, width)
        tasks = -(-np.asarray(lengths, np.int64) // sweep.chunk)
        parts[:, 1] = lengths
        parts[:, 0] = np.cumsum(tasks) - tasks
        total = int(tasks.sum())
        cost = sweep.each * sum(lengths)
        share = max(1, int(total * limits.SWEEP_CHUNK / max(cost, 1.0)))
        self.words[:HEAD] = (
            len(lengths), total, share, self.scalars.ctypes.data, sweep.address, sweep.width,
            sweep.written, id(sweep.dtype),
        )  # fmt: skip
        self.words[-1] = (cost > limits.SWEEP_RELEASE) + (
            cost > limits.SWEEP_PARALLEL and total > 1
        )


class Sweep:
    """A graph of elementwise operations on vectors of one length, over many arrays.

    Args:
        graph: its inputs are ``width`` vectors of length ``LENGTH`` and behind them 0-d numbers,
            all of one dtype; output ``i`` takes over the memory of the vector ``i`` of ``into``.
        width: the number of vectors.
        into: for each output the vector in whose memory it is stored.

    Raises:
        ValueError: if the graph does not become one flat loop.
    """

    def __init__(self, graph: Graph, width: int, into: Sequence[int]) -> None:
        self.width = width
        self.scalars = len(graph.inputs) - width
        self.dtype = graph.inputs[0].spec.dtype
        key = graph_key(graph)
        name = disk_cache.name_of("sweep", repr((key, width, tuple(into))))
        head, code = disk_cache.kept(name, lambda: _made(graph, width, into))
        self.chunk, self.each = int(head["chunk"]), float(head["each"])
        from fx.backends.cpu.llvm.executable import link

        self._loaded = link([code], ["sweep"], head["externals"], parallel=True)
        self.address = self._loaded.address("sweep")
        self.written = sum(1 << i for i in set(into))

    def layout(self, lengths: Sequence[int]) -> Layout:
        """The layout of a call over arrays of these lengths, each at least 1."""
        return Layout(self, lengths)


def _made(graph: Graph, width: int, into: Sequence[int]) -> tuple[dict[str, Any], bytes]:
    """What must be known of the code, and the code."""
    from fx.backends.cpu.llvm.loops.flat import FlatStep
    from fx.backends.cpu.llvm.this_cpu import this_cpu
    from fx.compiler.schedule import schedule

    found = schedule(graph, this_cpu())
    if len(found.steps) != 1 or not isinstance(found.steps[0], FlatStep):
        raise ValueError(f"not one flat loop: {found}")
    step = found.steps[0]
    inputs = {found.root(v): i for i, v in enumerate(graph.inputs)}
    outputs = {found.root(v): into[i] for i, v in enumerate(graph.outputs)}
    step = _without(step, [found.root(v) in outputs for v in step.parts[0][1]])
    reads, writes = step.parts[0]
    if not inputs.keys() >= {found.root(v) for v in reads}:
        raise ValueError(f"it reads what it has stored: {found}")
    module = engine.new_module()
    body = step._body(module)
    body.linkage = "internal"
    places = [inputs[found.root(v)] for v in reads] + [outputs[found.root(v)] for v in writes]
    externals = [
        f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")
    ]
    each = step.cost / step.lengths[0]
    head = {"chunk": step.chunk, "each": each, "externals": externals}
    text = str(module) + _driver(body.name, places, width, step.chunk)
    return head, engine.compile_text(text)


def _without(step: Any, wanted: Sequence[bool]) -> Any:
    """A flat step that stores only some of its values: those in between have no memory here."""
    from fx.backends.cpu.llvm.loops.flat import FlatStep
    from fx.backends.cpu.llvm.this_cpu import this_cpu
    from fx.compiler.plan import plan_of

    if all(wanted):
        return step
    nest, (reads, writes) = step.nest, step.parts[0]
    numbers = {k: i for i, k in enumerate(k for k, kept in enumerate(wanted) if kept)}
    nest.outputs = [(numbers[w], form, e) for w, form, e in nest.outputs if w in numbers]
    nest.writes = [nest.writes[k] for k in numbers]
    nest.plan = None
    parts = [(reads, [writes[k] for k in numbers])]
    return FlatStep(plan_of(nest, this_cpu()), parts, step.name, step.lines)


def _driver(body: str, places: Sequence[int], width: int, chunk: int) -> str:
    """``sweep``, which does a range of the tasks of a layout."""
    lines, args = [], []
    for k, place in enumerate(places):
        if place < width:
            lines.append(f"  %w{k} = getelementptr i64, ptr %part, i64 {2 + place}")
            lines.append(f"  %p{k} = load ptr, ptr %w{k}")
        else:
            lines.append(f"  %p{k} = getelementptr i64, ptr %scalars, i64 {place - width}")
        args.append(f"ptr %p{k}")
    arguments = ", ".join(["i64 %low", "i64 %high", *args])
    loads = "\n".join(lines)
    return f"""
define void @sweep(ptr %layout, i64 %begin, i64 %end, ptr %scratch) {{
start:
  %count = load i64, ptr %layout
  %scalars.at = getelementptr i64, ptr %layout, i64 3
  %scalars = load ptr, ptr %scalars.at
  %first.part = getelementptr i64, ptr %layout, i64 {HEAD}
  br label %look
look:
  %i = phi i64 [0, %start], [%i.next, %next]
  %part = phi ptr [%first.part, %start], [%part.next, %next]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %place, label %done
place:
  %i.next = add i64 %i, 1
  %part.next = getelementptr i64, ptr %part, i64 {width + 2}
  %from = load i64, ptr %part
  %n.at = getelementptr i64, ptr %part, i64 1
  %n = load i64, ptr %n.at
  %b = sub i64 %begin, %from
  %negative = icmp slt i64 %b, 0
  %b0 = select i1 %negative, i64 0, i64 %b
  %low = mul i64 %b0, {chunk}
  %e = sub i64 %end, %from
  %behind = mul i64 %e, {chunk}
  %over = icmp sgt i64 %behind, %n
  %high = select i1 %over, i64 %n, i64 %behind
  %some = icmp slt i64 %low, %high
  br i1 %some, label %work, label %next
work:
{loads}
  call void @"{body}"({arguments})
  br label %next
next:
  br label %look
done:
  ret void
}}
"""
