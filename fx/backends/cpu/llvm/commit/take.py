"""How a step takes its items, as LLVM IR: it looks at each, and notes what is to become of it."""

from __future__ import annotations

from fx.backends.cpu.llvm.commit.records import (
    ABSENT,
    CELL,
    CLEARED,
    FIELDS,
    GATHERED,
    GIVEN,
    HEAD,
    NOTHING,
    NOWHERE,
    PRESENT,
    RECORD,
    SPACE,
)

TEXT = f"""
define internal i32 @take(ptr %words, ptr %items, ptr %records, i1 %lend) {{
entry:
  %count = load i64, ptr %words
  %first = &%words[{HEAD}]
  for %i < %count {{
  %at.f = mul i64 %i, {FIELDS}
  %f = &%first[%at.f]
  %at.r = mul i64 %i, {RECORD}
  %r = &%records[%at.r]
  %kind = load i64, %f[1]
  %dtype = load ptr, %f[2]
  %axes = load i64, %f[3]
  %dims = load ptr, %f[4]
  %position = load i64, %f[5]
  %place = load i64, %f[8]
  %argument = icmp eq i64 %kind, {GIVEN}
  br %argument ? given : weak
given:
  %passed = load ptr, %items[%position]
  br held
weak:
  %weak.ref = load ptr, ptr %f
  %cell = load ptr, %weak.ref->referent
  br ptr %cell == @fx_none ? no : alive
alive:
  br i64 %kind == {CELL} ? of.cell : of.leaf
of.cell:
  %value.at = &%cell->value
  br slot
of.leaf:
  %leaf = load ptr, %cell->leaf
  br ptr %leaf == @fx_none ? no : gradient
gradient:
  %grad.at = &%leaf->grad
slot:
  %slot.at = phi ptr [ %value.at, %of.cell ], [ %grad.at, %gradient ]
  %owning = phi ptr [ %cell, %of.cell ], [ %leaf, %gradient ]
  %found = load ptr, ptr %slot.at
  br ptr %found == null ? no : held
held:
  %t = phi ptr [ %passed, %given ], [ %found, %slot ]
  %s = phi ptr [ null, %given ], [ %slot.at, %slot ]
  %owner = phi ptr [ null, %given ], [ %owning, %slot ]
  %t.type = load ptr, %t->type
  br ptr %t.type == @away_type ? busy : there
there:
  %is.none = icmp eq ptr %t, @fx_none
  %plain = icmp eq ptr %t.type, @tensor_type
  br %plain ? look.node : kinds
look.node:
  %node = load ptr, %t->node
  %no.node = icmp eq ptr %node, @fx_none
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
  br %is.none ? next : no
of.present:
  br %is.none ? no : next
of.cells:
  %check = load i64, %f[9]
  br i64 %check != 0 ? of.given : target
of.given:
  br %plain ? array : no
of.gathered:
  br %bare ? array : no
of.space:
  br %bare ? array : fresh
array:
  %a = call ptr @array_of(ptr %t)
  %right = call i1 @fits(ptr %a, ptr %dtype, i64 %axes, ptr %dims)
  %is.space = icmp eq i64 %kind, {SPACE}
  br %right ? use : wrong
wrong:
  br %is.space ? fresh : no
use:
  br i64 %position < 0 ? target : passing
passing:
  %owned = load i64, %f[7]
  br i64 %owned != 0 ? ask : pass
ask:
  %need = load i32, %f[6]
  %own = call i1 @own(ptr %a, i32 %need)
  %t.count = load i64, ptr %t
  %t.one = icmp eq i64 %t.count, 1
  %t.alone = or i1 %t.one, %argument
  %alone = and i1 %own, %t.alone
  %lent = and i1 %alone, %lend
  br %lent ? pass : apart
apart:
  br %is.space ? fresh : copy
pass:
  call void @hold(ptr %a)
  br put
copy:
  %copied = call ptr @copy_of(ptr %a)
  br ptr %copied == null ? not.copied : put
fresh:
  %made = call ptr @new_array(ptr %dtype, i64 %axes, ptr %dims, ptr null, i32 0)
  br ptr %made == null ? error : put
put:
  %x = phi ptr [ %a, %pass ], [ %copied, %copy ], [ %made, %fresh ]
  store ptr %x, %items[%position]
  br %argument ? target : unneeded
unneeded:
  call void @let_go(ptr @fx_none)
target:
  br i64 %place == {NOWHERE} ? next : noted
noted:
  store ptr %s, ptr %r
  store ptr %owner, %r[3]
  %t.to = &%r[1]
  br %argument ? leaves : keep
leaves:
  store ptr %t, ptr %t.to
  br next
keep:
  call void @hold(ptr %owner)
  br i64 %place == {NOTHING} ? next : which
which:
  %of.a.cell = icmp eq i64 %kind, {CELL}
  %suits = or i1 %of.a.cell, %bare
  %ours = and i1 %suits, %plain
  %holders = load i64, ptr %t
  %ours.alone = icmp eq i64 %holders, 1
  %in.place = and i1 %ours, %ours.alone
  br %in.place ? itself : another
itself:
  call void @hold(ptr %t)
  store ptr %t, ptr %t.to
  br next
another:
  %new = call ptr @PyType_GenericAlloc(ptr @tensor_type, i64 0)
  br ptr %new == null ? error : instead
instead:
  store ptr %new, ptr %t.to
  store ptr %t, %r[2]
next:
  }}
  ret i32 1
no:
  ret i32 0
busy:
  ret i32 2
not.copied:
  %why = call i32 @why_not()
  ret i32 %why
error:
  ret i32 3
}}
"""
