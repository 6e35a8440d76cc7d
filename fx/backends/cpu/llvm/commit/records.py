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
    return f"""entry:
  for %i < %count {{
    %at.r = mul i64 %i, {RECORD}
    %r = &%records[%at.r]
{body}
next:
  }}
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
  %t = load ptr, %r[1]
  br ptr %t == null ? next : go
go:
  call void @go_away(ptr %t)
  %old = load ptr, %r[2]
  br ptr %old == null ? next : instead
instead:
  %slot = load ptr, ptr %r
  store ptr %t, ptr %slot
  call void @hold(ptr %t)
"""
_UNDO = """\
  %t = load ptr, %r[1]
  br ptr %t == null ? next : back
back:
  call void @come_back(ptr %t)
  %old.at = &%r[2]
  %old = load ptr, ptr %old.at
  %some = icmp ne ptr %old, null
  %was.away = and i1 %some, %away
  br %was.away ? instead : next
instead:
  store ptr null, ptr %old.at
  %old.type = load ptr, %old->type
  br ptr %old.type == @tensor_type ? same : slot
same:
  %a = call ptr @array_of(ptr %old)
  call void @hold(ptr %a)
  store ptr %a, %t->array
  %node = load ptr, %old->node
  call void @hold(ptr %node)
  store ptr %node, %t->node
slot:
  %slot.at = load ptr, ptr %r
  %now = load ptr, ptr %slot.at
  %still = icmp eq ptr %now, %t
  %drop.at = &%r[4]
  br %still ? restore : other
restore:
  store ptr %old, ptr %slot.at
  store ptr %t, ptr %drop.at
  br next
other:
  store ptr %old, ptr %drop.at
"""
_RELEASE = """\
  %old = load ptr, %r[2]
  %ours = select i1 %away, ptr %old, ptr null
  call void @drop(ptr %ours)
  %before = load ptr, %r[4]
  call void @drop(ptr %before)
  %displaced = load ptr, %r[5]
  call void @drop(ptr %displaced)
  %t = load ptr, %r[1]
  call void @drop(ptr %t)
  %owner = load ptr, %r[3]
  call void @drop(ptr %owner)
"""

TEXT = f"""
@tensor_type = external global i8
@away_type = external global i8
@fx_gate = global i64 0
@fx_inside = global i64 0
@collects = internal global i32 0

; the cyclic collector runs finalizers: not while a thread has things away
define internal void @begin() {{
entry:
  %count = load i64, ptr @fx_inside
  br i64 %count == 0 ? off : on
off:
  %was = call i32 @PyGC_Disable()
  store i32 %was, ptr @collects
on:
  %more = add i64 %count, 1
  store i64 %more, ptr @fx_inside
  ret void
}}

define internal void @end() {{
entry:
  %count = load i64, ptr @fx_inside
  %less = sub i64 %count, 1
  store i64 %less, ptr @fx_inside
  %last = icmp eq i64 %less, 0
  %was = load i32, ptr @collects
  %did = icmp ne i32 %was, 0
  %both = and i1 %last, %did
  br %both ? on : done
on:
  %code = call i32 @PyGC_Enable()
done:
  ret void
}}

define internal ptr @array_of(ptr %t) alwaysinline {{
entry:
  %a = load ptr, %t->array
  ret ptr %a
}}

define internal void @go_away(ptr %t) {{
entry:
  %type.at = &%t->type
  %type = load ptr, ptr %type.at
  br ptr %type == @tensor_type ? change : done
change:
  store ptr @away_type, ptr %type.at
  call void @hold(ptr @away_type)
  call void @let_go(ptr @tensor_type)
done:
  ret void
}}

define internal void @come_back(ptr %t) {{
entry:
  %type.at = &%t->type
  %type = load ptr, ptr %type.at
  br ptr %type == @away_type ? change : done
change:
  store ptr @tensor_type, ptr %type.at
  call void @hold(ptr @tensor_type)
  call void @let_go(ptr @away_type)
done:
  ret void
}}

; what it means that there is no copy: 0, not as expected, or 3, an exception
define internal i32 @why_not() {{
entry:
  %error = call ptr @PyErr_Occurred()
  %none = icmp eq ptr %error, null
  %state = select i1 %none, i32 0, i32 3
  ret i32 %state
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
entry:
  %slot = load ptr, ptr %r
  br ptr %slot != null ? look : done
look:
  %now = load ptr, ptr %slot
  br ptr %now == %t ? done : displace
displace:
  store ptr %now, %r[5]
  call void @hold(ptr %t)
  store ptr %t, ptr %slot
done:
  ret void
}}

; another tensor becomes what the slot holds, with the leaf of a cell as its node
define internal void @install(ptr %r, ptr %t, i1 %cell) {{
entry:
  br %cell ? leaf : none
leaf:
  %owner = load ptr, %r[3]
  %own = load ptr, %owner->leaf
  br node
none:
node:
  %n = phi ptr [ %own, %leaf ], [ @fx_none, %none ]
  call void @hold(ptr %n)
  store ptr %n, %t->node
  call void @come_back(ptr %t)
  %slot = load ptr, ptr %r
  %before = load ptr, ptr %slot
  store ptr %before, %r[4]
  call void @hold(ptr %t)
  store ptr %t, ptr %slot
  ret void
}}
"""
