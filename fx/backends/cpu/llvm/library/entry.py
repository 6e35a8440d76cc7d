"""Entry: calls a kernel whose extents are arguments, from Python, in a fraction of a microsecond.

A kernel here is one LLVM function

    void kernel(ptr words, i64 begin, i64 end, ptr scratch)

that does the tasks ``begin .. end - 1``. ``words`` are what the caller listed, 8 bytes each: of an
array the address of its elements, of an int its value, of a float the address of its value, of None
0. The first two of the list say how many tasks there are and how many of them a thread takes at
once, 0 for all of them without giving up the GIL; the kernel sees what comes after them.
``scratch`` is always null.
"""

from __future__ import annotations

from fx.backends.cpu.llvm.new_array import new_array
from fx.backends.cpu.llvm.python_api import (
    DATA,
    LIST_ITEMS,
    TYPE,
)

MOST = 48  # items of a list
# the words of me
ARRAY_TYPE, FLOAT_TYPE, LONG_TYPE, NONE, FUNCTION, CAPSULE, ERROR, WORDS = range(8)
DESCR, FLOAT_VALUE, ITEMSIZE = 56, 16, 40  # byte offsets in an ndarray, a float and a NumPy 2 dtype

TEXT = f"""
declare i64 @PyList_Size(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare void @Py_IncRef(ptr)
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @fx_parallel(ptr, ptr, i64, i64, i64, ptr)
declare ptr @fx_take(i64)
declare void @fx_give(ptr, ptr, i64)
declare ptr @numpy_new(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)

@message = private constant [42 x i8] c"a kernel takes arrays, ints, floats, None\\00"

define ptr @fx_run(ptr %me, ptr %list) {{
start:
  %table = alloca [{MOST} x i64], align 16
  %me.data = getelementptr i8, ptr %me, i64 {DATA}
  %ctx = load ptr, ptr %me.data
  %array.at = getelementptr i64, ptr %ctx, i64 {ARRAY_TYPE}
  %array.type = load ptr, ptr %array.at
  %float.at = getelementptr i64, ptr %ctx, i64 {FLOAT_TYPE}
  %float.type = load ptr, ptr %float.at
  %long.at = getelementptr i64, ptr %ctx, i64 {LONG_TYPE}
  %long.type = load ptr, ptr %long.at
  %none.at = getelementptr i64, ptr %ctx, i64 {NONE}
  %none = load ptr, ptr %none.at
  %function.at = getelementptr i64, ptr %ctx, i64 {FUNCTION}
  %function = load ptr, ptr %function.at
  %size = call i64 @PyList_Size(ptr %list)
  %items.at = getelementptr i8, ptr %list, i64 {LIST_ITEMS}
  %items = load ptr, ptr %items.at
  br label %each
each:
  %i = phi i64 [0, %start], [%i.next, %known]
  %slot = getelementptr i64, ptr %table, i64 %i
  %item.at = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %item.at
  %type.at = getelementptr i8, ptr %item, i64 {TYPE}
  %type = load ptr, ptr %type.at
  %isarray = icmp eq ptr %type, %array.type
  br i1 %isarray, label %array, label %other
array:
  %data.at = getelementptr i8, ptr %item, i64 {DATA}
  %data = load i64, ptr %data.at
  br label %known
other:
  %islong = icmp eq ptr %type, %long.type
  br i1 %islong, label %long, label %third
long:
  %value = call i64 @PyLong_AsLongLong(ptr %item)
  br label %known
third:
  %isfloat = icmp eq ptr %type, %float.type
  br i1 %isfloat, label %float, label %fourth
float:
  %value.at = getelementptr i8, ptr %item, i64 {FLOAT_VALUE}
  %where = ptrtoint ptr %value.at to i64
  br label %known
fourth:
  %isnone = icmp eq ptr %item, %none
  br i1 %isnone, label %known, label %refuse
refuse:
  %error.at = getelementptr i64, ptr %ctx, i64 {ERROR}
  %error = load ptr, ptr %error.at
  call void @PyErr_SetString(ptr %error, ptr @message)
  ret ptr null
known:
  %word = phi i64 [%data, %array], [%value, %long], [%where, %float], [0, %fourth]
  store i64 %word, ptr %slot
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %size
  br i1 %more, label %each, label %go
go:
  %tasks = load i64, ptr %table
  %chunk.at = getelementptr i64, ptr %table, i64 1
  %chunk = load i64, ptr %chunk.at
  %words = getelementptr i64, ptr %table, i64 2
  %short = icmp eq i64 %chunk, 0
  br i1 %short, label %here, label %long.work
here:
  call void %function(ptr %words, i64 0, i64 %tasks, ptr null)
  br label %done
long.work:
  %thread = call ptr @PyEval_SaveThread()
  %several = icmp slt i64 %chunk, %tasks
  br i1 %several, label %spread, label %alone
spread:
  call void @fx_parallel(ptr %function, ptr %words, i64 %tasks, i64 %chunk, i64 0, ptr null)
  br label %back
alone:
  call void %function(ptr %words, i64 0, i64 %tasks, ptr null)
  br label %back
back:
  call void @PyEval_RestoreThread(ptr %thread)
  br label %done
done:
  call void @Py_IncRef(ptr %none)
  ret ptr %none
}}

{new_array(ARRAY_TYPE, CAPSULE)}

; a new array from a list: an array whose dtype it has, and its shape
define ptr @fx_empty(ptr %me, ptr %list) {{
start:
  %dims = alloca [{MOST} x i64], align 16
  %me.data = getelementptr i8, ptr %me, i64 {DATA}
  %ctx = load ptr, ptr %me.data
  %type.at = getelementptr i64, ptr %ctx, i64 {ARRAY_TYPE}
  %type = load ptr, ptr %type.at
  %size = call i64 @PyList_Size(ptr %list)
  %nd.long = sub i64 %size, 1
  %nd = trunc i64 %nd.long to i32
  %items.at = getelementptr i8, ptr %list, i64 {LIST_ITEMS}
  %items = load ptr, ptr %items.at
  %like = load ptr, ptr %items
  %descr.at = getelementptr i8, ptr %like, i64 {DESCR}
  %descr = load ptr, ptr %descr.at
  %itemsize.at = getelementptr i8, ptr %descr, i64 {ITEMSIZE}
  %itemsize = load i64, ptr %itemsize.at
  br label %look
look:
  %i = phi i64 [0, %start], [%i.next, %dim]
  %bytes = phi i64 [%itemsize, %start], [%bytes.next, %dim]
  %more = icmp slt i64 %i, %nd.long
  br i1 %more, label %dim, label %make
dim:
  %i.next = add i64 %i, 1
  %item.at = getelementptr ptr, ptr %items, i64 %i.next
  %item = load ptr, ptr %item.at
  %n = call i64 @PyLong_AsLongLong(ptr %item)
  %dim.at = getelementptr i64, ptr %dims, i64 %i
  store i64 %n, ptr %dim.at
  %bytes.next = mul i64 %bytes, %n
  br label %look
make:
  %new = call ptr @fx_result(ptr %ctx, ptr %descr, i32 %nd, ptr %dims, i64 %bytes)
  ret ptr %new
}}
"""
