"""Blocks: context managers that are left whatever interrupts their entering or leaving.

A signal may raise as the first thing in ``__exit__``, or after ``__enter__`` has done its work;
Python then leaves the ``with`` statement without another call. What it always does is to let go of
the ``__exit__`` that it holds. So that is an object of its own, which nothing else holds, not even
the frames of a traceback, and whose end leaves the block if nothing else did.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import ref


class _Exit:
    """Gives a ``with`` statement an ``__exit__`` that nobody else holds."""

    def __get__(self, block: Any, kind: type | None = None) -> Callable[..., None]:
        if block is None:
            return _leave
        leaving = partial(_leave, block)
        depth = len(block._entries) - block._made_entered
        # an entry takes it along, and with that entry it is gone: then nothing is called
        block._watch = ref(leaving, partial(_ended, block, depth))
        return leaving


def _leave(block: Block, *error: object) -> None:
    block.leave()


def _ended(block: Block, depth: int, watch: Any) -> None:
    """The ``with`` statement is over: undo what it has left."""
    while len(block._entries) > depth:
        block.leave()


class Block:
    """A context manager, which may be entered again while it is.

    ``__enter__`` first adds an entry to ``_entries``, what ``leave`` needs and ``self._watch``, and
    then makes its change.
    """

    __slots__ = ("_entries", "_watch")
    _made_entered = 0  # entries that it is made with
    __exit__ = _Exit()
    _entries: tuple[tuple[Any, ...], ...]
    _watch: Any

    def leave(self) -> None:
        """Undo the newest entry: first the change, then take it from ``_entries``.

        It may be called again where it was interrupted.
        """
        raise NotImplementedError
