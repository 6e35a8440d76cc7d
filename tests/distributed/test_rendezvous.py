"""How ranks that no launcher started find each other, stores, and what goes wrong there."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

import fx
import fx.distributed as dist
from fx.distributed import FileStore, HashStore, PrefixStore, TCPStore, rendezvous
from tests.distributed.ranks import ROOT

SECOND = timedelta(seconds=1)
SCRIPTS = ROOT / "tests" / "distributed" / "scripts"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def run_ranks(commands, environments=({}, {}), deadline=60):
    """Processes side by side; their ends, outputs and errors."""
    started = [
        subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        for command, environment in zip(commands, environments, strict=True)
    ]
    try:
        said = [process.communicate(timeout=deadline) for process in started]
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and what it has forked
    return [(p.returncode, *s) for p, s in zip(started, said, strict=True)]


# what a script imports is imported once, and its ranks are forks
FORKED = """
import ast, os, runpy, sys, traceback
source = sys.argv[1]
imports = ast.Import | ast.ImportFrom
lines = [x for x in ast.parse(open(source).read()).body if isinstance(x, imports)]
exec(compile(ast.Module(lines, []), source, "exec"), {})
ranks = []
for rank in range(2):
    ranks.append(os.fork())
    if not ranks[-1]:
        os.environ["RANK"], sys.argv, code = str(rank), sys.argv[1:], 1
        try:
            runpy.run_path(source, run_name="__main__")
            code = 0
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(code)
sys.exit(any([os.waitpid(rank, 0)[1] for rank in ranks]))
"""


def run_script(source, place):
    """The script in two ranks by ``env://``; what each of them saw."""
    port = str(free_port())
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ((code, _, error),) = run_ranks([["-c", FORKED, source, place]], [common])
    assert code == 0, error
    return [json.loads((place / str(r)).read_text()) for r in range(2)]


def seen_by_both(name, place):
    """What each rank of a script sees by torch's gloo, and with its import lines changed."""
    pytest.importorskip("torch")
    for library in ("torch", "fx"):
        (place / library).mkdir()
    theirs = run_script(SCRIPTS / name, place / "torch")
    text = (SCRIPTS / name).read_text()
    text = re.sub(r"(?m)^import torch$", "import fx.torch as torch", text)
    (place / name).write_text(re.sub(r"(?m)^(import|from) torch", r"\1 fx.torch", text))
    return theirs, run_script(place / name, place / "fx")


@pytest.mark.peers
def test_a_script_sees_what_it_sees_under_torch(tmp_path):
    theirs, ours = seen_by_both("collectives.py", tmp_path)
    assert ours == theirs
    assert len(ours[0]) > 20


def near(a, b):
    """Whether trees of numbers are the same to six digits."""
    if isinstance(a, dict):
        return list(a) == list(b) and all(near(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(near, a, b))
    return a == b or (isinstance(a, float) and abs(a - b) <= 1e-6 + 2e-5 * abs(a))


@pytest.mark.peers
def test_data_parallel_training_is_torchs(tmp_path):
    """Buckets, buffers, no_sync, unused parameters, static graphs, uneven inputs."""
    theirs, ours = seen_by_both("ddp.py", tmp_path)
    for rank in range(2):
        assert theirs[rank]["error"] is True
        wrong = [k for k in theirs[rank] if not near(theirs[rank][k], ours[rank].get(k))]
        assert not wrong, [(theirs[rank][k], ours[rank].get(k)) for k in wrong]


@pytest.mark.peers
def test_sharded_training_is_torchs(tmp_path):
    """Units in a unit, parts, whole states, clipping, dtypes."""
    theirs, ours = seen_by_both("fsdp.py", tmp_path)
    for rank in range(2):
        wrong = [k for k in theirs[rank] if not near(theirs[rank][k], ours[rank].get(k))]
        assert not wrong, [(k, theirs[rank][k], ours[rank].get(k)) for k in wrong]


@pytest.mark.peers
def test_recipes_are_torchs(tmp_path):
    """Losses over all ranks, mixed precision, state that resumes, local steps, one buffer."""
    theirs, ours = seen_by_both("recipes.py", tmp_path)
    for rank in range(2):
        assert len(theirs[rank]) == 19 and theirs[rank]["resumed"] and ours[rank]["resumed"]
        wrong = [k for k in theirs[rank] if not near(theirs[rank][k], ours[rank].get(k))]
        assert not wrong, [(k, theirs[rank][k], ours[rank].get(k)) for k in wrong]


@pytest.mark.peers
def test_functional_collectives_are_torchs(tmp_path):
    """By groups, meshes and axes of them, and what flows back."""
    theirs, ours = seen_by_both("functional.py", tmp_path)
    for rank in range(2):
        assert len(theirs[rank]) == 8
        wrong = [k for k in theirs[rank] if not near(theirs[rank][k], ours[rank].get(k))]
        assert not wrong, [(k, theirs[rank][k], ours[rank].get(k)) for k in wrong]


RANK = """
import sys
from datetime import timedelta
import fx, fx.distributed as dist
rank, size, method, seconds = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
dist.init_process_group("mpi", method, timedelta(seconds=seconds), size, rank)
print(dist.all_reduce(fx.ones(2) * (rank + 1)).tolist())
dist.barrier()
if rank:
    print(len(dist.group.WORLD.store.list_keys()) > 3)
dist.barrier()
"""


OWN = """
from fx.distributed.rendezvous import register_rendezvous_handler, rendezvous
register_rendezvous_handler("own", lambda url, **told: rendezvous("file" + url[3:], **told))
"""


@pytest.mark.parametrize("scheme", ["tcp", "own"])
def test_ranks_find_each_other(scheme, tmp_path):
    method = f"tcp://127.0.0.1:{free_port()}" if scheme == "tcp" else f"own://{tmp_path}/store"
    ends = run_ranks([["-c", OWN + RANK, str(r), "2", method, "30"] for r in range(2)])
    assert [e[0] for e in ends] == [0, 0], ends
    assert ends[0][1].split("\n")[0] == ends[1][1].split("\n")[0] == "[3.0, 3.0]"
    assert "True" in ends[1][1]


LATE = """
import time
from pathlib import Path
from fx.distributed.store import PrefixStore
if int(sys.argv[1]) == 0:
    tell = PrefixStore.multi_set
    PrefixStore.multi_set = lambda *given: (tell(*given), time.sleep(0.5))
    while not Path(sys.argv[3].removeprefix("file://")).exists():
        time.sleep(0.01)
"""


def test_a_rank_serves_the_store_while_it_waits_in_mpi(tmp_path):
    code = RANK.replace("rank, size", LATE + "rank, size", 1)  # rank 1 comes first, and has it
    ends = run_ranks([["-c", code, str(r), "2", f"file://{tmp_path}/store", "30"] for r in (0, 1)])
    assert [e[0] for e in ends] == [0, 0], ends


def test_a_world_of_one_needs_nobody():
    code = """
import os
os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
import fx, fx.distributed as dist
dist.init_process_group("mpi")
x = fx.nn.Buffer(fx.ones(2))
dist.all_reduce(x, dist.ReduceOp.AVG)
assert x.tolist() == [1, 1] and dist.get_world_size() == 1
dist.barrier()
dist.monitored_barrier()
out = [None]
dist.all_gather_object(out, "me")
assert out == ["me"]
sampler = fx.data.DistributedSampler(range(4), shuffle=False)
assert list(sampler) == [0, 1, 2, 3]
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


AGAIN = """
import sys
from datetime import timedelta
import fx, fx.distributed as dist

rank, how = int(sys.argv[1]), sys.argv[3]
join = lambda place, rank, size: dist.init_process_group(
    init_method=place, rank=rank, world_size=size, timeout=timedelta(seconds=5)
)
for turn in range(2):
    join(sys.argv[2], rank, 2)
    assert dist.all_reduce(fx.ones(3)).tolist() == [2] * 3
    if how == "spoiled":  # a call of the first world that did not fit is not in the second
        try:
            x = dist.all_reduce(fx.ones(3 + rank))
        except dist.DistError as error:
            assert "do not call the same" in str(error)
        else:
            raise AssertionError("nothing was raised")
    dist.destroy_process_group()
if how == "other":
    try:
        join(sys.argv[2], 0, 1)
    except dist.DistError as error:
        assert f"is rank {rank} of 2 since MPI was started" in str(error), error
        assert "start a new process" in str(error)
    else:
        raise AssertionError("nothing was raised")
"""


@pytest.mark.parametrize("how", ["spoiled", "other"])
def test_a_second_world_at_the_same_address(how):
    method = f"tcp://127.0.0.1:{free_port()}"
    ends = run_ranks([["-c", AGAIN, str(r), method, how] for r in range(2)])
    assert [e[0] for e in ends] == [0, 0], ends


# what goes wrong ----------------------------------------------------------------------------------


def test_who_is_missing_is_named():
    method = f"tcp://127.0.0.1:{free_port()}"
    code, _, error = run_ranks([["-c", RANK, "0", "3", method, "0.5"]], [{}])[0]
    assert code and re.search(
        r"DistStoreError: rank 1, 2 of 3 did not come to .* within 0.5 s", error
    )
    assert "fx/distributed" not in error  # the user's frames


def test_nobody_answers():
    method = f"tcp://127.0.0.1:{free_port()}"
    code, _, error = run_ranks([["-c", RANK, "1", "2", method, "0.5"]], [{}])[0]
    assert code and f"nobody answers at {method[6:]} after 0.5 s" in error


def test_a_rank_that_is_taken():
    method = f"tcp://127.0.0.1:{free_port()}"
    ends = run_ranks([["-c", RANK, r, "3", method, "2"] for r in ("0", "1", "1")], [{}, {}, {}])
    assert sum("another process is rank 1 already" in e[2] for e in ends) == 1
    assert "rank 2 of 3 did not come" in ends[0][2]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(rank=2, world_size=2), "rank 2 is not in a world of 2"),
        (dict(rank=0), "rank and world_size must be given, and are 0 and -1"),
        (dict(backend="nccl"), r"write\s+init_process_group\('mpi'\)"),
        (dict(backend="cpu:fake,cuda:nccl", rank=5, world_size=2), "rank 5 is not in a world"),
        (dict(backend="other"), "Invalid backend: 'other'; there are mpi, gloo, ray, fake"),
        (dict(init_method="udp://x"), "No rendezvous handler for udp://"),
        (dict(init_method="tcp://host", rank=0, world_size=2), "has no port"),
        (dict(store=HashStore(), init_method="env://"), "Cannot specify both"),
        (dict(timeout=3), r"got 3; write datetime.timedelta\(seconds=3\)"),
        (dict(reduction="fast"), "reduction is 'engine' or 'ordered'"),
        (dict(init_method="env://"), "environment variable RANK expected, but not set"),
    ],
)  # fmt: skip
def test_bad_arguments(arguments, words, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "PMI_RANK"):
        monkeypatch.delenv(name, raising=False)
    if "rank" in arguments and "init_method" not in arguments:
        arguments = {"init_method": "tcp://127.0.0.1:1", **arguments}
    with pytest.raises((ValueError, RuntimeError, TypeError), match=words):
        dist.init_process_group(**arguments)
    assert not dist.is_initialized()


def test_handlers_and_the_store_of_a_url(tmp_path):
    store, rank, size = next(rendezvous.rendezvous(f"file://{tmp_path}/store?rank=1", -1, 2))
    assert (rank, size) == (1, 2)
    store.set("k", "v")
    assert next(rendezvous.rendezvous(f"file://{tmp_path}/store", 0, 2))[0].get("k") == b"v"
    for scheme in ("env", "file"):
        with pytest.raises(RuntimeError, match="already registered"):
            rendezvous.register_rendezvous_handler(scheme, None)
    with pytest.raises(ValueError, match="No rendezvous handler for nobody://"):
        rendezvous.rendezvous("nobody://")


def test_a_fake_group_has_any_size():
    dist.init_process_group("fake", rank=70, world_size=4000)
    try:
        x = fx.ones((2, 3))
        assert dist.all_reduce(x).shape == (2, 3)
        assert len(dist.all_gather([x] * 4000, x)) == 4000
        assert dist.all_gather_into_tensor(fx.zeros((8000, 3)), x).shape == (8000, 3)
        assert dist.reduce_scatter_tensor(fx.zeros(2), fx.zeros(8000)).shape == (2,)
        group = dist.new_group(range(64, 96))
        assert group.size() == 32 and group.rank() == 6
        with pytest.raises(RuntimeError, match="nobody to talk to"):
            dist.send(x, 1)
        sampler = fx.data.DistributedSampler(range(8000), shuffle=False)
        assert list(sampler) == [70, 4070]
    finally:
        dist.destroy_process_group()


# stores -------------------------------------------------------------------------------------------


def stores(tmp_path):
    hashed = HashStore()
    yield hashed, hashed
    first = TCPStore("127.0.0.1", 0, is_master=True)
    yield first, TCPStore("127.0.0.1", first.port, timeout=10 * SECOND)
    yield FileStore(tmp_path / "a"), FileStore(tmp_path / "a")
    yield PrefixStore("p", first), PrefixStore("p", TCPStore("localhost", first.port))


def test_stores(tmp_path):
    for one, other in stores(tmp_path):
        one.set("key", "first")
        assert other.get("key") == b"first" and one.num_keys() == 1
        assert other.add("count", 2) == 2 and one.add("count", -5) == -3
        other.append("key", b" more")
        assert one.get("key") == b"first more"
        one.multi_set(["a", "b"], ["1", b"2"])
        assert other.multi_get(["b", "a"]) == [b"2", b"1"]
        assert sorted(other.list_keys()) == ["a", "b", "count", "key"]
        assert other.check(["a", "b"]) and not other.check(["a", "c"])
        assert one.delete_key("a") and not other.delete_key("a")
        assert other.compare_set("b", "3", "4") == b"2" and other.compare_set("b", "2", "4") == b"4"
        threading.Timer(0.05, lambda store=one: store.set("late", "x")).start()
        other.wait(["late"], SECOND)
        again = other.clone()
        again.set_timeout(0.1)
        with pytest.raises(dist.DistStoreError, match=r"after 0.1 s: nobody has set 'never'"):
            again.get("never")
        assert other.timeout > again.timeout and again.get("b") == b"4"
        with pytest.raises(TypeError, match=r"write str\(5\)"):
            one.set("five", 5)


def test_a_counter_counts_every_one():
    first = TCPStore("127.0.0.1", 0, is_master=True)
    clients = [TCPStore("127.0.0.1", first.port) for _ in range(3)]
    work = [
        threading.Thread(target=lambda s=s: [s.add("n", 1) for _ in range(50)]) for s in clients
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert first.add("n", 0) == 150


def test_a_port_that_is_taken():
    first = TCPStore("127.0.0.1", 0, is_master=True)
    with pytest.raises(dist.DistNetworkError, match=f"cannot listen at 127.0.0.1:{first.port}"):
        TCPStore("127.0.0.1", first.port, is_master=True)


def test_a_store_that_this_process_serves_is_shared_where_asked():
    first = TCPStore("127.0.0.1", 0, is_master=True)
    first.set("a", "b")
    again = TCPStore("127.0.0.1", first.port, is_master=True, multi_tenant=True)
    assert again.get("a") == b"b" and again.port == first.port


def test_another_key(monkeypatch):
    first = TCPStore("127.0.0.1", 0, is_master=True)
    monkeypatch.setenv("FX_STORE_KEY", "another")
    with pytest.raises(dist.DistStoreError, match="has another key"):
        TCPStore("127.0.0.1", first.port, timeout=10 * SECOND)
    monkeypatch.delenv("FX_STORE_KEY")
    TCPStore("127.0.0.1", first.port, timeout=10 * SECOND).set("it", "goes on")
    assert first.get("it") == b"goes on"


def test_a_master_waits_for_its_world():
    with pytest.raises(dist.DistStoreError, match="for 3 processes, and 1 came"):
        TCPStore("127.0.0.1", 0, 3, is_master=True, timeout=timedelta(seconds=0.1))


def test_a_file_that_a_dead_process_left(tmp_path):
    path = tmp_path / "store"
    path.write_text(f"fx store at {free_port()}\n")
    store = FileStore(path)
    store.set("a", "b")
    assert FileStore(path).get("a") == b"b"
    other = tmp_path / "text"
    other.write_text("somebody's")
    with pytest.raises(dist.DistStoreError, match="no store's file"):
        FileStore(other)


@pytest.mark.peers
def test_tensor_parallel_training_is_torchs(tmp_path):
    """Losses, gradients, parameters and placements by tensor and by sequence parallel."""
    theirs, ours = seen_by_both("tensor_parallel.py", tmp_path)
    for rank in range(2):
        assert len(theirs[rank]) == 18
        wrong = [k for k in theirs[rank] if not near(theirs[rank][k], ours[rank].get(k))]
        assert not wrong, [(theirs[rank][k], ours[rank].get(k)) for k in wrong]
