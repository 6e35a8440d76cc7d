"""Stores: what ranks tell each other under keys before, and beside, their collectives.

A store is a table of bytes in one process, which the others reach by a manager of Python's
``multiprocessing``. Who connects must know the key: ``FX_STORE_KEY``, or else a file that only this
user can read. The names and what they give are PyTorch's.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable, Sequence
from copy import copy
from datetime import timedelta
from multiprocessing import AuthenticationError
from multiprocessing.managers import BaseManager, MakeProxyType
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from fx.distributed.errors import DistNetworkError, DistStoreError
from fx.distributed.timeouts import span
from fx.errors import ArgumentError

DEFAULT_TIMEOUT = timedelta(seconds=300)
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "")


class Table:
    """The keys and their bytes; every method is one step that no other divides."""

    def __init__(self) -> None:
        self._held: dict[str, bytes] = {}
        self._changed = threading.Condition()

    def put(self, pairs: dict[str, bytes]) -> None:
        with self._changed:
            self._held.update(pairs)
            self._changed.notify_all()

    def look(self, keys: Sequence[str], timeout: float) -> list[bytes] | None:
        """What is under keys, once all are there; None if they are not in time."""
        with self._changed:
            there = self._changed.wait_for(lambda: all(k in self._held for k in keys), timeout)
            return [self._held[k] for k in keys] if there else None

    def join(self, key: str, value: bytes) -> int:
        """Put ``value`` behind what is there; how many bytes there are then."""
        with self._changed:
            self._held[key] = self._held.get(key, b"") + value
            self._changed.notify_all()
            return len(self._held[key])

    def count(self, key: str, amount: int) -> int:
        with self._changed:
            now = int(self._held.get(key, b"0")) + amount
            self._held[key] = str(now).encode()
            self._changed.notify_all()
            return now

    def swap(self, key: str, expected: bytes, desired: bytes) -> bytes:
        with self._changed:
            now = self._held.get(key)
            if now == expected or (now is None and not expected):
                now = self._held[key] = desired
                self._changed.notify_all()
            return expected if now is None else now

    def drop(self, key: str) -> bool:
        with self._changed:
            return self._held.pop(key, None) is not None

    def keys(self) -> list[str]:
        with self._changed:
            return list(self._held)


_EXPOSED = ("put", "look", "join", "count", "swap", "drop", "keys")
_Proxy: Any = MakeProxyType("_Proxy", _EXPOSED)  # type: ignore[no-untyped-call]


class Store:
    """What all stores can do. Values are bytes, or text that is encoded.

    Raises:
        DistStoreError: by ``get`` and ``wait``, if a key does not come in time.
    """

    def __init__(self, table: Any, timeout: timedelta = DEFAULT_TIMEOUT) -> None:
        self._table = table
        self._timeout = span(timeout, "Store")

    def set(self, key: str, value: str | bytes) -> None:
        """Put a value under a key."""
        self._table.put({key: _encoded(value)})

    def get(self, key: str) -> bytes:
        """What is under a key, once something is."""
        return self.multi_get([key])[0]

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Put several values, in one step."""
        self._table.put({k: _encoded(v) for k, v in zip(keys, values, strict=True)})

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """What is under several keys, once something is under each."""
        return self._look(keys, self._timeout)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until something is under each key."""
        self._look(keys, self._timeout if timeout is None else span(timeout, "wait"))

    def check(self, keys: Sequence[str]) -> bool:
        """Whether something is under each key now."""
        return self._table.look(list(keys), 0.0) is not None

    def add(self, key: str, amount: int) -> int:
        """Count up; the number then. A key that is new starts at 0."""
        return int(self._table.count(key, amount))

    def append(self, key: str, value: str | bytes) -> None:
        """Put a value behind what is under a key."""
        self._table.join(key, _encoded(value))

    def compare_set(
        self, key: str, expected_value: str | bytes, desired_value: str | bytes
    ) -> bytes:
        """Put ``desired_value`` where ``expected_value`` is (or nothing, and that is empty)."""
        return bytes(self._table.swap(key, _encoded(expected_value), _encoded(desired_value)))

    def delete_key(self, key: str) -> bool:
        """Whether the key was there; it is no longer."""
        return bool(self._table.drop(key))

    def list_keys(self) -> list[str]:
        """All keys."""
        return list(self._table.keys())

    def num_keys(self) -> int:
        """How many keys there are."""
        return len(self._table.keys())

    def clone(self) -> Store:
        """Another one with the same keys, and a timeout of its own."""
        return copy(self)

    @property
    def timeout(self) -> timedelta:
        """How long ``get`` and ``wait`` wait."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Let ``get`` and ``wait`` wait so long."""
        self._timeout = span(timeout, "Store")

    def has_extended_api(self) -> bool:
        """True: there are ``append``, ``multi_get`` and ``multi_set``."""
        return True

    def _look(self, keys: Sequence[str], timeout: timedelta) -> list[bytes]:
        found = self._table.look(list(keys), timeout.total_seconds())
        if found is None:
            missing = [k for k in keys if self._table.look([k], 0.0) is None]
            raise DistStoreError(
                f"wait timeout after {timeout.total_seconds():g} s: nobody has set "
                f"{', '.join(map(repr, missing or keys))} in {self!r}"
            )
        return list(found)


class HashStore(Store):
    """A store of one process, for its threads.

    Example:
        >>> from fx.distributed import HashStore
        >>> store = HashStore()
        >>> store.set("a", "1")
        >>> store.add("a", 4), store.get("a"), store.compare_set("a", "5", "6")
        (5, b'5', b'6')
    """

    def __init__(self) -> None:
        super().__init__(Table())


class TCPStore(Store):
    """A store that one process (``is_master``) holds and others reach at an address.

    Args:
        host_name: the address at which the master listens. One that is not of this machine alone
            needs ``FX_STORE_KEY``, the same text for every rank.
        port: the port; 0 lets the master choose one, which ``store.port`` tells.
        world_size: with it the master waits until so many have connected.
        is_master: whether this process holds the table.
        timeout: of connecting, and of ``get`` and ``wait``.
        wait_for_workers: whether the master waits.
        multi_tenant: whether a master takes the table that this process serves there already.

    Raises:
        DistNetworkError: if the port is taken, or nobody answers there in time.
        DistStoreError: if the key is another one, or not all connect in time.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        if master_listen_fd is not None:
            raise ArgumentError("TCPStore opens its own socket; leave out master_listen_fd")
        self.host, self.port = host_name, port
        if is_master:
            table: Any = _served.get((_bound(host_name), port)) if multi_tenant else None
            if table is None:
                table = Table()
                self.port = _serve(table, host_name, port)
        else:
            table = _reach(host_name, port, span(timeout, "TCPStore"))
        super().__init__(table, timeout)
        if world_size is not None and world_size > 0 and wait_for_workers:
            self._meet(world_size, is_master)

    def __repr__(self) -> str:
        return f"TCPStore({self.host!r}, {self.port})"

    def _meet(self, size: int, is_master: bool) -> None:
        there = self.add("fx/connected", 1)
        if not is_master:
            return
        end = monotonic() + self._timeout.total_seconds()
        while (there := self.add("fx/connected", 0)) < size:
            if monotonic() > end:
                raise DistStoreError(
                    f"{self!r} waited {self._timeout.total_seconds():g} s for {size} processes, "
                    f"and {there} came"
                )
            sleep(0.005)


class FileStore(TCPStore):
    """A store that the first process which opens a file holds; the file has its address.

    Args:
        file_name: a path that all see, on one machine; what a process that has died left is
            replaced.
        world_size: not asked for: nobody waits for the others.

    Raises:
        DistStoreError: if the file's store does not answer, or has another key.
    """

    def __init__(
        self, file_name: str, world_size: int = -1, timeout: timedelta = DEFAULT_TIMEOUT
    ) -> None:
        self.path = os.fspath(file_name)
        table: Any = Table()
        port = 0
        while not port:
            found = _address_in(self.path)
            if found:
                try:
                    table, port = _reach("127.0.0.1", found, timedelta(seconds=1)), found
                except DistNetworkError:
                    Path(self.path).unlink(missing_ok=True)  # of a process that has died
            else:
                port = _serve(table, "127.0.0.1", 0)
                if not _claims(self.path, port):
                    port, table = 0, Table()
        self.host, self.port = "127.0.0.1", port
        Store.__init__(self, table, timeout)

    def __repr__(self) -> str:
        return f"FileStore({self.path!r})"


class PrefixStore(Store):
    """A store whose keys all begin with a text, in another one."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__(_Prefixed(f"{prefix}/", store._table), store.timeout)
        self.underlying_store = store
        self._prefix = prefix

    def __repr__(self) -> str:
        return f"PrefixStore({self._prefix!r}, {self.underlying_store!r})"


class _Prefixed:
    """A table's keys of one prefix."""

    def __init__(self, prefix: str, table: Any) -> None:
        self._prefix, self._table = prefix, table

    def put(self, pairs: dict[str, bytes]) -> None:
        self._table.put({self._prefix + k: v for k, v in pairs.items()})

    def look(self, keys: Sequence[str], timeout: float) -> Any:
        return self._table.look([self._prefix + k for k in keys], timeout)

    def keys(self) -> list[str]:
        n = len(self._prefix)
        listed: list[str] = self._table.keys()
        return [k[n:] for k in listed if k.startswith(self._prefix)]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        work = getattr(self._table, name)
        return lambda key, *args: work(self._prefix + key, *args)


# how a table is reached ---------------------------------------------------------------------------


def _serve(table: Table, host: str, port: int) -> int:
    """Serve a table from a thread of this process; the port."""
    kind: Any = type("_Served", (BaseManager,), {})
    kind.register("table", lambda: table, _Proxy, _EXPOSED)
    try:
        server = kind((_bound(host), port), key(host)).get_server()
    except OSError as error:
        raise DistNetworkError(
            f"the store cannot listen at {host}:{port} ({error.strerror}); if another program has "
            f"the port, choose another MASTER_PORT"
        ) from None
    threading.Thread(target=server.serve_forever, name="fx-store", daemon=True).start()
    taken = int(server.address[1])
    _served[_bound(host), taken] = table
    return taken


_served: dict[tuple[str, int], Table] = {}  # by address: until the process ends


def _reach(host: str, port: int, timeout: timedelta) -> Any:
    """The table that is served at an address, as soon as it is."""
    kind: Any = type("_Reached", (BaseManager,), {})
    kind.register("table", None, _Proxy, _EXPOSED)
    end = monotonic() + timeout.total_seconds()
    while True:
        try:
            manager = kind((host or "127.0.0.1", port), key(host))
            manager.connect()
            return manager.table()
        except AuthenticationError:
            raise DistStoreError(
                f"the store at {host}:{port} has another key; give every rank the same FX_STORE_KEY"
            ) from None
        except (OSError, EOFError) as error:
            if monotonic() > end:
                raise DistNetworkError(
                    f"nobody answers at {host}:{port} after {timeout.total_seconds():g} s "
                    f"({error}); rank 0 must run, and MASTER_ADDR and MASTER_PORT be its address"
                ) from None
            sleep(0.02)


def _bound(host: str) -> str:
    """Where the master listens: everywhere, if others than this machine are to reach it."""
    return "127.0.0.1" if host in _LOOPBACK or _is_loopback(host) else ""


def _is_loopback(host: str) -> bool:
    try:
        return socket.gethostbyname(host).startswith("127.")
    except OSError as error:
        raise DistNetworkError(f"there is no host {host!r} ({error.strerror})") from None


def key(host: str) -> bytes:
    """What a process must know to connect."""
    told = os.environ.get("FX_STORE_KEY")
    if told:
        return told.encode()
    if host not in _LOOPBACK and not _is_loopback(host):
        raise DistStoreError(
            f"a store at {host} can be reached from elsewhere; give every rank the same secret "
            f"text in FX_STORE_KEY"
        )
    folder = Path(os.environ.get("FX_CACHE_DIR") or Path.home() / ".cache" / "fx")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "store.key"
    if not path.exists():
        _create(path, secrets.token_hex(32))
    return path.read_bytes()


def _create(path: Path, text: str) -> bool:
    """Make a file that only this user reads, whole at once; False if it is there already."""
    draft = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def _claims(path: str, port: int) -> bool:
    return _create(Path(path), f"fx store at {port}\n")


def _address_in(path: str) -> int:
    """The port that a store's file has; 0 if there is no file, or an empty one."""
    try:
        text = Path(path).read_text()
    except FileNotFoundError:
        return 0
    if not text:
        Path(path).unlink(missing_ok=True)  # as tempfile leaves it
        return 0
    if not text.startswith("fx store at "):
        raise DistStoreError(f"{path} is no store's file; name one that is not there yet")
    return int(text.split()[-1])


def _encoded(value: str | bytes) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes | bytearray | memoryview):  # bytes(5) are five zeros
        raise TypeError(f"a store has text or bytes, not {value!r}; write str({value!r})")
    return bytes(value)
