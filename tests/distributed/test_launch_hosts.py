"""Several hosts, here launchers side by side: they meet, fail together, shrink and grow."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing, suppress

import pytest

from fx.distributed.launch.point import Point, proof
from tests.distributed.ranks import MPIEXEC, ROOT


@pytest.fixture
def port():
    """A port that is free."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        return str(taken.getsockname()[1])


_COUNT = """
import os, sys, time
names = "RANK WORLD_SIZE LOCAL_RANK GROUP_RANK GROUP_WORLD_SIZE MASTER_PORT".split()
told = " ".join(os.environ[name] for name in names)
restart = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
os.write(1, f"{restart}: {told}\\n".encode())
"""


def _told(launched) -> list[list[str]]:
    return [line.split() for line in launched.out.splitlines()]


def test_two_hosts_are_one_world(launcher, tmp_path, port):
    pytest.importorskip("mpi4py")
    (tmp_path / "train.py").write_text(
        _COUNT + "from fx.distributed import mpi\nworld = mpi.start().COMM_WORLD\n"
        "os.write(1, f'sum {world.allreduce(world.rank + 1)}\\n'.encode())\n"
    )
    flags = ["--nnodes", "2", "--master-port", port]
    second = launcher.start(*flags, "--node-rank", "1", "train.py", cwd=tmp_path)
    first = launcher.start(*flags, "--nproc-per-node", "2", "train.py", cwd=tmp_path)
    assert (first.wait(), second.wait()) == (0, 0), first.err + second.err
    lines = sorted(line for line in _told(first) + _told(second) if line[0] == "0:")
    assert [line[1:6] for line in lines] == [
        ["0", "3", "0", "0", "2"], ["1", "3", "1", "0", "2"], ["2", "3", "0", "1", "2"],
    ]  # fmt: skip
    assert len({line[6] for line in lines}) == 1
    assert first.out.count("sum 6\n") == 2 and second.out.count("sum 6\n") == 1


def test_hydra_starts_launchers(tmp_path, port):
    """MPICH's ``mpiexec``, which knows Slurm and the like; their ranks have another MPI server."""
    pytest.importorskip("mpi4py")
    (tmp_path / "train.py").write_text(
        "import os\nfrom fx.distributed import mpi\nworld = mpi.start().COMM_WORLD\n"
        "print(os.environ['GROUP_RANK'], world.size, world.allreduce(world.rank), flush=True)\n"
        "assert 'PMI_FD' not in os.environ\n"
    )
    flags = f"--nnodes 2 --node-rank $PMI_RANK --master-addr 127.0.0.1 --master-port {port}"
    line = f"exec {sys.executable} -m fx.run {flags} --nproc-per-node $((PMI_RANK + 1)) train.py"
    found = subprocess.run(
        [str(MPIEXEC), "-n", "2", "sh", "-c", line],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 0, found.stderr
    assert sorted(found.stdout.splitlines()) == ["0 3 3", "1 3 3", "1 3 3"]


def test_a_death_on_one_host_starts_all_again(launcher, tmp_path, port):
    (tmp_path / "train.py").write_text(
        _COUNT + "if restart == 0:\n"
        "    if told.startswith('1'): os.kill(os.getpid(), 9)\n"
        "    time.sleep(300)\n"
    )
    flags = ["--nnodes", "2", "--master-port", port, "--max-restarts", "1"]
    first = launcher.start(*flags, "train.py", cwd=tmp_path)
    second = launcher.start(*flags, "--node-rank", "1", "train.py", cwd=tmp_path)
    assert (first.wait(), second.wait()) == (0, 0), first.err + second.err
    assert [line[:2] for line in _told(first)] == [["0:", "0"], ["1:", "0"]]
    assert [line[:2] for line in _told(second)] == [["0:", "1"], ["1:", "1"]]
    assert re.search(r"host 127\.0\.0\.1: rank 1: killed by SIGKILL", first.err)
    assert "starting again (1 of 1)" in first.err and "starting again (1 of 1)" in second.err


def test_a_host_that_is_lost_leaves_a_smaller_world_and_one_that_comes_a_larger(
    launcher, tmp_path, port
):
    (tmp_path / "train.py").write_text(
        _COUNT + "while not os.path.exists('enough'): time.sleep(0.02)\n"
    )
    flags = ["--nnodes", "1:2", "--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"]
    flags += ["--rdzv-conf", "last_call_timeout=1", "--max-restarts", "1", "--rdzv-id", "elastic"]
    first = launcher.start(*flags, "train.py", cwd=tmp_path)
    first.until("0: 0 1 0 0 1")  # alone
    second = launcher.start(*flags, "train.py", cwd=tmp_path)
    second.until("0: 1 2 0 1 2")
    first.until("0: 0 2 0 0 2")  # uncounted: it grew
    os.kill(second.pid, signal.SIGKILL)
    assert second.wait() == -signal.SIGKILL
    first.until("1: 0 1 0 0 1")
    (tmp_path / "enough").touch()
    assert first.wait() == 0, first.err
    assert "a host has come" in first.err and "is lost" in first.err


@pytest.mark.parametrize(
    "flags, says",
    [
        (["--node-rank", "1"], r"no launcher answers at 127.0.0.1:\d+ within 1 s .*--node-rank 1"),
        ([], r"1 of 2 hosts came to 127.0.0.1:\d+ within 1 s: --node-rank 1 is missing"),
        (["--rdzv-backend", "c10d"], r"--rdzv-backend c10d needs --rdzv-endpoint HOST:PORT"),
        (["--rdzv-endpoint", "nowhere"], r"takes HOST:PORT, got 'nowhere'"),
        (["--rdzv-backend", "etcd"], r"--rdzv-backend is static or c10d; got 'etcd'"),
        (["--nnodes", "1:2"], r"a range needs --rdzv-backend c10d"),
        (["--rdzv-conf", "patience=3"], r"got patience=3"),
    ],
)
def test_who_is_missing_and_what_is_wrong_is_told(launcher, tmp_path, port, flags, says):
    (tmp_path / "train.py").write_text("print('never')\n")
    asked = ["--nnodes", "2", "--master-port", port, "--rdzv-conf", "timeout=1", *flags]
    code, out, err = launcher.run(*asked, "train.py", cwd=tmp_path)
    assert (code, out) == (2, "") and re.search(says, err), err


def test_a_taken_port_and_a_second_host_of_one_number(launcher, tmp_path, port):
    (tmp_path / "train.py").write_text("import time\ntime.sleep(300)\n")
    flags = ["--nnodes", "2", "--master-port", port, "--rdzv-conf", "timeout=60"]
    with closing(socket.create_server(("127.0.0.1", int(port)))):
        code, _, err = launcher.run(*flags, "train.py", cwd=tmp_path)
        assert code == 2 and f"port {port} of 127.0.0.1 cannot be had" in err
    flags = ["--nnodes", "3", *flags[2:]]
    zero = launcher.start(*flags, "train.py", cwd=tmp_path)
    one = [launcher.start(*flags, "--node-rank", "1", "train.py", cwd=tmp_path) for _ in range(2)]
    other = launcher.start(
        *flags, "--rdzv-id", "other", "--node-rank", "1", "train.py", cwd=tmp_path
    )
    assert other.wait() == 2 and "another --rdzv-id" in other.err
    end = time.monotonic() + 30
    while all(each.ended() is None for each in one) and time.monotonic() < end:
        time.sleep(0.01)
    one.sort(key=lambda each: each.ended() is None)
    assert one[0].ended() == 2 and "there is a host with --node-rank 1" in one[0].err
    os.kill(zero.pid, signal.SIGTERM)
    assert zero.wait() == 128 + signal.SIGTERM
    assert one[1].wait() == 2 and "the meeting point" in one[1].err and "is lost" in one[1].err


def test_hostile_words_do_not_harm_the_point():
    point = Point("127.0.0.1", 0, "key", 1, 1, True, 60, 0)

    def talk(*lines: bytes) -> list[dict]:
        with socket.create_connection(("127.0.0.1", point.port), timeout=5) as client:
            for _ in range(5):
                point.poll(0.01)
            with client.makefile("rb") as file:
                told = [json.loads(file.readline())]
                nonce = told[0]["nonce"].encode()
                right = proof("key", nonce.decode()).encode()
                with suppress(OSError):  # it has hung up while we were talking
                    for line in lines:
                        client.sendall(line.replace(b"PROOF", right))
                    for _ in range(20):
                        point.poll(0.01)
                    client.shutdown(socket.SHUT_WR)
                for _ in range(5):
                    point.poll(0.01)
                try:
                    return told + [json.loads(line) for line in file]
                except ConnectionResetError:
                    return told

    hostile = [b"{}\n", b"[1]\n", b"null\n", b'{"ended": ""}\n', b"\xff\n", b'{"proof": 3}\n']
    hostile += [
        b'{"proof": "PROOF", "ranks": "x"}\n',
        b'{"proof": "PROOF", "ranks": []}\n',
        b"{" * 9000,
    ]
    hostile += [b'{"proof": "PROOF", "ranks": 0}\n', b'{"proof": "PROOF", "ranks": 1000000000}\n']
    for line in hostile:
        assert not any("start" in message for message in talk(line)), line
    host = {"ranks": 2, "node": 0, "restarts": 0, "split": 1, "port": 1, "address": "x"}
    well = json.dumps({"proof": "PROOF"} | host).encode() + b"\n"
    (start,) = [m["start"] for m in talk(well) if "start" in m]
    assert start["size"] == 2 and len(start["wiring"]) == 2
    point.close()
