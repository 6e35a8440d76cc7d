"""The builtin of an optimizer's step, as LLVM IR: ``update([sweep, ..., stores])``."""

from __future__ import annotations

from fx.backends.cpu.llvm.commit.records import HEAD, RECORD, refused
from fx.backends.cpu.llvm.python_api import DENSE, WRITEABLE

_OURS = DENSE | WRITEABLE

TEXT = f"""
; the arrays of one sweep: their addresses go into its layout
define internal i32 @take_sweep(ptr %job, ptr %records, i1 %lend) {{
entry:
  %items = load ptr, %job->items
  %head = load ptr, ptr %items
  %layout = load ptr, %head->data
  %count = load i64, ptr %layout
  %width = load i64, %layout[5]
  %mask = load i64, %layout[6]
  %dtype = load ptr, %layout[7]
  %stride = add i64 %width, 2
  %first = &%layout[{HEAD}]
  %from = &%items[1]
parts:
  %p = phi i64 [ 0, %entry ], [ %p.next, %filled ]
  %part = phi ptr [ %first, %entry ], [ %part.next, %filled ]
  %given = phi ptr [ %from, %entry ], [ %given.next, %filled ]
  %records.here = phi ptr [ %records, %entry ], [ %records.next, %filled ]
  %more = icmp ult i64 %p, %count
  br %more ? begin : yes
begin:
  %length = load i64, %part[1]
fill:
  %k = phi i64 [ 0, %begin ], [ %k.next, %placed ]
  %k.next = add i64 %k, 1
  %item = load ptr, %given[%k]
  %k.record = mul i64 %k, {RECORD}
  %r = &%records.here[%k.record]
  %t.to = &%r[1]
  %owner.to = &%r[3]
  %drop.to = &%r[4]
  br i64 %k == 1 ? array : cell
cell:
  %t = load ptr, %item->value
  br ptr %t == null ? no : held
held:
  %type = load ptr, %t->type
  br ptr %type == @away_type ? busy : there
there:
  br ptr %type == @tensor_type ? inside : no
inside:
  %found = call ptr @array_of(ptr %t)
array:
  %a = phi ptr [ %item, %fill ], [ %found, %inside ]
  br ptr %a == null ? no : some
some:
  %a.type = load ptr, %a->type
  br ptr %a.type == @numpy_array_type ? spec : no
spec:
  %a.dtype = load ptr, %a->dtype
  %same.dtype = icmp eq ptr %a.dtype, %dtype
  %axes = call i64 @axes_of(ptr %a)
  %dims = load ptr, %a->dims
  %n = call i64 @product_of(i64 %axes, ptr %dims)
  %same.length = icmp eq i64 %n, %length
  %same = and i1 %same.length, %same.dtype
  br %same ? use : no
use:
  %bit = lshr i64 %mask, %k
  %low = and i64 %bit, 1
  br i64 %low != 0 ? ask : read
read:
  %dense = call i1 @has(ptr %a, i32 {DENSE})
  br %dense ? borrow : no
borrow:
  call void @hold(ptr %a)
  store ptr %a, ptr %drop.to
  br placed
ask:
  call void @hold(ptr %item)
  store ptr %item, ptr %owner.to
  %slot.of = &%item->value
  store ptr %slot.of, ptr %r
  %t.of = load ptr, ptr %slot.of
  %own = call i1 @own(ptr %a, i32 {_OURS})
  %t.count = load i64, ptr %t.of
  %one = icmp eq i64 %t.count, 1
  %alone = and i1 %one, %own
  %lent = and i1 %alone, %lend
  br %lent ? itself : another
itself:
  call void @hold(ptr %t.of)
  store ptr %t.of, ptr %t.to
  br placed
another:
  %copy = call ptr @copy_of(ptr %a)
  br ptr %copy == null ? not.copied : wrap
wrap:
  %new = call ptr @PyType_GenericAlloc(ptr @tensor_type, i64 0)
  br ptr %new == null ? error.copy : instead
instead:
  store ptr %copy, %new->array
  store ptr %new, ptr %t.to
  store ptr %t.of, %r[2]
placed:
  %used = phi ptr [ %a, %borrow ], [ %a, %itself ], [ %copy, %instead ]
  %data = load ptr, %used->data
  %word = add i64 %k, 2
  store ptr %data, %part[%word]
  %k.more = icmp ult i64 %k.next, %width
  br %k.more ? fill : filled
filled:
  %p.next = add i64 %p, 1
  %part.next = &%part[%stride]
  %given.next = &%given[%width]
  %wide = mul i64 %width, {RECORD}
  %records.next = &%records.here[%wide]
  br parts
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
error:
  ret i32 3
}}

define internal void @run_sweep(ptr %layout) {{
entry:
  %tasks = load i64, %layout[1]
  %chunk = load i64, %layout[2]
  %function = load ptr, %layout[4]
  %how = call i64 @how(ptr %layout)
  %alone = icmp eq i64 %how, 1
  %share = icmp eq i64 %how, 2
  %some = select i1 %alone, i64 %tasks, i64 0
  %taken = select i1 %share, i64 %chunk, i64 %some
  call void @run_tasks(ptr %function, ptr %layout, i64 %tasks, i64 %taken)
  ret void
}}

; 0: under the GIL, 1: without it, 2: on several threads
define internal i64 @how(ptr %layout) {{
entry:
  %count = load i64, ptr %layout
  %width = load i64, %layout[5]
  %stride = add i64 %width, 2
  %words = mul i64 %count, %stride
  %last = add i64 %words, {HEAD}
  %how = load i64, %layout[%last]
  ret i64 %how
}}

define internal ptr @layout_of(ptr %job) alwaysinline {{
entry:
  %items = load ptr, %job->items
  %head = load ptr, ptr %items
  %layout = load ptr, %head->data
  ret ptr %layout
}}

define ptr @update(ptr %me, ptr %list) {{
entry:
  %items = load ptr, %list->items
  %size = call i64 @PyList_Size(ptr %list)
  %jobs = sub i64 %size, 1
  %stores = load ptr, %items[%jobs]
counting:
  %c = phi i64 [ 0, %entry ], [ %c.next, %counted ]
  %total = phi i64 [ 0, %entry ], [ %total.next, %counted ]
  %c.more = icmp ult i64 %c, %jobs
  br %c.more ? counted : ready
counted:
  %c.job = load ptr, %items[%c]
  %c.size = call i64 @PyList_Size(ptr %c.job)
  %c.less = sub i64 %c.size, 1
  %total.next = add i64 %total, %c.less
  %c.next = add i64 %c, 1
  br counting
ready:
  %bytes = mul i64 %total, {8 * RECORD}
  %records = alloca i8, i64 %bytes, align 16
  call void @llvm.memset.p0.i64(ptr %records, i8 0, i64 %bytes, i1 false)
  call void @begin()
  %gate = load i64, ptr @fx_gate
  %open = icmp eq i64 %gate, 0
taking:
  %i = phi i64 [ 0, %ready ], [ %i.next, %took ]
  %r = phi ptr [ %records, %ready ], [ %r.next, %took ]
  %more = icmp ult i64 %i, %jobs
  br %more ? one : took.all
one:
  %job = load ptr, %items[%i]
  %found = call i32 @take_sweep(ptr %job, ptr %r, i1 %open)
  %state = select i1 %open, i32 %found, i32 2
  br i32 %state == 1 ? took : refuse
took:
  %i.next = add i64 %i, 1
  %job.size = call i64 @PyList_Size(ptr %job)
  %job.less = sub i64 %job.size, 1
  %job.words = mul i64 %job.less, {RECORD}
  %r.next = &%r[%job.words]
  br taking
{refused("%total")}took.all:
  br %open ? hide : running
hide:
  call void @put_away(ptr %records, i64 %total)
running:
  %j = phi i64 [ 0, %took.all ], [ 0, %hide ], [ %j.next, %ran ]
  %j.more = icmp ult i64 %j, %jobs
  br %j.more ? ran : store
ran:
  %j.job = load ptr, %items[%j]
  %j.layout = call ptr @layout_of(ptr %j.job)
  call void @run_sweep(ptr %j.layout)
  %j.next = add i64 %j, 1
  br running
store:
  %s = phi i64 [ 0, %running ], [ %s.next, %stored ]
  %q = phi ptr [ %records, %running ], [ %q.next, %stored ]
  %s.more = icmp ult i64 %s, %total
  br %s.more ? record : pairs
record:
  %s.next = add i64 %s, 1
  %q.next = &%q[{RECORD}]
  %t = load ptr, %q[1]
  br ptr %t == null ? stored : target
target:
  %old = load ptr, %q[2]
  br ptr %old == null ? written : another
written:
  call void @come_back(ptr %t)
  call void @stand(ptr %q, ptr %t)
  br stored
another:
  call void @install(ptr %q, ptr %t, i1 true)
stored:
  br store
pairs:
  %pair.items = load ptr, %stores->items
  %pair.count = call i64 @PyList_Size(ptr %stores)
pair:
  %k = phi i64 [ 0, %pairs ], [ %k.next, %swap ]
  %k.more = icmp ult i64 %k, %pair.count
  br %k.more ? swap : done
swap:
  %cell.at = &%pair.items[%k]
  %cell = load ptr, ptr %cell.at
  %new.at = &%cell.at[1]
  %new = load ptr, ptr %new.at
  %value.at = &%cell->value
  %before = load ptr, ptr %value.at
  store ptr %new, ptr %value.at
  store ptr %before, ptr %new.at
  %k.next = add i64 %k, 2
  br pair
done:
  call void @end()
  call void @release(ptr %records, i64 %total, i1 %open)
  call void @hold(ptr @fx_true)
  ret ptr @fx_true
}}
"""
