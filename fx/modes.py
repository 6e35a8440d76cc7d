"""State that all of fx asks for: what a thread is in the midst of, and the defaults."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

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
    joined: str | None = None  # the device to which whole tensors of the CPU follow others
    axes: tuple[Any, ...] = ()  # the running vmap levels that have a name, outermost first
    lanes: tuple[Any, ...] = ()  # what gives draws a lane: vmap levels, lane blocks (fx.random)
    turn: Any = None  # the innermost of several runs of a program that share draws (fx.random)
    journal: list[Any] | None = None  # of cells that are rebound, with what they held before
    transaction: Any = None  # that running loads take part in (fx.transaction)
    pulling: int = NEVER  # the number of the node whose pullback runs (fx.writing)
    views: int = False  # whether view primitives note what they give (fx.writing.views)
    level: int = 0  # of the innermost transform that runs in this thread
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
    copy: Any = None  # writes the values of a tensor into another: copy_
    stepped: Any = None  # called after an optimizer's step where there are some
    apart: bool = False  # whether a view may lie elsewhere than what it is a view of
    hosted: Any = None  # whether NumPy may write into the memory of an array


writing = _Writing()


class Defaults:
    """What new tensors are of, unless told."""

    dtype: np.dtype[Any] = np.dtype("float32")
    device: str = "cpu"


def default_dtype() -> np.dtype[Any]:
    """The dtype that a Python float and the creation functions take."""
    return Defaults.dtype


class Newest:
    """The transform that started last."""

    number: int = 0  # of its level, even; 0 before there was any


def newest_level() -> int:
    """The highest level that exists, the odd one of the newest transform."""
    return Newest.number + 1


def level_here() -> int:
    """What a cell that is made now is born with: the odd level of the innermost transform here.

    Those of other threads do not count: a cell that one makes while another stages a function comes
    from outside of that.
    """
    return modes.level + 1
