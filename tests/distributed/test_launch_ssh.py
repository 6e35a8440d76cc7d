"""``--hosts``: launchers through ssh, here a script that runs what it is told in this machine."""

from __future__ import annotations

import os
import signal
import socket
import time
from contextlib import closing
from pathlib import Path

import pytest

_SSH = """#!/bin/sh
host=$1
shift
echo "$host" >> LOG
if [ "$host" = unreachable ]; then echo "no route to $host" >&2; exit 255; fi
exec sh -c "$*"  # as ssh: words joined by spaces, for the shell over there
"""
_WHO = """
import os, sys
names = "RANK WORLD_SIZE LOCAL_RANK GROUP_RANK GROUP_WORLD_SIZE".split()
told = " ".join(os.environ[name] for name in names)
os.write(1, f"{told} {' '.join(sys.argv[1:])}\\n".encode())
"""


@pytest.fixture
def hosts(launcher, tmp_path):
    """``hosts(script, *flags)``: a launcher of hosts that runs."""
    ssh = tmp_path / "fake ssh"
    ssh.write_text(_SSH.replace("LOG", f"'{tmp_path / 'log'}'"))
    ssh.chmod(0o755)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]

    def start(script, *flags, arguments=(), **variables):
        (tmp_path / "it's.py").write_text(script)
        base = ["--ssh", f"'{ssh}'", "--master-addr", "127.0.0.1", "--master-port", str(port)]
        return launcher.start(*base, *flags, "it's.py", *arguments, cwd=tmp_path, **variables)

    return start


def left(place: Path, within: float = 20) -> list[str]:
    """The processes that still run something in a folder."""
    end = time.monotonic() + within
    while True:
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(each / "cwd") == str(place):
                    found.append((each / "cmdline").read_text().replace("\0", " "))
            except OSError:  # it has ended
                continue
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.05)


def test_hosts_are_one_world(hosts, tmp_path):
    pytest.importorskip("mpi4py")
    script = (
        _WHO + "from fx.distributed import mpi\nworld = mpi.start().COMM_WORLD\n"
        "told = f'sum {world.allreduce(world.rank + 1)} ' + os.environ['FX_SAID']\n"
        "os.write(1, told.encode() + b'\\n')\n"
    )
    run = hosts(script, "--hosts", "a,me@b:2", arguments=["--x", "two words", "--hosts=c"],
                FX_SAID="it's; $HOME")  # fmt: skip
    assert run.wait() == 0, run.err
    lines = sorted(run.out.splitlines())
    more = "--x two words --hosts=c"
    told = [f"0 3 0 0 2 {more}", f"1 3 0 1 2 {more}", f"2 3 1 1 2 {more}"]
    assert lines == [*told, *["sum 6 it's; $HOME"] * 3]
    assert sorted((tmp_path / "log").read_text().split()) == ["a", "me@b"]
    assert not left(tmp_path)


def test_a_failure_on_one_host_ends_all(hosts, tmp_path):
    script = _WHO + "import time\nif os.environ['RANK'] == '1': raise ValueError('of rank 1')\n"
    run = hosts(script + "time.sleep(300)\n", "--hosts=a,b")
    assert run.wait(60) == 1
    assert "ValueError: of rank 1" in run.err and "host 127.0.0.1: rank 1: Value" in run.err
    assert not left(tmp_path)


def test_restarts_are_those_of_each_launcher(hosts, tmp_path):
    script = _WHO + "import time\nif os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
    script += "    if os.environ['RANK'] == '1': os.kill(os.getpid(), 9)\n    time.sleep(300)\n"
    run = hosts(script, "--hosts", "a,b", "--max-restarts=1")
    assert run.wait(60) == 0, run.err
    assert run.err.count("starting again (1 of 1)") == 2


def test_a_host_that_cannot_be_reached_ends_all_by_name(hosts, tmp_path):
    began = time.monotonic()
    run = hosts(
        _WHO + "import time\ntime.sleep(300)\n", "--hosts", "a,unreachable,c",
        "--shutdown-timeout", "1",
    )  # fmt: skip
    assert run.wait(60) == 1
    assert "no route to unreachable" in run.err
    assert "host 1: unreachable: " in run.err and "ended with 255" in run.err
    assert run.out == "" and time.monotonic() - began < 40
    assert not left(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_all_end_with_the_one_that_started_them(hosts, tmp_path, number):
    run = hosts(_WHO + "import time\ntime.sleep(300)\n", "--hosts", "a,b")
    run.until(" 2 0 ", 2)
    os.kill(run.pid, number)
    code = run.wait(60)
    assert code == (-number if number == signal.SIGKILL else 128 + number)
    assert not left(tmp_path)


def test_localhost_needs_no_ssh(hosts, tmp_path):
    run = hosts(_WHO, "--hosts", "localhost", "--nproc_per_node=2")
    assert run.wait(60) == 0, run.err
    assert sorted(run.out.splitlines()) == ["0 2 0 0 1 ", "1 2 1 0 1 "]
    assert not (tmp_path / "log").exists()


def test_the_key_is_in_no_command_line(hosts, tmp_path):
    script = (
        _WHO + "print(os.environ.get('FX_RUN_KEY'), flush=True)\nimport time\ntime.sleep(300)\n"
    )
    run = hosts(script, "--hosts", "a,b", FX_RUN_KEY="hush-hush")
    run.until("hush-hush", 2)
    lines = left(tmp_path, 0)
    assert lines and not any("hush" in line for line in lines)
    os.kill(run.pid, signal.SIGTERM)
    run.wait(60)
    assert not left(tmp_path)


@pytest.mark.parametrize(
    "flags, says",
    [
        (["--hosts", "a,,b"], "--hosts takes HOST,USER@HOST,HOST:RANKS,...; got ''"),
        (["--hosts", "a:0"], "got 'a:0'"),
        (["--hosts", "-oProxyCommand=x"], "expected one argument"),
        (["--hosts=-oProxyCommand=x"], "got '-oProxyCommand=x'"),
        (["--hosts", "a", "--nnodes", "2"], "leave --nnodes, --node-rank out"),
        (["--hosts", "a", "--rdzv-backend", "c10d"], "leave --rdzv-backend out"),
    ],
)
def test_what_is_wrong_is_told(hosts, tmp_path, flags, says):
    run = hosts("", *flags)
    assert run.wait(60) == 2 and says in run.err, run.err
    assert not (tmp_path / "log").exists()


def test_an_ssh_that_is_not_there(hosts):
    run = hosts("", "--hosts", "a", "--ssh", "no-such-ssh -v")
    assert run.wait(60) == 2 and "--ssh 'no-such-ssh -v': " in run.err
