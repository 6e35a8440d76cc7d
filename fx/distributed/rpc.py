"""RPC: functions that run in other workers, and references to what is there.

The names are those of ``torch.distributed.rpc``. Functions go by their names and values by pickle,
between processes that know the store's key; ``agent.py`` has the connections.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

from fx.distributed import groups, rendezvous
from fx.distributed.agent import Agent, Call, WorkerInfo, host_for, is_sending, named
from fx.distributed.errors import DistError, DistNetworkError
from fx.distributed.store import PrefixStore, Store, key
from fx.errors import ArgumentError

UNSET_RPC_TIMEOUT = -1.0
_agent: Agent | None = None
_seconds = 60.0  # of a call that names no timeout
_inits = itertools.count()


class BackendType(Enum):
    """What carries calls; fx has one, which scripts call by PyTorch's name."""

    TENSORPIPE = "TENSORPIPE"


@dataclass
class RpcBackendOptions:
    """Settings of ``init_rpc``: timeouts in seconds (0: none), and how workers find each other."""

    num_worker_threads: int = 16  # calls at once from one worker to another
    rpc_timeout: float = 60.0
    init_method: str | None = None  # env://, tcp://host:port, file:///path


TensorPipeRpcBackendOptions = RpcBackendOptions


def init_rpc(
    name: str,
    backend: BackendType | None = None,
    rank: int = -1,
    world_size: int | None = None,
    rpc_backend_options: RpcBackendOptions | None = None,
) -> None:
    """Become a worker that others call; returns when all are there.

    Args:
        name: what others call it by; letters, digits, ``_``, ``-`` and ``:``.
        rank, world_size: which worker this is of how many; those of ``init_process_group`` if it
            was called and they are left out, else ``RANK`` and ``WORLD_SIZE``.
        rpc_backend_options: timeouts and the way to find the others; without ``init_method`` it is
            the store of ``init_process_group`` if that was called, else ``env://``.

    Raises:
        RuntimeError: at a second call; if the name is not fit, or another worker's.
        DistStoreError: if a worker does not come in time, naming it.

    Example:
        >>> import operator
        >>> import fx.distributed.rpc as rpc
        >>> rpc.init_rpc("worker", rank=0, world_size=1)
        >>> rpc.rpc_sync("worker", operator.add, args=(1, 2))
        3
        >>> kept = rpc.remote("worker", list, args=((1, 2),))
        >>> kept.rpc_sync().index(2)
        1
        >>> rpc.shutdown()
    """
    global _agent, _seconds, _meeting
    if _agent is not None:
        raise DistError("RPC is already initialized; call rpc.shutdown() before")
    if not re.fullmatch(r"[A-Za-z0-9\-_:]{1,127}", name):
        raise ArgumentError(
            f"Worker name must match ^[A-Za-z0-9-_:]*$, shorter than 128 characters: {name!r}"
        )
    if backend not in (None, BackendType.TENSORPIPE):
        raise ArgumentError(f"backend is None or BackendType.TENSORPIPE, not {backend!r}")
    told = rpc_backend_options or RpcBackendOptions()
    _checked(told.rpc_timeout)
    if told.num_worker_threads < 1:
        raise ArgumentError(f"num_worker_threads is 1 or more, not {told.num_worker_threads}")
    rank, size, store = _found(rank, -1 if world_size is None else world_size, told)
    master = _master(store)
    host = host_for(master)
    agent = Agent(WorkerInfo(name, rank), host, key(master), told.num_worker_threads)
    try:
        workers = _exchanged((name, agent.address), rank, size, store, told)
        twice = {n for n, _ in workers if [m for m, _ in workers].count(n) > 1}
        if twice:
            raise DistError(f"RPC worker name {', '.join(sorted(twice))} is not unique")
        agent.meet(workers)
        _agent, _seconds, _meeting = agent, told.rpc_timeout, _Meeting()
        _exchanged("ready", rank, size, store, told)  # who is called may call
    except BaseException:
        agent.close(wait=False)
        _agent = None
        raise
    threading.Thread(target=_release_all, args=(agent,), name="fx-rpc-rrefs", daemon=True).start()


def _found(rank: int, size: int, told: RpcBackendOptions) -> tuple[int, int, Store | None]:
    """Which worker this is of how many, and where they find each other."""
    world = groups.group.WORLD
    if world is not None and told.init_method is None:
        for what, given, is_so in (("rank", rank, world.rank()), ("size", size, world.size())):
            if given not in (-1, is_so):
                raise ArgumentError(f"{what}={given}, and init_process_group has said {is_so}")
        return world.rank(), world.size(), world.store
    where = rendezvous.place(told.init_method)
    rank, size = rendezvous.numbers(rank, size, where)
    late = timedelta(seconds=told.rpc_timeout or 1800.0)
    return rank, size, rendezvous.opened(where, rank, size, late) if size > 1 else None


def _master(store: Store | None) -> str:
    """The host whose reach decides which address a worker listens at."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return str(getattr(store, "host", os.environ.get("MASTER_ADDR", "127.0.0.1")))


def _exchanged(
    mine: Any, rank: int, size: int, store: Store | None, told: RpcBackendOptions
) -> list[Any]:
    """What every worker says, by rank."""
    if size == 1:
        return [mine]
    if store is None:  # a launcher wired the ranks
        from fx.distributed.messages import all_gather_object

        out: list[Any] = [None] * size
        all_gather_object(out, mine)
        return out
    table = PrefixStore(f"fx/rpc/{next(_inits)}", store)
    late = timedelta(seconds=told.rpc_timeout or 1800.0)
    table.set_timeout(late)
    if table.add(f"claim/{rank}", 1) > 1:
        raise ArgumentError(f"another process is rank {rank} already; each has its own number")
    table.set(f"worker/{rank}", json.dumps(mine))
    said = rendezvous.gathered(table, [f"worker/{r}" for r in range(size)], late, store)
    parts = [json.loads(s) for s in said]
    return parts if isinstance(mine, str) else [(name, tuple(at)) for name, at in parts]


# calls --------------------------------------------------------------------------------------------


class Future:
    """The answer to come of ``rpc_async``."""

    def __init__(self, answer: futures.Future[Any], call: Call | None = None) -> None:
        self._answer, self._call = answer, call

    def done(self) -> bool:
        """Whether the answer is there, or what it failed with."""
        return self._answer.done()

    def wait(self) -> Any:
        """The answer, once it is there.

        Raises:
            DistError: if it does not come in the call's time, or the worker has died. What the
                function raised is raised here, with its traceback there as its cause.
        """
        if self._call is not None and not self._answer.done():
            _, late = futures.wait([self._answer], self._call.left())
            if late:
                self._call.late()
        return self._answer.result()

    def value(self) -> Any:
        """The answer, which must be there."""
        if not self.done():
            raise DistError("the value of a future that is not done; call wait() before")
        return self._answer.result()

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future of what a function gives of this one, called as soon as it is done."""
        out: futures.Future[Any] = futures.Future()

        def go_on(_: Any) -> None:
            try:
                out.set_result(callback(self))
            except Exception as error:
                out.set_exception(error)

        self._answer.add_done_callback(go_on)
        return Future(out)

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Call a function with this when it is done."""
        self._answer.add_done_callback(lambda _: callback(self))


def rpc_sync(
    to: str | int | WorkerInfo,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> Any:
    """Call a function in another worker, and wait for what it gives.

    Args:
        to: the worker's name, rank or ``WorkerInfo``.
        func: a function or class that both import by the same name.
        args, kwargs: go by value, tensors too.
        timeout: in seconds; 0: none; that of ``init_rpc`` if it is left out.

    Raises:
        RuntimeError: before ``init_rpc``; if there is no such worker, it has died, or does not
            answer in time. What the function raised is raised here.
    """
    return rpc_async(to, func, args, kwargs, timeout).wait()


def rpc_async(
    to: str | int | WorkerInfo,
    func: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    timeout: float = UNSET_RPC_TIMEOUT,
) -> Future:
    """The same as ``rpc_sync``, but a ``Future``."""
    agent = _required()
    call = agent.ask(
        _rank(to), _callable(func), tuple(args or ()), dict(kwargs or {}), _checked(timeout)
    )
    return Future(call.answer, call)


def get_worker_info(worker_name: str | WorkerInfo | None = None) -> WorkerInfo:
    """A worker by its name; this one if it is left out."""
    agent = _required()
    return agent.info if worker_name is None else agent.peers[_rank(worker_name)].info


def _required() -> Agent:
    if _agent is None:
        raise DistError("RPC has not been initialized. Call torch.distributed.rpc.init_rpc first.")
    return _agent


def _rank(to: str | int | WorkerInfo) -> int:
    agent = _required()
    for rank, peer in agent.peers.items():
        if to in (rank, peer.info.name, peer.info):
            return rank
    there = ", ".join(f"{p.info.name!r} ({r})" for r, p in agent.peers.items())
    what = "name" if isinstance(to, str) else "id"
    raise DistError(f"could not find destination {what} {to!r}; the workers are {there}")


def _callable(function: Any) -> Callable[..., Any]:
    if not callable(function):
        raise TypeError(f"function should be callable, and is {function!r}")
    return function  # type: ignore[no-any-return]


def _checked(timeout: float) -> float:
    if timeout == UNSET_RPC_TIMEOUT:
        return _seconds
    if timeout < 0:
        raise ArgumentError(f"timeout is a number of seconds, or 0 for none, not {timeout!r}")
    return float(timeout)


# references ---------------------------------------------------------------------------------------

_Key = tuple[int, int]  # of a value: the rank that asked for it, and a number there
_numbers = itertools.count()
_held: dict[_Key, list[Any]] = {}  # in its owner: the value, and how many references there are
_lock = threading.Lock()


class RRef:
    """A reference to a value that a worker, its owner, keeps while there are any.

    ``RRef(value)`` refers to a value of this worker. One that is an argument or a result of a call
    counts there too; elsewhere it cannot be pickled.
    """

    def __init__(self, value: Any, type_hint: Any = None) -> None:
        agent = _required()
        at = agent.info.id, next(_numbers)
        _keep_value(at, value)
        self._set(at, agent.info.id, None)

    def _set(self, at: _Key, owner: int, made: Future | None) -> RRef:
        self._key, self._owner, self._made = at, owner, made
        self._agent = _required()
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
        agent = _required()
        call = agent.ask(self._owner, function, (self._key, *args), kwargs, _checked(timeout), what)
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
    agent, owner = _required(), _rank(to)
    at = agent.info.id, next(_numbers)
    given = (at, _callable(func), tuple(args or ()), dict(kwargs or {}))
    call = agent.ask(owner, _keep, given, {}, _checked(timeout), named(func))
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


def _release_all(agent: Agent) -> None:
    """Tell owners of references that have gone. Collections of garbage only queue them."""
    while (gone := agent.dropped.get()) is not None:
        owner, at, settled = gone
        settled.wait()
        if owner == agent.info.id:
            _count(at, -1)
        else:
            agent.ask(owner, _count, (at, -1), {}, 0.0, counted=False)


# the end ------------------------------------------------------------------------------------------


class _Meeting:
    """Where rank 0 learns that all have come to ``shutdown``, and that no call is under way."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rounds: dict[int, dict[int, int]] = {}
        self._lost = ""

    def come(self, number: int, rank: int, made: int) -> int:
        """Wait for all in a round; how many calls all have made."""
        agent = _required()
        with self._changed:
            come = self._rounds.setdefault(number, {})
            come[rank] = made
            self._changed.notify_all()
            while len(come) < len(agent.peers) and not self._lost:
                if not self._changed.wait(0.2) and rank == 0:
                    gone = [p for r, p in agent.peers.items() if r not in come]
                    self._lost = ", ".join(repr(p.info.name) for p in gone if not p.is_there())
                    self._changed.notify_all()
            if self._lost:
                raise DistNetworkError(
                    f"shutdown waits for worker {self._lost}, which has died or has left"
                )
            return sum(come.values())


_meeting = _Meeting()


def _come(number: int, rank: int, made: int) -> int:
    return _meeting.come(number, rank, made)


def shutdown(graceful: bool = True, timeout: float = 0) -> None:
    """Leave the workers; every one calls it.

    Args:
        graceful: wait until all have come here and every call has its answer.
        timeout: how long to wait for the others, in seconds; 0: as long as they live.

    Raises:
        DistError: if one has died, or does not come in time; this one has left nevertheless.
    """
    global _agent
    agent = _required()
    met = False
    try:
        before = -1
        for number in itertools.count() if graceful else ():
            agent.wait_for_calls()
            given = number, agent.info.id, agent.made
            made = agent.ask(0, _come, given, {}, float(timeout), "shutdown", counted=False)
            now = Future(made.answer, made).wait()
            if now == before:  # nobody has called anybody since
                met = True
                break
            before = now
    finally:
        _agent = None
        agent.dropped.put(None)
        agent.close(wait=met)
        with _lock:
            kept = list(_held.values())
            _held.clear()
        del kept
