"""Kernels for eager calls whose extents are arguments: compiled once a dtype, never for a shape.

A kernel runs wherever its caller's rule about sizes says so, and that rule knows nothing of earlier
calls or of threads, so that a result has the same bits whenever it is computed.

``kernel(group, name, dtype)`` gives a function of one list, as ``entry/eager.py`` says, and
``empty([like, *shape])`` a new array in memory that waits for the next result of its size.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from fx import limits
from fx.backends.cpu import irregular

Run = Callable[[list[Any]], Any]
BLOCK, APART = 64, 16  # numbers of a block of a sum of float32; those of a tree are so far apart
LINES = 4  # short rows that are added up together
MOST_APART = 4  # places from one element to the next, in rows of which vectors are taken apart


@cache
def available() -> bool:
    """Whether kernels can be called: there is a compiler, and objects lie in memory as expected."""
    from fx.backends.cpu.llvm import python_api

    try:
        if not python_api.DIRECT:
            return False
        empty([np.zeros(1, np.float32), 3])
    except (RuntimeError, ImportError, OSError):
        return False
    _keep_heap()
    return True


_TRIM, _MMAP = -1, -3  # glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD
_KEPT, _FROM_HEAP = 128 << 20, 32 << 20


def _keep_heap() -> None:
    """Let the C library keep what arrays of NumPy's give back.

    glibc returns memory at the end of its heap from 256 KiB to 2 MiB on, and a training step takes
    it again a moment later: a page fault every 4 KiB, a tenth of the step. What the user has set in
    the environment stays.
    """
    told = any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and not told:
        mallopt(_TRIM, _KEPT)
        mallopt(_MMAP, _FROM_HEAP)


def _first_empty(spec: list[Any]) -> np.ndarray:
    global empty
    empty = _builtin("fx_empty", 0)
    found: np.ndarray = empty(spec)
    return found


# a new array of the dtype of ``spec[0]`` and the shape ``spec[1:]``, contents undefined
empty: Callable[[list[Any]], np.ndarray] = _first_empty


def _kernel(group: str, name: str, dtype: str) -> Run:
    """The kernel ``name`` of ``any_size/<group>.py`` for a dtype; see ``entry/eager.py``."""
    return function_of(_loaded(group, name, dtype, _limits_of(group)), name)


_made: dict[str, Callable[[str, str, str], Run]] = {}
kernel: Callable[[str, str, str], Run]


def _under_new_limits() -> None:
    """Kernels are kept for ever: each once under the limits that it was made with."""
    global kernel
    kernel = _made.setdefault(limits.key(), cache(_kernel))


_under_new_limits()
limits.on_change(_under_new_limits)


def chunk_of(tasks: int, each: float) -> int:
    """How many tasks of so many nanoseconds a thread takes at once; 0: all, and with the GIL."""
    total = tasks * each
    if total < limits.EAGER_SHORT:
        return 0
    return tasks if total < limits.EAGER_LONG else max(1, int(limits.EAGER_CHUNK / each))


def _limits_of(group: str) -> str:
    """The limits that the code of a kernel depends on; ``irregular`` takes them as arguments."""
    return "" if group in irregular.GROUPS else limits.key()


@cache
def _loaded(group: str, name: str, dtype: str, under: str) -> Any:
    """The code of a kernel, from the disk where it is."""
    from fx.backends.cpu.llvm import disk_cache, engine

    entry = _entry_of(group, name, dtype)
    _, code = disk_cache.kept(entry, lambda: (None, _code_of(group, name, dtype)))
    loaded = engine.Loaded([code], [name], {}, lasting=True)
    return loaded


def function_of(loaded: Any, name: str) -> Run:
    """A kernel of loaded code, on a list as in ``entry/eager.py``."""
    if not available():
        return _through_ctypes(loaded, name)
    return _builtin("fx_run", loaded.address(name), loaded)


def _entry_of(group: str, name: str, dtype: str) -> str | None:
    """The name of the entry on disk that a kernel has, if there are any."""
    from fx.backends.cpu.llvm import disk_cache

    if group in irregular.GROUPS:
        return disk_cache.name_under(irregular.version(), "irregular", group, name, dtype)
    return disk_cache.name_of("any_size", group, name, dtype)


def _code_of(group: str, name: str, dtype: str) -> bytes:
    from fx.backends.cpu.llvm import engine

    if group in irregular.GROUPS:
        return irregular.code_of(group, name, dtype)
    module = engine.new_module()
    import_module(f"{__name__}.{group}").emit(module, np.dtype(dtype), name)
    return engine.compile_text(str(module))


def address(group: str, name: str, dtype: str) -> int:
    """Where a kernel is, for compiled code that calls it."""
    return int(_loaded(group, name, dtype, _limits_of(group)).address(name))


_ready: dict[tuple[str, str, str], Run] = {}
_asked: dict[tuple[str, str, str], int] = {}


def if_ready(group: str, name: str, dtype: str) -> Run | None:
    """``kernel``, or None where its compilation does not pay yet and a reference is to serve.

    A kernel of ``irregular`` takes about a second where it is not on disk: the first
    ``limits.EARLY_CALLS`` calls do not wait for it.
    """
    found = _ready.get((group, name, dtype))
    if found is not None or not available():
        return found
    key = (group, name, dtype)
    count = _asked[key] = _asked.get(key, -1) + 1
    if count < limits.EARLY_CALLS and (count or not _on_disk(*key)):
        return None
    found = _ready[key] = kernel(*key)
    return found


def _on_disk(group: str, name: str, dtype: str) -> bool:
    from fx.backends.cpu.llvm import disk_cache

    entry = _entry_of(group, name, dtype)
    return entry is not None and disk_cache.has(entry)


def _forget() -> None:
    _ready.clear()
    _asked.clear()


limits.on_change(_forget)


def _through_ctypes(loaded: Any, name: str) -> Run:
    """The same where CPython's layout is not known: kernels that nothing else can stand in for."""
    pointer, word = ctypes.c_void_p, ctypes.c_int64
    kind = ctypes.CFUNCTYPE(None, pointer, word, word, pointer)
    call = kind(loaded.address(name))

    def run(given: list[Any]) -> None:
        tasks, _, *rest = given
        held = [np.array([x]) if isinstance(x, float) else x for x in rest]
        words = [x.ctypes.data if isinstance(x, np.ndarray) else int(x or 0) for x in held]
        table = np.array(words, np.int64)
        call(table.ctypes.data, 0, tasks, None)

    return run


def _builtin(name: str, function: int, keep: Any = None) -> Run:
    from fx.backends.cpu.llvm import entry, python_api

    me = python_api.owner(1)
    me[0], me.keep = function, keep
    return python_api.builtin(name, entry.loaded("eager").address(name), me)
