"""The builtin of an optimizer's step, as LLVM IR: ``update([sweep, ..., stores])``."""

from __future__ import annotations

from fx.backends.cpu.llvm.commit.records import (
    HEAD,
    RECORD,
    refused,
)

TEXT = f"""
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
  %copy = call ptr @copy_of(ptr %a)
  %no.copy = icmp eq ptr %copy, null
  br i1 %no.copy, label %not.copied, label %wrap
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
not.copied:
  %why = call i32 @why_not()
  ret i32 %why
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
  %c.more = icmp ult i64 %c, %jobs
  br i1 %c.more, label %counted, label %ready
counted:
  %c.at = getelementptr ptr, ptr %items, i64 %c
  %c.job = load ptr, ptr %c.at
  %c.size = call i64 @PyList_Size(ptr %c.job)
  %c.less = sub i64 %c.size, 1
  %total.next = add i64 %total, %c.less
  %c.next = add i64 %c, 1
  br label %counting
ready:
  %bytes = mul i64 %total, {8 * RECORD}
  %records = alloca i8, i64 %bytes, align 16
  call void @llvm.memset.p0.i64(ptr %records, i8 0, i64 %bytes, i1 false)
  call void @begin()
  %gate = load i64, ptr @fx_gate
  %open = icmp eq i64 %gate, 0
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
{refused("%total")}took.all:
  br i1 %open, label %hide, label %running
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
  call void @release(ptr %records, i64 %total, i1 %open)
  call void @hold(ptr @fx_true)
  ret ptr @fx_true
}}
"""
