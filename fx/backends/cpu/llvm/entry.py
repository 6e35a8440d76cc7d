"""Entry: the native function that CPython calls for a run of steps, as LLVM IR text.

It does what a Python wrapper would do, in a few nanoseconds each: look at the arguments, copy those
that are not dense, make the arrays of the results, take the arena, give up the GIL if the work is
long, call the body, and hand the results over. What it needs besides stands in the words of ``me``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from fx.backends.cpu.llvm.entry_helpers import (
    ARENA,
    ARRAY_TYPE,
    ERRORS,
    MEMORY_ERROR,
    TYPE_ERROR,
    WORDS,
)
from fx.backends.cpu.llvm.parts import Part
from fx.backends.cpu.llvm.python_api import (
    DATA,
    DENSE,
    FLAGS,
    LIST_ITEMS,
    TYPE,
    WRITEABLE,
)
from fx.dtypes import as_dtype


def _nbytes(dtype: str, shape: Sequence[int]) -> int:
    return prod(shape) * as_dtype(dtype).itemsize


def entry(part: Part) -> str:
    """``PyObject *NAME(PyObject *me, PyObject *list)``."""
    name, n, m, k = part.name, part.inputs, len(part.constants), len(part.results)
    written = set(part.written)
    needs = ", ".join(f"i32 {DENSE | WRITEABLE if i in written else DENSE}" for i in range(n))
    outs = len(part.outputs)
    sizes = ", ".join(f"i64 {_nbytes(*spec)}" for spec in part.results)
    message = f"a compiled graph of {n} inputs takes a list of {n} arrays\0"
    text = f"""
@{name}_needs = private constant [{n} x i32] [{needs}]
@{name}_sizes = private constant [{k} x i64] [{sizes}]
@{name}_message = private constant [{len(message)} x i8] c"{message[:-1]}\\00"

define ptr @{name}(ptr %me, ptr %list) {{
start:
  %table = alloca [{part.table} x ptr], align 16
  %failure = alloca [3 x i64], align 16
  %copies = alloca [{max(n, 1)} x ptr], align 16
  %made = alloca [{max(k, 1)} x ptr], align 16
  %ncopies = alloca i64
  store i64 0, ptr %ncopies
  %nmade = alloca i64
  store i64 0, ptr %nmade
  %me.data = getelementptr i8, ptr %me, i64 {DATA}
  %ctx = load ptr, ptr %me.data
  %arraytype.at = getelementptr i64, ptr %ctx, i64 {ARRAY_TYPE}
  %arraytype = load ptr, ptr %arraytype.at
  %size = call i64 @PyList_Size(ptr %list)
  %right = icmp eq i64 %size, {n}
  br i1 %right, label %looked, label %refuse

refuse:
  %error.at = getelementptr i64, ptr %ctx, i64 {TYPE_ERROR}
  %error = load ptr, ptr %error.at
  call void @PyErr_SetString(ptr %error, ptr @{name}_message)
  br label %failed

looked:
  %items.at = getelementptr i8, ptr %list, i64 {LIST_ITEMS}
  %items = load ptr, ptr %items.at
  br label %{"input" if n else "constants"}
"""
    if n:
        text += f"""
input:
  %i = phi i64 [0, %looked], [%i.next, %dense]
  %item.at = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %item.at
  %type.at = getelementptr i8, ptr %item, i64 {TYPE}
  %type = load ptr, ptr %type.at
  %isarray = icmp eq ptr %type, %arraytype
  br i1 %isarray, label %array, label %refuse

array:
  %flags.at = getelementptr i8, ptr %item, i64 {FLAGS}
  %flags = load i32, ptr %flags.at
  %need.at = getelementptr i32, ptr @{name}_needs, i64 %i
  %need = load i32, ptr %need.at
  %has = and i32 %flags, %need
  %fits = icmp eq i32 %has, %need
  br i1 %fits, label %dense, label %copy

copy:
  %new = call ptr @numpy_copy(ptr %item, i32 0)
  %nocopy = icmp eq ptr %new, null
  br i1 %nocopy, label %failed, label %copied

copied:
  %c = load i64, ptr %ncopies
  %c.at = getelementptr ptr, ptr %copies, i64 %c
  store ptr %new, ptr %c.at
  %c.next = add i64 %c, 1
  store i64 %c.next, ptr %ncopies
  br label %dense

dense:
  %used = phi ptr [%item, %array], [%new, %copied]
  %data.at = getelementptr i8, ptr %used, i64 {DATA}
  %data = load ptr, ptr %data.at
  %slot = getelementptr ptr, ptr %table, i64 %i
  store ptr %data, ptr %slot
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, {n}
  br i1 %more, label %input, label %constants
"""
    text += "\nconstants:\n"
    if m:
        text += f"""  br label %constant
constant:
  %j = phi i64 [0, %constants], [%j.next, %constant]
  %j.word = add i64 %j, {WORDS}
  %j.at = getelementptr i64, ptr %ctx, i64 %j.word
  %j.object = load ptr, ptr %j.at
  %j.data.at = getelementptr i8, ptr %j.object, i64 {DATA}
  %j.data = load ptr, ptr %j.data.at
  %j.place = add i64 %j, {n}
  %j.slot = getelementptr ptr, ptr %table, i64 %j.place
  store ptr %j.data, ptr %j.slot
  %j.next = add i64 %j, 1
  %j.more = icmp slt i64 %j.next, {m}
  br i1 %j.more, label %constant, label %results

results:
"""
    before = "results" if m else "constants"
    if k:
        text += f"""  br label %result
result:
  %k = phi i64 [0, %{before}], [%k.next, %stored]
  %k.three = mul i64 %k, 3
  %k.word = add i64 %k.three, {WORDS + m}
  %k.descr.at = getelementptr i64, ptr %ctx, i64 %k.word
  %k.descr = load ptr, ptr %k.descr.at
  %k.nd.at = getelementptr i64, ptr %k.descr.at, i64 1
  %k.nd.long = load i64, ptr %k.nd.at
  %k.nd = trunc i64 %k.nd.long to i32
  %k.dims.at = getelementptr i64, ptr %k.descr.at, i64 2
  %k.dims = load ptr, ptr %k.dims.at
  %k.size.at = getelementptr i64, ptr @{name}_sizes, i64 %k
  %k.size = load i64, ptr %k.size.at
  %k.new = call ptr @fx_result(
    ptr %ctx, ptr %k.descr, i32 %k.nd, ptr %k.dims, i64 %k.size)
  %k.none = icmp eq ptr %k.new, null
  br i1 %k.none, label %failed, label %stored
stored:
  %k.made.at = getelementptr ptr, ptr %made, i64 %k
  store ptr %k.new, ptr %k.made.at
  %k.data.at = getelementptr i8, ptr %k.new, i64 {DATA}
  %k.data = load ptr, ptr %k.data.at
  %k.place = add i64 %k, {n + m}
  %k.slot = getelementptr ptr, ptr %table, i64 %k.place
  store ptr %k.data, ptr %k.slot
  %k.next = add i64 %k, 1
  store i64 %k.next, ptr %nmade
  %k.more = icmp slt i64 %k.next, {k}
  br i1 %k.more, label %result, label %ready

ready:
"""
    if part.arena:
        text += f"""  %own.box.at = getelementptr i64, ptr %ctx, i64 {ARENA}
  %own.box = load ptr, ptr %own.box.at
  %busy = cmpxchg ptr %own.box, i64 0, i64 1 acquire monotonic
  %got = extractvalue {{i64, i1}} %busy, 1
  br i1 %got, label %own, label %fresh
own:
  %own.at = getelementptr i64, ptr %own.box, i64 1
  %own.arena = load ptr, ptr %own.at
  br label %run
fresh:
  %raw = call ptr @PyMem_RawMalloc(i64 {part.arena + 64})
  %noraw = icmp eq ptr %raw, null
  br i1 %noraw, label %nomemory, label %align
nomemory:
  %me.at = getelementptr i64, ptr %ctx, i64 {MEMORY_ERROR}
  %me.error = load ptr, ptr %me.at
  call void @PyErr_SetString(ptr %me.error, ptr @fx_no_memory)
  br label %failed
align:
  %rawint = ptrtoint ptr %raw to i64
  %up = add i64 %rawint, 63
  %down = and i64 %up, -64
  %fresh.arena = inttoptr i64 %down to ptr
  br label %run
run:
  %arena = phi ptr [%own.arena, %own], [%fresh.arena, %align]
  %torelease = phi ptr [null, %own], [%raw, %align]
  %arena.slot = getelementptr ptr, ptr %table, i64 {part.table - 1}
  store ptr %arena, ptr %arena.slot
"""
    if part.free:
        text += f"""  %thread = call ptr @PyEval_SaveThread()
  %bad = call i1 @{name}_body(ptr %table, ptr %failure)
  call void @PyEval_RestoreThread(ptr %thread)
"""
    else:
        text += f"  %bad = call i1 @{name}_body(ptr %table, ptr %failure)\n"
    if part.arena:
        text += """  br i1 %got, label %leave, label %release
leave:
  store atomic i64 0, ptr %own.box release, align 8
  br label %hand
release:
  call void @PyMem_RawFree(ptr %torelease)
  br label %hand
hand:
"""
    text += f"""  br i1 %bad, label %wrong, label %right.indices
wrong:
  %format = load ptr, ptr %failure
  %index.at = getelementptr i64, ptr %failure, i64 1
  %index = load i64, ptr %index.at
  %word.at = getelementptr i64, ptr %failure, i64 2
  %word = load i64, ptr %word.at
  %errors = getelementptr i64, ptr %ctx, i64 {ERRORS.start - 1}
  %which.at = getelementptr i64, ptr %errors, i64 %word
  %which = load ptr, ptr %which.at
  %nothing = call ptr (ptr, ptr, ...) @PyErr_Format(ptr %which, ptr %format, i64 %index)
  br label %failed
right.indices:
  %out = call ptr @PyList_New(i64 {outs})
  %noout = icmp eq ptr %out, null
  br i1 %noout, label %failed, label %filled
filled:
  %out.items.at = getelementptr i8, ptr %out, i64 {LIST_ITEMS}
  %out.items = load ptr, ptr %out.items.at
"""
    views = 0
    for i, (kind, index, view) in enumerate(part.outputs):
        p = f"%o{i}"
        if kind == "result":
            text += f"""  {p}.at = getelementptr ptr, ptr %made, i64 {index}
  {p}.base = load ptr, ptr {p}.at
"""
        elif kind == "constant":
            text += f"""  {p}.at = getelementptr i64, ptr %ctx, i64 {WORDS + index}
  {p}.base = load ptr, ptr {p}.at
"""
        else:
            text += f"""  {p}.base = call ptr @{name}_input(
    ptr %items, ptr %table, ptr %copies, ptr %ncopies, i64 {index})
"""
        text += f"  call void @Py_IncRef(ptr {p}.base)\n"
        if view is None:
            text += f"""  {p}.to = getelementptr ptr, ptr %out.items, i64 {i}
  store ptr {p}.base, ptr {p}.to
"""
            continue
        word = WORDS + m + 3 * (k + views)
        views += 1
        text += f"""  {p}.new = call ptr @fx_view(
    ptr %arraytype, ptr %ctx, i64 {word}, ptr {p}.base)
  {p}.none = icmp eq ptr {p}.new, null
  br i1 {p}.none, label %undo, label %got{i}
got{i}:
  {p}.to = getelementptr ptr, ptr %out.items, i64 {i}
  store ptr {p}.new, ptr {p}.to
"""
    text += "  br label %done\n"
    if views:
        text += """undo:
  call void @Py_DecRef(ptr %out)
  br label %failed
"""
    text += """
done:
  br label %clean
failed:
  br label %clean
clean:
  %answer = phi ptr [%out, %done], [null, %failed]
  call void @fx_drop(ptr %made, ptr %nmade)
  call void @fx_drop(ptr %copies, ptr %ncopies)
  ret ptr %answer
}
"""
    text += f"""
define internal ptr @{name}_input(ptr %items, ptr %table, ptr %copies, ptr %ncopies, i64 %i) {{
  %item.at = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %item.at
  %slot = getelementptr ptr, ptr %table, i64 %i
  %used = load ptr, ptr %slot
  %count = load i64, ptr %ncopies
  br label %look
look:
  %j = phi i64 [0, %0], [%next, %step]
  %more = icmp slt i64 %j, %count
  br i1 %more, label %step, label %original
step:
  %at = getelementptr ptr, ptr %copies, i64 %j
  %copy = load ptr, ptr %at
  %data.at = getelementptr i8, ptr %copy, i64 {DATA}
  %data = load ptr, ptr %data.at
  %same = icmp eq ptr %data, %used
  %next = add i64 %j, 1
  br i1 %same, label %found, label %look
found:
  ret ptr %copy
original:
  ret ptr %item
}}
"""
    return text
