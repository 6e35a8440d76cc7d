"""What native code needs to know of CPython and NumPy: layouts, functions, and builtins of our own.

The entry of a graph is a builtin function: CPython calls it with a list of arrays, it reads their
data pointers where NumPy keeps them and makes the results through NumPy's C API, so that no Python
runs around a native call. Where objects lie in memory is checked once against NumPy's own answers;
if they lie elsewhere (another interpreter, a build without reference counts), ``DIRECT`` is False
and callers go through ``ctypes`` instead.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from sys import getrefcount
from typing import Any
from weakref import ref

import numpy as np

# byte offsets in objects of a 64-bit CPython, in NumPy 2's ndarray and in its dtype
FIELDS = {
    "type": 8, "items": 24, "float": 16, "referent": 16,
    "data": 16, "axes": 24, "dims": 32, "base": 48, "dtype": 56, "flags": 64, "handler": 88,
    "itemsize": 40,
}  # fmt: skip
OWN = 0x0004
DENSE = 0x0001 | 0x0100  # C-contiguous, aligned
WRITEABLE = 0x0400

# places in NumPy's table of C functions, which its ABI fixes
_TABLE = {"array_type": 2, "copy": 85, "new": 94, "set_base": 282, "set_handler": 304,
          "handler": 305}  # fmt: skip
_PYTHON = (
    "Py_IncRef",
    "Py_DecRef",
    "PyList_New",
    "PyList_Size",
    "PyErr_SetString",
    "PyErr_Format",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyMem_RawMalloc",
    "PyMem_RawFree",
    "PyGC_Disable",
    "PyGC_Enable",
    "PyType_GenericAlloc",
    "PyObject_CallOneArg",
    "PyObject_CallMethodObjArgs",
    "PyDict_SetItem",
    "PyList_SetSlice",
    "PyList_Append",
    "PyLong_AsLongLong",
    "PyErr_Occurred",
)


def _load(address: int) -> int:
    return int(ctypes.c_size_t.from_address(address).value)


def _numpy_table() -> dict[str, int]:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = get(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]
    return {f"numpy_{name}": _load(table + 8 * place) for name, place in _TABLE.items()}


def field(x: Any, name: str) -> int:
    """The word of an object at the offset of a field."""
    return _load(id(x) + FIELDS[name])


def _lies_as_expected() -> bool:
    """Whether objects look in memory as the offsets above say."""
    try:
        if ctypes.sizeof(ctypes.c_void_p) != 8 or not hasattr(ctypes, "pythonapi"):
            return False
        dense = np.zeros((3, 5), np.float32)
        rows = dense[:, ::2]
        rows.flags.writeable = False
        bent = np.frombuffer(b"123456789", np.uint8)[1:].view(np.float32)
        items: list[Any] = [dense, rows, bent, np.zeros(()), None]
        table = field(items, "items")
        numpy = _numpy_table()
        if _load(id(items) + 16) != 5 or field(items, "type") != id(list):
            return False
        for i, array in enumerate(items[:-1]):
            flags = field(array, "flags") & 0xFFFFFFFF
            expected = (array.flags.c_contiguous, array.flags.aligned, array.flags.writeable)
            if (
                _load(table + 8 * i) != id(array)
                or field(array, "type") != numpy["numpy_array_type"]
                or field(array, "data") != array.ctypes.data
                or (bool(flags & 1), bool(flags & 0x100), bool(flags & 0x400)) != expected
            ):
                return False
            sizes = field(array, "dims") if array.ndim else 0
            if (
                field(array, "dtype") != id(array.dtype)
                or field(array, "axes") & 0xFFFFFFFF != array.ndim
                or [_load(sizes + 8 * k) for k in range(array.ndim)] != list(array.shape)
                or field(array, "base") != (0 if array.base is None else id(array.base))
            ):
                return False
        if getrefcount(dense) - (_load(id(dense)) & 0xFFFFFFFF) not in (0, 1):
            return False
        own, number, weak = field(dense, "flags") & OWN, 0.3, ref(np.ndarray)
        if not own or field(dense, "handler") != id(_handler()):
            return False
        return (
            all(field(np.dtype(t), "itemsize") == np.dtype(t).itemsize for t in "?hfdD")
            and ctypes.c_double.from_address(id(number) + FIELDS["float"]).value == number
            and field(weak, "referent") == id(np.ndarray)
            and numpy["numpy_array_type"] == id(np.ndarray)
        )
    except (AttributeError, ValueError, TypeError):
        return False


def _handler() -> Any:
    """The capsule with NumPy's current memory handler, which arrays hold."""
    get = ctypes.PYFUNCTYPE(ctypes.py_object)(_numpy_table()["numpy_handler"])
    return get()


DIRECT = _lies_as_expected()


def symbols() -> dict[str, int]:
    """Names and addresses of what entries call: CPython's functions and NumPy's."""
    found = {name: _address(getattr(ctypes.pythonapi, name)) for name in _PYTHON}
    found["fx_none"] = id(None)
    found["fx_true"], found["fx_false"] = id(True), id(False)
    found["fx_float"], found["fx_long"] = id(float), id(int)
    found["fx_type_error"] = id(TypeError)
    found["fx_memory_error"] = id(MemoryError)
    found.update(_numpy_table())
    return found


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class _MethodDef(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_void_p),
        ("address", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_void_p),
    ]


_METH_O = 0x0008
_NAME = 64  # bytes of a builtin's name, with the zero at its end
_TAIL = ctypes.sizeof(_MethodDef) + _NAME


class Owner(np.ndarray):
    """The words that a builtin reads; ``keep`` holds what it calls.

    Behind the words there is room for the builtin's definition, which CPython reads until the
    builtin is gone. It cannot be kept by ``keep``: when both are parts of a circle the collector
    empties the attributes first.
    """

    keep: Any


def owner(words: int) -> Owner:
    """Words of zeros, as the ``self`` of a builtin."""
    return np.zeros(words + _TAIL // 8, np.uint64).view(Owner)


def builtin(name: str, address: int, me: Owner) -> Callable[[Any], Any]:
    """A Python function that is native code ``PyObject *address(PyObject *me, PyObject *arg)``.

    It holds ``me``, and ``me.keep`` holds the code.
    """
    tail = me.ctypes.data + me.nbytes - _TAIL
    text = tail + ctypes.sizeof(_MethodDef)
    written = name.encode()[: _NAME - 1]
    ctypes.memmove(text, written, len(written))
    definition = _MethodDef.from_address(tail)
    definition.name, definition.address, definition.flags = text, address, _METH_O
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    return make(tail, me, None)  # type: ignore[no-any-return]
