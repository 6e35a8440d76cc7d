"""A launcher among several: it meets the others at an address, and hears of their failures."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress
from time import monotonic, sleep
from typing import Any

from fx.distributed.launch import point
from fx.distributed.launch.meeting import Place, held
from fx.distributed.launch.options import UsageError
from fx.distributed.wiring import watched

_TRY = 0.1  # seconds between two tries to connect


class Hosts:
    """As ``Alone``, for ``--nnodes`` above one.

    The launcher with ``--node-rank 0`` starts the meeting point at ``--master-addr``; with
    ``--rdzv-backend c10d`` whoever can do so first at ``--rdzv-endpoint``. ``stopped`` is why the
    ranks of this host must end, when another's did.
    """

    def __init__(self, options: Namespace, halted: Callable[[], bool]) -> None:
        self._options = options
        self._halted = halted  # whether a signal has come for the launcher
        self._key = f"{options.rdzv_id}:{os.environ.get('FX_RUN_KEY', '')}"
        self._patience = float(options.conf.get("timeout", options.conf.get("join_timeout", 600)))
        self._lines = b""
        self._place: dict[str, Any] | None = None
        self._held: socket.socket | None = None
        self._point: subprocess.Popen[bytes] | None = None
        self.stopped: str | None = None
        self.counts = True  # whether the stop counts as a restart
        self._done = False
        static = options.rdzv_backend == "static"
        self._host, self._port = _address(options)
        if not static or options.node_rank == 0:
            self._open_point(static)
        self._socket = self._connect()
        self._nonce = self._wait("nonce")

    def meet(self, restarts: int, split: int) -> Place:
        """Wait until the hosts are there, and begin an attempt."""
        if self._held is not None:
            self._held.close()
        self._held = held("", 0)  # on every interface: rank 0's store listens there
        self.stopped, self.counts, self._done = None, True, False
        told = self._options
        address = told.local_addr or self._socket.getsockname()[0]
        self._say(
            proof=point.proof(self._key, self._nonce),
            ranks=told.ranks,
            node=told.node_rank,
            restarts=restarts,
            split=split,
            port=self._held.getsockname()[1],
            address=address,
        )
        return Place(**self._wait("start"))

    def poll(self) -> None:
        """Hear what the others do."""
        self._socket.settimeout(0)
        for message in self._read():
            self._take(message)

    def fileno(self) -> int:
        """Readable when ``poll`` has something to do."""
        return self._socket.fileno()

    def finished(self) -> bool:
        """Say that the ranks of this host have ended well; whether all hosts' have."""
        if not self._done and self._place is not None:
            self._place = None
            self._say(ended="")
        return self._done

    def failed(self, why: str) -> None:
        """Say that a rank of this host has failed."""
        if self.stopped is None:
            with suppress(OSError):
                self._say(ended=why)

    def leave(self) -> None:
        """Leave the others; in a forked child, close what is the launcher's."""
        self._socket.close()
        if self._held is not None:
            self._held.close()
        if self._point is not None:
            assert self._point.stdin is not None and self._point.stdout is not None
            self._point.stdin.close()
            self._point.stdout.close()

    def close(self) -> None:
        """Leave, and end the meeting point."""
        self.leave()
        if self._point is not None:
            self._point.wait()

    def _open_point(self, static: bool) -> None:
        least, most = self._options.nodes
        arguments = {
            "host": self._host,
            "port": self._port,
            "key": self._key,
            "least": least,
            "most": most,
            "numbered": static,
            "patience": self._patience,
            "last_call": float(self._options.conf.get("last_call_timeout", 5)),
        }
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", point.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(arguments).encode() + b"\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline() or b'{"error": [0, "it did not start"]}')
        if "error" not in answer:
            self._point = process
            return
        process.stdin.close()
        process.stdout.close()
        process.wait()
        number, said = answer["error"]
        if static or number not in (errno.EADDRINUSE, errno.EADDRNOTAVAIL):
            raise UsageError(
                f"port {self._port} of {self._host} cannot be had ({said}); name another with "
                f"--master-port, or end what listens there"
            )

    def _connect(self) -> socket.socket:
        end = monotonic() + self._patience
        while True:
            try:
                address = self._host, self._port
                return watched(socket.create_connection(address, timeout=_TRY * 20))
            except OSError as error:
                if monotonic() > end or self._halted():
                    raise UsageError(
                        f"no launcher answers at {self._host}:{self._port} within "
                        f"{self._patience:g} s ({error}): this is --node-rank "
                        f"{self._options.node_rank}, and that of --node-rank 0 must run there"
                    ) from None
                sleep(_TRY)

    def _wait(self, what: str) -> Any:
        """The next message of this kind."""
        self._socket.settimeout(_TRY)
        while not self._halted():
            for message in self._read():
                if what in message:
                    if what == "start":
                        self._place = message[what]
                    return message[what]
                self._take(message)
        raise Interrupted

    def _take(self, message: dict[str, Any]) -> None:
        if "error" in message:
            raise UsageError(message["error"])
        if "stop" in message and (self.stopped is None or not self.counts):
            # the first says why; that a host which has failed is lost then comes behind it
            self.stopped, self.counts = message["stop"], message["counts"]
        self._done = self._done or "done" in message

    def _read(self) -> list[dict[str, Any]]:
        try:
            got = self._socket.recv(1 << 16)
        except (TimeoutError, BlockingIOError):
            return []
        except OSError:
            got = b""
        if not got:
            raise UsageError(f"the meeting point at {self._host}:{self._port} is lost")
        *lines, self._lines = (self._lines + got).split(b"\n")
        return [json.loads(line) for line in lines]

    def _say(self, **message: Any) -> None:
        self._socket.settimeout(5)
        self._socket.sendall(json.dumps(message).encode() + b"\n")


class Interrupted(Exception):
    """A signal came for the launcher while it waited for others."""


def _address(options: Namespace) -> tuple[str, int]:
    if options.rdzv_endpoint:
        host, _, port = options.rdzv_endpoint.rpartition(":")
        if port.isdecimal() and 0 < int(port) < 65536 and host:
            return host.strip("[]"), int(port)
        raise UsageError(f"--rdzv-endpoint takes HOST:PORT, got {options.rdzv_endpoint!r}")
    if options.rdzv_backend != "static":
        raise UsageError(f"--rdzv-backend {options.rdzv_backend} needs --rdzv-endpoint HOST:PORT")
    return options.master_addr.strip("[]"), options.master_port or 29500
