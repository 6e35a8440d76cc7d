"""Sweep: one elementwise computation over any number of arrays of any lengths, in their own memory.

The loop that a flat nest makes serves every length (``loops/flat.py``), so an update of parameters
is compiled once for each dtype, not once for each model. A call reads the addresses of all arrays,
cuts them into tasks by their lengths alone, and does those on the threads of the native pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu.llvm import disk_cache, engine, python_api
from fx.backends.cpu.llvm.python_api import DATA, DENSE, FLAGS, LIST_ITEMS, TYPE, WRITEABLE
from fx.graph.ir import Graph
from fx.graph.key import graph_key

LENGTH = 1 << 16  # of the arrays that a graph is made for; the code serves every length
_HEAD = 4  # words of a layout before its parts


class Layout:
    """Where the tasks of a call begin: for arrays of given lengths, made once.

    Attributes:
        words: count of parts, tasks, tasks that a thread takes at once, address of the scalars;
            then for each part its first task, its length, and room for the addresses.
        scalars: the values of the 0-d inputs, one row of 8 bytes each.
    """

    __slots__ = ("scalars", "words")

    def __init__(self, sweep: Sweep, lengths: Sequence[int]) -> None:
        width = sweep.width + 2
        self.words = np.zeros(_HEAD + width * len(lengths) + 2, np.int64)
        self.scalars = np.zeros((max(sweep.scalars, 1), 8 // sweep.dtype.itemsize), sweep.dtype)
        parts = self.words[_HEAD : _HEAD + width * len(lengths)].reshape(-1, width)
        tasks = -(-np.asarray(lengths, np.int64) // sweep.chunk)
        parts[:, 1] = lengths
        parts[:, 0] = np.cumsum(tasks) - tasks
        total = int(tasks.sum())
        cost = sweep.each * sum(lengths)
        share = max(1, int(total * limits.SWEEP_CHUNK / max(cost, 1.0)))
        self.words[:_HEAD] = len(lengths), total, share, self.scalars.ctypes.data
        self.words[-2] = total
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
        found = None if name is None else disk_cache.load(name)
        if found is None:
            head, text = _emit(graph, width, into)
            code = engine.compile_text(text)
            if name is not None:
                disk_cache.store(name, head, code, b"")
        else:
            head, code, _ = found
        self.chunk, self.each = int(head["chunk"]), float(head["each"])
        from fx.backends.cpu.llvm.executable import link

        self._loaded = link([code], ["sweep"], head["externals"], parallel=True)
        me = python_api.owner(1 + width)
        me[0] = id(np.ndarray)
        written = set(into)
        for i in range(width):
            me[1 + i] = DENSE | WRITEABLE if i in written else DENSE
        me.keep = self._loaded
        self._call = python_api.builtin("sweep", self._loaded.address("sweep"), me)

    def layout(self, lengths: Sequence[int]) -> Layout:
        """The layout of a call over arrays of these lengths, each at least 1."""
        return Layout(self, lengths)

    def __call__(self, layout: Layout, arrays: list[Any]) -> bool:
        """Run over ``arrays``: for each part its vectors, one after the other.

        Returns:
            False if an array is not dense, or may not be written into; then nothing has happened.
        """
        arrays.insert(0, layout.words)
        return self._call(arrays)  # type: ignore[no-any-return]


def _emit(graph: Graph, width: int, into: Sequence[int]) -> tuple[dict[str, Any], str]:
    """What must be known of the code, and the code."""
    from fx.backends.cpu.llvm.kernels import module_of_this_cpu
    from fx.backends.cpu.llvm.loops.flat import FlatStep
    from fx.backends.cpu.llvm.schedule import schedule

    found = schedule(graph)
    if len(found.steps) != 1 or not isinstance(found.steps[0], FlatStep):
        raise ValueError(f"not one flat loop: {found}")
    step = found.steps[0]
    inputs = {found.root(v): i for i, v in enumerate(graph.inputs)}
    outputs = {found.root(v): into[i] for i, v in enumerate(graph.outputs)}
    step = _without(step, [found.root(v) in outputs for v in step.parts[0][1]])
    reads, writes = step.parts[0]
    if not inputs.keys() >= {found.root(v) for v in reads}:
        raise ValueError(f"it reads what it has stored: {found}")
    module = module_of_this_cpu()
    body = step._body(module)
    body.linkage = "internal"
    places = [inputs[found.root(v)] for v in reads] + [outputs[found.root(v)] for v in writes]
    externals = [
        f.name for f in module.functions if f.is_declaration and not f.name.startswith("llvm.")
    ]
    each = step.cost / step.lengths[0]
    head = {"chunk": step.chunk, "each": each, "externals": externals}
    return head, str(module) + _driver(body.name, places, width, step.chunk)


def _without(step: Any, wanted: Sequence[bool]) -> Any:
    """A flat step that stores only some of its values: those in between have no memory here."""
    from fx.backends.cpu.llvm.loops.flat import FlatStep

    if all(wanted):
        return step
    nest, (reads, writes) = step.nest, step.parts[0]
    numbers = {k: i for i, k in enumerate(k for k, kept in enumerate(wanted) if kept)}
    nest.outputs = [(numbers[w], form, e) for w, form, e in nest.outputs if w in numbers]
    nest.writes = [nest.writes[k] for k in numbers]
    nest.plan = None
    return FlatStep(nest, [(reads, [writes[k] for k in numbers])], step.name, step.lines)


def _driver(body: str, places: Sequence[int], width: int, chunk: int) -> str:
    """``sweep_tasks``, which does a range of tasks, and the builtin ``sweep``."""
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
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
declare void @fx_parallel(ptr, ptr, i64, i64, i64, ptr)
@fx_true = external global i8
@fx_false = external global i8

define internal void @sweep_tasks(ptr %layout, i64 %begin, i64 %end, ptr %scratch) {{
start:
  %count = load i64, ptr %layout
  %scalars.at = getelementptr i64, ptr %layout, i64 3
  %scalars = load ptr, ptr %scalars.at
  %first.part = getelementptr i64, ptr %layout, i64 {_HEAD}
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

define ptr @sweep(ptr %me, ptr %list) {{
start:
  %me.at = getelementptr i8, ptr %me, i64 {DATA}
  %words = load ptr, ptr %me.at
  %array.type = load ptr, ptr %words
  %items.at = getelementptr i8, ptr %list, i64 {LIST_ITEMS}
  %items = load ptr, ptr %items.at
  %head = load ptr, ptr %items
  %layout.at = getelementptr i8, ptr %head, i64 {DATA}
  %layout = load ptr, ptr %layout.at
  %count = load i64, ptr %layout
  %first.part = getelementptr i64, ptr %layout, i64 {_HEAD}
  %first.item = getelementptr ptr, ptr %items, i64 1
  br label %parts
parts:
  %i = phi i64 [0, %start], [%i.next, %filled]
  %part = phi ptr [%first.part, %start], [%part.next, %filled]
  %from = phi ptr [%first.item, %start], [%from.next, %filled]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %fill, label %run
fill:
  %k = phi i64 [0, %parts], [%k.next, %fits]
  %item.at = getelementptr ptr, ptr %from, i64 %k
  %item = load ptr, ptr %item.at
  %type.at = getelementptr i8, ptr %item, i64 {TYPE}
  %type = load ptr, ptr %type.at
  %is.array = icmp eq ptr %type, %array.type
  br i1 %is.array, label %look, label %no
look:
  %flags.at = getelementptr i8, ptr %item, i64 {FLAGS}
  %flags.narrow = load i32, ptr %flags.at
  %flags = zext i32 %flags.narrow to i64
  %k.next = add i64 %k, 1
  %need.at = getelementptr i64, ptr %words, i64 %k.next
  %need = load i64, ptr %need.at
  %has = and i64 %flags, %need
  %dense = icmp eq i64 %has, %need
  br i1 %dense, label %fits, label %no
fits:
  %data.at = getelementptr i8, ptr %item, i64 {DATA}
  %data = load ptr, ptr %data.at
  %k.word = add i64 %k, 2
  %place = getelementptr i64, ptr %part, i64 %k.word
  store ptr %data, ptr %place
  %k.more = icmp ult i64 %k.next, {width}
  br i1 %k.more, label %fill, label %filled
filled:
  %i.next = add i64 %i, 1
  %part.next = getelementptr i64, ptr %part, i64 {width + 2}
  %from.next = getelementptr ptr, ptr %from, i64 {width}
  br label %parts
run:
  %tasks = load i64, ptr %part
  %how.at = getelementptr i64, ptr %part, i64 1
  %how = load i64, ptr %how.at
  %release = icmp ne i64 %how, 0
  br i1 %release, label %free, label %short
short:
  call void @sweep_tasks(ptr %layout, i64 0, i64 %tasks, ptr null)
  br label %yes
free:
  %thread = call ptr @PyEval_SaveThread()
  %several = icmp eq i64 %how, 2
  br i1 %several, label %share, label %alone
share:
  %chunk.at = getelementptr i64, ptr %layout, i64 2
  %chunk = load i64, ptr %chunk.at
  call void @fx_parallel(ptr @sweep_tasks, ptr %layout, i64 %tasks, i64 %chunk, i64 0, ptr null)
  br label %back
alone:
  call void @sweep_tasks(ptr %layout, i64 0, i64 %tasks, ptr null)
  br label %back
back:
  call void @PyEval_RestoreThread(ptr %thread)
  br label %yes
yes:
  call void @Py_IncRef(ptr @fx_true)
  ret ptr @fx_true
no:
  call void @Py_IncRef(ptr @fx_false)
  ret ptr @fx_false
}}
"""
