"""The builtins of eager kernels: calls from Python in a fraction of a microsecond, and new arrays.

A kernel here is one LLVM function

    void kernel(ptr words, i64 begin, i64 end, ptr scratch)

that does the tasks ``begin .. end - 1``. ``words`` are what the caller listed, 8 bytes each: of an
array the address of its elements, of an int its value, of a float the address of its value, of None
0. The first two of the list say how many tasks there are and how many of them a thread takes at
once, 0 for all of them without giving up the GIL; the kernel sees what comes after them.
``scratch`` is always null. The first word of ``me`` is its address.
"""

from __future__ import annotations

from fx.backends.cpu.llvm.python_api import FIELDS

MOST = 80  # items of a list: more than an array has axes

TEXT = f"""
@takes = private constant [42 x i8] c"a kernel takes arrays, ints, floats, None\\00"

define ptr @fx_run(ptr %me, ptr %list) {{
entry:
  %table = alloca [{MOST} x i64], align 16
  %words = load ptr, %me->data
  %function = load ptr, ptr %words
  %size = call i64 @PyList_Size(ptr %list)
  br i64 %size > {MOST} ? refuse : fits
fits:
  %items = load ptr, %list->items
  for %i < %size {{
    %item = load ptr, %items[%i]
    %type = load ptr, %item->type
    br ptr %type == @numpy_array_type ? array : other
array:
    %data = load i64, %item->data
    br known
other:
    br ptr %type == @fx_long ? long : third
long:
    %value = call i64 @PyLong_AsLongLong(ptr %item)
    br known
third:
    br ptr %type == @fx_float ? float : fourth
float:
    %value.at = getelementptr i8, ptr %item, i64 {FIELDS["float"]}
    %where = ptrtoint ptr %value.at to i64
    br known
fourth:
    br ptr %item == @fx_none ? known : refuse
refuse:
    call void @PyErr_SetString(ptr @fx_type_error, ptr @takes)
    ret ptr null
known:
    %word = phi i64 [ %data, %array ], [ %value, %long ], [ %where, %float ], [ 0, %fourth ]
    store i64 %word, %table[%i]
  }}
  %tasks = load i64, ptr %table
  %chunk = load i64, %table[1]
  %given = getelementptr i64, ptr %table, i64 2
  call void @run_tasks(ptr %function, ptr %given, i64 %tasks, i64 %chunk)
  call void @hold(ptr @fx_none)
  ret ptr @fx_none
}}

; a new array from a list: an array whose dtype it has, and its shape
define ptr @fx_empty(ptr %me, ptr %list) {{
entry:
  %dims = alloca [{MOST} x i64], align 16
  %size = call i64 @PyList_Size(ptr %list)
  %axes = sub i64 %size, 1
  %items = load ptr, %list->items
  %like = load ptr, ptr %items
  %dtype = load ptr, %like->dtype
  for %i < %axes {{
    %place = add i64 %i, 1
    %item = load ptr, %items[%place]
    %n = call i64 @PyLong_AsLongLong(ptr %item)
    store i64 %n, %dims[%i]
  }}
  %count = call i64 @product_of(i64 %axes, ptr %dims)
  %itemsize = load i64, %dtype->itemsize
  %bytes = mul i64 %count, %itemsize
  %new = call ptr @result(ptr %dtype, i64 %axes, ptr %dims, i64 %bytes)
  ret ptr %new
}}
"""
