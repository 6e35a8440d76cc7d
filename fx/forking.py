"""Forking: a child finds every lock of the library free, and nothing half done behind it.

A forked process has the one thread that forked. A lock that another thread held then is held for
ever, and what it was doing stays as it is. So whoever makes a lock registers it here. Those that
are held for an instant are taken before the fork, in the order of their making, and nothing is half
done. Those that may be held for long, while a function is compiled, are new in the child; what they
guard must bear to be left at any point. LLVM's own locks cannot be seen: a fork waits until no
thread is in its code, and none enters.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any
from weakref import WeakSet

_PATIENCE = 5.0  # seconds for a lock; then it is new in the child, too
_instant: dict[int, WeakSet[Any]] = {}  # by number, so that the order is that of their making
_long: WeakSet[Any] = WeakSet()
_inside: list[None] = []  # an entry for each thread in LLVM's code
_gate = threading.Lock()  # held while a fork goes on
_taken: list[Any] = []  # by the fork that goes on
_before: list[Callable[[], None]] = []
_after: list[Callable[[], None]] = []
_in_child: list[Callable[[], None]] = []


def instant(lock: Any) -> Any:
    """The lock, which is taken before a fork: nobody holds it for long."""
    _instant[len(_instant)] = WeakSet([lock])
    return lock


def lasting(lock: Any) -> Any:
    """The lock, which is new in a forked child."""
    _long.add(lock)
    return lock


def around(before: Callable[[], None], after: Callable[[], None]) -> None:
    """Call functions before a fork, and after it in both processes."""
    _before.append(before)
    _after.append(after)


def in_child(function: Callable[[], None]) -> None:
    """Call a function in each forked child."""
    _in_child.append(function)


def in_llvm(function: Callable[..., Any], *args: Any) -> Any:
    """Call LLVM: no fork goes on meanwhile."""
    with _gate:
        _inside.append(None)
    try:
        return function(*args)
    finally:
        _inside.pop()


def _prepare() -> None:
    for number, kept in list(_instant.items()):
        for lock in list(kept):
            if lock.acquire(timeout=_PATIENCE):
                _taken.append(lock)
        if not kept:
            _instant.pop(number, None)
    if _gate.acquire(timeout=_PATIENCE):
        _taken.append(_gate)
    end = monotonic() + _PATIENCE
    while _inside and monotonic() < end:
        sleep(1e-4)
    for function in _before:
        function()


def _release() -> None:
    for function in _after:
        function()
    while _taken:
        _taken.pop().release()


def _renew() -> None:
    _taken.clear()
    _inside.clear()
    locks = [lock for kept in _instant.values() for lock in kept]
    for lock in (_gate, *locks, *_long):
        lock._at_fork_reinit()
    for function in (*_after, *_in_child):
        function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_prepare, after_in_parent=_release, after_in_child=_renew)
