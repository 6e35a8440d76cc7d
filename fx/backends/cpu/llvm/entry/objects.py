"""What builtins of this folder do with arrays: read them, make them, copy them, let go of them.

In the notation of ``notation.py``; a builtin's module is this text and its own.
"""

from __future__ import annotations

from fx import limits
from fx.backends.cpu.llvm.python_api import DENSE, OWN, WRITEABLE

_OURS = DENSE | WRITEABLE

TEXT = f"""
@fx_none = external global i8
@fx_true = external global i8
@fx_false = external global i8
@fx_float = external global i8
@fx_long = external global i8
@fx_type_error = external global i8
@fx_memory_error = external global i8
@fx_capsule = external global i8
@numpy_array_type = external global i8

declare void @Py_DecRef(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyList_New(i64)
declare i64 @PyList_Size(ptr)
declare i32 @PyList_SetSlice(ptr, i64, i64, ptr)
declare i32 @PyList_Append(ptr, ptr)
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyObject_CallMethodObjArgs(ptr, ptr, ...)
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyErr_Format(ptr, ptr, ...)
declare ptr @PyErr_Occurred()
declare i32 @PyGC_Disable()
declare i32 @PyGC_Enable()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare ptr @numpy_copy(ptr, i32)
declare ptr @numpy_new(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare i32 @numpy_set_base(ptr, ptr)
declare ptr @fx_take(i64)
declare void @fx_give(ptr, ptr, i64)
declare void @fx_parallel(ptr, ptr, i64, i64, i64, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; objects that never end, as None of newer Pythons, have a count that is negative in 32 bits
define internal void @hold(ptr %x) alwaysinline {{
entry:
  %count = load i64, ptr %x
  %low = trunc i64 %count to i32
  br i32 %low < 0 ? done : one
one:
  %more = add i64 %count, 1
  store i64 %more, ptr %x
done:
  ret void
}}

define internal void @let_go(ptr %x) alwaysinline {{
entry:
  %count = load i64, ptr %x
  %low = trunc i64 %count to i32
  br i32 %low > 1 ? one : last
one:
  %less = sub i64 %count, 1
  store i64 %less, ptr %x
  br done
last:
  call void @Py_DecRef(ptr %x)
done:
  ret void
}}

define internal void @drop(ptr %x) alwaysinline {{
entry:
  br ptr %x == null ? done : some
some:
  call void @let_go(ptr %x)
done:
  ret void
}}

; whether an array has all of these flags
define internal i1 @has(ptr %a, i32 %need) alwaysinline {{
entry:
  %flags = load i32, %a->flags
  %found = and i32 %flags, %need
  %all = icmp eq i32 %found, %need
  ret i1 %all
}}

define internal i64 @axes_of(ptr %a) alwaysinline {{
entry:
  %narrow = load i32, %a->axes
  %axes = zext i32 %narrow to i64
  ret i64 %axes
}}

define internal i64 @product_of(i64 %count, ptr %numbers) {{
entry:
  %held = alloca i64
  store i64 1, ptr %held
  for %i < %count {{
    %before = load i64, ptr %held
    %n = load i64, %numbers[%i]
    %with = mul i64 %before, %n
    store i64 %with, ptr %held
  }}
  %product = load i64, ptr %held
  ret i64 %product
}}

; whether it is an array, of this dtype and shape
define internal i1 @fits(ptr %a, ptr %wanted, i64 %axes.wanted, ptr %dims.wanted) {{
entry:
  br ptr %a == null ? no : object
object:
  %type = load ptr, %a->type
  br ptr %type == @numpy_array_type ? array : no
array:
  %dtype = load ptr, %a->dtype
  br ptr %dtype == %wanted ? typed : no
typed:
  %axes = call i64 @axes_of(ptr %a)
  br i64 %axes == %axes.wanted ? shaped : no
shaped:
  %dims = load ptr, %a->dims
  for %k < %axes {{
    %n = load i64, %dims[%k]
    %m = load i64, %dims.wanted[%k]
    br i64 %n == %m ? next : no
next:
  }}
  ret i1 true
no:
  ret i1 false
}}

; whether only one holds the array, it has its own memory, and that has these flags
define internal i1 @own(ptr %a, i32 %need) {{
entry:
  %count = load i64, ptr %a
  %base = load ptr, %a->base
  %one = icmp eq i64 %count, 1
  %no.base = icmp eq ptr %base, null
  %alone = and i1 %one, %no.base
  %has = call i1 @has(ptr %a, i32 %need)
  %all = and i1 %alone, %has
  ret i1 %all
}}

; an array at an address, or in new memory of NumPy's
define internal ptr @new_array(
    ptr %dtype, i64 %axes, ptr %dims, ptr %data, i32 %flags) alwaysinline {{
entry:
  call void @hold(ptr %dtype)
  %nd = trunc i64 %axes to i32
  %new = call ptr @numpy_new(ptr @numpy_array_type, ptr %dtype, i32 %nd, ptr %dims,
    ptr null, ptr %data, i32 %flags, ptr null)
  ret ptr %new
}}

; a new array of so many bytes; a large one in memory of our own
define internal ptr @result(ptr %dtype, i64 %axes, ptr %dims, i64 %bytes) alwaysinline {{
entry:
  br i64 %bytes < {limits.SMALL_RESULT} ? numpys : ours
ours:
  %data = call ptr @fx_take(i64 %bytes)
  br ptr %data == null ? numpys : wrap
numpys:
  %array = call ptr @new_array(ptr %dtype, i64 %axes, ptr %dims, ptr null, i32 0)
  ret ptr %array
wrap:
  %new = call ptr @new_array(ptr %dtype, i64 %axes, ptr %dims, ptr %data, i32 {_OURS})
  if ptr %new == null {{
    call void @fx_give(ptr null, ptr %data, i64 %bytes)
    ret ptr null
  }}
  call void @hold(ptr @fx_capsule)
  store ptr @fx_capsule, %new->handler
  %flags = load i32, %new->flags
  %owns = or i32 %flags, {OWN}
  store i32 %owns, %new->flags
  ret ptr %new
}}

; a view of an array, whose reference it takes over
define internal ptr @view_of(ptr %base, ptr %dtype, i64 %axes, ptr %dims) alwaysinline {{
entry:
  %data = load ptr, %base->data
  %new = call ptr @new_array(ptr %dtype, i64 %axes, ptr %dims, ptr %data, i32 {_OURS})
  if ptr %new == null {{
    call void @Py_DecRef(ptr %base)
    ret ptr null
  }}
  %code = call i32 @numpy_set_base(ptr %new, ptr %base)
  if i32 %code != 0 {{
    call void @Py_DecRef(ptr %new)
    ret ptr null
  }}
  ret ptr %new
}}

; a copy of a dense array; NumPy's own gives up the GIL, and what was looked at could be taken by
; another thread before it is away. Null without an exception for an array that is not dense.
define internal ptr @copy_of(ptr %a) {{
entry:
  %dense = call i1 @has(ptr %a, i32 {DENSE})
  br %dense ? make : no
make:
  %dtype = load ptr, %a->dtype
  %axes = call i64 @axes_of(ptr %a)
  %dims = load ptr, %a->dims
  %new = call ptr @new_array(ptr %dtype, i64 %axes, ptr %dims, ptr null, i32 0)
  br ptr %new == null ? no : fill
fill:
  %count = call i64 @product_of(i64 %axes, ptr %dims)
  %itemsize = load i64, %dtype->itemsize
  %bytes = mul i64 %count, %itemsize
  %from = load ptr, %a->data
  %to = load ptr, %new->data
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  ret ptr %new
no:
  ret ptr null
}}

define internal void @let_all_go(ptr %objects, i64 %count) alwaysinline {{
entry:
  for %i < %count {{
    %object = load ptr, %objects[%i]
    call void @let_go(ptr %object)
  }}
  ret void
}}
"""

# all tasks at once under the GIL where a chunk is 0, else without it, and shared among threads
# where there are several chunks
TASKS = """
define internal void @run_tasks(ptr %function, ptr %words, i64 %tasks, i64 %chunk) {
entry:
  if i64 %chunk == 0 {
    call void %function(ptr %words, i64 0, i64 %tasks, ptr null)
    ret void
  }
  %thread = call ptr @PyEval_SaveThread()
  br i64 %chunk < %tasks ? share : alone
share:
  call void @fx_parallel(ptr %function, ptr %words, i64 %tasks, i64 %chunk, i64 0, ptr null)
  br back
alone:
  call void %function(ptr %words, i64 0, i64 %tasks, ptr null)
back:
  call void @PyEval_RestoreThread(ptr %thread)
  ret void
}
"""
