"""The meeting point of several hosts: who takes part in an attempt, when it begins and ends.

It is a process of its own beside one host's launcher, and ends with it. Launchers speak lines of
JSON with it; none of them can make another run anything but its own script.

    launcher                                    meeting point
                                                {"nonce": ...}
    {"proof": hmac of it, "ranks": 2,           {"start": ranks' numbers and variables} when all
     "node": 0, "restarts": 0, "split": 1}          are there
    {"ended": ""}, or why it failed             {"done": true} when all ended well, or
    {"proof" ...} again                         {"stop": why, "counts": true}

A host that goes stops the others; one that comes late stops them too, uncounted, where there is
room. The file imports only Python's own and ``wiring.py``, as its process runs it alone.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import selectors
import sys
from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or __name__ != "__main__":
    from fx.distributed import wiring
else:
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    import wiring

_TICK = 0.1  # seconds
_RANKS = 4096  # of a host
_HOST = (  # what a launcher says of its host
    ("ranks", int), ("node", int), ("restarts", int), ("split", int), ("port", int),
    ("address", str),
)  # fmt: skip


def proof(key: str, nonce: str) -> str:
    """What a launcher answers to show that it knows the job's name."""
    return hmac.new(key.encode(), nonce.encode(), "sha256").hexdigest()


class Point(wiring.Lines):
    """Serves launchers at ``host`` and ``port``.

    ``least`` and ``most`` are numbers of hosts; beyond ``least`` it waits ``last_call`` seconds for
    more, and ``patience`` seconds for ``least``. ``numbered``: hosts say which they are.
    """

    def __init__(
        self,
        host: str,
        port: int,
        key: str,
        least: int,
        most: int,
        numbered: bool,
        patience: float,
        last_call: float,
    ) -> None:
        super().__init__(host, port)
        self._key = key
        self._least, self._most, self._numbered = least, most, numbered
        self._patience, self._last_call = patience, last_call
        self._nonces: dict[wiring.Peer, str] = {}
        self._waiting: dict[wiring.Peer, dict[str, Any]] = {}  # ready for the next attempt
        self._running: dict[wiring.Peer, bool] = {}  # whether each has ended well
        self._numbers: dict[wiring.Peer, int] = {}  # of the hosts in the last attempt
        self._since = monotonic()  # when the last of those that wait came
        self._began = monotonic()  # when the first did
        self._server: wiring.Server | None = None

    def poll(self, timeout: float = 0.0) -> None:
        """As ``Lines.poll``; also serves the ranks, and begins an attempt that is due."""
        super().poll(timeout)
        if self._server is not None:
            self._server.poll()
        count, now = len(self._waiting), monotonic()
        if not count or self._running:
            return
        late = now - self._since > self._last_call
        if count == self._most or (count >= self._least and late):
            self._start()
        elif now - self._began > self._patience:
            said = (
                f"{count} of {self._least} hosts came to {self.host}:{self.port} within "
                f"{self._patience:g} s: {self._present()}"
            )
            self._tell(list(self._waiting), {"error": said})
            self._waiting.clear()

    def _greet(self, peer: wiring.Peer) -> None:
        self._nonces[peer] = secrets.token_hex(16)
        peer.say(json.dumps({"nonce": self._nonces[peer]}))

    def _answer(self, peer: wiring.Peer, line: str) -> None:
        told = json.loads(line)
        if not isinstance(told, dict):
            raise wiring.Refused(line)
        if "proof" in told:
            self._ready(peer, told)
        elif peer.name is None:
            raise wiring.Refused(line)
        elif "ended" in told and peer in self._running:
            self._ended(peer, str(told["ended"]))

    def _ready(self, peer: wiring.Peer, told: dict[str, Any]) -> None:
        right = proof(self._key, self._nonces[peer])
        if not hmac.compare_digest(right, str(told["proof"])):
            peer.say(json.dumps({"error": "the job has another --rdzv-id or FX_RUN_KEY"}))
            raise wiring.Refused("key")
        host: dict[str, Any] = {name: told.get(name) for name, _ in _HOST}
        if not all(type(host[name]) is kind for name, kind in _HOST):
            raise wiring.Refused("host")
        if not 1 <= host["ranks"] <= _RANKS:
            raise wiring.Refused("ranks")
        peer.name = host["address"]
        others = [each for each in self._waiting if each is not peer]
        taken = [self._waiting[each]["node"] for each in others]
        if self._numbered and host["node"] in taken:
            peer.say(json.dumps({"error": f"there is a host with --node-rank {host['node']}"}))
            raise wiring.Refused("node")
        if peer not in self._running and len(others) + len(self._running) >= self._most:
            peer.say(json.dumps({"error": f"the job has its {self._most} hosts"}))
            raise wiring.Refused("host")
        newcomer = self._running and peer not in self._running
        self._running.pop(peer, None)
        self._since = monotonic()
        if not self._waiting:
            self._began = self._since
        self._waiting[peer] = host
        if newcomer:
            self._tell(list(self._running), {"stop": "a host has come", "counts": False})

    def _ended(self, peer: wiring.Peer, why: str) -> None:
        if why:
            others = [each for each in self._running if each is not peer]
            self._tell(others, {"stop": f"host {peer.name}: {why}", "counts": True})
            return
        self._running[peer] = True
        if all(self._running.values()):
            self._tell(list(self._running), {"done": True})
            self._running.clear()

    def _gone(self, peer: wiring.Peer) -> None:
        self._waiting.pop(peer, None)
        self._nonces.pop(peer, None)
        if self._running.pop(peer, None) is not None:
            said = {"stop": f"host {peer.name} is lost", "counts": True}
            self._tell(list(self._running), said)

    def _start(self) -> None:
        hosts = list(self._waiting.items())
        if self._numbered:
            hosts.sort(key=lambda each: each[1]["node"])
        else:  # who was there keeps the order
            hosts.sort(key=lambda each: self._numbers.get(each[0], self._most))
        self._numbers = {peer: number for number, (peer, _) in enumerate(hosts)}
        counts = [host["ranks"] for _, host in hosts]
        if self._server is not None:
            self._server.close()
        self._server = server = wiring.Server(sum(counts), self.host, 0, counts)
        all_of_them = {
            "size": sum(counts),
            "hosts": len(hosts),
            "address": hosts[0][1]["address"],
            "port": hosts[0][1]["port"],
            "restarts": max(host["restarts"] for _, host in hosts),
            "split": max(host["split"] for _, host in hosts),
        }
        self._waiting.clear()
        first = 0
        for number, (peer, host) in enumerate(hosts):
            mine = range(first, first + host["ranks"])
            wires = [server.environment(rank) for rank in mine]
            self._running[peer] = False
            place = {"first": first, "host": number, "wiring": wires}
            self._tell([peer], {"start": all_of_them | place})
            first = mine.stop

    def _tell(self, peers: list[wiring.Peer], message: dict[str, Any]) -> None:
        for peer in peers:
            try:
                peer.say(json.dumps(message))
            except OSError:
                self._drop(peer)

    def _present(self) -> str:
        if self._numbered:
            nodes = {host["node"] for host in self._waiting.values()}
            missing = sorted(set(range(self._least)) - nodes)
            return f"--node-rank {', '.join(map(str, missing))} is missing"
        return "there are " + ", ".join(host["address"] for host in self._waiting.values())


def _main() -> None:
    """Its process: a line of JSON has the arguments, one answers; it ends with its input."""
    try:
        point = Point(**json.loads(sys.stdin.readline()))
    except OSError as error:
        print(json.dumps({"error": [error.errno, error.strerror]}), flush=True)
        return
    print(json.dumps({"port": point.port}), flush=True)
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(point, selectors.EVENT_READ)
        while True:
            ready = selector.select(_TICK)
            if any(key.fd == 0 for key, _ in ready):
                return
            point.poll()


if __name__ == "__main__":
    _main()
