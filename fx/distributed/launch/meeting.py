"""Who takes part: the ranks' numbers, the variables by which they find each other."""

from __future__ import annotations

import socket
from argparse import Namespace
from dataclasses import dataclass

from fx.distributed.launch.options import UsageError
from fx.distributed.wiring import Server


@dataclass(slots=True)
class Place:
    """What this host is in one attempt: its first rank, the number of all, and of hosts."""

    first: int
    size: int
    host: int
    hosts: int
    address: str  # of rank 0's host
    port: int  # where rank 0 may open a store
    wiring: list[dict[str, str]]  # for each rank of this host
    restarts: int  # as the host with the most counts them
    split: int  # into how many parts a batch is cut, for want of memory

    def variables(
        self, local: int, run_id: str, most: int, threads: str, role: str = "default"
    ) -> dict[str, str]:
        """What a rank of this host finds in its environment, by torchrun's names."""
        rank, here = str(self.first + local), str(len(self.wiring))
        return {
            "RANK": rank,
            "LOCAL_RANK": str(local),
            "WORLD_SIZE": str(self.size),
            "LOCAL_WORLD_SIZE": here,
            "GROUP_RANK": str(self.host),
            "GROUP_WORLD_SIZE": str(self.hosts),
            "ROLE_RANK": rank,
            "ROLE_WORLD_SIZE": str(self.size),
            "ROLE_NAME": role,
            "MASTER_ADDR": self.address,
            "MASTER_PORT": str(self.port),
            "TORCHELASTIC_RUN_ID": run_id,
            "TORCHELASTIC_RESTART_COUNT": str(self.restarts),
            "TORCHELASTIC_MAX_RESTARTS": str(most),
            "OMP_NUM_THREADS": threads,
            "FX_NUM_THREADS": threads,
            "FX_RUN": "1",
        } | self.wiring[local]


class Alone:
    """The ranks of one host, which hosts their server."""

    def __init__(self, options: Namespace) -> None:
        self._options = options
        self._server: Server | None = None
        self._held: socket.socket | None = None
        port = options.master_port
        if port:
            with held(options.master_addr, port):  # taken: it is said before anything starts
                pass

    stopped: str | None = None  # no other host can stop us
    counts = True

    def meet(self, restarts: int, split: int) -> Place:
        """Begin an attempt."""
        self.leave()
        size = self._options.ranks
        self._server = Server(size)
        self._held = held(self._options.master_addr, self._options.master_port or 0)
        wiring = [self._server.environment(rank) for rank in range(size)]
        port = self._held.getsockname()[1]
        return Place(0, size, 0, 1, self._options.master_addr, port, wiring, restarts, split)

    def poll(self) -> None:
        """Serve the ranks."""
        assert self._server is not None
        self._server.poll()

    def fileno(self) -> int:
        """Readable when ``poll`` has something to do."""
        assert self._server is not None
        return self._server.fileno()

    def finished(self) -> bool:
        """Whether all hosts' ranks have ended well, when this one's have."""
        return True

    def failed(self, why: str) -> None:
        """There is nobody to tell."""

    def close(self) -> None:
        """End the last attempt."""
        self.leave()

    def leave(self) -> None:
        """End the attempt; also what a forked child calls, which must hold no socket of ours."""
        if self._server is not None:
            self._server.close()
        if self._held is not None:
            self._held.close()
        self._server = self._held = None


def held(host: str, port: int) -> socket.socket:
    """A socket that keeps a port for whoever listens there with SO_REUSEADDR.

    Raises ``UsageError`` where another listens there, or the host has no such address.
    """
    out = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    out.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        out.bind((host.strip("[]"), port))
    except OSError as error:
        out.close()
        raise UsageError(
            f"port {port} of {host} cannot be had ({error.strerror}); leave --master-port out, "
            f"or name another"
        ) from None
    return out
