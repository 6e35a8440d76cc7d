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
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

from fx.distributed import calls, groups, rendezvous
from fx.distributed.agent import Agent, WorkerInfo, host_for
from fx.distributed.calls import (
    UNSET_RPC_TIMEOUT,
    Future,
    get_rpc_timeout,
    get_worker_info,
    required,
    rpc_async,
    rpc_sync,
    set_rpc_timeout,
    time_of,
)
from fx.distributed.errors import DistError, DistNetworkError
from fx.distributed.references import RRef, release_all, release_held, remote
from fx.distributed.store import PrefixStore, Store, key
from fx.errors import ArgumentError

__all__ = [
    "UNSET_RPC_TIMEOUT",
    "BackendType",
    "Future",
    "RRef",
    "RpcBackendOptions",
    "TensorPipeRpcBackendOptions",
    "WorkerInfo",
    "get_rpc_timeout",
    "get_worker_info",
    "init_rpc",
    "remote",
    "rpc_async",
    "rpc_sync",
    "set_rpc_timeout",
    "shutdown",
]

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
    global _meeting
    if calls.agent is not None:
        raise DistError("RPC is already initialized; call rpc.shutdown() before")
    if not re.fullmatch(r"[A-Za-z0-9\-_:]{1,127}", name):
        raise ArgumentError(
            f"Worker name must match ^[A-Za-z0-9-_:]*$, shorter than 128 characters: {name!r}"
        )
    if backend not in (None, BackendType.TENSORPIPE):
        raise ArgumentError(f"backend is None or BackendType.TENSORPIPE, not {backend!r}")
    told = rpc_backend_options or RpcBackendOptions()
    time_of(told.rpc_timeout)
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
        calls.agent, calls.seconds, _meeting = agent, told.rpc_timeout, _Meeting()
        _exchanged("ready", rank, size, store, told)  # who is called may call
    except BaseException:
        agent.close(wait=False)
        calls.agent = None
        raise
    threading.Thread(target=release_all, args=(agent,), name="fx-rpc-rrefs", daemon=True).start()


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


# the end ------------------------------------------------------------------------------------------


class _Meeting:
    """Where rank 0 learns that all have come to ``shutdown``, and that no call is under way."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._rounds: dict[int, dict[int, int]] = {}
        self._lost = ""

    def come(self, number: int, rank: int, made: int) -> int:
        """Wait for all in a round; how many calls all have made."""
        agent = required()
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
    agent = required()
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
        calls.agent = None
        agent.dropped.put(None)
        agent.close(wait=met)
        release_held()
