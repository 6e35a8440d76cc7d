"""The only door to MPI: started so that any thread may call it, and what arrays are to it.

MPICH comes through mpi4py (both are wheels: ``pip install 'fxgrad[dist]'``). Communicators are
values of ``mpi4py.MPI``; native code gets their handles and the addresses of MPI's functions. A
wait here polls: it ends in time, Ctrl-C ends it, and other threads run meanwhile.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Mapping
from functools import cache
from math import inf
from time import perf_counter, sleep
from typing import Any

import numpy as np

import fx.dtypes as dtypes
from fx.distributed.errors import DistBackendError

_MPI: Any = None  # mpi4py.MPI, once it is started
_alone = False  # whether no launcher waits for this process
_failed = False  # whether an exception ended this process
_SHARED = "/dev/shm/mpich_shm_"
PIP = "pip install 'fxgrad[dist]'"


def start(variables: Mapping[str, str] | None = None) -> Any:
    """``mpi4py.MPI``; the first call initialises MPI.

    Args:
        variables: those by which it finds the other ranks, where no launcher has set them. They
            are not left in the environment, so that programs which this one starts are their own.

    Raises:
        DistBackendError: if mpi4py or MPICH is not installed, or MPI is there without threads.
    """
    global _MPI, _alone
    if _MPI is not None:
        return _MPI
    _alone = variables is not None
    os.environ.update(variables or {})
    try:
        import mpi4py

        if "mpi4py.MPI" not in sys.modules:
            mpi4py.rc.initialize = False
            mpi4py.rc.finalize = False  # `_end` does it, where nobody failed
        from mpi4py import MPI

        if not MPI.Is_initialized():
            _initialize(MPI)
    except (ImportError, RuntimeError) as error:
        raise DistBackendError(f"there is no MPI here ({error}); write {PIP}") from None
    finally:
        for name in variables or ():
            os.environ.pop(name, None)
    if MPI.Query_thread() != MPI.THREAD_MULTIPLE:
        raise DistBackendError(
            "MPI was started without threads before fx.distributed came; write "
            "`import mpi4py; mpi4py.rc.thread_level = 'multiple'` first"
        )
    _MPI = MPI
    _watch_failures()
    atexit.register(_end)
    return MPI


def _initialize(MPI: Any) -> None:
    """Start MPI with threads, which waits for all ranks.

    mpi4py would hold Python's lock meanwhile, and a thread of this process may serve the store by
    which the others find their way here.
    """
    provided = ctypes.byref(ctypes.c_int())
    ctypes.CDLL(MPI.__file__).MPI_Init_thread(None, None, MPI.THREAD_MULTIPLE, provided)
    for comm in (MPI.COMM_SELF, MPI.COMM_WORLD):
        comm.Set_errhandler(MPI.ERRORS_RETURN)  # which mpi4py raises
    MPI.COMM_WORLD.Barrier()  # it lets others run; behind it all have mapped what they share
    _forget_files()


def _forget_files() -> None:
    """Take away the names of the memory that ranks share: it lasts as long as they do.

    MPICH does so in ``MPI_Finalize``, to which a rank that is killed or leaves alone does not come.
    """
    with contextlib.suppress(OSError), open("/proc/self/maps") as maps:
        for path in {line.split()[-1] for line in maps if _SHARED in line}:
            if not path.endswith("(deleted)"):
                with contextlib.suppress(FileNotFoundError):  # another rank was first
                    os.unlink(path)


def is_available() -> bool:
    """Whether MPI can be started: both packages are installed."""
    from importlib.util import find_spec

    return _MPI is not None or find_spec("mpi4py") is not None


def is_started() -> bool:
    """Whether this process is part of a world."""
    return _MPI is not None


def is_launched() -> bool:
    """Whether a launcher has said which rank this process is (mpiexec, srun, ``fx.run``)."""
    return "PMI_RANK" in os.environ or "PMIX_RANK" in os.environ


def _watch_failures() -> None:
    before = sys.excepthook

    def hook(kind: Any, error: Any, trace: Any) -> None:
        global _failed
        _failed = True
        before(kind, error, trace)

    sys.excepthook = hook


def _end() -> None:
    """Leave the world as others expect it.

    ``MPI_Finalize`` waits for all. A rank that fails must not wait: the launcher sees its death and
    ends the others. Without a launcher, and under ``fx.run``, ranks leave one by one; other
    launchers take that for a death.
    """
    if _failed or _alone or os.environ.get("FX_RUN") or _MPI.COMM_WORLD.size == 1:
        return
    if not _MPI.Is_finalized():
        _MPI.Finalize()


# what arrays and operations are -------------------------------------------------------------------


_DATATYPES = {
    dtypes.bool_: "C_BOOL",
    dtypes.int8: "INT8_T",
    dtypes.int16: "INT16_T",
    dtypes.int32: "INT32_T",
    dtypes.int64: "INT64_T",
    dtypes.uint8: "UINT8_T",
    dtypes.uint16: "UINT16_T",
    dtypes.uint32: "UINT32_T",
    dtypes.uint64: "UINT64_T",
    dtypes.float32: "FLOAT",
    dtypes.float64: "DOUBLE",
    dtypes.complex64: "C_FLOAT_COMPLEX",
    dtypes.complex128: "C_DOUBLE_COMPLEX",
}
_OPERATIONS = {
    "sum": "SUM",
    "prod": "PROD",
    "min": "MIN",
    "max": "MAX",
    "band": "BAND",
    "bor": "BOR",
    "bxor": "BXOR",
}
_OF_BOOLS = {
    "sum": "LOR",
    "max": "LOR",
    "bor": "LOR",
    "prod": "LAND",
    "min": "LAND",
    "band": "LAND",
    "bxor": "LXOR",
}


@cache
def datatype(dtype: Any) -> Any:
    """The ``MPI.Datatype`` of a dtype that MPI computes with; None for the floats of 16 bits."""
    name = _DATATYPES.get(dtype)
    return None if name is None else getattr(start(), name)


@cache
def operation(name: str, dtype: Any) -> Any:
    """The ``MPI.Op`` of a reduction; None where MPI has none for the dtype.

    Bools are added as truth values.
    """
    if datatype(dtype) is None:
        return None
    if dtype in dtypes.COMPLEX and name not in ("sum", "prod"):
        return None
    if dtype in dtypes.FLOATING and name in ("band", "bor", "bxor"):
        return None
    if dtype in dtypes.FLOATING and name in ("min", "max"):
        return _with_nan(name)
    found = (_OF_BOOLS if dtype == dtypes.bool_ else _OPERATIONS).get(name)
    return None if found is None else getattr(start(), found)


@cache
def _with_nan(name: str) -> Any:
    """The ``MPI.Op`` of ``min`` or ``max`` that NaN wins: MPI's own loses it in some orders."""
    MPI = start()
    pick: Any = np.minimum if name == "min" else np.maximum

    def reduce(given: Any, kept: Any, datatype: Any) -> None:
        dtype = np.float32 if datatype.Get_size() == 4 else np.float64
        into = np.frombuffer(kept, dtype)
        pick(np.frombuffer(given, dtype), into, out=into)

    return MPI.Op.Create(reduce, commute=True)


def buffer(array: np.ndarray[Any, Any]) -> list[Any]:
    """An array whose elements lie in a row, as a message that MPI computes with.

    MPI counts its elements: a count that is given would be that of one rank's part.
    """
    return [_bytes(array), datatype(array.dtype)]


def raw(array: np.ndarray[Any, Any]) -> list[Any]:
    """An array whose elements lie in a row, as a message of bytes: of any dtype."""
    return [_bytes(array), start().BYTE]


def _bytes(array: np.ndarray[Any, Any]) -> Any:
    """The memory of an array, without a copy."""
    return array.reshape(-1).view(np.uint8)  # bfloat16 and read-only arrays too


# what native code needs ---------------------------------------------------------------------------


def handle(thing: Any) -> int:
    """The number that C has for a communicator, datatype or operation of ``mpi4py.MPI``."""
    return start()._handleof(thing)  # type: ignore[no-any-return]


@cache
def address(name: str) -> int:
    """Where a function of MPI lies, ``"MPI_Allreduce"``."""
    MPI = start()
    library = ctypes.CDLL(MPI.__file__)  # its symbols are those of the libmpi that it is linked to
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0


# waiting ------------------------------------------------------------------------------------------

_SPINS = 20  # polls, of some 0.2 µs, before the core is left to others between them
_WORKED = 3e-6  # seconds; a poll that took longer has moved bytes, or comes first after a nap
_YIELDS = 2e-4  # seconds without a byte, before it sleeps between polls
_NAP, _LONGEST = 2e-5, 1e-3  # seconds of the first naps, and of those in a long wait
_SHARE = 1 / 64  # of the time without a byte, which a nap may add
_leave: Callable[[], None] = getattr(os, "sched_yield", lambda: sleep(0))


def wait(test: Callable[[], Any], timeout: float | None) -> bool:
    """Poll until ``test()`` holds; False if it does not in time (seconds; None: for ever).

    Others who want the core get it between two polls; who sleeps is woken some 50 µs late. Naps
    grow with the wait: at 20 µs each, who waits for one that compiles takes a tenth of a core.
    """
    for _ in range(_SPINS):
        if test():
            return True
    moved = perf_counter()
    end = inf if timeout is None else moved + timeout
    woken = False
    while True:
        began = perf_counter()
        if test():
            return True
        now = perf_counter()
        if now > end:
            return False
        if now - began > _WORKED:
            moved = moved if woken else now
            woken = False
        elif now - moved < _YIELDS:
            _leave()
        else:
            sleep(min(max(_SHARE * (now - moved), _NAP), _LONGEST))
            woken = True
