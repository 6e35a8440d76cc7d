"""What both builtins of this folder ask of arrays, as LLVM IR: whether one fits, and its copy."""

from __future__ import annotations

TEXT = """
; whether an array is one, of this dtype and shape
define internal i1 @fits(ptr %a, ptr %wanted, i64 %axes.wanted, ptr %dims.wanted) {
  %no.array = icmp eq ptr %a, null
  br i1 %no.array, label %no, label %object
object:
  %type.at = getelementptr i8, ptr %a, i64 $type
  %type = load ptr, ptr %type.at
  %is.array = icmp eq ptr %type, @numpy_array_type
  br i1 %is.array, label %array, label %no
array:
  %dtype.at = getelementptr i8, ptr %a, i64 $dtype
  %dtype = load ptr, ptr %dtype.at
  %same.dtype = icmp eq ptr %dtype, %wanted
  %axes.at = getelementptr i8, ptr %a, i64 $axes
  %axes.narrow = load i32, ptr %axes.at
  %axes = zext i32 %axes.narrow to i64
  %same.axes = icmp eq i64 %axes, %axes.wanted
  %same = and i1 %same.dtype, %same.axes
  %dims.at = getelementptr i8, ptr %a, i64 $dims
  %dims = load ptr, ptr %dims.at
  br i1 %same, label %axis, label %no
axis:
  %k = phi i64 [ 0, %array ], [ %k.next, %size ]
  %more = icmp ult i64 %k, %axes
  br i1 %more, label %size, label %yes
size:
  %n.at = getelementptr i64, ptr %dims, i64 %k
  %n = load i64, ptr %n.at
  %m.at = getelementptr i64, ptr %dims.wanted, i64 %k
  %m = load i64, ptr %m.at
  %k.next = add i64 %k, 1
  %equal = icmp eq i64 %n, %m
  br i1 %equal, label %axis, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; whether only one holds the array, it has its own memory, and that has these flags
define internal i1 @own(ptr %a, i64 %need) {
  %count = load i64, ptr %a
  %one = icmp eq i64 %count, 1
  %base.at = getelementptr i8, ptr %a, i64 $base
  %base = load ptr, ptr %base.at
  %no.base = icmp eq ptr %base, null
  %flags.at = getelementptr i8, ptr %a, i64 $flags
  %flags.narrow = load i32, ptr %flags.at
  %flags = zext i32 %flags.narrow to i64
  %has = and i64 %flags, %need
  %dense = icmp eq i64 %has, %need
  %two = and i1 %one, %no.base
  %all = and i1 %two, %dense
  ret i1 %all
}

; a copy of a dense array; NumPy's own gives up the GIL, and what was looked at could be taken by
; another thread before it is away. Null without an exception for an array that is not dense.
define internal ptr @copy_of(ptr %a) {
entry:
  %flags.at = getelementptr i8, ptr %a, i64 $flags
  %flags = load i32, ptr %flags.at
  %has = and i32 %flags, $dense
  %dense = icmp eq i32 %has, $dense
  br i1 %dense, label %make, label %no
make:
  %dtype.at = getelementptr i8, ptr %a, i64 $dtype
  %dtype = load ptr, ptr %dtype.at
  %axes.at = getelementptr i8, ptr %a, i64 $axes
  %axes = load i32, ptr %axes.at
  %dims.at = getelementptr i8, ptr %a, i64 $dims
  %dims = load ptr, ptr %dims.at
  call void @hold(ptr %dtype)
  %new = call ptr @numpy_new(ptr @numpy_array_type, ptr %dtype, i32 %axes, ptr %dims,
    ptr null, ptr null, i32 0, ptr null)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %no, label %measure
measure:
  %itemsize.at = getelementptr i8, ptr %dtype, i64 $itemsize
  %itemsize = load i64, ptr %itemsize.at
  %count = zext i32 %axes to i64
  br label %axis
axis:
  %d = phi i64 [ 0, %measure ], [ %d.next, %size ]
  %bytes = phi i64 [ %itemsize, %measure ], [ %bytes.next, %size ]
  %more = icmp ult i64 %d, %count
  br i1 %more, label %size, label %fill
size:
  %dim.at = getelementptr i64, ptr %dims, i64 %d
  %dim = load i64, ptr %dim.at
  %bytes.next = mul i64 %bytes, %dim
  %d.next = add i64 %d, 1
  br label %axis
fill:
  %from.at = getelementptr i8, ptr %a, i64 $data
  %from = load ptr, ptr %from.at
  %to.at = getelementptr i8, ptr %new, i64 $data
  %to = load ptr, ptr %to.at
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  ret ptr %new
no:
  ret ptr null
}

; what it means that there is no copy: 0, not as expected, or 3, an exception
define internal i32 @why_not() {
  %error = call ptr @PyErr_Occurred()
  %none = icmp eq ptr %error, null
  %state = select i1 %none, i32 0, i32 3
  ret i32 %state
}
"""
