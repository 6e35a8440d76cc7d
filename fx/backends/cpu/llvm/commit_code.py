"""The code of ``commit.py``, as LLVM IR: a step takes what it needs, runs, stores what came out.

Both builtins go the same way. *Take*: look at each item, and note in a record what is to become of
it. *Put away*: while the GIL is given up, tensors that get new values are of the class ``Away``.
*Run.* *Commit*: store what came out; nothing in there allocates, fails or runs Python. *Release*:
only then let go of what was there before, whose end may run anything.

A record has six words: the slot that holds a tensor; the tensor that gets the new value; what the
slot held, if that is another one, since somebody else holds the old; the owner of the slot; and
twice what is to be let go of. Taking says 0 (not as expected), 1, 2 (something is away: wait) or
3 (an exception); unless it says 1, nothing has happened.
"""

from __future__ import annotations

FIELDS = 10  # words of an item of a step: see commit.Item
RECORD = 6
HEAD = 8  # words before the items of a step, and before the parts of a layout
(COUNT, RUN, NUMBERS, TABLE, FREE, GONE, NATIVE, METHOD) = range(HEAD)  # of a step
CELL, GATHERED, SPACE, GIVEN, ABSENT, PRESENT, CLEARED = range(7)  # kinds of items
NOWHERE, NOTHING, TAKEN = -1, -2, -3  # places that are no output: stays; None; given away

TEXT = (
    f"""
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
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @numpy_copy(ptr, i32)
declare ptr @numpy_new(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare void @fx_parallel(ptr, ptr, i64, i64, i64, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

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

; whether an array is one, of this dtype and shape
define internal i1 @fits(ptr %a, ptr %wanted, i64 %axes.wanted, ptr %dims.wanted) {{
  %no.array = icmp eq ptr %a, null
  br i1 %no.array, label %no, label %object
object:
  %type.at = getelementptr i8, ptr %a, i64 $type
  %type = load ptr, ptr %type.at
  %is.array = icmp eq ptr %type, @numpy_array_type
  br i1 %is.array, label %array, label %no
array:
  %dtype.at = getelementptr i8, ptr %a, i64 $dtype
  %dtype = load ptr, ptr %dtype.at
  %same.dtype = icmp eq ptr %dtype, %wanted
  %axes.at = getelementptr i8, ptr %a, i64 $axes
  %axes.narrow = load i32, ptr %axes.at
  %axes = zext i32 %axes.narrow to i64
  %same.axes = icmp eq i64 %axes, %axes.wanted
  %same = and i1 %same.dtype, %same.axes
  %dims.at = getelementptr i8, ptr %a, i64 $dims
  %dims = load ptr, ptr %dims.at
  br i1 %same, label %axis, label %no
axis:
  %k = phi i64 [ 0, %array ], [ %k.next, %size ]
  %more = icmp ult i64 %k, %axes
  br i1 %more, label %size, label %yes
size:
  %n.at = getelementptr i64, ptr %dims, i64 %k
  %n = load i64, ptr %n.at
  %m.at = getelementptr i64, ptr %dims.wanted, i64 %k
  %m = load i64, ptr %m.at
  %k.next = add i64 %k, 1
  %equal = icmp eq i64 %n, %m
  br i1 %equal, label %axis, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}

; whether only one holds the array, it has its own memory, and that has these flags
define internal i1 @own(ptr %a, i64 %need) {{
  %count = load i64, ptr %a
  %one = icmp eq i64 %count, 1
  %base.at = getelementptr i8, ptr %a, i64 $base
  %base = load ptr, ptr %base.at
  %no.base = icmp eq ptr %base, null
  %flags.at = getelementptr i8, ptr %a, i64 $flags
  %flags.narrow = load i32, ptr %flags.at
  %flags = zext i32 %flags.narrow to i64
  %has = and i64 %flags, %need
  %dense = icmp eq i64 %has, %need
  %two = and i1 %one, %no.base
  %all = and i1 %two, %dense
  ret i1 %all
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
  br label %look
look:
  %i = phi i64 [ 0, %0 ], [ %i.next, %next ]
  %r = phi ptr [ %records, %0 ], [ %r.next, %next ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %i.next = add i64 %i, 1
  %r.next = getelementptr ptr, ptr %r, i64 {RECORD}
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
next:
  br label %look
done:
  ret void
}}

; as before: the tensors that were there, with what they held
define internal void @undo(ptr %records, i64 %count, i1 %away) {{
  br label %look
look:
  %i = phi i64 [ 0, %0 ], [ %i.next, %next ]
  %r = phi ptr [ %records, %0 ], [ %r.next, %next ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %i.next = add i64 %i, 1
  %r.next = getelementptr ptr, ptr %r, i64 {RECORD}
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
next:
  br label %look
done:
  ret void
}}

define internal void @release(ptr %records, i64 %count, i1 %away) {{
  br label %look
look:
  %i = phi i64 [ 0, %0 ], [ %i.next, %next ]
  %r = phi ptr [ %records, %0 ], [ %r.next, %next ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %i.next = add i64 %i, 1
  %r.next = getelementptr ptr, ptr %r, i64 {RECORD}
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
next:
  br label %look
done:
  ret void
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
    + f"""
define internal i32 @take(ptr %words, ptr %items, ptr %records, i1 %lend) {{
entry:
  %count = load i64, ptr %words
  %first = getelementptr i64, ptr %words, i64 {HEAD}
  br label %item
item:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %f = phi ptr [ %first, %entry ], [ %f.next, %next ]
  %r = phi ptr [ %records, %entry ], [ %r.next, %next ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %yes
look:
  %i.next = add i64 %i, 1
  %f.next = getelementptr i64, ptr %f, i64 {FIELDS}
  %r.next = getelementptr ptr, ptr %r, i64 {RECORD}
  %kind.at = getelementptr i64, ptr %f, i64 1
  %kind = load i64, ptr %kind.at
  %dtype.at = getelementptr i64, ptr %f, i64 2
  %dtype = load ptr, ptr %dtype.at
  %axes.at = getelementptr i64, ptr %f, i64 3
  %axes = load i64, ptr %axes.at
  %dims.at = getelementptr i64, ptr %f, i64 4
  %dims = load ptr, ptr %dims.at
  %position.at = getelementptr i64, ptr %f, i64 5
  %position = load i64, ptr %position.at
  %place.at = getelementptr i64, ptr %f, i64 8
  %place = load i64, ptr %place.at
  %argument = icmp eq i64 %kind, {GIVEN}
  br i1 %argument, label %given, label %weak
given:
  %given.at = getelementptr ptr, ptr %items, i64 %position
  %passed = load ptr, ptr %given.at
  br label %held
weak:
  %weak.ref = load ptr, ptr %f
  %cell.at = getelementptr i8, ptr %weak.ref, i64 $referent
  %cell = load ptr, ptr %cell.at
  %dead = icmp eq ptr %cell, @fx_none
  br i1 %dead, label %no, label %alive
alive:
  %is.cell = icmp eq i64 %kind, {CELL}
  br i1 %is.cell, label %of.cell, label %of.leaf
of.cell:
  %value.at = getelementptr i8, ptr %cell, i64 $value
  br label %slot
of.leaf:
  %leaf.at = getelementptr i8, ptr %cell, i64 $leaf
  %leaf = load ptr, ptr %leaf.at
  %no.leaf = icmp eq ptr %leaf, @fx_none
  br i1 %no.leaf, label %no, label %gradient
gradient:
  %grad.at = getelementptr i8, ptr %leaf, i64 $grad
  br label %slot
slot:
  %slot.at = phi ptr [ %value.at, %of.cell ], [ %grad.at, %gradient ]
  %owning = phi ptr [ %cell, %of.cell ], [ %leaf, %gradient ]
  %found = load ptr, ptr %slot.at
  %unset = icmp eq ptr %found, null
  br i1 %unset, label %no, label %held
held:
  %t = phi ptr [ %passed, %given ], [ %found, %slot ]
  %s = phi ptr [ null, %given ], [ %slot.at, %slot ]
  %owner = phi ptr [ null, %given ], [ %owning, %slot ]
  %t.type.at = getelementptr i8, ptr %t, i64 $type
  %t.type = load ptr, ptr %t.type.at
  %away = icmp eq ptr %t.type, @away_type
  br i1 %away, label %busy, label %there
there:
  %is.none = icmp eq ptr %t, @fx_none
  %plain = icmp eq ptr %t.type, @tensor_type
  br i1 %plain, label %look.node, label %kinds
look.node:
  %node.at = getelementptr i8, ptr %t, i64 $node
  %node = load ptr, ptr %node.at
  %no.node = icmp eq ptr %node, @fx_none
  br label %kinds
kinds:
  %bare = phi i1 [ false, %there ], [ %no.node, %look.node ]
  switch i64 %kind, label %of.cells [
    i64 {GATHERED}, label %of.gathered
    i64 {SPACE}, label %of.space
    i64 {GIVEN}, label %of.given
    i64 {ABSENT}, label %of.absent
    i64 {PRESENT}, label %of.present
    i64 {CLEARED}, label %target
  ]
of.absent:
  br i1 %is.none, label %next, label %no
of.present:
  br i1 %is.none, label %no, label %next
of.cells:
  %check.at = getelementptr i64, ptr %f, i64 9
  %check = load i64, ptr %check.at
  %checked = icmp ne i64 %check, 0
  br i1 %checked, label %of.given, label %target
of.given:
  br i1 %plain, label %array, label %no
of.gathered:
  br i1 %bare, label %array, label %no
of.space:
  br i1 %bare, label %array, label %fresh
array:
  %a = call ptr @array_of(ptr %t)
  %right = call i1 @fits(ptr %a, ptr %dtype, i64 %axes, ptr %dims)
  %is.space = icmp eq i64 %kind, {SPACE}
  br i1 %right, label %use, label %wrong
wrong:
  br i1 %is.space, label %fresh, label %no
use:
  %unused = icmp slt i64 %position, 0
  br i1 %unused, label %target, label %passing
passing:
  %owned.at = getelementptr i64, ptr %f, i64 7
  %owned = load i64, ptr %owned.at
  %is.owned = icmp ne i64 %owned, 0
  br i1 %is.owned, label %ask, label %pass
ask:
  %need.at = getelementptr i64, ptr %f, i64 6
  %need = load i64, ptr %need.at
  %own = call i1 @own(ptr %a, i64 %need)
  %t.count = load i64, ptr %t
  %t.one = icmp eq i64 %t.count, 1
  %t.alone = or i1 %t.one, %argument
  %alone = and i1 %own, %t.alone
  %lent = and i1 %alone, %lend
  br i1 %lent, label %pass, label %apart
apart:
  br i1 %is.space, label %fresh, label %copy
pass:
  call void @hold(ptr %a)
  br label %put
copy:
  %copied = call ptr @numpy_copy(ptr %a, i32 0)
  %no.copy = icmp eq ptr %copied, null
  br i1 %no.copy, label %error, label %put
fresh:
  call void @hold(ptr %dtype)
  %nd = trunc i64 %axes to i32
  %made = call ptr @numpy_new(ptr @numpy_array_type, ptr %dtype, i32 %nd, ptr %dims,
    ptr null, ptr null, i32 0, ptr null)
  %not.made = icmp eq ptr %made, null
  br i1 %not.made, label %error, label %put
put:
  %x = phi ptr [ %a, %pass ], [ %copied, %copy ], [ %made, %fresh ]
  %put.at = getelementptr ptr, ptr %items, i64 %position
  store ptr %x, ptr %put.at
  br i1 %argument, label %target, label %unneeded
unneeded:
  call void @let_go(ptr @fx_none)
  br label %target
target:
  %stays = icmp eq i64 %place, {NOWHERE}
  br i1 %stays, label %next, label %noted
noted:
  store ptr %s, ptr %r
  %owner.to = getelementptr ptr, ptr %r, i64 3
  store ptr %owner, ptr %owner.to
  %t.to = getelementptr ptr, ptr %r, i64 1
  br i1 %argument, label %leaves, label %keep
leaves:
  store ptr %t, ptr %t.to
  br label %next
keep:
  call void @hold(ptr %owner)
  %ends = icmp eq i64 %place, {NOTHING}
  br i1 %ends, label %next, label %which
which:
  %of.a.cell = icmp eq i64 %kind, {CELL}
  %suits = or i1 %of.a.cell, %bare
  %ours = and i1 %suits, %plain
  %holders = load i64, ptr %t
  %ours.alone = icmp eq i64 %holders, 1
  %in.place = and i1 %ours, %ours.alone
  br i1 %in.place, label %itself, label %another
itself:
  call void @hold(ptr %t)
  store ptr %t, ptr %t.to
  br label %next
another:
  %new = call ptr @PyType_GenericAlloc(ptr @tensor_type, i64 0)
  %no.new = icmp eq ptr %new, null
  br i1 %no.new, label %error, label %instead
instead:
  store ptr %new, ptr %t.to
  %old.to = getelementptr ptr, ptr %r, i64 2
  store ptr %t, ptr %old.to
  br label %next
next:
  br label %item
yes:
  ret i32 1
no:
  ret i32 0
busy:
  ret i32 2
error:
  ret i32 3
}}

define internal void @commit(ptr %words, ptr %records, ptr %outs) {{
entry:
  %count = load i64, ptr %words
  %first = getelementptr i64, ptr %words, i64 {HEAD}
  %gone.at = getelementptr i64, ptr %words, i64 {GONE}
  %gone = load ptr, ptr %gone.at
  br label %item
item:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %f = phi ptr [ %first, %entry ], [ %f.next, %next ]
  %r = phi ptr [ %records, %entry ], [ %r.next, %next ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %done
look:
  %i.next = add i64 %i, 1
  %f.next = getelementptr i64, ptr %f, i64 {FIELDS}
  %r.next = getelementptr ptr, ptr %r, i64 {RECORD}
  %place.at = getelementptr i64, ptr %f, i64 8
  %place = load i64, ptr %place.at
  %t.at = getelementptr ptr, ptr %r, i64 1
  %t = load ptr, ptr %t.at
  %drop.at = getelementptr ptr, ptr %r, i64 4
  switch i64 %place, label %output [
    i64 {NOWHERE}, label %next
    i64 {NOTHING}, label %nothing
    i64 {TAKEN}, label %taken
  ]
nothing:
  %slot = load ptr, ptr %r
  %grad = load ptr, ptr %slot
  call void @hold(ptr @fx_none)
  store ptr @fx_none, ptr %slot
  store ptr %grad, ptr %drop.at
  br label %next
taken:
  call void @hold(ptr %gone)
  br label %exchange
output:
  %out.at = getelementptr ptr, ptr %outs, i64 %place
  %out = load ptr, ptr %out.at
  call void @hold(ptr %out)
  %old.at = getelementptr ptr, ptr %r, i64 2
  %old = load ptr, ptr %old.at
  %in.place = icmp eq ptr %old, null
  br i1 %in.place, label %exchange, label %another
exchange:
  %x = phi ptr [ %gone, %taken ], [ %out, %output ]
  %a.at = getelementptr i8, ptr %t, i64 $array
  %before = load ptr, ptr %a.at
  store ptr %x, ptr %a.at
  store ptr %before, ptr %drop.at
  call void @come_back(ptr %t)
  call void @stand(ptr %r, ptr %t)
  br label %next
another:
  %new.at = getelementptr i8, ptr %t, i64 $array
  store ptr %out, ptr %new.at
  %kind.at = getelementptr i64, ptr %f, i64 1
  %kind = load i64, ptr %kind.at
  %cell = icmp eq i64 %kind, {CELL}
  call void @install(ptr %r, ptr %t, i1 %cell)
  br label %next
next:
  br label %item
done:
  ret void
}}

; Python numbers, into the dicts that hold them
define internal i1 @put_numbers(ptr %words, ptr %outs) {{
entry:
  %count.at = getelementptr i64, ptr %words, i64 {NUMBERS}
  %count = load i64, ptr %count.at
  %table.at = getelementptr i64, ptr %words, i64 {TABLE}
  %table = load ptr, ptr %table.at
  %method.at = getelementptr i64, ptr %words, i64 {METHOD}
  %method = load ptr, ptr %method.at
  br label %item
item:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %n = phi ptr [ %table, %entry ], [ %n.next, %next ]
  %good = phi i1 [ true, %entry ], [ %still, %next ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %look, label %done
look:
  %i.next = add i64 %i, 1
  %n.next = getelementptr i64, ptr %n, i64 4
  %dict = load ptr, ptr %n
  %key.at = getelementptr i64, ptr %n, i64 1
  %key = load ptr, ptr %key.at
  %known.at = getelementptr i64, ptr %n, i64 2
  %known = load ptr, ptr %known.at
  %computed = icmp eq ptr %known, null
  br i1 %computed, label %compute, label %constant
constant:
  call void @hold(ptr %known)
  br label %store
compute:
  %place.at = getelementptr i64, ptr %n, i64 3
  %place = load i64, ptr %place.at
  %out.at = getelementptr ptr, ptr %outs, i64 %place
  %out = load ptr, ptr %out.at
  %item.of = call ptr (ptr, ptr, ...) @PyObject_CallMethodObjArgs(
    ptr %out, ptr %method, ptr null)
  %failed = icmp eq ptr %item.of, null
  br i1 %failed, label %next, label %store
store:
  %v = phi ptr [ %known, %constant ], [ %item.of, %compute ]
  %code = call i32 @PyDict_SetItem(ptr %dict, ptr %key, ptr %v)
  call void @let_go(ptr %v)
  %stored = icmp eq i32 %code, 0
  %fine = and i1 %stored, %good
  br label %next
next:
  %still = phi i1 [ false, %compute ], [ %fine, %store ]
  br label %item
done:
  ret i1 %good
}}

define ptr @step(ptr %me, ptr %list) {{
entry:
  %words.at = getelementptr i8, ptr %me, i64 $data
  %words = load ptr, ptr %words.at
  %count = load i64, ptr %words
  %items.at = getelementptr i8, ptr %list, i64 $items
  %items = load ptr, ptr %items.at
  %bytes = mul i64 %count, {8 * RECORD}
  %records = alloca i8, i64 %bytes, align 16
  call void @llvm.memset.p0.i64(ptr %records, i8 0, i64 %bytes, i1 false)
  %run.at = getelementptr i64, ptr %words, i64 {RUN}
  %run = load ptr, ptr %run.at
  %free.at = getelementptr i64, ptr %words, i64 {FREE}
  %free.word = load i64, ptr %free.at
  %free = icmp ne i64 %free.word, 0
  %native.at = getelementptr i64, ptr %words, i64 {NATIVE}
  %native.word = load i64, ptr %native.at
  %native = icmp ne i64 %native.word, 0
  call void @begin()
  %gate = load i64, ptr @fx_gate
  %open = icmp eq i64 %gate, 0
  %found = call i32 @take(ptr %words, ptr %items, ptr %records, i1 %open)
  %state = select i1 %open, i32 %found, i32 2
  %ready = icmp eq i32 %state, 1
  br i1 %ready, label %go, label %refuse
refuse:
  call void @end()
  call void @release(ptr %records, i64 %count, i1 false)
  switch i32 %state, label %error [ i32 0, label %no  i32 2, label %busy ]
no:
  call void @hold(ptr @fx_false)
  ret ptr @fx_false
busy:
  call void @hold(ptr @fx_none)
  ret ptr @fx_none
error:
  ret ptr null
go:
  %away = and i1 %free, %open
  br i1 %away, label %hide, label %run.it
hide:
  call void @put_away(ptr %records, i64 %count)
  br label %run.it
run.it:
  br i1 %native, label %call, label %leave
leave:
  call void @end()
  br label %call
call:
  %out = call ptr @PyObject_CallOneArg(ptr %run, ptr %list)
  br i1 %native, label %ran, label %enter
enter:
  call void @begin()
  br label %ran
ran:
  %failed = icmp eq ptr %out, null
  br i1 %failed, label %back, label %store
back:
  call void @undo(ptr %records, i64 %count, i1 %away)
  call void @end()
  call void @release(ptr %records, i64 %count, i1 false)
  ret ptr null
store:
  %outs.at = getelementptr i8, ptr %out, i64 $items
  %outs = load ptr, ptr %outs.at
  call void @commit(ptr %words, ptr %records, ptr %outs)
  %good = call i1 @put_numbers(ptr %words, ptr %outs)
  call void @end()
  %size = call i64 @PyList_Size(ptr %list)
  %code = call i32 @PyList_SetSlice(ptr %list, i64 0, i64 %size, ptr null)
  call void @release(ptr %records, i64 %count, i1 %away)
  br i1 %good, label %yes, label %wrong
yes:
  ret ptr %out
wrong:
  call void @let_go(ptr %out)
  ret ptr null
}}
"""
    + f"""
; the arrays of one sweep: their addresses go into its layout
define internal i32 @take_sweep(ptr %job, ptr %records, i1 %lend) {{
entry:
  %items.at = getelementptr i8, ptr %job, i64 $items
  %items = load ptr, ptr %items.at
  %head = load ptr, ptr %items
  %layout.at = getelementptr i8, ptr %head, i64 $data
  %layout = load ptr, ptr %layout.at
  %count = load i64, ptr %layout
  %width.at = getelementptr i64, ptr %layout, i64 5
  %width = load i64, ptr %width.at
  %mask.at = getelementptr i64, ptr %layout, i64 6
  %mask = load i64, ptr %mask.at
  %dtype.at = getelementptr i64, ptr %layout, i64 7
  %dtype = load ptr, ptr %dtype.at
  %stride = add i64 %width, 2
  %first = getelementptr i64, ptr %layout, i64 {HEAD}
  %from = getelementptr ptr, ptr %items, i64 1
  br label %parts
parts:
  %p = phi i64 [ 0, %entry ], [ %p.next, %filled ]
  %part = phi ptr [ %first, %entry ], [ %part.next, %filled ]
  %given = phi ptr [ %from, %entry ], [ %given.next, %filled ]
  %records.here = phi ptr [ %records, %entry ], [ %records.next, %filled ]
  %more = icmp ult i64 %p, %count
  br i1 %more, label %begin, label %yes
begin:
  %length.at = getelementptr i64, ptr %part, i64 1
  %length = load i64, ptr %length.at
  br label %fill
fill:
  %k = phi i64 [ 0, %begin ], [ %k.next, %placed ]
  %k.next = add i64 %k, 1
  %item.at = getelementptr ptr, ptr %given, i64 %k
  %item = load ptr, ptr %item.at
  %k.record = mul i64 %k, {RECORD}
  %r = getelementptr ptr, ptr %records.here, i64 %k.record
  %t.to = getelementptr ptr, ptr %r, i64 1
  %owner.to = getelementptr ptr, ptr %r, i64 3
  %drop.to = getelementptr ptr, ptr %r, i64 4
  %is.gradient = icmp eq i64 %k, 1
  br i1 %is.gradient, label %array, label %cell
cell:
  %slot = getelementptr i8, ptr %item, i64 $value
  %t = load ptr, ptr %slot
  %unset = icmp eq ptr %t, null
  br i1 %unset, label %no, label %held
held:
  %type.at = getelementptr i8, ptr %t, i64 $type
  %type = load ptr, ptr %type.at
  %away = icmp eq ptr %type, @away_type
  br i1 %away, label %busy, label %there
there:
  %plain = icmp eq ptr %type, @tensor_type
  br i1 %plain, label %inside, label %no
inside:
  %found = call ptr @array_of(ptr %t)
  br label %array
array:
  %a = phi ptr [ %item, %fill ], [ %found, %inside ]
  %none = icmp eq ptr %a, null
  br i1 %none, label %no, label %some
some:
  %a.type.at = getelementptr i8, ptr %a, i64 $type
  %a.type = load ptr, ptr %a.type.at
  %is.array = icmp eq ptr %a.type, @numpy_array_type
  br i1 %is.array, label %spec, label %no
spec:
  %a.dtype.at = getelementptr i8, ptr %a, i64 $dtype
  %a.dtype = load ptr, ptr %a.dtype.at
  %same.dtype = icmp eq ptr %a.dtype, %dtype
  %axes.at = getelementptr i8, ptr %a, i64 $axes
  %axes.narrow = load i32, ptr %axes.at
  %axes = zext i32 %axes.narrow to i64
  %dims.at = getelementptr i8, ptr %a, i64 $dims
  %dims = load ptr, ptr %dims.at
  br label %axis
axis:
  %d = phi i64 [ 0, %spec ], [ %d.next, %size ]
  %n = phi i64 [ 1, %spec ], [ %n.next, %size ]
  %d.more = icmp ult i64 %d, %axes
  br i1 %d.more, label %size, label %sized
size:
  %dim.at = getelementptr i64, ptr %dims, i64 %d
  %dim = load i64, ptr %dim.at
  %n.next = mul i64 %n, %dim
  %d.next = add i64 %d, 1
  br label %axis
sized:
  %same.length = icmp eq i64 %n, %length
  %same = and i1 %same.length, %same.dtype
  br i1 %same, label %use, label %no
use:
  %bit = lshr i64 %mask, %k
  %low = and i64 %bit, 1
  %written = icmp ne i64 %low, 0
  br i1 %written, label %ask, label %read
read:
  %flags.at = getelementptr i8, ptr %a, i64 $flags
  %flags.narrow = load i32, ptr %flags.at
  %has = and i32 %flags.narrow, $dense
  %dense = icmp eq i32 %has, $dense
  br i1 %dense, label %borrow, label %no
borrow:
  call void @hold(ptr %a)
  store ptr %a, ptr %drop.to
  br label %placed
ask:
  call void @hold(ptr %item)
  store ptr %item, ptr %owner.to
  %slot.of = getelementptr i8, ptr %item, i64 $value
  store ptr %slot.of, ptr %r
  %t.of = load ptr, ptr %slot.of
  %own = call i1 @own(ptr %a, i64 $written)
  %t.count = load i64, ptr %t.of
  %one = icmp eq i64 %t.count, 1
  %alone = and i1 %one, %own
  %lent = and i1 %alone, %lend
  br i1 %lent, label %itself, label %another
itself:
  call void @hold(ptr %t.of)
  store ptr %t.of, ptr %t.to
  br label %placed
another:
  %copy = call ptr @numpy_copy(ptr %a, i32 0)
  %no.copy = icmp eq ptr %copy, null
  br i1 %no.copy, label %error, label %wrap
wrap:
  %new = call ptr @PyType_GenericAlloc(ptr @tensor_type, i64 0)
  %no.new = icmp eq ptr %new, null
  br i1 %no.new, label %error.copy, label %instead
instead:
  %new.array = getelementptr i8, ptr %new, i64 $array
  store ptr %copy, ptr %new.array
  store ptr %new, ptr %t.to
  %old.to = getelementptr ptr, ptr %r, i64 2
  store ptr %t.of, ptr %old.to
  br label %placed
placed:
  %used = phi ptr [ %a, %borrow ], [ %a, %itself ], [ %copy, %instead ]
  %data.at = getelementptr i8, ptr %used, i64 $data
  %data = load ptr, ptr %data.at
  %word = add i64 %k, 2
  %place = getelementptr i64, ptr %part, i64 %word
  store ptr %data, ptr %place
  %k.more = icmp ult i64 %k.next, %width
  br i1 %k.more, label %fill, label %filled
filled:
  %p.next = add i64 %p, 1
  %part.next = getelementptr i64, ptr %part, i64 %stride
  %given.next = getelementptr ptr, ptr %given, i64 %width
  %wide = mul i64 %width, {RECORD}
  %records.next = getelementptr ptr, ptr %records.here, i64 %wide
  br label %parts
yes:
  ret i32 1
no:
  ret i32 0
busy:
  ret i32 2
error.copy:
  call void @let_go(ptr %copy)
  br label %error
error:
  ret i32 3
}}

define internal void @run_sweep(ptr %layout) {{
  %tasks.at = getelementptr i64, ptr %layout, i64 1
  %tasks = load i64, ptr %tasks.at
  %function.at = getelementptr i64, ptr %layout, i64 4
  %function = load ptr, ptr %function.at
  %how = call i64 @how(ptr %layout)
  %release = icmp ne i64 %how, 0
  br i1 %release, label %free, label %short
short:
  call void %function(ptr %layout, i64 0, i64 %tasks, ptr null)
  ret void
free:
  %thread = call ptr @PyEval_SaveThread()
  %several = icmp eq i64 %how, 2
  br i1 %several, label %share, label %alone
share:
  %chunk.at = getelementptr i64, ptr %layout, i64 2
  %chunk = load i64, ptr %chunk.at
  call void @fx_parallel(ptr %function, ptr %layout, i64 %tasks, i64 %chunk, i64 0, ptr null)
  br label %back
alone:
  call void %function(ptr %layout, i64 0, i64 %tasks, ptr null)
  br label %back
back:
  call void @PyEval_RestoreThread(ptr %thread)
  ret void
}}

; 0: under the GIL, 1: without it, 2: on several threads
define internal i64 @how(ptr %layout) {{
  %count = load i64, ptr %layout
  %width.at = getelementptr i64, ptr %layout, i64 5
  %width = load i64, ptr %width.at
  %stride = add i64 %width, 2
  %words = mul i64 %count, %stride
  %last = add i64 %words, {HEAD}
  %how.at = getelementptr i64, ptr %layout, i64 %last
  %how = load i64, ptr %how.at
  ret i64 %how
}}

define internal ptr @layout_of(ptr %job) alwaysinline {{
  %items.at = getelementptr i8, ptr %job, i64 $items
  %items = load ptr, ptr %items.at
  %head = load ptr, ptr %items
  %layout.at = getelementptr i8, ptr %head, i64 $data
  %layout = load ptr, ptr %layout.at
  ret ptr %layout
}}

define ptr @update(ptr %me, ptr %list) {{
entry:
  %items.at = getelementptr i8, ptr %list, i64 $items
  %items = load ptr, ptr %items.at
  %size = call i64 @PyList_Size(ptr %list)
  %jobs = sub i64 %size, 1
  %stores.at = getelementptr ptr, ptr %items, i64 %jobs
  %stores = load ptr, ptr %stores.at
  br label %counting
counting:
  %c = phi i64 [ 0, %entry ], [ %c.next, %counted ]
  %total = phi i64 [ 0, %entry ], [ %total.next, %counted ]
  %long = phi i64 [ 0, %entry ], [ %long.next, %counted ]
  %c.more = icmp ult i64 %c, %jobs
  br i1 %c.more, label %counted, label %ready
counted:
  %c.at = getelementptr ptr, ptr %items, i64 %c
  %c.job = load ptr, ptr %c.at
  %c.size = call i64 @PyList_Size(ptr %c.job)
  %c.less = sub i64 %c.size, 1
  %total.next = add i64 %total, %c.less
  %c.layout = call ptr @layout_of(ptr %c.job)
  %c.how = call i64 @how(ptr %c.layout)
  %long.next = or i64 %long, %c.how
  %c.next = add i64 %c, 1
  br label %counting
ready:
  %bytes = mul i64 %total, {8 * RECORD}
  %records = alloca i8, i64 %bytes, align 16
  call void @llvm.memset.p0.i64(ptr %records, i8 0, i64 %bytes, i1 false)
  call void @begin()
  %gate = load i64, ptr @fx_gate
  %open = icmp eq i64 %gate, 0
  %free = icmp ne i64 %long, 0
  %away = and i1 %free, %open
  br label %taking
taking:
  %i = phi i64 [ 0, %ready ], [ %i.next, %took ]
  %r = phi ptr [ %records, %ready ], [ %r.next, %took ]
  %more = icmp ult i64 %i, %jobs
  br i1 %more, label %one, label %took.all
one:
  %job.at = getelementptr ptr, ptr %items, i64 %i
  %job = load ptr, ptr %job.at
  %found = call i32 @take_sweep(ptr %job, ptr %r, i1 %open)
  %state = select i1 %open, i32 %found, i32 2
  %fine = icmp eq i32 %state, 1
  br i1 %fine, label %took, label %refuse
took:
  %i.next = add i64 %i, 1
  %job.size = call i64 @PyList_Size(ptr %job)
  %job.less = sub i64 %job.size, 1
  %job.words = mul i64 %job.less, {RECORD}
  %r.next = getelementptr ptr, ptr %r, i64 %job.words
  br label %taking
refuse:
  call void @end()
  call void @release(ptr %records, i64 %total, i1 false)
  switch i32 %state, label %error [ i32 0, label %no  i32 2, label %busy ]
no:
  call void @hold(ptr @fx_false)
  ret ptr @fx_false
busy:
  call void @hold(ptr @fx_none)
  ret ptr @fx_none
error:
  ret ptr null
took.all:
  br i1 %away, label %hide, label %running
hide:
  call void @put_away(ptr %records, i64 %total)
  br label %running
running:
  %j = phi i64 [ 0, %took.all ], [ 0, %hide ], [ %j.next, %ran ]
  %j.more = icmp ult i64 %j, %jobs
  br i1 %j.more, label %ran, label %store
ran:
  %j.at = getelementptr ptr, ptr %items, i64 %j
  %j.job = load ptr, ptr %j.at
  %j.layout = call ptr @layout_of(ptr %j.job)
  call void @run_sweep(ptr %j.layout)
  %j.next = add i64 %j, 1
  br label %running
store:
  %s = phi i64 [ 0, %running ], [ %s.next, %stored ]
  %q = phi ptr [ %records, %running ], [ %q.next, %stored ]
  %s.more = icmp ult i64 %s, %total
  br i1 %s.more, label %record, label %pairs
record:
  %s.next = add i64 %s, 1
  %q.next = getelementptr ptr, ptr %q, i64 {RECORD}
  %t.at = getelementptr ptr, ptr %q, i64 1
  %t = load ptr, ptr %t.at
  %idle = icmp eq ptr %t, null
  br i1 %idle, label %stored, label %target
target:
  %old.at = getelementptr ptr, ptr %q, i64 2
  %old = load ptr, ptr %old.at
  %in.place = icmp eq ptr %old, null
  br i1 %in.place, label %written, label %another
written:
  call void @come_back(ptr %t)
  call void @stand(ptr %q, ptr %t)
  br label %stored
another:
  call void @install(ptr %q, ptr %t, i1 true)
  br label %stored
stored:
  br label %store
pairs:
  %pairs.at = getelementptr i8, ptr %stores, i64 $items
  %pair.items = load ptr, ptr %pairs.at
  %pair.count = call i64 @PyList_Size(ptr %stores)
  br label %pair
pair:
  %k = phi i64 [ 0, %pairs ], [ %k.next, %swap ]
  %k.more = icmp ult i64 %k, %pair.count
  br i1 %k.more, label %swap, label %done
swap:
  %cell.at = getelementptr ptr, ptr %pair.items, i64 %k
  %cell = load ptr, ptr %cell.at
  %new.at = getelementptr ptr, ptr %cell.at, i64 1
  %new = load ptr, ptr %new.at
  %value.at = getelementptr i8, ptr %cell, i64 $value
  %before = load ptr, ptr %value.at
  store ptr %new, ptr %value.at
  store ptr %before, ptr %new.at
  %k.next = add i64 %k, 2
  br label %pair
done:
  call void @end()
  call void @release(ptr %records, i64 %total, i1 %away)
  call void @hold(ptr @fx_true)
  ret ptr @fx_true
}}
"""
)
