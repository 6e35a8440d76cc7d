"""A new array, as LLVM IR: small ones are NumPy's, large ones lie in memory of our own."""

from __future__ import annotations

from fx import limits
from fx.backends.cpu.llvm.python_api import DENSE, FLAGS, HANDLER, OWN, WRITEABLE


def new_array(array_type: int, capsule: int) -> str:
    """``fx_result(ctx, descr, nd, dims, size)``: of that many bytes, or null.

    Args:
        array_type, capsule: the words of ``ctx`` that hold the class of arrays, and what gives the
            memory back.
    """
    return f"""
; a new array; a large one in memory of our own
define internal ptr @fx_result(ptr %ctx, ptr %descr, i32 %nd, ptr %dims, i64 %size) {{
  %type.at = getelementptr i64, ptr %ctx, i64 {array_type}
  %type = load ptr, ptr %type.at
  call void @Py_IncRef(ptr %descr)
  %small = icmp slt i64 %size, {limits.SMALL_RESULT}
  br i1 %small, label %numpys, label %ours
numpys:
  %array = call ptr @numpy_new(
    ptr %type, ptr %descr, i32 %nd, ptr %dims, ptr null, ptr null, i32 0, ptr null)
  ret ptr %array
ours:
  %data = call ptr @fx_take(i64 %size)
  %nodata = icmp eq ptr %data, null
  br i1 %nodata, label %numpys, label %wrap
wrap:
  %new = call ptr @numpy_new(
    ptr %type, ptr %descr, i32 %nd, ptr %dims, ptr null, ptr %data, i32 {DENSE | WRITEABLE},
    ptr null)
  %none = icmp eq ptr %new, null
  br i1 %none, label %back, label %own
back:
  call void @fx_give(ptr null, ptr %data, i64 %size)
  ret ptr null
own:
  %capsule.at = getelementptr i64, ptr %ctx, i64 {capsule}
  %capsule = load ptr, ptr %capsule.at
  call void @Py_IncRef(ptr %capsule)
  %handler.at = getelementptr i8, ptr %new, i64 {HANDLER}
  store ptr %capsule, ptr %handler.at
  %flags.at = getelementptr i8, ptr %new, i64 {FLAGS}
  %flags = load i32, ptr %flags.at
  %owns = or i32 %flags, {OWN}
  store i32 %owns, ptr %flags.at
  ret ptr %new
}}
"""
