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
  %copied = call ptr @copy_of(ptr %a)
  %no.copy = icmp eq ptr %copied, null
  br i1 %no.copy, label %not.copied, label %put
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
not.copied:
  %why = call i32 @why_not()
  ret i32 %why
error:
  ret i32 3
}}
"""
