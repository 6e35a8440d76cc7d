"""The flight recorder: what it keeps, what outlives a rank, and what the launcher makes of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from fx.distributed import recorder
from fx.distributed.launch.hangs import different


@pytest.fixture
def ring(tmp_path, monkeypatch):
    """The file of a ring that this process writes."""
    path = tmp_path / "flight"
    monkeypatch.setenv("FX_DIST_RECORD", str(path))
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setattr(recorder, "_ring", None)
    return path


def test_a_ring_keeps_the_last_records_with_the_users_line(ring):
    before = time.monotonic()
    tokens = [recorder.begin("all_reduce", 8 * k, "rows" if k % 2 else "world") for k in range(5)]
    recorder.end(tokens[0])
    recorder.end(tokens[1], failed=True)
    recorder.timeout(7.5)
    flight = recorder.read(ring)
    assert (flight.rank, flight.timeout, flight.count) == (3, 7.5, 5)
    assert [r.state for r in flight.records] == ["done", "failed", "begun", "begun", "begun"]
    assert [(r.sequence, r.group) for r in flight.records] == [
        (1, "world"), (1, "rows"), (2, "world"), (2, "rows"), (3, "world"),
    ]  # fmt: skip
    assert [r.bytes for r in flight.records] == [0, 8, 16, 24, 32]
    assert {r.op for r in flight.records} == {"all_reduce"}
    assert all(re.fullmatch(rf"{re.escape(__file__)}:\d+", r.line) for r in flight.records)
    assert all(before <= r.begun <= time.monotonic() for r in flight.records)
    assert flight.records[0].ended >= flight.records[0].begun
    assert recorder.mine() == flight


def test_old_records_and_too_many_strings_give_way(ring):
    first = recorder.begin("first", 0)
    for k in range(recorder.RECORDS):
        recorder.end(recorder.begin(f"op {k} {'x' * 100}", 1))
    recorder.end(first)  # its place is another's by now
    flight = recorder.read(ring)
    assert flight.count == recorder.RECORDS + 1 and len(flight.records) == recorder.RECORDS
    assert flight.records[0].op.startswith("op 0") and flight.records[0].bytes == 1
    assert flight.records[-1].sequence == recorder.RECORDS + 1
    assert flight.records[-1].op == "(no room)"
    assert flight.records[-1].state == "done"


def test_files_that_are_no_rings_are_none(tmp_path):
    assert recorder.read(tmp_path / "none") is None
    (tmp_path / "short").write_bytes(b"fxflight")
    assert recorder.read(tmp_path / "short") is None


def test_a_ring_outlives_sigkill(tmp_path):
    path = tmp_path / "flight"
    code = (
        "from fx.distributed import recorder as r; import os; r.end(r.begin('one', 1)); "
        "r.begin('two', 2); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"FX_DIST_RECORD": str(path)}, timeout=60
    )
    assert done.returncode == -signal.SIGKILL
    assert [(r.op, r.state) for r in recorder.read(path).records] == [
        ("one", "done"),
        ("two", "begun"),
    ]


def test_a_forked_child_has_no_part_in_the_ring(ring):
    recorder.begin("parent", 0)
    child = os.fork()
    if not child:
        recorder.begin("child", 0)
        os._exit(0)
    os.waitpid(child, 0)
    assert [r.op for r in recorder.read(ring).records] == ["parent"]


def test_ranks_that_compile_different_programs_are_named(tmp_path, monkeypatch):
    flights = {}
    for rank, digests in enumerate((["a", "b", "c"], ["a", "b"], ["a", "x", "c"])):
        monkeypatch.setenv("FX_DIST_RECORD", str(tmp_path / str(rank)))
        monkeypatch.setattr(recorder, "_ring", None)
        for digest in digests:
            recorder.compiled(digest)
        flights[rank] = recorder.read(tmp_path / str(rank))
    said = different(flights)
    assert "ranks 1 and 2" in said and "program 2 is b" in said and "x (" in said
    flights.pop(2)
    assert different(flights) is None  # one that has compiled less is late, not different


_HANG = """
import os, time
from fx.distributed import recorder
recorder.timeout(0.5)
rank = int(os.environ["RANK"])
recorder.end(recorder.begin("broadcast", 8))
def elsewhere():
    time.sleep(300)
if rank == 2:
    elsewhere()
recorder.begin("all_reduce", 4096)
time.sleep(300)
"""


def test_a_hang_is_told_with_who_waits_who_is_missing_and_its_stack(launcher, tmp_path):
    (tmp_path / "train.py").write_text(_HANG)
    start = time.monotonic()
    code, _, err = launcher.run("--nproc-per-node", "3", "train.py", cwd=tmp_path)
    assert code == 1 and time.monotonic() - start < 10
    place = tmp_path / "train.py"
    assert re.search(
        r"all_reduce #2, 4096 bytes of group 'world' has waited \d+\.\d s \(timeout 0.5 s\)", err
    )
    for rank in (0, 1):
        assert f"rank {rank} waits in all_reduce #2, 4096 bytes, {place}:11" in err
    assert f"rank 2 has not come: its last was broadcast #1, 8 bytes, {place}:6" in err
    assert re.search(r'File ".*train.py", line 8 in elsewhere', err)
    assert "FAILED" in err


def test_a_rank_that_does_not_come_to_init_process_group_is_named(launcher, tmp_path):
    (tmp_path / "train.py").write_text(
        "import os, time\n"
        "from datetime import timedelta\n"
        "import fx.distributed as dist\n"
        "if os.environ['RANK'] == '1':\n"
        "    time.sleep(300)\n"
        "dist.init_process_group('mpi', timeout=timedelta(seconds=0.5))\n"
    )
    code, _, err = launcher.run("--nproc-per-node", "2", "train.py", cwd=tmp_path)
    assert code == 1 and re.search(r"init_process_group #1 .* has waited .* \(timeout 0.5 s\)", err)
    assert f"rank 0 waits in init_process_group #1, {tmp_path / 'train.py'}:6" in err
    assert "rank 1 has not come: it has begun none; it is at" in err
    assert re.search(r'File ".*train.py", line 5', err)


@pytest.mark.parametrize("timeout", ["0.5", "0"])
def test_a_rank_that_gives_up_waiting_is_explained_too(launcher, tmp_path, timeout):
    (tmp_path / "train.py").write_text(
        _HANG.replace("timeout(0.5)", f"timeout({timeout})")
        .replace("time.sleep(300)\n", "time.sleep(0.5); raise TimeoutError('in vain')\n")
        .replace(
            "def elsewhere():\n    time.sleep(0.5); raise TimeoutError('in vain')",
            "def elsewhere():\n    time.sleep(300)",
        )
    )
    code, _, err = launcher.run("--nproc-per-node", "3", "train.py", cwd=tmp_path)
    assert code == 1 and "rank 2 has not come: its last was broadcast #1" in err
    assert err.count("has waited") == 1


def test_programs_that_differ_end_the_job_before_it_hangs(launcher, tmp_path):
    (tmp_path / "train.py").write_text(
        "import os, time\nfrom fx.distributed import recorder\n"
        "recorder.compiled('program' + os.environ['RANK'])\ntime.sleep(300)\n"
    )
    code, _, err = launcher.run("--nproc-per-node", "2", "train.py", cwd=tmp_path)
    assert code == 1 and "ranks 0 and 1 compiled different programs" in err
    assert f"program 1 is program0 ({tmp_path / 'train.py'}:3) on rank 0" in err
