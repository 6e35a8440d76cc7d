"""Entries: the functions that CPython calls, and how they handle its objects.

Each is a builtin, so that no Python runs around a native call: ``graph`` is called for the native
parts of compiled graphs, ``eager`` for kernels whose extents are arguments; the steps of training
loops are in ``commit``. What they do with arrays stands once, in ``objects``.
"""

from __future__ import annotations

from functools import cache
from typing import Any


def symbols() -> dict[str, int]:
    """Names and addresses of all that ``objects`` calls, but for the pool of threads."""
    from fx.backends.cpu.llvm import allocation, python_api

    memory = allocation.allocator()
    ours = {"fx_take": memory.take, "fx_give": memory.give, "fx_capsule": id(memory.capsule)}
    return {**python_api.symbols(), **ours}


@cache
def loaded(name: str) -> Any:
    """The code of the builtins ``graph`` or ``eager`` in this process."""
    from importlib import import_module

    from fx.backends.cpu.llvm import engine, parallel
    from fx.backends.cpu.llvm.entry import objects

    text, exports = objects.TEXT + import_module(f"{__name__}.{name}").TEXT, ("fx_enter",)
    found = symbols()
    if name == "eager":
        text, exports = text + objects.TASKS, ("fx_run", "fx_empty")
        found["fx_parallel"] = parallel.address()
    return engine.Loaded([code_of(text)], exports, found, lasting=True)


def code_of(text: str, **fields: int) -> bytes:
    """The object code of a text in the notation of ``notation``, kept on disk.

    Args:
        text: the functions.
        fields: offsets of fields besides those of ``python_api``.
    """
    from fx.backends.cpu.llvm import disk_cache, engine
    from fx.backends.cpu.llvm.python_api import FIELDS

    def expanded(text: str) -> str:
        from fx.backends.cpu.llvm.entry import notation  # what is found on disk needs none of it

        return engine.head() + notation.expanded(text, {**FIELDS, **fields})

    return disk_cache.code_of(text, repr(fields), written=expanded)
