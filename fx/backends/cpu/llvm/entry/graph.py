"""The builtin of a native part: a list of arrays in, a list of arrays out, by a table.

It does what a Python wrapper would do, in a few nanoseconds each: look at the arguments, copy those
that are not dense, make the arrays of the results, take the arena, give up the GIL if the work is
long, call the body, and hand the results over. What differs from part to part stands in the words
of ``me``:

| words | |
| --- | --- |
| from 0 | ``BODY`` … ``MESSAGE``, and the classes of ``failures.ERRORS`` |
| one an input | the flags that it must have, or is copied |
| one a constant | its array |
| four a result | dtype, axes, where its sizes are, bytes |
| four an output | its place among inputs, constants and results; dtype, axes and sizes of a view |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from fx.backends.cpu.llvm import entry, failures, python_api
from fx.backends.cpu.llvm.parts import Part
from fx.backends.cpu.llvm.python_api import DENSE, WRITEABLE
from fx.dtypes import as_dtype

BODY, FREE, ARENA, ROOM, INPUTS, CONSTANTS, RESULTS, OUTPUTS, MESSAGE, ERRORS = range(10)
HEAD = ERRORS + len(failures.ERRORS)
FIELDS = 4  # words of a result, and of an output

TEXT = f"""
@no_memory = private constant [44 x i8] c"no memory for the arena of a compiled graph\\00"

define ptr @fx_enter(ptr %me, ptr %list) {{
entry:
  %words = load ptr, %me->data
  %n = load i64, %words[{INPUTS}]
  %m = load i64, %words[{CONSTANTS}]
  %k = load i64, %words[{RESULTS}]
  %outs = load i64, %words[{OUTPUTS}]
  %first = add i64 %n, %m
  %all = add i64 %first, %k
  %room = add i64 %all, 1
  %three = mul i64 %room, 3
  %table = alloca ptr, i64 %three, align 16  ; the addresses that kernels see
  %arrays = &%table[%room]  ; where the arrays are
  %copies = &%arrays[%room]
  %failure = alloca [3 x i64], align 16
  %copied = alloca i64
  store i64 0, ptr %copied
  %made = alloca i64
  store i64 0, ptr %made
  %needs = getelementptr i64, ptr %words, i64 {HEAD}
  %constants = getelementptr i64, ptr %needs, i64 %n
  %results = getelementptr i64, ptr %constants, i64 %m
  %result.words = mul i64 %k, {FIELDS}
  %outputs = getelementptr i64, ptr %results, i64 %result.words
  %new = getelementptr i64, ptr %arrays, i64 %first
  %size = call i64 @PyList_Size(ptr %list)
  br i64 %size == %n ? right : refuse
refuse:
  %message = load ptr, %words[{MESSAGE}]
  call void @PyErr_SetString(ptr @fx_type_error, ptr %message)
  br failed
right:
  %items = load ptr, %list->items
  for %i < %n {{
    %item = load ptr, %items[%i]
    %type = load ptr, %item->type
    br ptr %type == @numpy_array_type ? array : refuse
array:
    %need = load i64, %needs[%i]
    %flags = trunc i64 %need to i32
    %fits = call i1 @has(ptr %item, i32 %flags)
    br %fits ? dense : copy
copy:
    %copy.of = call ptr @numpy_copy(ptr %item, i32 0)
    br ptr %copy.of == null ? failed : noted
noted:
    %c = load i64, ptr %copied
    store ptr %copy.of, %copies[%c]
    %c.next = add i64 %c, 1
    store i64 %c.next, ptr %copied
dense:
    %used = phi ptr [ %item, %array ], [ %copy.of, %noted ]
    %data = load ptr, %used->data
    store ptr %used, %arrays[%i]
    store ptr %data, %table[%i]
  }}
  for %j < %m {{
    %constant = load ptr, %constants[%j]
    %j.data = load ptr, %constant->data
    %j.place = add i64 %n, %j
    store ptr %constant, %arrays[%j.place]
    store ptr %j.data, %table[%j.place]
  }}
  for %r < %k {{
    %r.word = mul i64 %r, {FIELDS}
    %spec = getelementptr i64, ptr %results, i64 %r.word
    %dtype = load ptr, %spec[0]
    %axes = load i64, %spec[1]
    %dims = load ptr, %spec[2]
    %bytes = load i64, %spec[3]
    %result = call ptr @result(ptr %dtype, i64 %axes, ptr %dims, i64 %bytes)
    br ptr %result == null ? failed : kept
kept:
    store ptr %result, %new[%r]
    %r.count = add i64 %r, 1
    store i64 %r.count, ptr %made
    %r.data = load ptr, %result->data
    %r.place = add i64 %first, %r
    store ptr %r.data, %table[%r.place]
  }}
arena:
  %box = load ptr, %words[{ARENA}]
  %nbytes = load i64, %words[{ROOM}]
  br i64 %nbytes == 0 ? run : take
take:
  %busy = cmpxchg ptr %box, i64 0, i64 1 acquire monotonic
  %got = extractvalue {{i64, i1}} %busy, 1
  br %got ? own : fresh
own:
  %own.arena = load ptr, %box[1]
  br run
fresh:
  %raw = call ptr @PyMem_RawMalloc(i64 %nbytes)
  br ptr %raw == null ? no.memory : align
no.memory:
  call void @PyErr_SetString(ptr @fx_memory_error, ptr @no_memory)
  br failed
align:
  %number = ptrtoint ptr %raw to i64
  %up = add i64 %number, 63
  %down = and i64 %up, -64
  %aligned = inttoptr i64 %down to ptr
run:
  %at = phi ptr [ null, %arena ], [ %own.arena, %own ], [ %aligned, %align ]
  %taken = phi ptr [ null, %arena ], [ %box, %own ], [ null, %align ]
  %freed = phi ptr [ null, %arena ], [ null, %own ], [ %raw, %align ]
  store ptr %at, %table[%all]
  %body = load ptr, %words[{BODY}]
  %free = load i64, %words[{FREE}]
  br i64 %free == 0 ? short : long
short:
  %bad.short = call i1 %body(ptr %table, ptr %failure)
  br ran
long:
  %thread = call ptr @PyEval_SaveThread()
  %bad.long = call i1 %body(ptr %table, ptr %failure)
  call void @PyEval_RestoreThread(ptr %thread)
ran:
  %bad = phi i1 [ %bad.short, %short ], [ %bad.long, %long ]
  if ptr %taken != null {{
    store atomic i64 0, ptr %taken release, align 8
  }}
  if ptr %freed != null {{
    call void @PyMem_RawFree(ptr %freed)
  }}
  br %bad ? wrong : hand
wrong:
  %raised = call ptr @PyErr_Occurred()
  br ptr %raised == null ? tell : failed
tell:
  %format = load ptr, ptr %failure
  %index = load i64, %failure[1]
  %word = load i64, %failure[2]
  %errors = getelementptr i64, ptr %words, i64 {ERRORS - 1}
  %error = load ptr, %errors[%word]
  %nothing = call ptr (ptr, ptr, ...) @PyErr_Format(ptr %error, ptr %format, i64 %index)
  br failed
hand:
  %out = call ptr @PyList_New(i64 %outs)
  br ptr %out == null ? failed : filling
filling:
  %to = load ptr, %out->items
  for %o < %outs {{
one:
    %o.word = mul i64 %o, {FIELDS}
    %face = getelementptr i64, ptr %outputs, i64 %o.word
    %place = load i64, %face[0]
    %base = load ptr, %arrays[%place]
    call void @hold(ptr %base)
    %face.dtype = load ptr, %face[1]
    br ptr %face.dtype == null ? itself : other
other:
    %face.axes = load i64, %face[2]
    %face.dims = load ptr, %face[3]
    %view = call ptr @view_of(ptr %base, ptr %face.dtype, i64 %face.axes, ptr %face.dims)
    br ptr %view == null ? undo : itself
itself:
    %given = phi ptr [ %base, %one ], [ %view, %other ]
    store ptr %given, %to[%o]
  }}
done:
  br clean
undo:
  call void @Py_DecRef(ptr %out)
failed:
clean:
  %answer = phi ptr [ %out, %done ], [ null, %failed ]
  %made.count = load i64, ptr %made
  call void @let_all_go(ptr %new, i64 %made.count)
  %copied.count = load i64, ptr %copied
  call void @let_all_go(ptr %copies, i64 %copied.count)
  ret ptr %answer
}}
"""


def builtin(
    part: Part, body: int, constants: Sequence[np.ndarray], box: np.ndarray, keep: Any
) -> Callable[[list[Any]], list[Any]]:
    """The function of a part.

    Args:
        part: what it takes, makes and hands over.
        body: the address of its body.
        constants: its constants, dense.
        box: whether the arena is in use, and where it is.
        keep: what must live as long as the function.
    """
    n, m, k = part.inputs, len(constants), len(part.results)
    dims = np.array([s for _, shape in part.specs() for s in (*shape, 0)], np.int64)
    where = dims.ctypes.data

    def spec(dtype: str, shape: Sequence[int]) -> tuple[int, int, int]:
        nonlocal where
        told = id(as_dtype(dtype)), len(shape), where
        where += 8 * (len(shape) + 1)
        return told

    message = f"a compiled graph of {n} inputs takes a list of {n} arrays".encode()
    first = {"input": 0, "constant": n, "result": n + m}
    written = set(part.written)
    text = np.frombuffer(message + b"\0", np.uint8)
    words: list[int] = [
        body, part.free, box.ctypes.data, part.arena and part.arena + 64, n, m, k,
        len(part.outputs), text.ctypes.data, *map(id, failures.ERRORS),
    ]  # fmt: skip
    words += [DENSE | WRITEABLE if i in written else DENSE for i in range(n)]
    words += map(id, constants)
    for dtype, shape in part.results:
        words += [*spec(dtype, shape), prod(shape) * as_dtype(dtype).itemsize]
    for kind, index, view in part.outputs:
        words += [first[kind] + index, *((0, 0, 0) if view is None else spec(*view))]
    me = python_api.owner(len(words))
    me[: len(words)] = words
    code = entry.loaded("graph")
    me.keep = (code, constants, dims, text, box, keep)
    return python_api.builtin(part.name, code.address("fx_enter"), me)
