"""References to values that other workers keep."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import GenericAlias
from typing import Any

from fx.distributed.agent import Agent, WorkerInfo, is_sending, named
from fx.distributed.calls import (
    UNSET_RPC_TIMEOUT,
    Future,
    callable_of,
    rank_of,
    required,
    time_of,
)
from fx.distributed.errors import DistError
from fx.tensor import Tensor

_Key = tuple[int, int]  # of a value: the rank that asked for it, and a number there
_numbers = itertools.count()
_held: dict[_Key, list[Any]] = {}  # in its owner: the value, and how many references there are
_lock = threading.Lock()


class RRef:
    """A reference to a value that a worker, its owner, keeps while there are any.

    ``RRef(value)`` refers to a value of this worker. One that is an argument or a result of a call
    counts there too; elsewhere it cannot be pickled.
    """

    __class_getitem__ = classmethod(GenericAlias)  # RRef[Tensor], as annotations have it

    def __init__(self, value: Any, type_hint: Any = None) -> None:
        agent = required()
        at = agent.info.id, next(_numbers)
        _keep_value(at, value)
        self._set(at, agent.info.id, None)

    def _set(self, at: _Key, owner: int, made: Future | None) -> RRef:
        self._key, self._owner, self._made = at, owner, made
        self._agent = required()
        settled = threading.Event()  # not the answer, whose error's frames may hold this reference
        if made is None:
            settled.set()
        else:
            made.add_done_callback(lambda _: settled.set())
        weakref.finalize(self, self._agent.dropped.put, (owner, at, settled)).atexit = False
        return self

    def owner(self) -> WorkerInfo:
        """The worker that has the value."""
        return self._agent.peers[self._owner].info

    def owner_name(self) -> str:
        """Its name."""
        return self.owner().name

    def is_owner(self) -> bool:
        """Whether this worker has the value."""
        return self._owner == self._agent.info.id

    def confirmed_by_owner(self) -> bool:
        """Whether the owner has made the value, or failed to."""
        return self._made is None or self._made.done()

    def local_value(self) -> Any:
        """The value itself, in its owner.

        Raises:
            DistError: elsewhere.
        """
        if not self.is_owner():
            raise DistError(
                f"can't call local_value() on user {self._agent.info}; call it on owner "
                f"{self.owner()}, or to_here()"
            )
        self._confirm()
        return _fetch(self._key)

    def to_here(self, timeout: float = UNSET_RPC_TIMEOUT) -> Any:
        """The value, copied from its owner; what its function raised is raised here."""
        if self.is_owner():
            return self.local_value()
        self._confirm()
        return self._asked(_fetch, (), {}, timeout, "to_here").wait()

    def backward(self, dist_autograd_ctx_id: int = -1, retain_graph: bool = False) -> None:
        """Pull back from the value, a scalar, in its owner.

        Args:
            dist_autograd_ctx_id: of a ``context`` of ``torch.distributed.autograd``, in which the
                pass goes on in other workers. In the owner -1: of ``value.backward()``.
            retain_graph: leave the value's tape for another pass; that of a context stays anyway.

        Raises:
            RuntimeError: if the value is no tensor, or this worker not its owner and no context is
                given; what the backward pass raises.
        """
        given = dist_autograd_ctx_id, retain_graph
        if self.is_owner():
            self._confirm()
            _backward(self._key, *given)
            return
        if dist_autograd_ctx_id == -1:
            raise DistError("User RRefs require 'dist_autograd_ctx_id' to be specified")
        self._confirm()
        self._asked(_backward, given, {}, UNSET_RPC_TIMEOUT, "backward").wait()

    def rpc_sync(self, timeout: float = UNSET_RPC_TIMEOUT) -> Any:
        """``r.rpc_sync().method(...)`` calls it in the owner, and waits for what it gives."""
        return _Methods(lambda n, a, k: self._method(n, a, k, timeout).wait())

    def rpc_async(self, timeout: float = UNSET_RPC_TIMEOUT) -> Any:
        """``r.rpc_async().method(...)``: the same, a ``Future``."""
        return _Methods(lambda n, a, k: self._method(n, a, k, timeout))

    def remote(self, timeout: float = UNSET_RPC_TIMEOUT) -> Any:
        """``r.remote().method(...)``: the same, an ``RRef``; the result stays in the owner."""

        def kept(name: str, args: Any, kwargs: Any) -> RRef:
            self._confirm()
            return remote(self._owner, _call, (self._key, name, args, kwargs), timeout=timeout)

        return _Methods(kept)

    def _method(self, name: str, args: Any, kwargs: Any, timeout: float) -> Future:
        self._confirm()
        return self._asked(_call, (name, args, kwargs), {}, timeout, name)

    def _asked(self, function: Any, args: Any, kwargs: Any, timeout: float, what: str) -> Future:
        agent = required()
        call = agent.ask(self._owner, function, (self._key, *args), kwargs, time_of(timeout), what)
        return Future(call.answer, call)

    def _confirm(self) -> None:
        if self._made is not None:
            self._made.wait()

    def __reduce__(self) -> Any:
        if not is_sending():
            raise DistError(
                "an RRef can only be pickled when using RPC; send what to_here() gives instead"
            )
        self._confirm()
        if self.is_owner():
            _count(self._key, 1)
        else:
            self._asked(_count, (1,), {}, UNSET_RPC_TIMEOUT, "a copy of an RRef").wait()
        return _received, (self._key, self._owner)

    def __repr__(self) -> str:
        kind = "OwnerRRef" if self.is_owner() else "UserRRef"
        return f"{kind}({self._key[0]}:{self._key[1]} on {self.owner_name()!r})"


class _Methods:
    """The methods of a value elsewhere."""

    def __init__(self, ask: Callable[[str, Any, Any], Any]) -> None:
        self._ask = ask

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: self._ask(name, args, kwargs)


def remote(
    to: str | int | WorkerInfo,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> RRef:
    """Call a function in another worker, which keeps what it gives; a reference, at once.

    Arguments and errors are those of ``rpc_sync``; what the function raises is raised where the
    value is asked for.
    """
    agent, owner = required(), rank_of(to)
    at = agent.info.id, next(_numbers)
    given = (at, callable_of(func), tuple(args or ()), dict(kwargs or {}))
    call = agent.ask(owner, _keep, given, {}, time_of(timeout), named(func))
    return RRef.__new__(RRef)._set(at, owner, Future(call.answer, call))


def _received(at: _Key, owner: int) -> RRef:
    return RRef.__new__(RRef)._set(at, owner, None)


def _keep(at: _Key, function: Any, args: Any, kwargs: Any) -> None:
    _keep_value(at, function(*args, **kwargs))


def _keep_value(at: _Key, value: Any) -> None:
    with _lock:
        _held[at] = [value, 1]


def _fetch(at: _Key) -> Any:
    return _held[at][0]


def _call(at: _Key, name: str, args: Any, kwargs: Any) -> Any:
    return getattr(_fetch(at), name)(*args, **kwargs)


def _backward(at: _Key, context: int, retain_graph: bool) -> None:
    from fx.distributed import remote_gradients  # which asks by calls

    value = _fetch(at)
    if not isinstance(value, Tensor):
        raise DistError(
            f"RRef should contain a tensor for .backward(), and has a {type(value).__name__}"
        )
    if context == -1:
        value.backward(retain_graph=retain_graph)
    else:
        remote_gradients.backward(context, [value], retain_graph)


def _count(at: _Key, change: int) -> None:
    """One reference more or less; without any the value goes."""
    with _lock:
        entry = _held.get(at)
        if entry is None:
            return  # its function failed
        entry[1] += change
        if not entry[1]:
            del _held[at]
    del entry  # outside of the lock: the value may hold references itself


def release_all(agent: Agent) -> None:
    """Tell owners of references that have gone. Collections of garbage only queue them."""
    while (gone := agent.dropped.get()) is not None:
        owner, at, settled = gone
        settled.wait()
        if owner == agent.info.id:
            _count(at, -1)
        else:
            agent.ask(owner, _count, (at, -1), {}, 0.0, counted=False)


def release_held() -> None:
    """Let all values go that are kept here for others."""
    with _lock:
        kept = list(_held.values())
        _held.clear()
    del kept
