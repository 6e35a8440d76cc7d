"""Settings: the thread-local modes of recording, and the defaults that a user may change.

Grad mode is one number. ``no_grad`` disables recording on every tape whose level is at most
``barrier``, the newest level that existed when it was entered; a transform that starts later owns a
higher level and records. So ``no_grad`` around ``grad(f)(x)`` leaves the transform alone, and
inside ``f`` it is respected.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import wraps
from inspect import isgeneratorfunction
from typing import Any

from fx import dtypes
from fx.blocks import Block
from fx.errors import DTypeError
from fx.modes import ENABLED as ENABLED
from fx.modes import NEVER as NEVER
from fx.modes import Defaults, newest_level
from fx.modes import default_dtype as default_dtype
from fx.modes import modes as modes
from fx.modes import writing as writing


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
            if not modes.inference or self.inference is False:  # which nothing else lifts
                set_modes(ENABLED, ENABLED)
        else:
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
    Defaults.dtype = found


def default_device() -> str:
    """The device of new tensors in this thread."""
    return modes.device or Defaults.device


_plain: list[Callable[[bool], None]] = []  # what makes jitted functions run so, or compiled


def run_plainly(plainly: bool) -> None:
    """Let every call of a jitted function run the function itself; or compiled, as at first."""
    for make in _plain:
        make(plainly)


def on_plain(make: Callable[[bool], None]) -> Callable[[bool], None]:
    """Name what ``run_plainly`` calls: jit stands above those who want this."""
    _plain.append(make)
    return make
