"""How ranks that nobody launched together become one world, and who this process is."""

from __future__ import annotations

import json
import os
import socket
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlparse

from fx.distributed import groups, mpi, recorder
from fx.distributed.errors import DistBackendError, DistError, DistStoreError
from fx.distributed.store import FileStore, PrefixStore, Store, TCPStore
from fx.distributed.timeouts import span
from fx.errors import ArgumentError

_hosted: Any = None  # the server of PMI that rank 0 started
_inits = 0  # how often this process has joined a world
_told_gloo = False
_BACKENDS = ("mpi", "gloo", "ray", "fake")
Found = tuple[Store, int, int]  # the store, which rank this is, of how many
_handlers: dict[str, Callable[..., Iterator[Found]]] = {}


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    reduction: str = "engine",
) -> None:
    """Join the world: the group of all ranks. Every process calls it once.

    Under ``mpiexec``, ``srun`` or ``python -m fx.run`` the launcher has said who this is. Else
    ranks find each other at an address, in a file, or in a ``store``.

    Args:
        backend: ``"mpi"``; ``"gloo"``, which means it; ``"ray"``: MPI between actors of Ray, which
            find each other by its cluster; ``"fake"``, whose collectives have shapes and move
            nothing.
        init_method: ``"env://"`` (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT),
            ``"tcp://host:port"``, ``"file:///path"``, or of a scheme that
            ``register_rendezvous_handler`` was told.
        timeout: how long a rank waits for the others, here and in each collective; 30 minutes.
        world_size, rank: how many processes there are, and which this one is.
        store: what they find each other by, instead of ``init_method``.
        reduction: ``"engine"``, or ``"ordered"``: sums in an order that depends on the number of
            values alone, by fx.

    Raises:
        ValueError: at a second call, or if it cannot be told which rank this is, or there is none
            such.
        DistBackendError: if the engine is not installed, or is none for the CPU.
        DistNetworkError: if nobody answers, or the port is taken.
        DistStoreError: if ranks are missing.

    Example:
        >>> import fx.distributed as dist
        >>> dist.init_process_group("fake", rank=1, world_size=4)
        >>> dist.get_rank(), dist.get_world_size()
        (1, 4)
        >>> dist.destroy_process_group()
    """
    if groups.is_initialized():
        raise ArgumentError(
            "trying to initialize the default process group twice! call destroy_process_group() "
            "before, or guard the line with `if not is_initialized():`"
        )
    if reduction not in ("engine", "ordered"):
        raise ArgumentError(f"reduction is 'engine' or 'ordered', not {reduction!r}")
    if store is not None and init_method is not None:
        raise ArgumentError("Cannot specify both init_method and store.")
    late = groups.default_pg_timeout if timeout is None else span(timeout, "init_process_group")
    name = _backend(backend)
    if name == "fake":
        rank, world_size = numbers(rank, world_size, None)
        made = groups.ProcessGroup(range(world_size), rank, None, name, late, group_name or "0")
        groups.set_world(made)
        return
    where = place(init_method)
    if where.scheme in _handlers:
        store, rank, world_size = next(rendezvous(where.geturl(), rank, world_size, timeout=late))
    if name == "ray" and store is None and init_method is None and not mpi.is_launched():
        from fx.distributed.actors.store import RayStore

        store = RayStore(group_name or "world", late)
    joined = _join(where, late, world_size, rank, store)
    comm = mpi.start().COMM_WORLD.Dup()  # a call that does not fit must not spoil the next world
    made = groups.ProcessGroup(
        range(comm.size), comm.rank, comm, name, late, group_name or "0", "default_pg"
    )
    made.store = joined
    made.ordered = reduction == "ordered"
    recorder.timeout(late.total_seconds())
    groups.set_world(made.open())
    _tell_gloo(name, comm.rank)


def _backend(asked: str | None) -> str:
    """The name of the backend that is meant."""
    name = (asked or "mpi").lower()
    if ":" in name:  # "cpu:gloo,cuda:nccl"
        devices = dict(part.split(":", 1) for part in name.split(","))
        name = devices.get("cpu", devices.get("cuda", ""))
    if name == "nccl":
        raise DistBackendError(
            "nccl is the engine of GPUs, and no tensor of fx is on one here; write "
            "init_process_group('mpi')"
        )
    if name not in _BACKENDS:
        raise ArgumentError(f"Invalid backend: {asked!r}; there are {', '.join(_BACKENDS)}")
    return name


def _tell_gloo(name: str, rank: int) -> None:
    global _told_gloo
    if name == "gloo" and rank == 0 and not _told_gloo:
        _told_gloo = True
        warnings.warn("backend 'gloo' means 'mpi' in fx (MPICH)", UserWarning, stacklevel=3)


def place(init_method: str | None) -> Any:
    """The parts of the URL."""
    parts = urlparse(init_method or "env://")
    if parts.scheme not in ("env", "tcp", "file", *_handlers):
        raise ArgumentError(
            f"No rendezvous handler for {parts.scheme}://; init_method is env://, tcp://host:port "
            f"or file:///path, or of a scheme that register_rendezvous_handler was told"
        )
    if parts.scheme == "tcp" and not parts.port:
        raise ArgumentError(f"{init_method!r} has no port; write tcp://host:port")
    if parts.scheme == "file" and not parts.path:
        raise ArgumentError(f"{init_method!r} has no path; write file:///path")
    return parts


def register_rendezvous_handler(scheme: str, handler: Callable[..., Iterator[Found]]) -> None:
    """Let ranks find each other by an ``init_method`` of a scheme of one's own.

    Args:
        scheme: what stands before ``://``.
        handler: called with the URL, whose query has ``rank`` and ``world_size`` where they were
            given, and with ``timeout=``; yields the store, the rank and the number of ranks.

    Raises:
        RuntimeError: if the scheme has a handler.

    Example:
        >>> from fx.distributed.store import HashStore
        >>> from fx.distributed.rendezvous import register_rendezvous_handler, rendezvous
        >>> def alone(url, timeout=None):
        ...     yield HashStore(), 0, 1
        >>> register_rendezvous_handler("alone", alone)
        >>> store, rank, world_size = next(rendezvous("alone://"))
        >>> rank, world_size
        (0, 1)
    """
    if scheme in ("env", "tcp", "file", *_handlers):
        raise DistError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Iterator[Found]:
    """A store that the ranks share, which rank this is, and of how many, without a world.

    Args:
        url: as ``init_process_group(init_method=)``.
        rank, world_size: where the URL, or the environment for ``env://``, does not say.
        kwargs: ``timeout``, of the store's operations; a handler's own.

    Returns:
        an iterator of one triple.

    Raises:
        ValueError: if it cannot be told which rank this is, or nobody knows the scheme.
    """
    where = place(url)
    asked = dict(parse_qsl(where.query))
    for name, given in (("rank", rank), ("world_size", world_size)):
        if given != -1:
            asked[name] = str(given)
    if where.scheme in _handlers:
        return _handlers[where.scheme](where._replace(query=urlencode(asked)).geturl(), **kwargs)
    told = numbers(int(asked.get("rank", -1)), int(asked.get("world_size", -1)), where)
    late = kwargs.get("timeout", groups.default_pg_timeout)
    return iter([(opened(where, *told, late), *told)])


def _join(place: Any, late: timedelta, size: int, rank: int, store: Store | None) -> Store | None:
    """Let MPI be the world of these processes; the store by which they found each other."""
    asked = dict(parse_qsl(place.query))
    rank, size = int(asked.get("rank", rank)), int(asked.get("world_size", size))
    if mpi.is_launched():
        recorder.timeout(late.total_seconds())
        waits = recorder.begin("init_process_group", 0, "MPI")  # which the launcher watches
        comm = mpi.start().COMM_WORLD
        recorder.end(waits)
        for what, told, is_so in (("rank", rank, comm.rank), ("world_size", size, comm.size)):
            if told not in (-1, is_so):
                raise ArgumentError(f"{what}={told}, and the launcher has said {is_so}")
        return store
    rank, size = numbers(rank, size, place if store is None else None)
    if size > 1:
        store = opened(place, rank, size, late) if store is None else store
        _wire(store, rank, size, late)
    comm = mpi.start().COMM_WORLD
    if (comm.rank, comm.size) != (rank, size):
        raise DistError(
            f"this process is rank {comm.rank} of {comm.size} since MPI was started, and cannot "
            f"become rank {rank} of {size}; start a new process"
        )
    return store


def numbers(rank: int, size: int, place: Any) -> tuple[int, int]:
    """Which rank this is of how many."""
    if place is not None and place.scheme == "env":
        rank = _told("RANK", rank)
        size = _told("WORLD_SIZE", size)
    if rank < 0 or size < 1:
        raise ArgumentError(f"rank and world_size must be given, and are {rank} and {size}")
    if rank >= size:
        raise ArgumentError(f"rank {rank} is not in a world of {size}: ranks are 0 to {size - 1}")
    return rank, size


def _told(name: str, given: int = -1) -> int:
    if given != -1:
        return given
    return int(_variable(name))


def _variable(name: str) -> str:
    told = os.environ.get(name)
    if told is None:
        raise ArgumentError(
            f"Error initializing torch.distributed using env:// rendezvous: environment variable "
            f"{name} expected, but not set; start the program with python -m fx.run or mpiexec"
        )
    return told


def opened(place: Any, rank: int, size: int, late: timedelta) -> Store:
    if place.scheme == "file":
        return FileStore(place.netloc + place.path, size, late)
    host, port = place.hostname, place.port
    if place.scheme == "env":
        host, port = _variable("MASTER_ADDR"), int(_variable("MASTER_PORT"))
    return TCPStore(host, port, None, rank == 0, late, wait_for_workers=False, multi_tenant=True)


def _wire(store: Store, rank: int, size: int, late: timedelta) -> None:
    """Tell each rank how it finds the server of PMI, which rank 0 hosts, before MPI starts.

    Raises:
        DistStoreError: in rank 0, naming the ranks that did not come; in the others, if it did not.
    """
    global _hosted, _inits
    _inits += 1
    table = PrefixStore(f"fx/wiring/{_inits}", store)
    table.set_timeout(late)
    if table.add(f"claim/{rank}", 1) > 1:
        raise ArgumentError(f"another process is rank {rank} already; each has its own number")
    if mpi.is_started():
        return
    table.set(f"host/{rank}", socket.gethostname())
    if rank == 0:
        hosts = gathered(table, [f"host/{r}" for r in range(size)], late, store)
        nodes = [0]
        for i, host in enumerate(hosts):
            if i and host != hosts[i - 1]:
                nodes.append(0)
            nodes[-1] += 1
        from fx.distributed.wiring import Hosted

        address = "127.0.0.1" if len(nodes) == 1 else getattr(store, "host", socket.gethostname())
        _hosted = Hosted(size, host=address, nodes=nodes)
        told = [json.dumps(_hosted.environment(r)) for r in range(size)]
        table.multi_set([f"pmi/{r}" for r in range(size)], told)
    mpi.start(json.loads(table.get(f"pmi/{rank}")))


def gathered(table: Store, keys: list[str], late: timedelta, store: Store) -> list[bytes]:
    try:
        return table.multi_get(keys)
    except DistStoreError:
        missing = [k.split("/")[1] for k in keys if not table.check([k])]
        raise DistStoreError(
            f"rank {', '.join(missing)} of {len(keys)} did not come to {store!r} within "
            f"{late.total_seconds():g} s"
        ) from None
