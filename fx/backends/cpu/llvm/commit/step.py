"""The builtin of a compiled program, as LLVM IR: ``step(list)``, of items in its own fields."""

from __future__ import annotations

from fx.backends.cpu.llvm.commit.records import (
    CELL,
    FIELDS,
    GIVES,
    GONE,
    HEAD,
    METHOD,
    NATIVE,
    NOTHING,
    NOWHERE,
    NUMBERS,
    RECORD,
    RUN,
    TABLE,
    TAKEN,
    refused,
)

TEXT = f"""
define internal void @commit(ptr %words, ptr %records, ptr %outs) {{
entry:
  %count = load i64, ptr %words
  %first = &%words[{HEAD}]
  %gone = load ptr, %words[{GONE}]
  for %i < %count {{
  %at.f = mul i64 %i, {FIELDS}
  %f = &%first[%at.f]
  %at.r = mul i64 %i, {RECORD}
  %r = &%records[%at.r]
  %place = load i64, %f[8]
  %t = load ptr, %r[1]
  %drop.at = &%r[4]
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
  br next
taken:
  call void @hold(ptr %gone)
  br exchange
output:
  %out = load ptr, %outs[%place]
  call void @hold(ptr %out)
  %old = load ptr, %r[2]
  br ptr %old == null ? exchange : another
exchange:
  %x = phi ptr [ %gone, %taken ], [ %out, %output ]
  %a.at = &%t->array
  %before = load ptr, ptr %a.at
  store ptr %x, ptr %a.at
  store ptr %before, ptr %drop.at
  call void @come_back(ptr %t)
  call void @stand(ptr %r, ptr %t)
  br next
another:
  store ptr %out, %t->array
  %kind = load i64, %f[1]
  %cell = icmp eq i64 %kind, {CELL}
  call void @install(ptr %r, ptr %t, i1 %cell)
next:
  }}
  ret void
}}

; Python numbers, into the dicts that hold them
define internal i1 @put_numbers(ptr %words, ptr %outs) {{
entry:
  %count = load i64, %words[{NUMBERS}]
  %table = load ptr, %words[{TABLE}]
  %method = load ptr, %words[{METHOD}]
item:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %n = phi ptr [ %table, %entry ], [ %n.next, %next ]
  %good = phi i1 [ true, %entry ], [ %still, %next ]
  %more = icmp ult i64 %i, %count
  br %more ? look : done
look:
  %i.next = add i64 %i, 1
  %n.next = &%n[4]
  %dict = load ptr, ptr %n
  %key = load ptr, %n[1]
  %known = load ptr, %n[2]
  br ptr %known == null ? compute : constant
constant:
  call void @hold(ptr %known)
  br store
compute:
  %place = load i64, %n[3]
  %out = load ptr, %outs[%place]
  %item.of = call ptr (ptr, ptr, ...) @PyObject_CallMethodObjArgs(
    ptr %out, ptr %method, ptr null)
  br ptr %item.of == null ? next : store
store:
  %v = phi ptr [ %known, %constant ], [ %item.of, %compute ]
  %code = call i32 @PyDict_SetItem(ptr %dict, ptr %key, ptr %v)
  call void @let_go(ptr %v)
  %stored = icmp eq i32 %code, 0
  %fine = and i1 %stored, %good
next:
  %still = phi i1 [ false, %compute ], [ %fine, %store ]
  br item
done:
  ret i1 %good
}}

define ptr @step(ptr %me, ptr %list) {{
entry:
  %words = load ptr, %me->data
  %count = load i64, ptr %words
  %items = load ptr, %list->items
  %bytes = mul i64 %count, {8 * RECORD}
  %records = alloca i8, i64 %bytes, align 16
  call void @llvm.memset.p0.i64(ptr %records, i8 0, i64 %bytes, i1 false)
  %run = load ptr, %words[{RUN}]
  %native.word = load i64, %words[{NATIVE}]
  %native = icmp ne i64 %native.word, 0
  call void @begin()
  %gate = load i64, ptr @fx_gate
  %open = icmp eq i64 %gate, 0
  %found = call i32 @take(ptr %words, ptr %items, ptr %records, i1 %open)
  %state = select i1 %open, i32 %found, i32 2
  br i32 %state == 1 ? go : refuse
{refused("%count")}go:
  %away = and i1 %native, %open
  br %away ? hide : run.it
hide:
  call void @put_away(ptr %records, i64 %count)
run.it:
  br %native ? call : leave
leave:
  call void @end()
call:
  %out = call ptr @PyObject_CallOneArg(ptr %run, ptr %list)
  br %native ? ran : enter
enter:
  call void @begin()
ran:
  br ptr %out == null ? back : store
back:
  call void @undo(ptr %records, i64 %count, i1 %away)
  call void @end()
  call void @release(ptr %records, i64 %count, i1 false)
  ret ptr null
store:
  %outs = load ptr, %out->items
  call void @commit(ptr %words, ptr %records, ptr %outs)
  %good = call i1 @put_numbers(ptr %words, ptr %outs)
  call void @end()
  %size = call i64 @PyList_Size(ptr %list)
  %code = call i32 @PyList_SetSlice(ptr %list, i64 0, i64 %size, ptr null)
  %gives = load i64, %words[{GIVES}]
  br i64 %gives != 0 ? give : given.up
give:
  %given.code = call i32 @PyList_Append(ptr %list, ptr %out)
given.up:
  call void @release(ptr %records, i64 %count, i1 %away)
  br %good ? yes : wrong
yes:
  ret ptr %out
wrong:
  call void @let_go(ptr %out)
  ret ptr null
}}
"""
