"""How ranks find each other: the server that MPICH's ranks ask while they start (PMI-1).

A rank connects, says who it is, puts its address under a key, waits in a barrier, and gets the
others'. After that the ranks talk to each other alone; the connection stays and tells who has died.

    rank                                     server
    cmd=initack pmiid=<its secret>           cmd=initack rc=0, and three: set size=, rank=, debug=
    cmd=init pmi_version=1 pmi_subversion=1  cmd=response_to_init pmi_version=1 ... rc=0
    cmd=put kvsname= key= value=             cmd=put_result rc=0 msg=success
    cmd=barrier_in                           cmd=barrier_out rc=0, when all are in
    cmd=get kvsname= key=                    cmd=get_result rc=0 msg=success value=
    cmd=finalize                             cmd=finalize_ack rc=0

A launcher polls a ``Server`` in its own loop; without one rank 0 does in a thread (``Hosted``),
since ``mpi.start`` lets other threads run while it waits in MPI. The file imports nothing but
Python's own, as ``launch/point.py`` may run with it alone.
"""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

_LINE = 4096  # bytes of one command; PMI-1's own limits lie below
_KEY, _VALUE, _KEYS_A_RANK = 64, 1024, 1024
_UNKNOWN = 64  # connections that have not yet said who they are
_PATIENCE = 10.0  # seconds in which they must
# after 2 s of silence the kernel asks the other host each second; without 3 answers it is lost
_ALIVE = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 5000}


class Refused(Exception):
    """The peer said what no rank of the job says, or hung up; its connection ends."""


@dataclass(eq=False)
class Peer:
    """A connection: ``name`` is who it is, once it has said so."""

    socket: socket.socket
    since: float
    name: Any = None
    bytes: bytearray = field(default_factory=bytearray)
    spawning: bool = False  # between the first and the last line of a spawn, which is refused

    def say(self, *lines: str) -> None:
        """Send lines."""
        self.socket.sendall("".join(f"{line}\n" for line in lines).encode())


def watched(connection: socket.socket) -> socket.socket:
    """The same, which breaks about 5 s after the other host has lost its power or its network.

    The kernels ask and answer, so a process that computes, or is stopped, is not taken for dead.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _ALIVE.items():
        if hasattr(socket, name):  # Linux
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return connection


class Lines:
    """Serves lines of text on a port; ``poll`` does whatever is due.

    A host that is gone is found out (``watched``). Who does not say within 10 s who he is, sends a
    line without an end, or does not read what he is sent, is dropped; of more than 64 of them at
    once the oldest goes. Subclasses have ``_answer``, which may raise ``Refused`` or
    ``ValueError``, and ``_gone``.
    """

    def __init__(self, host: str, port: int, longest: int = _LINE) -> None:
        self._longest = longest
        self._peers: set[Peer] = set()
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server((host, port), backlog=128)
        self._listener.setblocking(False)
        self.host = host
        self.port: int = self._listener.getsockname()[1]
        self._selector.register(self._listener, selectors.EVENT_READ)

    def _greet(self, peer: Peer) -> None:
        """Called when a connection is there."""

    def _answer(self, peer: Peer, line: str) -> None:
        """Called for each line."""
        raise NotImplementedError

    def _gone(self, peer: Peer) -> None:
        """Called when one who had a name has gone."""
        raise NotImplementedError

    def fileno(self) -> int:
        """A descriptor that is readable when ``poll`` has something to do."""
        return self._selector.fileno()

    def poll(self, timeout: float = 0.0) -> None:
        """Take what has come, waiting for it at most this long (seconds)."""
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                self._accept()
            elif key.data in self._peers:  # and not dropped a moment ago
                self._read(key.data)
        now = monotonic()
        for peer in [each for each in self._peers if each.name is None]:
            if now - peer.since > _PATIENCE:
                self._end(peer)

    def close(self) -> None:
        """Close all sockets. A forked child may do so too: the parent's stay open."""
        self._selector.close()
        self._listener.close()
        for peer in self._peers:
            peer.socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            unknown = [peer for peer in self._peers if peer.name is None]
            if len(unknown) >= _UNKNOWN:
                self._end(min(unknown, key=lambda peer: peer.since))
            connection.settimeout(1.0)  # for the answers
            peer = Peer(watched(connection), monotonic())
            self._peers.add(peer)
            self._selector.register(connection, selectors.EVENT_READ, peer)
            self._greet(peer)

    def _read(self, peer: Peer) -> None:
        try:
            got = peer.socket.recv(_LINE)
            if not got:
                raise Refused("the end")
            peer.bytes += got
            while peer in self._peers and (end := peer.bytes.find(b"\n")) >= 0:
                line = peer.bytes[:end].decode("ascii")
                del peer.bytes[: end + 1]
                self._answer(peer, line)
            if len(peer.bytes) > self._longest:
                raise Refused("a line without an end")
        except (OSError, ValueError, Refused):  # a hang-up, no text, no number, no command
            self._drop(peer)

    def _drop(self, peer: Peer) -> None:
        if peer in self._peers:
            self._end(peer)
            if peer.name is not None:
                self._gone(peer)

    def _end(self, peer: Peer) -> None:
        self._peers.discard(peer)
        self._selector.unregister(peer.socket)
        peer.socket.close()


class Server(Lines):
    """Serves the start of ``size`` ranks on a port of ``host``; ``poll`` does whatever is due.

    ``nodes`` has the number of ranks on each host, in their order; without it all are on one. Each
    rank's variables (``environment``) hold a secret of its own; who knows none is sent away.
    ``connected``, ``waiting`` (in the barrier), ``finished`` and ``lost`` are sets of ranks;
    ``aborted`` maps those that called ``MPI_Abort`` to their exit code. When a rank is lost, those
    that wait for it in the barrier are let go, and MPI ends them with an error.

    Raises ``OSError`` where the port is taken.
    """

    def __init__(
        self, size: int, host: str = "127.0.0.1", port: int = 0, nodes: Sequence[int] | None = None
    ) -> None:
        nodes = [size] if nodes is None else list(nodes)
        if size < 1 or sum(nodes) != size:
            raise ValueError(
                f"{size} ranks on nodes of {nodes}: the sum must be the number of ranks"
            )
        self.size = size
        self.connected: set[int] = set()
        self.waiting: set[int] = set()
        self.finished: set[int] = set()
        self.lost: set[int] = set()
        self.aborted: dict[int, int] = {}
        blocks = ",".join(f"({node},1,{count})" for node, count in enumerate(nodes))
        self._keys = {"PMI_process_mapping": f"(vector,{blocks})"}  # who shares memory with whom
        numbers = secrets.SystemRandom().sample(range(1 << 20, 1 << 31), size)
        self._ranks = {number: rank for rank, number in enumerate(numbers)}
        self._numbers = numbers
        self._name = f"fx_{secrets.token_hex(8)}"  # MPICH's shared memory is named by it
        super().__init__(host, port)

    def environment(self, rank: int) -> dict[str, str]:
        """The variables by which ``MPI_Init`` of this rank finds the server."""
        return {
            "PMI_PORT": f"{self.host}:{self.port}",
            "PMI_ID": str(self._numbers[rank]),
            "PMI_RANK": str(rank),
            "PMI_SIZE": str(self.size),
        }

    def state(self) -> dict[str, Any]:
        """Who has connected, waits, has finished, was lost, has aborted; as JSON can hold it."""
        names = ("connected", "waiting", "finished", "lost")
        return {name: sorted(getattr(self, name)) for name in names} | {
            "aborted": sorted(self.aborted.items())
        }

    def _gone(self, peer: Peer) -> None:
        self.waiting.discard(peer.name)
        if peer.name in self.finished:
            return
        self.lost.add(peer.name)
        for other in [each for each in self._peers if each.name in self.waiting]:
            self._let_go(other)  # its barrier can never be complete

    def _let_go(self, peer: Peer) -> None:
        self._end(peer)
        self.waiting.discard(peer.name)

    def _answer(self, peer: Peer, line: str) -> None:
        if peer.spawning:
            if line == "endcmd":
                peer.spawning = False
                _say(peer, "spawn_result rc=-1 msg=refused")
            return
        told = dict(part.partition("=")[::2] for part in line.split())
        command = told.get("cmd") or told.get("mcmd", "")
        if peer.name is None:
            self._introduce(peer, command, told)
        elif command == "put":
            self._put(peer, told.get("key", ""), told.get("value", ""))
        elif command == "get":
            value = self._keys.get(told.get("key", ""))
            _say(
                peer,
                "get_result rc=-1 msg=key_not_found value=unknown"
                if value is None
                else f"get_result rc=0 msg=success value={value}",
            )
        elif command == "barrier_in":
            self.waiting.add(peer.name)
            if self.lost:  # who will never come
                self._let_go(peer)
            elif len(self.waiting) == self.size:
                self.waiting.clear()
                for other in [each for each in self._peers if each.name is not None]:
                    _say(other, "barrier_out rc=0")
        elif command == "abort":
            self.aborted[peer.name] = int(told.get("exitcode", "1"))
        elif command == "spawn":
            peer.spawning = True
        elif command == "finalize":
            self.finished.add(peer.name)
            _say(peer, "finalize_ack rc=0")
        elif command in _PLAIN:
            _say(peer, _PLAIN[command].format(size=self.size, name=self._name))
        else:
            _say(peer, "error rc=-1 msg=unknown_command")
            raise Refused(command)

    def _introduce(self, peer: Peer, command: str, told: dict[str, str]) -> None:
        rank = self._ranks.get(int(told.get("pmiid", "-1"))) if command == "initack" else None
        if rank is None or rank in self.connected:
            _say(peer, "error rc=-1 msg=who_are_you")
            raise Refused(command)
        peer.name = rank
        self.connected.add(rank)
        _say(peer, "initack rc=0", f"set size={self.size}", f"set rank={rank}", "set debug=0")

    def _put(self, peer: Peer, key: str, value: str) -> None:
        fits = 0 < len(key) <= _KEY and len(value) <= _VALUE
        if not fits or len(self._keys) > _KEYS_A_RANK * self.size:
            _say(peer, "put_result rc=-1 msg=too_long_or_too_many")
        else:
            self._keys[key] = value
            _say(peer, "put_result rc=0 msg=success")


def _say(peer: Peer, *commands: str) -> None:
    peer.say(*(f"cmd={command}" for command in commands))


_PLAIN = {
    "init": "response_to_init pmi_version=1 pmi_subversion=1 rc=0",
    "get_maxes": f"maxes kvsname_max=64 keylen_max={_KEY} vallen_max={_VALUE} rc=0",
    "get_my_kvsname": "my_kvsname kvsname={name} rc=0",
    "get_appnum": "appnum appnum=0 rc=0",
    "get_universe_size": "universe_size size={size} rc=0",
}


class Hosted(Server):
    """A ``Server`` that a thread of this process polls until it is closed."""

    def __init__(
        self, size: int, host: str = "127.0.0.1", port: int = 0, nodes: Sequence[int] | None = None
    ) -> None:
        super().__init__(size, host, port, nodes)
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="fx-wiring", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._closed:
            self.poll(1.0)

    def close(self) -> None:
        """End the thread, and close all sockets."""
        self._closed = True
        self._thread.join()
        super().close()
