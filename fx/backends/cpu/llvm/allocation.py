"""Allocation: memory of results, on cache lines, used again once an array is gone.

NumPy asks the C library for each array. A large one then costs a page fault every 4 KiB, more than
most kernels that fill it. Here a block that NumPy gives back waits in a table by its size for the
next result of that size; in a loop every step finds what the last one left.

Blocks reach NumPy with a handler of our own (``PyDataMem_Handler``, the interface of NEP 49), so
that an array frees its memory wherever and whenever it ends. All of this runs under the GIL.
With ``FX_GUARD_MEMORY`` set, ``guarded.py`` gives all memory instead.
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
from typing import Any

import numpy as np

from fx import forking, limits
from fx.backends.cpu.llvm import disk_cache, engine, guarded, python_api

_HEAD = 64  # bytes before a block: its capacity, and the next block of its bucket

_ADVISE = """
  %large = icmp sge i64 %capacity, {huge}
  br i1 %large, label %advise, label %good
advise:
  %at = ptrtoint ptr %block to i64
  %roundup = add i64 %at, 4095
  %page = and i64 %roundup, -4096
  %pages = inttoptr i64 %page to ptr
  %inside = sub i64 %capacity, 4096
  %told = call i32 @madvise(ptr %pages, i64 %inside, i32 14)
  br label %good
"""


def _text() -> str:
    linux = sys.platform.startswith("linux")
    advise = _ADVISE.format(huge=limits.HUGE_PAGES) if linux else "  br label %good\n"
    return f"""
@buckets = internal global [{limits.MEMORY_BUCKETS} x ptr] zeroinitializer, align 64
@fx_waiting = global i64 0
@fx_kept = global i64 {limits.KEPT_MEMORY}

declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
declare i32 @madvise(ptr, i64, i32)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal ptr @bucket(i64 %capacity) {{
  %lines = lshr i64 %capacity, 6
  %mixed = mul i64 %lines, -7046029254386353131
  %hash = lshr i64 %mixed, {64 - limits.MEMORY_BUCKETS.bit_length() + 1}
  %at = getelementptr ptr, ptr @buckets, i64 %hash
  ret ptr %at
}}

define ptr @fx_take(i64 %size) {{
  %spot = alloca ptr
  %up = add i64 %size, 63
  %capacity = and i64 %up, -64
  %first = call ptr @bucket(i64 %capacity)
  br label %look
look:
  %link = phi ptr [%first, %0], [%next.at, %other]
  %found = load ptr, ptr %link
  %none = icmp eq ptr %found, null
  br i1 %none, label %ask, label %compare
compare:
  %has = load i64, ptr %found
  %next.at = getelementptr i64, ptr %found, i64 1
  %fits = icmp eq i64 %has, %capacity
  br i1 %fits, label %reuse, label %other
other:
  br label %look
reuse:
  %next = load ptr, ptr %next.at
  store ptr %next, ptr %link
  %waiting = load i64, ptr @fx_waiting
  %less = sub i64 %waiting, %capacity
  store i64 %less, ptr @fx_waiting
  %old = getelementptr i8, ptr %found, i64 {_HEAD}
  ret ptr %old
ask:
  %whole = add i64 %capacity, {_HEAD}
  %code = call i32 @posix_memalign(ptr %spot, i64 64, i64 %whole)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %nothing, label %made
made:
  %block = load ptr, ptr %spot
{advise}
good:
  store i64 %capacity, ptr %block
  %new = getelementptr i8, ptr %block, i64 {_HEAD}
  ret ptr %new
nothing:
  ret ptr null
}}

define void @fx_flush() {{
  br label %bucket
bucket:
  %i = phi i64 [0, %0], [%i.next, %empty]
  %at = getelementptr ptr, ptr @buckets, i64 %i
  br label %block
block:
  %found = load ptr, ptr %at
  %none = icmp eq ptr %found, null
  br i1 %none, label %empty, label %drop
drop:
  %next.at = getelementptr i64, ptr %found, i64 1
  %next = load ptr, ptr %next.at
  store ptr %next, ptr %at
  call void @free(ptr %found)
  br label %block
empty:
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, {limits.MEMORY_BUCKETS}
  br i1 %more, label %bucket, label %done
done:
  store i64 0, ptr @fx_waiting
  ret void
}}

define void @fx_give(ptr %context, ptr %data, i64 %size) {{
  %block = getelementptr i8, ptr %data, i64 -{_HEAD}
  %capacity = load i64, ptr %block
  %kept = load i64, ptr @fx_kept
  %toolarge = icmp sgt i64 %capacity, %kept
  br i1 %toolarge, label %drop, label %room
drop:
  call void @free(ptr %block)
  ret void
room:
  %waiting = load i64, ptr @fx_waiting
  %sum = add i64 %waiting, %capacity
  %over = icmp sgt i64 %sum, %kept
  br i1 %over, label %flush, label %keep
flush:
  call void @fx_flush()
  br label %keep
keep:
  %now = load i64, ptr @fx_waiting
  %then = add i64 %now, %capacity
  store i64 %then, ptr @fx_waiting
  %at = call ptr @bucket(i64 %capacity)
  %first = load ptr, ptr %at
  %next.at = getelementptr i64, ptr %block, i64 1
  store ptr %first, ptr %next.at
  store ptr %block, ptr %at
  ret void
}}

define internal i64 @room(ptr %data) {{
  %block = getelementptr i8, ptr %data, i64 -{_HEAD}
  %capacity = load i64, ptr %block
  ret i64 %capacity
}}
"""


# what NumPy calls; ``@room`` says how many bytes a block has
_FACE = """
define ptr @fx_malloc(ptr %context, i64 %size) {
  %data = call ptr @fx_take(i64 %size)
  ret ptr %data
}

define ptr @fx_calloc(ptr %context, i64 %count, i64 %each) {
  %size = mul i64 %count, %each
  %data = call ptr @fx_take(i64 %size)
  %none = icmp eq ptr %data, null
  br i1 %none, label %done, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %data, i8 0, i64 %size, i1 0)
  br label %done
done:
  ret ptr %data
}

define ptr @fx_realloc(ptr %context, ptr %data, i64 %size) {
  %new = call ptr @fx_take(i64 %size)
  %none = icmp eq ptr %new, null
  %fresh = icmp eq ptr %data, null
  %nocopy = or i1 %none, %fresh
  br i1 %nocopy, label %done, label %copy
copy:
  %room = call i64 @room(ptr %data)
  %smaller = icmp slt i64 %room, %size
  %count = select i1 %smaller, i64 %room, i64 %size
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %data, i64 %count, i1 0)
  call void @fx_give(ptr null, ptr %data, i64 0)
  br label %done
done:
  ret ptr %new
}
"""


class _Handler(ctypes.Structure):
    """NumPy's ``PyDataMem_Handler``."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    ]


_EXPORTS = ("fx_take", "fx_give", "fx_flush", "fx_malloc", "fx_calloc", "fx_realloc")
_lock = forking.lasting(threading.Lock())
_loaded: _Allocator | None = None


class _Allocator:
    """The loaded code, and NumPy's handler that points into it. It lives as long as the process."""

    def __init__(self) -> None:
        side = guarded.side()
        code = disk_cache.code_of((guarded.text(side) if side else _text()) + _FACE)
        exports = (*_EXPORTS, "fx_waiting", "fx_kept")
        loaded = engine.Loaded([code], exports, {}, lasting=True)
        self.take, self.give = loaded.address("fx_take"), loaded.address("fx_give")
        self.flush = ctypes.CFUNCTYPE(None)(loaded.address("fx_flush"))
        self.waiting = ctypes.c_int64.from_address(loaded.address("fx_waiting"))
        self.kept = ctypes.c_int64.from_address(loaded.address("fx_kept"))
        addresses = [loaded.address(f"fx_{name}") for name in ("malloc", "calloc", "realloc")]
        self._handler = _Handler(b"fx", 1, None, *addresses, self.give)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype = ctypes.py_object
        make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self._name = b"mem_handler"
        self.capsule: Any = make(ctypes.addressof(self._handler), self._name, None)
        if side:
            guarded.guard_arrays(self.capsule, python_api.symbols()["numpy_set_handler"])


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """An array for what does not come from native code, in memory that is used again."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes <= limits.SMALL_RESULT or not python_api.DIRECT:
        return np.empty(shape, dtype)
    global _set_handler
    if _set_handler is None:
        make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)
        _set_handler = make(python_api.symbols()["numpy_set_handler"])
    before = _set_handler(allocator().capsule)
    try:
        return np.empty(shape, dtype)
    finally:
        _set_handler(before)


_set_handler: Any = None  # NumPy's ``PyDataMem_SetHandler``


def allocator() -> _Allocator:
    """The allocator of this process."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = _Allocator()
    return _loaded
