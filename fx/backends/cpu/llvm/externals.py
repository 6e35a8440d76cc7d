"""External functions that generated code calls: their types, and where they are in this process.

An entry is a name, an LLVM function type and a function that finds the address; it is asked for
only when a program that calls the function is loaded, so that libraries are imported when a graph
first needs them. Names start with ``fx.``, so that they never meet a symbol of the C library by
chance; whoever loads code adds ``address(name)`` for each name that ``names(module)`` lists.
``fx.group.name.dtype`` is a kernel of ``any_size`` or of ``irregular``, ``fx.roots.size.dtype`` a
table of ``any_size/fourier/tables.py``, and ``fx.ranks.KEY`` the words of an axis of a mesh
(``fx/backends/cpu/collective.py``): these need no entry.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, NamedTuple

from llvmlite import ir

from fx.backends.cpu import collective, irregular
from fx.backends.cpu.lapack import door

_PREFIX = "fx."
_RANKS = "fx.ranks."


class External(NamedTuple):
    """One function: its type, and what finds it."""

    type: ir.FunctionType
    find: Callable[[], int]


_KERNEL = ir.FunctionType(
    ir.VoidType(), [ir.PointerType(), ir.IntType(64), ir.IntType(64), ir.PointerType()]
)
_entries: dict[str, External] = {}
_addresses: dict[str, int] = {}


def register(name: str, type: ir.FunctionType, find: Callable[[], int]) -> None:
    """Make a function known.

    Args:
        name: what generated code calls it, ``fx.`` and a word of its own.
        type: its type in LLVM.
        find: gives the address; called once a process, and only if it is needed.

    Raises:
        ValueError: if the name lacks the prefix, or is taken by a function of another type.

    Example:
        >>> from llvmlite import ir
        >>> from fx.backends.cpu.llvm import externals
        >>> kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType()])
        >>> externals.register("fx.j0", kind, externals.of_library("j0"))
        >>> module = ir.Module()
        >>> externals.declare(module, "fx.j0").name, externals.address("fx.j0") > 0
        ('fx.j0', True)
    """
    if not name.startswith(_PREFIX):
        raise ValueError(f"external function {name!r}: names start with {_PREFIX!r}")
    known = _entries.get(name)
    if known is not None and known.type != type:
        raise ValueError(f"external function {name!r} is known as {known.type}, not as {type}")
    _entries[name] = External(type, find)
    _addresses.pop(name, None)


def declare(module: ir.Module, name: str) -> ir.Function:
    """The declaration of a known function in ``module``."""
    found = module.globals.get(name)
    if found is None:
        kind = _entries[name].type if name in _entries else _KERNEL
        found = ir.Function(module, kind, name)
    return found


def address(name: str) -> int:
    """Where a function is in this process; 0 for a name that is not known here."""
    found = _addresses.get(name)
    if found is None:
        if name.startswith(_RANKS):
            ranks = collective.axes.get(name.removeprefix(_RANKS))
            return 0 if ranks is None else int(ranks.words.ctypes.data)
        if parts := _kernel(name):
            if parts[0] == _TABLES:
                from fx.backends.cpu.llvm.any_size.fourier import tables

                return tables.address(name)
            from fx.backends.cpu.llvm import any_size

            return any_size.address(*parts)  # other code under other limits
        if name not in _entries:
            return 0
        found = _addresses[name] = _entries[name].find()
    return found


def names(module: ir.Module) -> list[str]:
    """The known functions that a module declares."""
    return [
        name
        for name in module.globals
        if name in _entries or name.startswith(_RANKS) or _kernel(name)
    ]


def ranks(module: ir.Module, axis: str) -> Any:
    """Where the words of an axis of a mesh are."""
    return declare(module, _RANKS + axis)


def of_capsules(module: str, table: str, function: str) -> Callable[[], int]:
    """Finds a function in a Cython module's table of capsules, such as SciPy's BLAS and LAPACK.

    Args:
        module: the module, such as ``"scipy.linalg.cython_lapack"``.
        table: the table's name, ``"__pyx_capi__"``.
        function: the function's name, such as ``"dpotrf"``.
    """

    def find() -> int:
        import importlib

        capsule: Any = getattr(importlib.import_module(module), table)[function]
        api = ctypes.pythonapi
        api.PyCapsule_GetName.restype = ctypes.c_char_p
        api.PyCapsule_GetName.argtypes = (ctypes.py_object,)
        api.PyCapsule_GetPointer.restype = ctypes.c_void_p
        api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
        return int(api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule)))

    return find


def of_library(function: str, library: str | None = None) -> Callable[[], int]:
    """Finds a symbol of a shared library, or of what the process has loaded (libm, libc)."""

    def find() -> int:
        handle = ctypes.CDLL(library)
        return int(ctypes.cast(getattr(handle, function), ctypes.c_void_p).value or 0)

    return find


_GROUPS = irregular.GROUPS | {"attention", "draws", "fourier", "gemm", "halves", "scans"}
_TABLES = "roots"


def _kernel(name: str) -> list[str]:
    """Of ``fx.group.name.dtype`` the parts, where that names a kernel or a table."""
    prefix, *parts = name.split(".")
    known = prefix + "." == _PREFIX and len(parts) == 3 and parts[0] in {*_GROUPS, _TABLES}
    return parts if known else []


def _register_math() -> None:
    """Scalar functions of the C library that have no vector code: ``fx.tgamma`` and so on."""
    for suffix, kind in (("", ir.DoubleType()), ("f", ir.FloatType())):
        for function in ("tgamma", "lgamma", "remainder", "nextafter"):
            count = 2 if function in ("remainder", "nextafter") else 1
            type = ir.FunctionType(kind, [kind] * count)
            register(f"fx.{function}{suffix}", type, of_library(f"{function}{suffix}"))


def _register_lapack() -> None:
    """SciPy's LAPACK and BLAS, and the words of the setting of their threads."""
    kind = ir.FunctionType(ir.VoidType(), [])  # it is called with what Fortran takes
    for routine in door.ROUTINES:
        for char in door.LETTERS:
            register(door.external(routine, char), kind, door.finder(routine, char))
    register(door.THREADS, kind, lambda: int(door.threads().ctypes.data))


_register_math()
_register_lapack()
