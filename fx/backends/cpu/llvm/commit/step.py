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
{refused("%count")}go:
  %away = and i1 %native, %open
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
  %gives.at = getelementptr i64, ptr %words, i64 {GIVES}
  %gives = load i64, ptr %gives.at
  %given = icmp ne i64 %gives, 0
  br i1 %given, label %give, label %given.up
give:
  %given.code = call i32 @PyList_Append(ptr %list, ptr %out)
  br label %given.up
given.up:
  call void @release(ptr %records, i64 %count, i1 %away)
  br i1 %good, label %yes, label %wrong
yes:
  ret ptr %out
wrong:
  call void @let_go(ptr %out)
  ret ptr null
}}
"""
