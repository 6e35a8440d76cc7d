"""What both builtins of this folder share, as LLVM IR: records of what becomes of each thing.

Both builtins go the same way. *Take*: look at each item, and note in a record what is to become of
it. *Put away*: while memory is written into, its tensors are of the class ``Away``. *Run.*
*Commit*: store what came out; nothing in there allocates, fails or runs Python. *Release*:
only then let go of what was there before, whose end may run anything.

A record has six words: the slot that holds a tensor; the tensor that gets the new value; what the
slot held, if that is another one, since somebody else holds the old; the owner of the slot; and
twice what is to be let go of. Taking says 0 (not as expected), 1, 2 (something is away: wait) or
3 (an exception); unless it says 1, nothing has happened.
"""

from __future__ import annotations

FIELDS = 10  # words of an item of a step: see commit.Item
RECORD = 6
WORDS = 8
HEAD = 8  # words before the items of a step, and before the parts of a layout
(COUNT, RUN, NUMBERS, TABLE, GONE, NATIVE, METHOD, GIVES) = range(WORDS)  # of a step
CELL, GATHERED, SPACE, GIVEN, ABSENT, PRESENT, CLEARED = range(7)  # kinds of items
NOWHERE, NOTHING, TAKEN = -1, -2, -3  # places that are no output: stays; None; given away


def each(body: str) -> str:
    """The lines of a function that goes through its records: ``body`` is for the one at ``%r``."""
    return f"""  br label %look
look:
  %i = phi i64 [ 0, %0 ], [ %i.next, %next ]
  %r = phi ptr [ %records, %0 ], [ %r.next, %next ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %i.next = add i64 %i, 1
  %r.next = getelementptr ptr, ptr %r, i64 {RECORD}
{body}next:
  br label %look
done:
  ret void"""


def refused(count: str) -> str:
    """What both builtins do where ``%state`` says why things cannot be taken."""
    return f"""refuse:
  call void @end()
  call void @release(ptr %records, i64 {count}, i1 false)
  switch i32 %state, label %error [ i32 0, label %no  i32 2, label %busy ]
no:
  call void @hold(ptr @fx_false)
  ret ptr @fx_false
busy:
  call void @hold(ptr @fx_none)
  ret ptr @fx_none
error:
  ret ptr null
"""


_PUT_AWAY = """\
  %t.at = getelementptr ptr, ptr %r, i64 1
  %t = load ptr, ptr %t.at
  %idle = icmp eq ptr %t, null
  br i1 %idle, label %next, label %go
go:
  call void @go_away(ptr %t)
  %old.at = getelementptr ptr, ptr %r, i64 2
  %old = load ptr, ptr %old.at
  %in.place = icmp eq ptr %old, null
  br i1 %in.place, label %next, label %instead
instead:
  %slot = load ptr, ptr %r
  store ptr %t, ptr %slot
  call void @hold(ptr %t)
  br label %next
"""
_UNDO = """\
  %t.at = getelementptr ptr, ptr %r, i64 1
  %t = load ptr, ptr %t.at
  %idle = icmp eq ptr %t, null
  br i1 %idle, label %next, label %back
back:
  call void @come_back(ptr %t)
  %old.at = getelementptr ptr, ptr %r, i64 2
  %old = load ptr, ptr %old.at
  %some = icmp ne ptr %old, null
  %was.away = and i1 %some, %away
  br i1 %was.away, label %instead, label %next
instead:
  store ptr null, ptr %old.at
  %old.type.at = getelementptr i8, ptr %old, i64 $type
  %old.type = load ptr, ptr %old.type.at
  %plain = icmp eq ptr %old.type, @tensor_type
  br i1 %plain, label %same, label %slot
same:
  %a = call ptr @array_of(ptr %old)
  call void @hold(ptr %a)
  %a.at = getelementptr i8, ptr %t, i64 $array
  store ptr %a, ptr %a.at
  %node.from = getelementptr i8, ptr %old, i64 $node
  %node = load ptr, ptr %node.from
  call void @hold(ptr %node)
  %node.at = getelementptr i8, ptr %t, i64 $node
  store ptr %node, ptr %node.at
  br label %slot
slot:
  %slot.at = load ptr, ptr %r
  %now = load ptr, ptr %slot.at
  %still = icmp eq ptr %now, %t
  %drop.at = getelementptr ptr, ptr %r, i64 4
  br i1 %still, label %restore, label %other
restore:
  store ptr %old, ptr %slot.at
  store ptr %t, ptr %drop.at
  br label %next
other:
  store ptr %old, ptr %drop.at
  br label %next
"""
_RELEASE = """\
  %old.at = getelementptr ptr, ptr %r, i64 2
  %old = load ptr, ptr %old.at
  %ours = select i1 %away, ptr %old, ptr null
  call void @drop(ptr %ours)
  %drop.at = getelementptr ptr, ptr %r, i64 4
  %before = load ptr, ptr %drop.at
  call void @drop(ptr %before)
  %more.at = getelementptr ptr, ptr %r, i64 5
  %displaced = load ptr, ptr %more.at
  call void @drop(ptr %displaced)
  %t.at = getelementptr ptr, ptr %r, i64 1
  %t = load ptr, ptr %t.at
  call void @drop(ptr %t)
  %owner.at = getelementptr ptr, ptr %r, i64 3
  %owner = load ptr, ptr %owner.at
  call void @drop(ptr %owner)
  br label %next
"""

TEXT = f"""
@fx_none = external global i8
@fx_true = external global i8
@fx_false = external global i8
@tensor_type = external global i8
@away_type = external global i8
@numpy_array_type = external global i8
@fx_gate = global i64 0
@fx_inside = global i64 0
@collects = internal global i32 0

declare i32 @PyGC_Disable()
declare i32 @PyGC_Enable()
declare void @Py_DecRef(ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyObject_CallMethodObjArgs(ptr, ptr, ...)
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare i64 @PyList_Size(ptr)
declare i32 @PyList_SetSlice(ptr, i64, i64, ptr)
declare i32 @PyList_Append(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyErr_Occurred()
declare ptr @numpy_new(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare void @fx_parallel(ptr, ptr, i64, i64, i64, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; objects that never end, as None of newer Pythons, have a count that is negative in 32 bits
define internal void @hold(ptr %x) alwaysinline {{
  %count = load i64, ptr %x
  %low = trunc i64 %count to i32
  %lasting = icmp slt i32 %low, 0
  br i1 %lasting, label %done, label %one
one:
  %more = add i64 %count, 1
  store i64 %more, ptr %x
  br label %done
done:
  ret void
}}

define internal void @let_go(ptr %x) alwaysinline {{
  %count = load i64, ptr %x
  %low = trunc i64 %count to i32
  %several = icmp sgt i32 %low, 1
  br i1 %several, label %one, label %last
one:
  %less = sub i64 %count, 1
  store i64 %less, ptr %x
  br label %done
last:
  call void @Py_DecRef(ptr %x)
  br label %done
done:
  ret void
}}

define internal void @drop(ptr %x) alwaysinline {{
  %none = icmp eq ptr %x, null
  br i1 %none, label %done, label %some
some:
  call void @let_go(ptr %x)
  br label %done
done:
  ret void
}}

; the cyclic collector runs finalizers: not while a thread has things away
define internal void @begin() {{
  %count = load i64, ptr @fx_inside
  %first = icmp eq i64 %count, 0
  br i1 %first, label %off, label %on
off:
  %was = call i32 @PyGC_Disable()
  store i32 %was, ptr @collects
  br label %on
on:
  %more = add i64 %count, 1
  store i64 %more, ptr @fx_inside
  ret void
}}

define internal void @end() {{
  %count = load i64, ptr @fx_inside
  %less = sub i64 %count, 1
  store i64 %less, ptr @fx_inside
  %last = icmp eq i64 %less, 0
  %was = load i32, ptr @collects
  %did = icmp ne i32 %was, 0
  %both = and i1 %last, %did
  br i1 %both, label %on, label %done
on:
  %code = call i32 @PyGC_Enable()
  br label %done
done:
  ret void
}}

define internal ptr @array_of(ptr %t) alwaysinline {{
  %at = getelementptr i8, ptr %t, i64 $array
  %a = load ptr, ptr %at
  ret ptr %a
}}

define internal void @go_away(ptr %t) {{
  %type.at = getelementptr i8, ptr %t, i64 $type
  %type = load ptr, ptr %type.at
  %plain = icmp eq ptr %type, @tensor_type
  br i1 %plain, label %change, label %done
change:
  store ptr @away_type, ptr %type.at
  call void @hold(ptr @away_type)
  call void @let_go(ptr @tensor_type)
  br label %done
done:
  ret void
}}

define internal void @come_back(ptr %t) {{
  %type.at = getelementptr i8, ptr %t, i64 $type
  %type = load ptr, ptr %type.at
  %away = icmp eq ptr %type, @away_type
  br i1 %away, label %change, label %done
change:
  store ptr @tensor_type, ptr %type.at
  call void @hold(ptr @tensor_type)
  call void @let_go(ptr @away_type)
  br label %done
done:
  ret void
}}

define internal void @put_away(ptr %records, i64 %count) {{
{each(_PUT_AWAY)}
}}

; as before: the tensors that were there, with what they held
define internal void @undo(ptr %records, i64 %count, i1 %away) {{
{each(_UNDO)}
}}

define internal void @release(ptr %records, i64 %count, i1 %away) {{
{each(_RELEASE)}
}}

; a tensor is what its slot holds, also if another thread has stored something there
define internal void @stand(ptr %r, ptr %t) {{
  %slot = load ptr, ptr %r
  %has = icmp ne ptr %slot, null
  br i1 %has, label %look, label %done
look:
  %now = load ptr, ptr %slot
  %same = icmp eq ptr %now, %t
  br i1 %same, label %done, label %displace
displace:
  %to = getelementptr ptr, ptr %r, i64 5
  store ptr %now, ptr %to
  call void @hold(ptr %t)
  store ptr %t, ptr %slot
  br label %done
done:
  ret void
}}

; another tensor becomes what the slot holds, with the leaf of a cell as its node
define internal void @install(ptr %r, ptr %t, i1 %cell) {{
  br i1 %cell, label %leaf, label %none
leaf:
  %owner.at = getelementptr ptr, ptr %r, i64 3
  %owner = load ptr, ptr %owner.at
  %leaf.at = getelementptr i8, ptr %owner, i64 $leaf
  %own = load ptr, ptr %leaf.at
  br label %node
none:
  br label %node
node:
  %n = phi ptr [ %own, %leaf ], [ @fx_none, %none ]
  call void @hold(ptr %n)
  %node.at = getelementptr i8, ptr %t, i64 $node
  store ptr %n, ptr %node.at
  call void @come_back(ptr %t)
  %slot = load ptr, ptr %r
  %before = load ptr, ptr %slot
  %drop.at = getelementptr ptr, ptr %r, i64 4
  store ptr %before, ptr %drop.at
  call void @hold(ptr %t)
  store ptr %t, ptr %slot
  ret void
}}
"""
