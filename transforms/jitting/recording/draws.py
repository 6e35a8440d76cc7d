"""Draws: calls whose results are of the moment, made again in each call of a compiled function.

Numbers of ``random`` and ``numpy.random`` and the time of clocks are inputs of a program. While a
function is staged each such call is written down with its arguments (``Again``), in order; each
later call makes the same calls in the same order, before the compiled code runs. A branch on a
number that was drawn is an assumption as any about numbers. If it does not hold, the generators are
put back to where the call has found them, and the program that serves draws the same numbers again.
"""

from __future__ import annotations

import builtins
import datetime
import math
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from fx.host_values import StagedValue
from fx.seen import TorchDType
from fx.staged_number import StagedNumber
from fx.transforms.jitting.guards.code import PLAIN
from fx.transforms.jitting.handled import PLAN, was_sent
from fx.transforms.jitting.recording.drawn import Drawn
from fx.transforms.jitting.recording.host import ERRORS
from fx.transforms.jitting.watching.impure import GENERATORS

STAGED = (StagedNumber, StagedValue)
_TIMES = (datetime.date, datetime.time, datetime.timedelta)
_FIXED = (*PLAIN, *_TIMES, np.generic, np.dtype, TorchDType, type, range)
_PURE = frozenset(
    getattr(builtins, name) for name in ("float", "int", "round", "abs", "min", "max", "sum", "pow")
) | frozenset(f for f in vars(math).values() if type(f) is BuiltinFunctionType)
_OF_NUMPY = frozenset(
    getattr(np, name)
    for name in (
        "clip", "mean", "sum", "min", "max", "argmin", "argmax", "argsort", "concatenate", "stack",
        "where", "prod", "cumsum", "round", "array", "asarray", "dot", "outer", "std", "var",
        "flip", "expand_dims", "squeeze", "reshape",
        "transpose", "tile", "repeat", "int64", "int32",
        "float32", "float64",
    )
)  # fmt: skip


class Unfit(Exception):
    """An argument that cannot be given again in another call."""


class _Slot:
    """In the place of a value that differs from call to call."""

    __slots__ = ("place",)

    def __init__(self, place: int) -> None:
        self.place = place

    def __repr__(self) -> str:
        return f"<{self.place}>"


class Again:
    """A call that is made again, with the same arguments save for those that are staged.

    Args:
        function: what is called.
        args: as at the call.
        kwargs: the same.

    Attributes:
        staged: the staged values among the arguments, which ``__call__`` takes.

    Raises:
        Unfit: if an argument cannot be given again.
    """

    __slots__ = ("_args", "_key", "_kwargs", "_plain", "function", "staged")

    def __init__(self, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        self.function = function
        self.staged: list[Any] = []
        self._args = tuple([self._kept(x) for x in args])
        self._kwargs = {k: self._kept(x) for k, x in kwargs.items()}
        self._plain = all(
            not isinstance(x, list | tuple | np.ndarray | _Slot)
            for x in (*self._args, *self._kwargs.values())
        )
        self._key = function, _key((self._args, self._kwargs))

    def _kept(self, x: Any) -> Any:
        if type(x) in STAGED:
            self.staged.append(x)
            return _Slot(len(self.staged) - 1)
        if type(x) is list or type(x) is tuple:
            return type(x)([self._kept(y) for y in x])
        if type(x) is np.ndarray and not x.dtype.hasobject:
            return x.copy()
        if isinstance(x, (*_FIXED, *GENERATORS)):
            return x
        raise Unfit(type(x).__name__)

    def __call__(self, *staged: Any) -> Any:
        if self._plain:
            return self.function(*self._args, **self._kwargs)

        def given(x: Any) -> Any:
            if type(x) is _Slot:
                return staged[x.place]
            if type(x) is np.ndarray:
                return x.copy()
            return type(x)([given(y) for y in x]) if type(x) is list or type(x) is tuple else x

        args = [given(x) for x in self._args]
        return self.function(*args, **{k: given(x) for k, x in self._kwargs.items()})

    def __eq__(self, other: object) -> bool:
        return type(other) is Again and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _key(x: Any) -> Any:
    """An argument as a key: an array by its elements, since its text leaves most of them out."""
    if type(x) is list or type(x) is tuple:
        return type(x), *[_key(y) for y in x]
    if type(x) is dict:
        return tuple([(name, _key(y)) for name, y in x.items()])
    if type(x) is np.ndarray:
        return x.shape, x.dtype, x.tobytes()
    return repr(x)


def is_pure(f: Any) -> bool:
    """Whether a function of numbers and arrays gives nothing but its result."""
    try:
        return f in _PURE or f in _OF_NUMPY or type(f) is np.ufunc
    except TypeError:  # it has no hash
        return False


def holds_staged(x: Any, deep: int = 2) -> bool:
    """Whether a value is staged, or a short list has staged values."""
    if type(x) is list or type(x) is tuple:
        return deep > 0 and len(x) <= 64 and any(holds_staged(y, deep - 1) for y in x)
    return type(x) in STAGED


def serves(program: Any, numbers: Sequence[Any], signature: Any) -> bool:
    """Whether what a program assumes of numbers holds, those that it draws among them.

    If it does the signature keeps what was drawn, else nothing was.
    """
    drawn = Drawn()
    drawn.note(program.table.generators)
    try:
        held = all(p.holds(numbers, drawn.values) for p in program.predicates)
    except BaseException:
        drawn.put_back()
        raise
    if held:
        signature.drawn = drawn
    else:
        drawn.put_back()
    return held


def drawing(
    program: Any, wanted: Sequence[tuple[int, Any]], given: Sequence[int]
) -> Callable[[tuple[Any, ...]], tuple[Any, Any] | None]:
    """What a short way draws and computes: ``(numbers) -> (made, drawn)``, or None for a miss."""
    table, generators = program.table, tuple(program.table.generators)
    compute = table.function(
        wanted, given, len(program.numbers), tuple(program.predicates), program.root.drawn
    )

    def draw(numbers: tuple[Any, ...]) -> tuple[Any, Any] | None:
        drawn = Drawn()
        drawn.note(generators)
        try:
            made = compute(*numbers)
        except BaseException as error:
            drawn.put_back()
            if isinstance(error, ERRORS) and not was_sent(error):
                return None
            raise
        if made is None:
            drawn.put_back()
            return None
        return made, drawn

    return draw


def put_back_of(error: BaseException) -> None:
    """Put back what a short way has drawn before it raised an error."""
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        drawn = frame.f_locals.get("drawn") if frame.f_code.co_filename.startswith(PLAN) else None
        if type(drawn) is Drawn:
            drawn.put_back()
        trace = trace.tb_next
