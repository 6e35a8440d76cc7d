"""The server by which ranks find each other: MPICH's own ranks, raw clients, and hostile bytes."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from time import monotonic

import pytest

from fx.distributed.wiring import Hosted, Server

_RANK = """
import mpi4py; mpi4py.rc.initialize = False
from mpi4py import MPI
MPI.Init_thread()
import numpy as np
total = np.empty(1)
MPI.COMM_WORLD.Allreduce(np.array([MPI.COMM_WORLD.rank + 1.0]), total)
print(MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size, total[0])
MPI.Finalize()
"""


class Client:
    """A rank that speaks the protocol by hand."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.lines = self.socket.makefile("rb")

    def ask(self, line: str, answers: int = 1) -> str:
        self.socket.sendall(line.encode() + b"\n")
        return b"".join(self.lines.readline() for _ in range(answers)).decode()

    def introduce(self, environment: dict[str, str]) -> str:
        return self.ask(f"cmd=initack pmiid={environment['PMI_ID']}", 4)

    def ended(self) -> bool:
        try:
            return self.lines.read() == b""
        except ConnectionResetError:
            return True


@contextmanager
def polled(size: int, **options):
    """A server that a thread polls, as a launcher does."""
    server, ends = Server(size, **options), threading.Event()

    def loop() -> None:
        while not ends.is_set():
            server.poll(0.01)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield server
    finally:
        ends.set()
        thread.join()
        server.close()


def until(holds) -> None:
    end = monotonic() + 10
    while not holds():
        assert monotonic() < end


def ranks(environments: list[dict[str, str]]) -> list[str]:
    pytest.importorskip("mpi4py")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _RANK], env=os.environ | each, stdout=subprocess.PIPE, text=True
        )
        for each in environments
    ]
    return sorted(each.communicate(timeout=60)[0] for each in started)


def test_ranks_of_mpich_find_each_other():
    with polled(3) as server:
        assert ranks([server.environment(rank) for rank in range(3)]) == [
            f"{rank} 3 6.0\n" for rank in range(3)
        ]
        until(lambda: server.finished == {0, 1, 2})
        assert server.connected == {0, 1, 2} and not server.lost and not server.aborted


def test_two_jobs_at_once_do_not_meet():
    with polled(2) as one, polled(2) as two:
        both = [server.environment(rank) for rank in range(2) for server in (one, two)]
        assert ranks(both) == ["0 2 3.0\n", "0 2 3.0\n", "1 2 3.0\n", "1 2 3.0\n"]
        until(lambda: len(one.finished) + len(two.finished) == 4)


def test_a_hosted_server_serves_ranks_and_ends_when_it_is_closed():
    server = Hosted(2)
    assert server.state()["connected"] == []
    assert ranks([server.environment(rank) for rank in range(2)]) == ["0 2 3.0\n", "1 2 3.0\n"]
    assert server.state()["finished"] == [0, 1]
    server.close()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.port), timeout=5)


@pytest.mark.parametrize("kind", [Server, Hosted])
def test_a_port_that_is_taken_is_an_oserror(kind):
    other = socket.create_server(("127.0.0.1", 0))
    with other, pytest.raises(OSError, match="in use"):
        kind(2, port=other.getsockname()[1])


def test_what_one_rank_puts_the_others_get():
    with polled(2, nodes=[1, 1]) as server:
        one, two = Client(server.port), Client(server.port)
        assert "set rank=0" in one.introduce(server.environment(0))
        assert "set rank=1" in two.introduce(server.environment(1))
        assert one.ask("cmd=put kvsname=fx key=a value=x=1") == "cmd=put_result rc=0 msg=success\n"
        assert two.ask("cmd=get kvsname=fx key=a").endswith("value=x=1\n")
        assert "rc=-1" in two.ask("cmd=get kvsname=fx key=b")
        assert "value=(vector,(0,1,1),(1,1,1))" in one.ask("cmd=get key=PMI_process_mapping")
        assert "rc=-1" in one.ask(f"cmd=put kvsname=fx key={'k' * 65} value=1")
        assert "rc=-1" in one.ask(f"cmd=put kvsname=fx key=k value={'v' * 1025}")
        assert "size=2" in one.ask("cmd=get_universe_size")
        spawn = "mcmd=spawn\nnprocs=1\nexecname=true\nendcmd"
        assert one.ask(spawn) == "cmd=spawn_result rc=-1 msg=refused\n"
        two.socket.sendall(b"cmd=barrier_in\n")
        until(lambda: server.waiting == {1})
        assert (
            one.ask("cmd=barrier_in") == "cmd=barrier_out rc=0\n" == two.lines.readline().decode()
        )
        one.socket.sendall(b"cmd=abort exitcode=7\n")
        until(lambda: server.aborted == {0: 7})


def test_who_waits_for_a_lost_rank_is_let_go_and_is_not_called_lost():
    with polled(3) as server:
        clients = [Client(server.port) for _ in range(3)]
        for rank, client in enumerate(clients):
            client.introduce(server.environment(rank))
        clients[0].socket.sendall(b"cmd=barrier_in\n")
        until(lambda: server.waiting == {0})
        clients[1].lines.close()
        clients[1].socket.close()
        assert clients[0].ended()
        assert server.lost == {1}
        clients[2].socket.sendall(b"cmd=barrier_in\n")  # one that comes too late
        assert clients[2].ended()
        assert server.lost == {1}


def test_hostile_bytes_do_not_harm():
    draw = random.Random(0)
    with polled(2) as server:
        first = Client(server.port)
        first.introduce(server.environment(0))
        secret = server.environment(1)["PMI_ID"]
        hostile = [
            b"cmd=initack pmiid=0\n",
            b"cmd=initack pmiid=nobody\n",
            b"cmd=initack pmiid=" + server.environment(0)["PMI_ID"].encode() + b"\n",  # taken
            b"cmd=put kvsname=fx key=PMI_process_mapping value=x\n",
            b"cmd=barrier_in\ncmd=barrier_in\n",
            b"x" * 100_000,
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\n",
            b"\xff\xfe\n",
            *(draw.randbytes(draw.randrange(1, 300)) + b"\n" for _ in range(30)),
        ]
        for each in hostile:
            client = Client(server.port)
            try:
                client.socket.sendall(each)
                client.socket.shutdown(socket.SHUT_WR)
                told = client.lines.read()
            except OSError:  # the server has hung up while we were talking
                told = b""
            assert told in (b"", b"cmd=error rc=-1 msg=who_are_you\n")
        idle = [Client(server.port) for _ in range(80)]
        assert idle[0].ended()  # more than 64 that say nothing are not kept
        for each in idle:
            each.lines.close()
            each.socket.close()
        second = Client(server.port)
        assert "set rank=1" in second.introduce({"PMI_ID": secret})
        second.socket.sendall(b"cmd=barrier_in\n")
        assert first.ask("cmd=barrier_in") == "cmd=barrier_out rc=0\n"
        assert server.connected == {0, 1} and not server.lost
        assert second.lines.readline() == b"cmd=barrier_out rc=0\n"
        assert second.ask("cmd=no_such") == "cmd=error rc=-1 msg=unknown_command\n"
        assert second.ended()
