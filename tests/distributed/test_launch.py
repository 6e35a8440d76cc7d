"""``python -m fx.run``: what ranks are given, how they die, what is left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from tests.distributed.launched import fresh

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork") or not Path("/proc/self").exists(), reason="Linux"
)


@pytest.fixture
def script(tmp_path):
    """``script(text)`` writes a script, and gives its name."""

    def write(text: str, name: str = "train.py") -> str:
        (tmp_path / name).write_text(text)
        return name

    return write


_TELL = """
import json, os, sys, threading
names = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK ROLE_RANK ROLE_NAME".split()
names += "MASTER_ADDR MASTER_PORT".split()
names += [f"TORCHELASTIC_{name}" for name in ("RUN_ID", "RESTART_COUNT", "MAX_RESTARTS")]
import fx, random, numpy as np
told = {name: os.environ[name] for name in names}
told |= {"argv": sys.argv, "main": __name__, "path": sys.path[0], "file": __file__}
told |= {"threads": fx.get_num_threads(), "seed": fx.random.initial_seed()}
told |= {"random": random.random()}
told |= {"numpy": np.random.rand(), "is_main": sys.modules["__main__"].told is told}
open(f"{sys.argv[1]}/{told['RANK']}.json", "w").write(json.dumps(told))
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_ranks_have_torchruns_variables_and_are_as_new_interpreters(
    launcher, script, tmp_path, method
):
    name = script(_TELL)
    flags = [
        "--nproc_per_node",
        "2",
        "--start-method",
        method,
        "--role",
        "tester",
        "--rdzv-id",
        "job7",
    ]
    code, _, err = launcher.run(
        *flags, name, str(tmp_path), "--lr", "1", cwd=tmp_path, FX_CACHE="0"
    )
    assert code == 0, err
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    for rank, told in enumerate((first, second)):
        assert told["RANK"] == told["LOCAL_RANK"] == told["ROLE_RANK"] == str(rank)
        assert told["WORLD_SIZE"] == told["LOCAL_WORLD_SIZE"] == "2"
        assert (told["GROUP_RANK"], told["ROLE_NAME"]) == ("0", "tester")
        assert (told["MASTER_ADDR"], told["TORCHELASTIC_RUN_ID"]) == ("127.0.0.1", "job7")
        assert (told["TORCHELASTIC_RESTART_COUNT"], told["TORCHELASTIC_MAX_RESTARTS"]) == ("0", "0")
        assert told["argv"] == [name, str(tmp_path), "--lr", "1"]
        assert (told["main"], told["path"]) == ("__main__", str(tmp_path)) and told["is_main"]
        assert told["file"] == str(tmp_path / name)
        assert told["threads"] == max(1, len(os.sched_getaffinity(0)) // 2)
    assert first["MASTER_PORT"] == second["MASTER_PORT"] != "0"
    for what in ("seed", "random", "numpy"):
        assert first[what] != second[what], what  # a forked rank must not repeat its sibling


def test_ranks_find_each_other_and_end_as_a_script_ends(launcher, script, tmp_path):
    pytest.importorskip("mpi4py")
    name = script(
        "import atexit, threading, time, sys\n"
        "from fx.distributed import mpi\n"
        "world = mpi.start().COMM_WORLD\n"
        "atexit.register(lambda: print('exit', world.rank))\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('thread', world.rank))).start()\n"
        "sys.stdout.write(f'sum {world.allreduce(world.rank + 1)}\\n')\n"
    )
    code, out, err = launcher.run("--nproc-per-node", "3", name, cwd=tmp_path)
    assert code == 0, err
    assert sorted(out.split("\n")) == sorted(
        ["", *["sum 6"] * 3, *[f"{w} {r}" for w in ("exit", "thread") for r in range(3)]]
    )


def test_a_module_a_program_and_a_script_that_knows_nothing_of_ranks(launcher, script, tmp_path):
    script("print(__name__, __spec__.name)\n", "some.py")
    code, out, err = launcher.run("-m", "some", cwd=tmp_path)
    assert (code, out) == (0, "__main__ some\n"), err
    shell = ["sh", "-c", "echo $RANK of $WORLD_SIZE"]
    code, out, err = launcher.run("--no-python", "--nproc-per-node", "2", *shell, cwd=tmp_path)
    assert (code, sorted(out.splitlines())) == (0, ["0 of 2", "1 of 2"]), err
    code, out, err = launcher.run(script("print('plain')\n"), cwd=tmp_path)
    assert (code, out, err) == (0, "plain\n", "")


_STUCK = """
import os, sys, time
rank = int(os.environ["RANK"])
os.system("sleep 300 &")
if rank == 1:
    time.sleep(0.3)
    print("now", time.monotonic(), flush=True)
    {what}
os.system("sleep 300")
"""


@pytest.mark.parametrize(
    "what, says",
    [
        ("raise ValueError('the second')", "ValueError: the second"),
        ("sys.exit(3)", "exit code 3"),
        ("sys.exit('a word')", "exit code 1"),
        ("os.kill(os.getpid(), 9)", "killed by SIGKILL"),
        (
            "import threading; threading.Thread(target=time.sleep, args=(300,)).start(); 1 / 0",
            "ZeroDivisionError",
        ),
    ],
)
def test_what_ends_one_rank_ends_all(launcher, script, tmp_path, what, says):
    name = script(_STUCK.format(what=what))
    code, out, err = launcher.run("--nproc-per-node", "3", name, cwd=tmp_path)
    took = time.monotonic() - float(re.search(r"now (.*)", out).group(1))
    assert code == 1  # torchrun's
    assert "Root Cause" in err and "rank     : 1 (local_rank: 1" in err
    assert says in err.split("cause    : ")[1]
    assert took < 60  # a second, where nothing else runs; the others would sleep for five minutes
    if "Error" in says:
        assert err.index("Traceback") < err.index("FAILED")
        assert "fx/distributed" not in err  # only the user's frames
        assert f'File "{tmp_path / name}", line 8' in err
    if "word" in what:
        assert "a word\n" in err


_COUNTED = """
import os, sys, time
from pathlib import Path
restart, rank = int(os.environ["TORCHELASTIC_RESTART_COUNT"]), int(os.environ["RANK"])
print("start", restart, rank, time.monotonic(), flush=True)
if restart < 2:
    if rank == 1:
        time.sleep(0.2)
        print("die", time.monotonic(), flush=True)
        os.kill(os.getpid(), 9)
    time.sleep(300)
"""


def test_a_killed_rank_starts_all_again_up_to_max_restarts(launcher, script, tmp_path):
    name = script("import fx\n" + _COUNTED)
    code, out, err = launcher.run(
        "--nproc-per-node", "2", "--max-restarts", "2", name, cwd=tmp_path
    )
    assert code == 0, err
    starts = re.findall(r"start (\d) (\d) (\S+)", out)
    assert sorted(s[:2] for s in starts) == [(str(k), str(r)) for k in range(3) for r in range(2)]
    died = [float(at) for at in re.findall(r"die (\S+)", out)]
    for attempt, at in enumerate(died):
        again = [float(s[2]) for s in starts if s[0] == str(attempt + 1)]
        assert max(again) - at < 60  # less than a second, where nothing else runs
    code, _, err = launcher.run("--nproc-per-node", "2", "--max-restarts", "1", name, cwd=tmp_path)
    assert code == 1 and "starting again (1 of 1)" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_launcher_reaches_the_ranks(launcher, script, tmp_path, number):
    name = script(
        "import os, signal, sys, time\n"
        "def told(number, frame): os.write(1, b'told %d, ' % number); sys.exit(0)\n"
        f"signal.signal({int(number)}, told)\n"
        "os.write(1, b'started, ')\n"
        "time.sleep(300)\n"
    )
    launched = launcher.start("--nproc-per-node", "2", name, cwd=tmp_path)
    launched.until("started", 2)
    os.kill(launched.pid, number)
    assert launched.wait() == 128 + number, launched.err
    assert launched.out.count(f"told {int(number)}") == 2


def test_ranks_and_what_they_started_die_with_a_launcher_that_is_killed(script, tmp_path):
    name = script("import time\nprint('started', flush=True)\ntime.sleep(300)\n")
    launched = fresh("--nproc-per-node", "2", name, cwd=tmp_path)
    launched.until("started", 2)
    assert len(launched.living()) == 3
    os.kill(launched.pid, signal.SIGKILL)
    assert launched.wait() == -signal.SIGKILL  # which sees that all are gone


def test_a_rank_that_ignores_the_signal_is_killed_in_time(launcher, script, tmp_path):
    name = script(
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('started', flush=True)\n"
        "time.sleep(300)\n"
    )
    launched = launcher.start("--shutdown-timeout", "0.2", name, cwd=tmp_path)
    launched.until("started")
    os.kill(launched.pid, signal.SIGTERM)
    assert launched.wait(10) == 128 + signal.SIGTERM


def test_streams_go_where_the_flags_say(launcher, script, tmp_path):
    name = script(
        "import os, sys\n"
        "print('out', os.environ['RANK']); print('err', os.environ['RANK'], file=sys.stderr)\n"
        "sys.stdout.write('no newline'); sys.stdout.flush(); os.kill(os.getpid(), 9)\n"
    )
    flags = ["--nproc-per-node", "2", "--log-dir", "logs", "--redirects", "1:2", "--tee", "0:3,1:1"]
    code, out, err = launcher.run(*flags, name, cwd=tmp_path)
    assert code == 1
    (logs,) = (tmp_path / "logs").glob("*/attempt_0")
    shown = {line for line in out.splitlines() if line.startswith("[default")}
    assert "[default0]:out 0" in shown or "[default1]:out 1" in shown
    assert "[default0]:err 0" in err or "[default1]:out 1" in shown
    assert "err 1" not in err
    text = (logs / "0" / "stdout.log").read_text() + (logs / "1" / "stdout.log").read_text()
    assert "no newline" in text
    assert (logs / "1" / "stderr.log").exists() or "rank     : 0" in err


def test_the_console_shows_only_the_ranks_that_are_asked_for(launcher, script, tmp_path):
    name = script("import os\nprint('rank', os.environ['RANK'])\n")
    code, out, _ = launcher.run(
        "--nproc-per-node", "3", "--local-ranks-filter", "0,2", name, cwd=tmp_path
    )
    assert (code, sorted(out.splitlines())) == (0, ["rank 0", "rank 2"])


def test_a_traceback_that_went_into_a_file_is_shown_by_the_launcher(launcher, script, tmp_path):
    name = script("raise KeyError('hidden')\n")
    code, _, err = launcher.run("--redirects", "3", "--log-dir", "logs", name, cwd=tmp_path)
    assert code == 1 and err.index("KeyError: 'hidden'") < err.index("FAILED")
    (error,) = (tmp_path / "logs").glob("*/attempt_0/0/error.json")
    message = json.loads(error.read_text())["message"]
    assert message["message"] == "KeyError: 'hidden'"
    assert "Traceback" in message["extraInfo"]["py_callstack"]


def test_want_of_memory_halves_the_batch(launcher, script, tmp_path):
    name = script(
        "import os\nsplit = int(os.environ['FX_BATCH_SPLIT'])\nprint('split', split)\n"
        "if split < 4: raise MemoryError('too much')\n"
    )
    code, out, err = launcher.run("--on-oom", "halve", name, cwd=tmp_path)
    assert (code, out) == (0, "split 1\nsplit 2\nsplit 4\n"), err
    assert launcher.run(name, cwd=tmp_path)[0] == 1


_BAD = [
    (["missing.py"], "there is no script 'missing.py'"),
    (["--nproc-per-node", "0", "train.py"], "--nproc-per-node takes a number from 1"),
    (["--nproc-per-node", "two", "train.py"], "got 'two'"),
    (["--nproc", "2", "train.py"], "fx.run: error"),
    (["--no-such-flag", "train.py"], "unrecognized arguments: --no-such-flag"),
    (["--nnodes", "2:1", "train.py"], "--nnodes takes N or MIN:MAX"),
    (["--redirects", "4", "train.py"], "--redirects takes 0 to 3"),
    (["--redirects", "1:1", "train.py"], "ranks below 1"),
    (["--tee", "x", "train.py"], "--tee takes numbers"),
    (["--max-restarts", "-1", "train.py"], "--max-restarts"),
    (["--monitor-interval", "0", "train.py"], "--monitor-interval"),
    (["--signals-to-handle", "SIGKILL", "train.py"], "SIGKILL"),
    (["--node-rank", "1", "train.py"], "--node-rank 1"),
    ([], "the following arguments are required: script"),
]


@pytest.mark.parametrize("arguments, says", _BAD)
def test_bad_arguments_are_named(launcher, script, tmp_path, capsys, monkeypatch, arguments, says):
    from fx.distributed.launch import main

    script("")
    monkeypatch.chdir(tmp_path)
    try:
        code = main(arguments)
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert says in capsys.readouterr().err


def test_a_port_that_is_taken_and_an_address_of_another_host(launcher, script, tmp_path):
    import socket

    name = script("print('never')\n")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        code, out, err = launcher.run("--master-port", port, name, cwd=tmp_path)
    assert (code, out) == (2, "") and f"port {port} of 127.0.0.1 cannot be had" in err
    code, out, err = launcher.run("--no-python", "no-such-program", cwd=tmp_path)
    assert code == 1 and "'no-such-program' cannot be run" in err and "exit code 127" in err


def test_flags_come_from_the_environment_and_more_ranks_than_cores_are_told(
    launcher, script, tmp_path
):
    name = script("import os\nprint(os.environ['WORLD_SIZE'], os.environ['OMP_NUM_THREADS'])\n")
    many = len(os.sched_getaffinity(0)) + 1
    code, out, err = launcher.run(name, cwd=tmp_path, PET_NPROC_PER_NODE=str(many))
    assert (code, out) == (0, f"{many} 1\n" * many)
    assert f"warning: {many} ranks on {many - 1} cores" in err
