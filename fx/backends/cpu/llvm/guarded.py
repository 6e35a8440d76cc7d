"""Guarded memory: every block ends, or begins, at a page that nobody may touch.

A kernel that reads or writes outside of an operand computes a wrong number at worst, and only where
what lies beside it differs. With ``FX_GUARD_MEMORY=end`` it dies on the spot instead:

    end                                   begin
    | header .. elements | forbidden |    | header | forbidden | elements .. |
                     page boundary ^                           ^ page boundary

Elements start as bytes of ones, NaN for every floating dtype, and a block that was given back may
not be touched at all for the next few thousand allocations. All arrays of NumPy's come from here,
so that arguments of kernels are guarded like results and arenas; what was made before is not.

It is the suite's, and costs some ten microseconds a block. It offers what ``allocation.py`` offers.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

_GIVEN_BACK = 4096  # blocks that were given back last: touching one is an error
_SIDES = ("end", "begin")


def side() -> str:
    """At which side of a block the forbidden page lies, as ``FX_GUARD_MEMORY`` says; or ``""``.

    Raises:
        ValueError: if the variable is something else, or the platform cannot do it.
    """
    told = os.environ.get("FX_GUARD_MEMORY", "")
    if told in ("", "0"):
        return ""
    if told not in _SIDES:
        raise ValueError(f"FX_GUARD_MEMORY={told!r}: expected 'end', 'begin' or nothing")
    if not sys.platform.startswith("linux"):
        raise ValueError(f"FX_GUARD_MEMORY={told!r}: guarded memory needs Linux; unset it")
    return told


_END = """
  ; | header .. elements | forbidden |
  %with.head = add i64 %size, {head}
  %up = add i64 %with.head, {page_1}
  %body = and i64 %up, -{page}
  %length = add i64 %body, {page}
  %start = call ptr @mmap(ptr null, i64 %length, i32 3, i32 34, i32 -1, i64 0)
  %address = ptrtoint ptr %start to i64
  %failed = icmp eq i64 %address, -1
  br i1 %failed, label %nothing, label %made
made:
  %border = getelementptr i8, ptr %start, i64 %body
  %told = call i32 @mprotect(ptr %border, i64 {page}, i32 0)
  %less = sub i64 %body, %size
  %data = getelementptr i8, ptr %start, i64 %less
"""

_BEGIN = """
  ; | header | forbidden | elements .. |
  %one = call i64 @llvm.umax.i64(i64 %size, i64 1)
  %up = add i64 %one, {page_1}
  %body = and i64 %up, -{page}
  %length = add i64 %body, {two_pages}
  %start = call ptr @mmap(ptr null, i64 %length, i32 3, i32 34, i32 -1, i64 0)
  %address = ptrtoint ptr %start to i64
  %failed = icmp eq i64 %address, -1
  br i1 %failed, label %nothing, label %made
made:
  %border = getelementptr i8, ptr %start, i64 {page}
  %told = call i32 @mprotect(ptr %border, i64 {page}, i32 0)
  %data = getelementptr i8, ptr %start, i64 {two_pages}
"""


def text(where: str) -> str:
    """The module, for the forbidden page at the ``end`` or the ``begin`` of a block."""
    page = os.sysconf("SC_PAGE_SIZE")
    head = 32
    back = head if where == "end" else 2 * page  # from the elements to their header
    numbers = {"page": page, "page_1": page - 1, "two_pages": 2 * page, "head": head}
    take = (_END if where == "end" else _BEGIN).format(**numbers)
    return f"""
@ring = internal global [{_GIVEN_BACK} x [2 x i64]] zeroinitializer
@turn = internal global i64 0
@fx_waiting = global i64 0
@fx_kept = global i64 0

declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @mprotect(ptr, i64, i32)
declare i64 @llvm.umax.i64(i64, i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; the header: where the mapping starts, its length, the size that was asked for
define ptr @fx_take(i64 %size) {{
{take}
  %head = getelementptr i8, ptr %data, i64 -{back}
  store i64 %address, ptr %head, align 1
  %head.1 = getelementptr i8, ptr %head, i64 8
  store i64 %length, ptr %head.1, align 1
  %head.2 = getelementptr i8, ptr %head, i64 16
  store i64 %size, ptr %head.2, align 1
  call void @llvm.memset.p0.i64(ptr %data, i8 -1, i64 %size, i1 0)
  ret ptr %data
nothing:
  ret ptr null
}}

; the pages become ones that nobody may touch, and are returned when so many others were
define void @fx_give(ptr %context, ptr %data, i64 %size) {{
  %none = icmp eq ptr %data, null
  br i1 %none, label %done, label %some
some:
  %head = getelementptr i8, ptr %data, i64 -{back}
  %start = load i64, ptr %head, align 1
  %head.1 = getelementptr i8, ptr %head, i64 8
  %length = load i64, ptr %head.1, align 1
  %first = inttoptr i64 %start to ptr
  %told = call ptr @mmap(ptr %first, i64 %length, i32 0, i32 50, i32 -1, i64 0)
  %turn = load i64, ptr @turn
  %turn.next = add i64 %turn, 1
  store i64 %turn.next, ptr @turn
  %place = urem i64 %turn, {_GIVEN_BACK}
  %at = getelementptr [2 x i64], ptr @ring, i64 %place
  %at.1 = getelementptr i64, ptr %at, i64 1
  %old = load i64, ptr %at
  %old.length = load i64, ptr %at.1
  store i64 %start, ptr %at
  store i64 %length, ptr %at.1
  %empty = icmp eq i64 %old, 0
  br i1 %empty, label %done, label %return
return:
  %old.first = inttoptr i64 %old to ptr
  %code = call i32 @munmap(ptr %old.first, i64 %old.length)
  br label %done
done:
  ret void
}}

define void @fx_flush() {{
  ret void
}}

define internal i64 @room(ptr %data) {{
  %head = getelementptr i8, ptr %data, i64 -{back}
  %head.2 = getelementptr i8, ptr %head, i64 16
  %size = load i64, ptr %head.2, align 1
  ret i64 %size
}}
"""


def guard_arrays(capsule: Any, set_handler: int) -> None:
    """Let all arrays that NumPy makes from now on in this thread come from a handler of NEP 49.

    Args:
        capsule: the handler.
        set_handler: the address of NumPy's ``PyDataMem_SetHandler``.
    """
    ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(set_handler)(capsule)
