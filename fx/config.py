"""Settings: the thread-local modes of recording, and the defaults that a user may change.

Grad mode is one number. ``no_grad`` disables recording on every tape whose level is at most
``barrier``, the newest level that existed when it was entered; a transform that starts later owns a
higher level and records. So ``no_grad`` around ``grad(f)(x)`` leaves the transform alone, and
inside ``f`` it is respected.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any

from fx import dtypes
from fx.blocks import Block
from fx.errors import DTypeError

NEVER = 1 << 62  # after every node of the tape
ENABLED = -1  # a barrier below every level: everything records


class _Modes(threading.local):
    """What each thread has for itself."""

    barrier: int = ENABLED  # tapes of a level <= barrier do not record
    silent: int = ENABLED  # the level above 0 whose tape the running backward pass keeps silent
    record0: bool = True  # whether the level-0 tape records: barrier < 0, asked at every recording
    inference: bool = False
    autocast: Any = None  # the half-precision dtype of the innermost region (fx.amp)
    device: str | None = None
    axes: tuple[Any, ...] = ()  # the running vmap levels that have a name, outermost first
    lanes: tuple[Any, ...] = ()  # what gives draws a lane: vmap levels, lane blocks (fx.random)
    turn: Any = None  # the innermost of several runs of a program that share draws (fx.random)
    journal: list[Any] | None = None  # of cells that are rebound, with what they held before
    transaction: Any = None  # that running loads take part in (fx.transaction)
    pulling: int = NEVER  # the number of the node whose pullback runs (fx.writing)
    views: int = False  # whether view primitives note what they give (fx.writing.views)
    stage: Any = None  # of the function that is being staged (fx.graph.staging)

    def __init__(self) -> None:  # in every thread: its ``__dict__`` holds all of them
        self.__dict__.update({name: getattr(_Modes, name) for name in _Modes.__annotations__})


modes = _Modes()


class _Writing:
    """Whether this process may write into plain tensors, and whether it has (fx.writing)."""

    enabled: bool = False
    started: bool = False
    note: Any = None  # notes that a tensor, just made, is a view of another
    moved: Any = None  # until then: called with a tensor and what a reshape gave that moved it
    elsewhere: Any = None  # until then: notes a view that has memory of its own
    watched: Any = None  # families of parameters whose views a step may have to tell
    summed: Any = None  # where the sum of a gradient that was written and another is stored
    stepped: Any = None  # called after an optimizer's step where there are some
    apart: bool = False  # whether a view may lie elsewhere than what it is a view of
    hosted: Any = None  # whether NumPy may write into the memory of an array


writing = _Writing()


class _Defaults:
    dtype: dtypes.DType[Any] = dtypes.float32
    device: str = "cpu"


def set_modes(barrier: int, silent: int) -> None:
    """Set grad mode of this thread; ``record0`` follows."""
    modes.barrier = barrier
    modes.silent = silent
    modes.record0 = barrier < 0


class _GradMode(Block):
    """A context manager and decorator that sets the barrier."""

    enable: bool = False
    inference: bool | None = None

    __slots__ = ()

    def __enter__(self) -> None:
        saved = (modes.barrier, modes.silent, modes.inference, self._watch)
        self._watch = None
        self._entries = (*self._entries, saved)
        if self.enable:  # within a running backward pass too, as a hand-written checkpoint needs
            set_modes(ENABLED, ENABLED)
        else:
            from fx.levels import newest_level

            set_modes(newest_level(), modes.silent)
        if self.inference is not None:
            modes.inference = self.inference

    def leave(self) -> None:
        barrier, modes.silent, modes.inference, _ = self._entries[-1]
        modes.barrier = barrier
        modes.record0 = barrier < 0
        self._entries = self._entries[:-1]

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        kind = type(self)
        if isgeneratorfunction(function):
            return _while_running(kind, function)

        @wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with kind():
                return function(*args, **kwargs)

        return wrapped

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        self = super().__new__(cls)
        self._entries, self._watch = (), None
        return self if function is None else self(function)

    def __init__(self, function: Callable[..., Any] | None = None) -> None: ...


def _while_running(
    mode: Callable[[], Any], function: Callable[..., Any]
) -> Callable[..., Generator[Any, Any, Any]]:
    """A generator function in a mode while it runs, and out of it wherever it yields."""

    @wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        with mode():
            generator = function(*args, **kwargs)
        step, sent = generator.send, None
        while True:
            try:
                with mode():
                    item = step(sent)
            except StopIteration as stop:
                return stop.value
            try:
                sent = yield item
                step = generator.send
            except GeneratorExit:
                with mode():
                    generator.close()
                raise
            except BaseException as error:
                step, sent = generator.throw, error

    return wrapped


class no_grad(_GradMode):
    """Record nothing inside the block: a context manager and a decorator, as in PyTorch.

    Example:
        >>> import fx
        >>> x = fx.ones(2, requires_grad=True)
        >>> with fx.no_grad():
        ...     (x * 2).requires_grad
        False
    """

    __slots__ = ()


class enable_grad(_GradMode):
    """Record inside the block, also within ``no_grad``: a context manager and a decorator."""

    __slots__ = ()
    enable = True


class inference_mode(_GradMode):
    """``no_grad``, and ``fx.is_inference_mode_enabled()`` says so.

    Tensors never change, so a tensor made here may be used in recorded work afterwards: there is no
    version counter to protect.
    """

    __slots__ = ()
    inference = True

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        if mode is False:  # PyTorch's way to switch it by an argument
            return _leave_inference()
        return super().__new__(cls, None if mode is True else mode)

    def __init__(self, mode: bool | Callable[..., Any] = True) -> None: ...


class _leave_inference(_GradMode):
    """``inference_mode(False)``."""

    __slots__ = ()
    enable = True
    inference = False


class set_grad_enabled(_GradMode):
    """Switch recording on or off, at once or for a ``with`` block, as in PyTorch."""

    __slots__ = ()
    _made_entered = 1

    def __new__(cls, mode: bool) -> Any:
        self = object.__new__(cls)
        self._entries, self._watch = (), None
        return self

    def __init__(self, mode: bool) -> None:
        before = (modes.barrier, modes.silent, modes.inference, None)
        (enable_grad() if mode else no_grad()).__enter__()
        self._entries = (before,)

    def __enter__(self) -> None:
        self._entries = (*self._entries[:-1], (*self._entries[-1][:-1], self._watch))
        self._watch = None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        enabled = is_grad_enabled()
        self.leave()
        return (enable_grad if enabled else no_grad)(function)


def is_grad_enabled() -> bool:
    """Whether operations on tensors that require grad are recorded in this thread.

    Example:
        >>> import fx
        >>> with fx.no_grad():
        ...     fx.is_grad_enabled()
        False
    """
    return modes.barrier < 0


def is_inference_mode_enabled() -> bool:
    """Whether an ``inference_mode`` block is running in this thread.

    Example:
        >>> import fx
        >>> with fx.inference_mode():
        ...     fx.is_inference_mode_enabled()
        True
    """
    return modes.inference


def default_dtype() -> dtypes.DType[Any]:
    """The dtype that a Python float and the creation functions take."""
    return _Defaults.dtype


def set_default_dtype(dtype: Any) -> None:
    """Set the floating dtype that Python floats and creation functions take.

    Raises:
        DTypeError: if ``dtype`` is not floating.

    Example:
        >>> import fx
        >>> fx.set_default_dtype(fx.float64)
        >>> fx.tensor(1.5).dtype.name
        'float64'
        >>> fx.set_default_dtype(fx.float32)
    """
    found = dtypes.as_dtype(dtype)
    if found not in dtypes.FLOATING:
        raise DTypeError(f"the default dtype must be floating, got {found.name}")
    _Defaults.dtype = found


def default_device() -> str:
    """The device of new tensors in this thread."""
    return modes.device or _Defaults.device


def set_default_device(device: Any) -> None:
    """Set the device of new tensors, for all threads.

    Example:
        >>> import fx
        >>> fx.set_default_device("meta")
        >>> fx.zeros(3).device
        device(type='meta')
        >>> fx.set_default_device("cpu")
    """
    from fx.devices import as_device

    _Defaults.device = as_device(device).name


_plain: list[Callable[[bool], None]] = []  # what makes jitted functions run so, or compiled


def run_plainly(plainly: bool) -> None:
    """Let every call of a jitted function run the function itself; or compiled, as at first."""
    for make in _plain:
        make(plainly)


def on_plain(make: Callable[[bool], None]) -> Callable[[bool], None]:
    """Name what ``run_plainly`` calls: jit stands above those who want this."""
    _plain.append(make)
    return make
