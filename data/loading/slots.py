"""Slots: pieces of shared memory that a worker fills and the parent reads, again and again.

A slot holds one array. Its memory has no name: a file descriptor that the worker sends to the
parent once, so nothing is left behind however either of them ends. ``README.md`` tells the life of
a slot.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
import weakref
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

SMALL = 4096  # bytes below which an array travels in the message
_KEEP = 64  # batches after which a slot that nobody used is given back
_MOST = 4096  # slots that the parent holds before it copies: mappings are limited

# number of the slot, offset in bytes, shape, strides, dtype
Place = tuple[int, int, tuple[int, ...], tuple[int, ...], Any]


def _nameless(size: int) -> int:
    """A file of zeros in memory, without a name."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("fx-data", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:  # has no name any more once it is open
            fd = os.dup(file.fileno())
    try:
        os.ftruncate(fd, size)
        if hasattr(os, "posix_fallocate"):  # a full memory is an error here, not a SIGBUS
            os.posix_fallocate(fd, 0, size)
    except BaseException:
        os.close(fd)
        raise
    return fd


_process: Any = None


def _mapped(fd: int, size: int) -> Any:
    """The memory of a file, without its descriptor: ``mmap.mmap`` keeps one open as long as it is.

    Python's objects keep it mapped; when the last one that looks at it is gone, it is unmapped.
    """
    global _process
    if _process is None:
        _process = ctypes.CDLL(None, use_errno=True)
        _process.mmap.restype = ctypes.c_void_p
        _process.mmap.argtypes = (
            ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int,
            ctypes.c_long,
        )  # fmt: skip
        _process.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    both = mmap.PROT_READ | mmap.PROT_WRITE
    address = _process.mmap(None, size, both, mmap.MAP_SHARED, fd, 0)
    if address == ctypes.c_void_p(-1).value:
        error = ctypes.get_errno()
        raise OSError(error, f"shared memory cannot be mapped: {os.strerror(error)}")
    memory = (ctypes.c_char * size).from_address(address)
    weakref.finalize(memory, _process.munmap, address, size).atexit = False
    return memory


class _Slot:
    """A piece of shared memory, seen from the worker."""

    __slots__ = ("memory", "number", "root", "size", "start", "used")

    def __init__(self, number: int, memory: Any) -> None:
        self.number = number
        self.memory = memory
        self.size = len(memory)
        self.start = 0  # the address of its bytes
        self.root: Callable[[], Any] = lambda: None  # what this process still sees of it
        self.used = 0  # the batch that used it last


class Ring:
    """The slots of a worker: which are free, which the parent still looks at.

    A slot is free when the parent has given it back and no array of this process is in it.
    """

    def __init__(self) -> None:
        self.slots: dict[int, _Slot] = {}
        self.free: list[_Slot] = []
        self.begun: dict[int, _Slot] = {}  # written for the batch at hand, by number
        self.new: list[tuple[int, int]] = []  # (number, descriptor) that the parent must get
        self.closed: list[int] = []  # that the parent may forget
        self.batch = 1
        self._next = 0

    def allocate(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray | None:
        """Uninitialised memory for an array of the batch; None for one that is small."""
        dtype = np.dtype(dtype)
        need = prod(shape) * dtype.itemsize
        if need < SMALL or dtype.hasobject:
            return None
        slot = self._take(need)
        self.begun[slot.number] = slot
        root = np.frombuffer(slot.memory, np.uint8)
        slot.start = root.__array_interface__["data"][0]
        slot.root = weakref.ref(root)
        return np.ndarray(shape, dtype, buffer=root)

    def _take(self, need: int) -> _Slot:
        """The smallest free slot that is large enough, or a new one."""
        fits = [s for s in self.free if need <= s.size <= 4 * need and s.root() is None]
        if fits:
            slot = min(fits, key=lambda s: s.size)
            self.free.remove(slot)
            return slot
        size = -(-need // mmap.PAGESIZE) * mmap.PAGESIZE
        fd = _nameless(size)
        slot = _Slot(self._next, _mapped(fd, size))
        self.slots[slot.number] = slot
        self.new.append((slot.number, fd))
        self._next += 1
        return slot

    def place(self, array: np.ndarray) -> Place | None:
        """Where the parent finds an array; it is copied if it is in no slot of this batch yet."""
        address = array.__array_interface__["data"][0]
        for slot in self.begun.values():
            if slot.start <= address < slot.start + slot.size and _inside(array, slot):
                slot.used = self.batch
                return (
                    slot.number, address - slot.start, array.shape, array.strides, array.dtype
                )  # fmt: skip
        copy = self.allocate(array.shape, array.dtype)
        if copy is None:
            return None
        np.copyto(copy, array)
        return self.place(copy)

    def sent(self) -> tuple[list[tuple[int, int]], list[int]]:
        """The batch is complete: the slots and descriptors that are new, and those to forget."""
        for slot in self.begun.values():
            if slot.used != self.batch:  # the collate_fn did not give it back
                self.free.append(slot)
                slot.used = self.batch
        self.begun.clear()
        self.batch += 1
        old = [s for s in self.free if self.batch - s.used > _KEEP and s.root() is None]
        for slot in old:
            self.free.remove(slot)
            del self.slots[slot.number]
            self.closed.append(slot.number)
        out = self.new, self.closed
        self.new, self.closed = [], []
        return out

    def begin(self, released: list[int]) -> None:
        """A batch begins; the parent gives back some slots."""
        for number in released:
            self.free.append(self.slots[number])


def _inside(array: np.ndarray, slot: _Slot) -> bool:
    """Whether an array that begins in a slot is one of its arrays."""
    root = slot.root()
    base: Any = array
    while isinstance(base, np.ndarray):
        if base is root:
            return True
        base = base.base
    return False


class Views:
    """The slots of one worker, seen from the parent.

    ``released`` lists the slots that no array looks at any more. It is appended to from wherever
    the last one dies, and emptied into the next message to the worker.
    """

    def __init__(self) -> None:
        self.memories: dict[int, Any] = {}
        self.roots: dict[int, Any] = {}
        self.released: list[int] = []

    def add(self, number: int, fd: int) -> None:
        """A slot that the worker has made."""
        try:
            self.memories[number] = _mapped(fd, os.fstat(fd).st_size)
        finally:
            os.close(fd)

    def forget(self, number: int) -> None:
        """A slot that the worker has given up."""
        self.memories.pop(number, None)
        self.roots.pop(number, None)

    def array(self, place: Place) -> np.ndarray:
        """The array at a place: a view, which keeps the slot from being used again."""
        number, offset, shape, strides, dtype = place
        found = self.roots.get(number)
        root = None if found is None else found()
        if root is None:
            root = np.frombuffer(self.memories[number], np.uint8)
            self.roots[number] = weakref.ref(root, self._releaser(number))
        view = np.ndarray(shape, dtype, buffer=root, offset=offset, strides=strides)
        return view.copy() if len(self.memories) > _MOST else view

    def _releaser(self, number: int) -> Callable[[Any], None]:
        released = self.released
        return lambda _: released.append(number)

    def given_back(self) -> list[int]:
        """The slots that are free since this was last asked."""
        count = len(self.released)
        out = self.released[:count]
        del self.released[:count]
        return out
