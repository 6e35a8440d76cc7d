"""What entries call, as LLVM IR text: they make results, and let go of what they held."""

from __future__ import annotations

from fx.backends.cpu.llvm import failures
from fx.backends.cpu.llvm.new_array import new_array
from fx.backends.cpu.llvm.python_api import (
    DATA,
    DENSE,
    WRITEABLE,
)  # fmt: skip

# the words of me; behind them: constants, then three words a spec
ARENA, ARRAY_TYPE, TYPE_ERROR, MEMORY_ERROR, CAPSULE = range(5)
ERRORS = range(5, 5 + len(failures.ERRORS))  # the classes of what kernels tell of
WORDS = ERRORS.stop

_DECLARATIONS = """
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyList_New(i64)
declare i64 @PyList_Size(ptr)
declare void @PyErr_SetString(ptr, ptr)
declare ptr @PyErr_Format(ptr, ptr, ...)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyMem_RawMalloc(i64)
declare void @PyMem_RawFree(ptr)
declare ptr @numpy_copy(ptr, i32)
declare ptr @numpy_new(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare i32 @numpy_set_base(ptr, ptr)
declare ptr @fx_take(i64)
declare void @fx_give(ptr, ptr, i64)
"""


_HELPERS = f"""
@fx_no_memory = private constant [44 x i8] c"no memory for the arena of a compiled graph\\00"

define internal void @fx_drop(ptr %objects, ptr %count.at) {{
  %count = load i64, ptr %count.at
  br label %look
look:
  %i = phi i64 [0, %0], [%next, %drop]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %drop, label %done
drop:
  %at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %at
  call void @Py_DecRef(ptr %object)
  %next = add i64 %i, 1
  br label %look
done:
  ret void
}}

{new_array(ARRAY_TYPE, CAPSULE)}
; a view of base, whose reference it takes over, with the spec at that word
define internal ptr @fx_view(ptr %type, ptr %ctx, i64 %word, ptr %base) {{
  %descr.at = getelementptr i64, ptr %ctx, i64 %word
  %descr = load ptr, ptr %descr.at
  %nd.at = getelementptr i64, ptr %descr.at, i64 1
  %nd.long = load i64, ptr %nd.at
  %nd = trunc i64 %nd.long to i32
  %dims.at = getelementptr i64, ptr %descr.at, i64 2
  %dims = load ptr, ptr %dims.at
  %data.at = getelementptr i8, ptr %base, i64 {DATA}
  %data = load ptr, ptr %data.at
  call void @Py_IncRef(ptr %descr)
  %new = call ptr @numpy_new(ptr %type, ptr %descr, i32 %nd, ptr %dims, ptr null, ptr %data,
    i32 {DENSE | WRITEABLE}, ptr null)
  %none = icmp eq ptr %new, null
  br i1 %none, label %nothing, label %set
set:
  %code = call i32 @numpy_set_base(ptr %new, ptr %base)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %dropnew, label %good
good:
  ret ptr %new
dropnew:
  call void @Py_DecRef(ptr %new)
  ret ptr null
nothing:
  call void @Py_DecRef(ptr %base)
  ret ptr null
}}
"""

PARALLEL = """
declare void @fx_parallel(ptr, ptr, i64, i64, i64, ptr)

; whether a task tells of an unfit value: with which message, which index, and the word of it
define internal i1 @fx_failed(ptr %words, i64 %tasks, ptr %failure, ptr %format) {
  br label %look
look:
  %i = phi i64 [0, %0], [%next, %good]
  %more = icmp slt i64 %i, %tasks
  br i1 %more, label %task, label %none
task:
  %twice = shl i64 %i, 1
  %at = getelementptr i64, ptr %words, i64 %twice
  %word = load i64, ptr %at
  %bad = icmp ne i64 %word, 0
  br i1 %bad, label %tell, label %good
good:
  %next = add i64 %i, 1
  br label %look
tell:
  %index.at = getelementptr i64, ptr %at, i64 1
  %index = load i64, ptr %index.at
  store ptr %format, ptr %failure
  %to = getelementptr i64, ptr %failure, i64 1
  store i64 %index, ptr %to
  %kind = getelementptr i64, ptr %failure, i64 2
  store i64 %word, ptr %kind
  ret i1 true
none:
  ret i1 false
}
"""
PRELUDE = _DECLARATIONS + _HELPERS
