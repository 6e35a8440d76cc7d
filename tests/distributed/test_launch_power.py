"""A host that loses its power says nothing: another network, whose cable is pulled."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from time import monotonic

import pytest

from fx.distributed.wiring import Server

_NET = f"10.213.{os.getpid() % 255}"  # one that was killed may have left its own behind
_RANK = f"""
import socket, sys, time
connection = socket.create_connection(("{_NET}.1", int(sys.argv[1])), timeout=10)
connection.sendall(f"cmd=initack pmiid={{sys.argv[2]}}\\n".encode())
connection.recv(100)
print("there", flush=True)
time.sleep(60)
"""


@contextmanager
def another_host():
    """``run(*words)`` in a network of its own; ``_NET``.1 is this end of a cable to it."""
    name, cable = f"fx{os.getpid()}", f"fx{os.getpid() % 100000}"
    commands = [
        f"ip netns add {name}",
        f"ip link add {cable} type veth peer name eth0 netns {name}",
        f"ip addr add {_NET}.1/24 dev {cable}",
        f"ip link set {cable} up",
        f"ip -n {name} addr add {_NET}.2/24 dev eth0",
        f"ip -n {name} link set eth0 up",
    ]
    try:
        for command in commands:
            try:
                done = subprocess.run(command.split(), capture_output=True, text=True)
            except FileNotFoundError:
                pytest.skip("no `ip` here")
            if done.returncode:
                pytest.skip(f"no networks of one's own: {command}: {done.stderr.strip()}")
        yield ["ip", "netns", "exec", name], cable
    finally:
        for command in (f"ip link del {cable}", f"ip netns del {name}"):
            subprocess.run(command.split(), capture_output=True)


def test_a_host_without_power_is_lost_in_six_seconds_and_a_silent_one_is_not():
    with another_host() as (there, cable):
        server = Server(1, host=f"{_NET}.1")
        told = server.environment(0)["PMI_ID"]
        rank = subprocess.Popen(
            [*there, sys.executable, "-c", _RANK, str(server.port), told],
            stdout=subprocess.PIPE,
        )
        try:
            end = monotonic() + 20
            while not server.connected and monotonic() < end:
                server.poll(0.05)
            assert server.connected == {0} and rank.stdout.readline() == b"there\n"
            end = monotonic() + 6
            while monotonic() < end:
                server.poll(0.1)
            assert not server.lost  # it computes, say
            subprocess.run(["ip", "link", "set", cable, "down"], check=True)
            began = monotonic()
            while not server.lost and monotonic() < began + 30:
                server.poll(0.1)
            assert server.lost == {0} and monotonic() - began < 8
        finally:
            rank.kill()
            rank.wait()
            rank.stdout.close()
            server.close()
