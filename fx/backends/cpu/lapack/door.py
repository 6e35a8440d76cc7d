"""The one door to LAPACK and BLAS: functions of SciPy's by address, and the threads they run on.

SciPy's OpenBLAS spreads what it computes over all cores, with other last digits for another number
of them. A kernel that calls it holds it to the calling thread meanwhile (``enter`` and ``leave`` in
``irregular/lapack.py``), and spreads whole matrices over the cores itself. The words of
``threads()`` are a lock, how many are inside, what the setting was, and where it is read and set;
who is last out puts it back.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import cache
from importlib import import_module

import numpy as np

LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
_BLAS = frozenset(("gemm", "trsm"))
# what complex matrices have in place of it
_COMPLEX = {"syevd": "heevd", "orgqr": "ungqr", "orglq": "unglq", "ormqr": "unmqr"}
ROUTINES = (
    "potrf", "gesv", "getrf", "geqrf", "orgqr", "ormqr", "gelqf", "orglq", "geqp3", "syevd",
    "geev", "gesdd", "gelsd", "gelsy", *_BLAS,
)  # fmt: skip

THREADS = "fx.lapack.threads"  # what compiled code calls the words
_words = np.zeros(5, np.int64)


def name_of(routine: str, char: str) -> str:
    """LAPACK's name of a routine for elements of NumPy's ``char``."""
    return LETTERS[char] + (_COMPLEX.get(routine, routine) if char in "FD" else routine)


def external(routine: str, char: str) -> str:
    """What compiled code calls it."""
    return f"fx.lapack.{name_of(routine, char)}"


@cache
def address(routine: str, char: str) -> int:
    """Where a routine is in this process."""
    return finder(routine, char)()


def finder(routine: str, char: str) -> Callable[[], int]:
    """What finds it; the library is loaded only then."""
    module = "scipy.linalg.cython_" + ("blas" if routine in _BLAS else "lapack")

    def found() -> int:
        from fx.backends.cpu.llvm import externals

        threads()
        return externals.of_capsules(module, "__pyx_capi__", name_of(routine, char))()

    return found


@cache
def threads() -> np.ndarray:
    """The words of the setting of SciPy's OpenBLAS; without addresses where it has none."""
    module = import_module("scipy.linalg.cython_blas")
    library = ctypes.CDLL(module.__file__)
    for prefix in ("scipy_openblas", "openblas"):
        get = getattr(library, f"{prefix}_get_num_threads", None)
        put = getattr(library, f"{prefix}_set_num_threads", None)
        if get is not None and put is not None:
            _words[-2:] = [ctypes.cast(f, ctypes.c_void_p).value for f in (get, put)]
            break
    return _words


def _after_fork() -> None:
    """Another thread of the parent may have been inside."""
    _words[:2] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
