"""Forking: a child finds every lock of the library free, and nothing half done behind it.

A forked process has the one thread that forked. A lock that another thread held then is held for
ever, and what it was doing stays as it is. So whoever makes a lock registers it here. Those that
are held for an instant are taken before the fork, in the order of their making, and nothing is half
done. Those that may be held for long, while a function is compiled, are new in the child; what they
guard must bear to be left at any point. LLVM's own locks cannot be seen: a fork waits until no
thread is in its code, and none enters. Nor does Python free the locks of modules that other threads
are importing, in which the child would wait for ever: a fork waits until none is.
"""

from __future__ import annotations

import _imp
import concurrent.futures.thread  # noqa: F401  # and logging: see _modules
import os
import sys
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
# What takes a lock around forks must not be imported first while one waits here: Python would give
# back a lock that it has not taken. In the standard library these are the two imported above.
_modules: dict[str, Any] = getattr(sys.modules["_frozen_importlib"], "_module_locks", {})
_endless: WeakSet[Any] = WeakSet()  # of modules that were waited for in vain
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


def _importing() -> list[Any]:
    """The locks of the modules that other threads are importing."""
    locks = [held() for held in list(_modules.values())]
    mine = (None, threading.get_ident())
    return [k for k in locks if k is not None and k.owner not in mine and k not in _endless]


def _take() -> None:
    for number, kept in list(_instant.items()):
        for lock in list(kept):
            if lock.acquire(timeout=_PATIENCE):
                _taken.append(lock)
        if not kept:
            _instant.pop(number, None)
    if _gate.acquire(timeout=_PATIENCE):
        _taken.append(_gate)
    _imp.acquire_lock()  # no import begins


def _give() -> None:
    _imp.release_lock()
    while _taken:
        _taken.pop().release()


def _prepare() -> None:
    end = monotonic() + _PATIENCE
    _take()
    while busy := _importing():
        if monotonic() > end:
            _endless.update(busy)
            break
        _give()  # what is imported may need any of them
        sleep(1e-3)
        _take()
    end = monotonic() + _PATIENCE
    while _inside and monotonic() < end:
        sleep(1e-4)
    for function in _before:
        function()


def _release() -> None:
    for function in _after:
        function()
    _give()


def _renew() -> None:
    _imp.release_lock()
    _taken.clear()
    _inside.clear()
    locks = [lock for kept in _instant.values() for lock in kept]
    for lock in (_gate, *locks, *_long):
        lock._at_fork_reinit()
    for function in (*_after, *_in_child):
        function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_prepare, after_in_parent=_release, after_in_child=_renew)
