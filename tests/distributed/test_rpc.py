"""RPC: workers that call each other."""

import json
import subprocess
import sys

import pytest

import fx.distributed.rpc as rpc
from tests.distributed.ranks import ROOT, cases
from tests.distributed.test_rendezvous import free_port, run_ranks


@pytest.mark.parametrize("case", cases("cases_rpc.py"))
def test_of_workers(outcomes, case):
    assert not outcomes("cases_rpc.py", 3)[case]


def test_before_init():
    for call in (rpc.shutdown, rpc.get_worker_info, lambda: rpc.rpc_sync("w", abs, (1,))):
        with pytest.raises(RuntimeError, match=r"Call torch\.distributed\.rpc\.init_rpc first"):
            call()
    with pytest.raises(ValueError, match="Worker name must match"):
        rpc.init_rpc("a b", rank=0, world_size=1)


def test_a_parameter_server():
    common = {"WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ends = run_ranks(
        [["-m", "fx.examples.parameter_server"]] * 3,
        [{"RANK": str(r), **common} for r in range(3)],
        deadline=40,
    )
    assert [e[0] for e in ends] == [0, 0, 0], ends
    losses, weights = ends[0][1].splitlines()
    assert max(map(float, losses.split()[1:])) < 1e-4
    assert json.loads(weights.partition(" ")[2]) == pytest.approx([1.0, -2.0, 3.0, 0.5], abs=1e-2)


DEATH = """
import os, sys, time
import fx.distributed as dist, fx.distributed.rpc as rpc
rank, path = int(sys.argv[1]), sys.argv[2]
told = rpc.RpcBackendOptions(init_method="file://" + path, rpc_timeout=20)
rpc.init_rpc(f"w{rank}", rank=rank, world_size=3, rpc_backend_options=told)
if rank == 0:
    began = time.monotonic()
    for _ in range(2):  # in the call, and after it
        try:
            rpc.rpc_sync("w2", os._exit, (0,))
        except dist.DistNetworkError as error:
            assert "worker 'w2' (rank 2) has died" in str(error), error
        else:
            raise AssertionError
    assert time.monotonic() - began < 5
try:
    rpc.shutdown()
except dist.DistNetworkError as error:
    print(error)
"""


def test_a_worker_that_died(tmp_path):
    ends = run_ranks(
        [["-c", DEATH, str(r), str(tmp_path / "store")] for r in range(3)], ({},) * 3, deadline=40
    )
    assert [e[0] for e in ends] == [0, 0, 0], ends
    for _, said, _ in ends[:2]:
        assert "shutdown waits for worker 'w2', which has died or has left" in said


def test_workers_that_do_not_come_are_named(tmp_path):
    code = """
import sys, fx.distributed.rpc as rpc
told = rpc.RpcBackendOptions(init_method="file://" + sys.argv[1], rpc_timeout=0.3)
rpc.init_rpc("w0", rank=0, world_size=3, rpc_backend_options=told)
"""
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "store")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert "rank 1, 2 of 3 did not come" in run.stderr


STRANGER = """
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
import fx.distributed.rpc as rpc; from fx.distributed import calls
rpc.init_rpc("w", rank=0, world_size=1)
at = calls.agent.address
try:
    Client(at, authkey=b"wrong")
except AuthenticationError:
    print("refused")
silent = Client(at)  # says nothing: it holds up nobody
assert rpc.rpc_sync("w", abs, (-2,)) == 2
silent.send_bytes(b"(")
rpc.shutdown()
"""


def test_who_does_not_know_the_key_is_not_heard():
    run = subprocess.run(
        [sys.executable, "-c", STRANGER], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert run.returncode == 0 and "refused" in run.stdout, run.stderr
