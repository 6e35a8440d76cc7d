"""Impure calls: functions in C whose results are not those of their arguments alone.

Clocks, randomness of the operating system, files, the terminal, other processes and threads: what
they give is of the moment. Python code of libraries is not listed, since its own calls are seen.
"""

from __future__ import annotations

import datetime
import random
import sys
from contextvars import ContextVar
from threading import Lock, RLock
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

import numpy as np

_OF_THE_MOMENT = {
    "time": "the clock",
    "posix": "the operating system",
    "nt": "the operating system",
    "io": "a file",
    "_io": "a file",
    "_socket": "the network",
    "select": "the network",
    "_ssl": "the network",
    "_uuid": "randomness of the operating system",
    "_random": "random numbers",
    "_posixsubprocess": "another process",
    "mmap": "a file",
    "resource": "the operating system",
    "_sqlite3": "a database",
    "_signal": "the handlers of signals",
}
_PURE = frozenset((
    "fspath", "_path_normpath", "strerror", "text_encoding", "cpu_count", "_path_splitroot",
    "gmtime", "mktime", "strftime", "strptime", "asctime", "StringIO", "BytesIO", "get_clock_info",
    "getpid", "fsencode", "fsdecode", "_path_isdir", "register_at_fork", "WIFEXITED",
    "raise_signal",
))  # fmt: skip
_THREADS = frozenset(("start_new_thread", "start_new", "start_joinable_thread"))
_QUESTIONS = frozenset(("input", "breakpoint"))
_OF_MEMORY = frozenset((
    ("sys", "getrefcount"), ("sys", "getallocatedblocks"), ("gc", "get_count"),
    ("gc", "get_objects"), ("gc", "get_referrers"), ("gc", "get_stats"),
    ("_weakref", "getweakrefcount"), ("_weakref", "getweakrefs"),
))  # fmt: skip
_NOWS = frozenset(("now", "utcnow", "today"))
_MAKERS = (random.Random, np.random.RandomState, np.random.Generator, np.random.SeedSequence)
GENERATORS = (random.Random, np.random.RandomState, np.random.Generator)
DRAWN_FROM = (random.Random, random.SystemRandom, np.random.RandomState, np.random.Generator)
"""Classes of generators that compiled functions draw from; those of the user's do as they do."""
_OF_NUMPY = {id(f): np.random.mtrand._rand for f in (np.random.seed,)}  # type: ignore[attr-defined]


def moment_of(f: Any, args: list[Any], given: bool) -> str | None:
    """What a call asks the outside for, in words; None if its result is that of its arguments.

    Args:
        f: what is called.
        args: its positional arguments, as far as they are known.
        given: whether it has any.
    """
    if isinstance(f, type):
        if (issubclass(f, _MAKERS) and f is not np.random.Generator) and _unseeded(args, given):
            return "randomness of the operating system"
        return None
    name = getattr(f, "__name__", "")
    if name == "default_rng" and f is np.random.default_rng and _unseeded(args, given):
        return "randomness of the operating system"
    if type(f) is not BuiltinMethodType:
        return None
    owner = f.__self__
    if isinstance(owner, type):
        if issubclass(owner, datetime.date) and name in _NOWS:
            return "the clock"
        return None
    module = f.__module__ or ""
    if module in _OF_THE_MOMENT and not isinstance(owner, type) and name not in _PURE:
        return _OF_THE_MOMENT[module]
    if module == "_thread" and name in _THREADS:
        return "another thread"
    if module == "builtins" and name in _QUESTIONS:
        return "the terminal"
    if (module, name) in _OF_MEMORY:
        return "what lies in memory"
    return None


_ASKED = frozenset((
    ("_thread", "get_ident"), ("_thread", "get_native_id"), ("gc", "get_threshold"),
    ("gc", "get_debug"), ("logging", "getLogger"), ("logging", "isEnabledFor"),
    ("logging", "getEffectiveLevel"), ("logging", "hasHandlers"), ("threading", "active_count"),
    ("gc", "isenabled"), ("sys", "getrecursionlimit"), ("sys", "getswitchinterval"),
    ("sys", "getdefaultencoding"), ("numpy", "geterr"), ("numpy", "geterrcall"),
    ("numpy", "getbufsize"), ("numpy", "get_printoptions"),
))  # fmt: skip


_OF_FX = ("get_", "is_", "are_", "initial_seed")
_WHICH_THREAD = frozenset((
    "current_thread", "currentThread", "main_thread", "enumerate", "get_running_loop",
    "current_task",
))  # fmt: skip
LOCKS = (type(Lock()), type(RLock()))


def asks_which_thread(f: Any) -> bool:
    """Whether a function of a library gives what belongs to the thread that calls it."""
    module = getattr(f, "__module__", None) or ""
    return module in ("threading", "asyncio.tasks", "_asyncio") and f.__name__ in _WHICH_THREAD


def tells_setting(f: Any, given: bool) -> bool:
    """Whether a function of fx tells a setting of the process, as ``get_num_threads()``."""
    return not given and f.__name__.startswith(_OF_FX) and f.__name__ != "get_rng_state"


def is_imported(name: str) -> bool:
    """Whether there is a module of a name."""
    return name in sys.modules


def is_asked(f: Any) -> bool:
    """Whether a function of a library tells plain state that is not that of its arguments."""
    return (getattr(f, "__module__", None), getattr(f, "__name__", "")) in _ASKED


def is_of_numpy(f: Any) -> bool:
    """Whether what is called, or worked on, is NumPy's and obeys its settings: dtypes do not."""
    if isinstance(f, np.dtype):
        return False
    module = getattr(f, "__module__", None) if isinstance(f, FunctionType) else None
    return (module or type(f).__module__).partition(".")[0] == "numpy"


def numpy_settings() -> str:
    """What NumPy does where a result is not finite, and how it shows arrays.

    One text, since guards look at every item of what they ask for, in each call.
    """
    global _seen
    errors, options = _ERRORS.get(), _PRINTING()
    if errors is not _seen[0] or options is not _seen[1]:  # what is set is another object
        _seen = errors, options, f"{np.geterr()} {options}"
    return _seen[2]


_seen: tuple[object, object, str] = (None, None, "")
# what holds the options, which ``get_printoptions`` copies; before NumPy 2.2 nothing does
_PRINTING: Any = getattr(sys.modules.get("numpy._core.printoptions"), "format_options", None)
_PRINTING = np.get_printoptions if _PRINTING is None else _PRINTING.get
_ERRORS: ContextVar[object] = np._core.umath._extobj_contextvar  # type: ignore[attr-defined]


def is_clock(f: Any) -> bool:
    """Whether a call that asks the clock gives a number or a time, and does nothing else."""
    if isinstance(getattr(f, "__self__", None), type):
        return True
    return getattr(f, "__module__", "") == "time" and f.__name__ not in ("sleep", "tzset")


def is_maker(f: Any) -> bool:
    """Whether a call makes a random generator."""
    return f is np.random.default_rng or (isinstance(f, type) and issubclass(f, _MAKERS))


def generator_of(f: Any) -> Any:
    """The random generator whose method is called; None for other calls."""
    if id(f) in _OF_NUMPY:
        return _OF_NUMPY[id(f)]
    if type(f) is MethodType or type(f) is BuiltinMethodType or hasattr(f, "__self__"):
        owner = f.__self__
        if isinstance(owner, GENERATORS):
            return owner
    return None


def state_of(generator: Any) -> Any:
    """A function that puts a random generator back to where it is."""
    if isinstance(generator, random.Random):
        try:
            state: Any = generator.getstate()
        except NotImplementedError:  # SystemRandom
            return lambda: None
        return lambda: generator.setstate(state)
    if isinstance(generator, np.random.RandomState):
        state = generator.get_state()
        return lambda: generator.set_state(state)
    bits = generator.bit_generator
    state = bits.state
    return lambda: setattr(bits, "state", state)


def _unseeded(args: list[Any], given: bool) -> bool:
    return not given or (len(args) == 1 and args[0] is None)


QUIET = frozenset((
    "logging", "warnings", "linecache", "traceback", "tokenize", "importlib", "inspect", "re",
    "abc", "typing", "enum", "numpy", "codecs", "encodings", "sre_compile",
    "sre_parse", "ast", "dis", "threading", "queue",
))  # fmt: skip
"""Libraries whose Python code is not looked into: their state is theirs, and they say, not ask."""
