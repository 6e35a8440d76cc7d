"""Distributed checkpoints in each of several ranks: what is written, by whom, and read again."""

import os
import random
import tempfile
from datetime import timedelta
from pathlib import Path

import numpy as np

import fx
import fx.distributed as dist
from fx.distributed import checkpoint
from fx.distributed.checkpoint import Shard
from fx.distributed.checkpoint.manifest import Shards
from fx.errors import FileFormatError
from tests.distributed.shared import refused

dist.init_process_group("mpi", timeout=timedelta(seconds=60))
rank, size = dist.get_rank(), dist.get_world_size()


def folder():
    """A new one, the same in all ranks."""
    made = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(made, src=0)
    return Path(made[0])


def rows(whole, of, many):
    """The slice of rank ``of`` where ``many`` share the rows, as evenly as they go."""
    cut = [len(whole) * i // many for i in range(many + 1)]
    return Shard(fx.asarray(whole[cut[of] : cut[of + 1]]), whole.shape, (cut[of], 0))


def trained():
    fx.manual_seed(0)
    model = fx.nn.Sequential(fx.nn.Linear(3, 5), fx.nn.Tanh(), fx.nn.Linear(5, 2))
    optimizer = fx.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(2):
        step(model, optimizer)
    return model, optimizer


def step(model, optimizer):
    optimizer.zero_grad()
    (model(fx.ones((4, 3))) ** 2).sum().backward()
    optimizer.step()


def bits(module):
    return [p.detach().numpy().tobytes() for p in module.parameters()]


def case_a_run_goes_on_with_the_same_bits():
    model, optimizer = trained()
    random.seed(rank)
    fx.manual_seed(rank)
    parts = {"model": model, "optimizer": optimizer, "random": checkpoint.RandomState()}
    path = folder()
    manifest = checkpoint.save({**parts, "epoch": 3, "mine": [rank, "a"]}, checkpoint_id=path)
    drawn = random.random(), fx.torch.rand(3).tolist()
    step(model, optimizer)
    want = bits(model)
    assert sum(len(e.variants) for e in manifest.entries if e.name.startswith("model")) == 4
    other = fx.nn.Sequential(fx.nn.Linear(3, 5), fx.nn.Tanh(), fx.nn.Linear(5, 2))
    again = fx.optim.Adam(other.parameters(), lr=0.5)
    state = {**parts, "model": other, "optimizer": again, "epoch": 0, "mine": [None, None]}
    checkpoint.load(state, checkpoint_id=path)
    assert state["epoch"] == 3 and state["mine"] == [rank, "a"]
    assert (random.random(), fx.torch.rand(3).tolist()) == drawn
    step(other, again)
    assert bits(other) == want


def case_what_all_have_is_written_once():
    path = folder()
    same = {f"w{i}": fx.full((64, 64), float(i)) for i in range(4)}
    checkpoint.save({**same, "own": fx.full((2,), float(rank))}, checkpoint_id=path)
    dist.barrier()
    files = sorted(path.glob("rank-*.safetensors"))
    total = sum(f.stat().st_size for f in files)
    assert len(files) == size, files  # the work is shared
    assert 4 * 64 * 64 * 4 <= total < 5 * 64 * 64 * 4, total
    state = {"own": fx.zeros(2), "w3": same["w0"]}
    checkpoint.load(state, checkpoint_id=path)
    assert state["own"].tolist() == [rank, rank] and (state["w3"] == 3).all()


def case_slices_are_read_on_any_number_of_ranks():
    draw = np.random.default_rng(0)
    path = folder()
    for dtype in (fx.float32, fx.bfloat16, fx.complex128, fx.bool, fx.int8):
        whole = draw.integers(0, 2, (7, 3)).astype(dtype)
        checkpoint.save({"x": rows(whole, rank, size), "n": 1}, checkpoint_id=path)
        for many in (1, 2, 3, 7, 9):
            for of in range(rank, many, size):
                mine = rows(whole, of, many)
                blank = Shard(fx.zeros_like(mine.local), mine.global_shape, mine.offsets)
                state = {"x": blank}
                checkpoint.load(state, checkpoint_id=path)
                got = state["x"].local
                assert got.dtype == mine.local.dtype and (got == mine.local).all()
        state = {"x": fx.zeros((7, 3), dtype=dtype)}
        checkpoint.load(state, checkpoint_id=path)
        assert (state["x"].numpy() == whole).all()
        columns = Shard(fx.zeros((7, 1), dtype=dtype), (7, 3), (0, 1))
        state = {"x": columns}
        checkpoint.load(state, checkpoint_id=path)
        assert (state["x"].local.numpy() == whole[:, 1:2]).all()


def case_one_file_of_a_folder_and_back():
    from fx.torch.distributed.checkpoint import format_utils

    path, whole = folder(), np.arange(12.0).reshape(6, 2)
    state = {"x": rows(whole, rank, size), "deep": {"y": [fx.ones(2), 5]}, "bits": b"ab"}
    checkpoint.save(state, checkpoint_id=path)
    dist.barrier()
    if rank == 0:
        format_utils.dcp_to_torch_save(path, path / "one.pt")
        found = fx.load(path / "one.pt")
        assert (found["x"].numpy() == whole).all() and found["bits"] == b"ab"
        assert found["deep"]["y"][0].tolist() == [1, 1] and found["deep"]["y"][1] == 5
        format_utils.torch_save_to_dcp(path / "one.pt", path / "again")
    dist.barrier()
    state = {"x": rows(np.zeros_like(whole), rank, size)}  # each rank its rows of the one
    checkpoint.load(state, checkpoint_id=path / "again")
    assert (state["x"].local.numpy() == rows(whole, rank, size).local.numpy()).all()


def case_only_the_rows_that_are_needed_are_read():
    path, whole = folder(), np.arange(size * 2**20, dtype=np.float32).reshape(-1, 1024)
    manifest = checkpoint.save({"x": rows(whole, rank, size)}, checkpoint_id=path)
    dist.barrier()
    entry = manifest.entries[0]
    if rank == 0:  # a byte at the end of each file is damaged: the first rows can be read
        for piece in entry.variants[0].pieces:
            with open(path / piece.file, "rb+") as file:
                file.seek(-1, os.SEEK_END)
                file.write(b"\xff")
    dist.barrier()
    found = Shards(path, manifest)
    part = found.read(entry, entry.variants[0], ((1, 5), (3, 2)))
    assert (part == whole[1:4, 5:7]).all()
    refused(FileFormatError, f"{entry.variants[0].pieces[0].file} is damaged: x is not what",
           lambda: checkpoint.load({"x": fx.zeros(whole.shape)}, checkpoint_id=path))  # fmt: skip


def case_a_missing_shard_is_named():
    path = folder()
    checkpoint.save({"own": fx.full((2,), float(rank))}, checkpoint_id=path)
    dist.barrier()
    name = next(path.glob(f"rank-{rank:05d}-*")).name
    held = (path / name).read_bytes()
    model = fx.nn.Linear(1, 1)
    before, state = bits(model), {"own": fx.zeros(2)}
    for damage, words in (
        (lambda f: f.unlink(), "is missing"),
        (lambda f: f.write_bytes(held[:-1]), f"has {len(held) - 1} bytes instead of {len(held)}"),
    ):
        damage(path / name)
        refused(FileFormatError, f"its shard {name} {words}",
               lambda: checkpoint.load(state, checkpoint_id=path))  # fmt: skip
        assert bits(model) == before and state["own"].tolist() == [0, 0]
        (path / name).write_bytes(held)
    dist.barrier()
    if rank == 0:
        text = (path / "manifest.json").read_bytes()
        (path / "manifest.json").write_bytes(text.replace(b'"world": ', b'"world":  '))
    dist.barrier()
    refused(FileFormatError, "manifest.json is damaged",
           lambda: checkpoint.load(state, checkpoint_id=path))  # fmt: skip


def case_a_save_that_fails_half_way_leaves_the_one_before():
    path = folder()
    for value in (1.0, 2.0):
        checkpoint.save({"x": fx.full((2,), value), "own": [rank]}, checkpoint_id=path)
    dist.barrier()
    assert len(list(path.iterdir())) <= size + 1  # of the first nothing is left
    bad = {"x": fx.full((2,), 3.0), "own": [object() if rank == size - 1 else rank]}
    save = lambda: checkpoint.save(bad, checkpoint_id=path)
    if rank == size - 1:
        refused(TypeError, "own.0 is a object; a checkpoint holds tensors and plain data", save)
    else:
        refused(dist.DistError, f"rank {size - 1}: TypeError: own.0 is a object", save)
    from fx.distributed.checkpoint import saving

    def killed(folder):
        raise KeyError("killed")

    write, saving.Manifest.write = saving.Manifest.write, lambda self, folder: killed(folder)
    try:
        refused((KeyError, dist.DistError), "killed",
               lambda: checkpoint.save({"x": fx.full((2,), 4.0)}, checkpoint_id=path))  # fmt: skip
    finally:
        saving.Manifest.write = write
    state = {"x": fx.zeros(2)}
    checkpoint.load(state, checkpoint_id=path)
    assert state["x"].tolist() == [2, 2]
    writer = checkpoint.FileSystemWriter(path, overwrite=False)
    refused((FileExistsError, dist.DistError), "overwrite is False",
           lambda: checkpoint.save({"x": fx.zeros(2)}, storage_writer=writer))  # fmt: skip


def case_a_thread_saves_what_was_there_at_the_call():
    model, optimizer = trained()
    jitted = fx.jit(lambda: step(model, optimizer))
    jitted()
    want, path = bits(model), folder()
    futures = []
    for i in range(2):
        state = {"model": model, "optimizer": optimizer, "i": i, "w": model[0].weight}
        futures.append(checkpoint.async_save(state, checkpoint_id=path / str(i)))
        for _ in range(3):
            jitted()
            dist.all_reduce(fx.nn.Buffer(fx.ones(3)))  # the thread's are in a group of their own
    for i, future in enumerate(futures):
        future.result(20)
        other = fx.nn.Sequential(fx.nn.Linear(3, 5), fx.nn.Tanh(), fx.nn.Linear(5, 2))
        state = {"model": other, "i": -1}
        checkpoint.load(state, checkpoint_id=path / str(i))
        assert state["i"] == i
        if i == 0:
            assert bits(other) == want


def case_slices_that_do_not_fit_together():
    path, whole = folder(), np.zeros((6, 2), np.float32)
    save = lambda state: lambda: checkpoint.save(state, checkpoint_id=path)
    gap = Shard(fx.zeros((1, 2)), (6, 2), (rank, 0))
    refused(ValueError, "are not all of a tensor of shape (6, 2)", save({"x": gap}))
    over = Shard(fx.zeros((4, 2)), (6, 2), (rank, 0))
    refused(ValueError, "lie over each other", save({"x": over}))
    same = Shard(fx.full((6, 2), float(rank)), (6, 2), (0, 0))
    refused(ValueError, "ranks 0 and 1 have the same slice, at (0, 0), with different values",
           save({"x": same}))  # fmt: skip
    mixed = rows(whole, 0, 1) if rank == 0 else fx.zeros((6, 2))
    refused(ValueError, "x is a Shard in rank 0 and none in rank 1", save({"x": mixed}))
    refused(ValueError, "does not lie in a tensor", lambda: Shard(fx.zeros(3), (4,), (2,)))


def case_what_does_not_fit_is_named():
    path = folder()
    checkpoint.save({"x": fx.zeros(2), "own": rank}, checkpoint_id=path)
    load = lambda state, **kw: lambda: checkpoint.load(state, checkpoint_id=path, **kw)
    refused(ValueError, "expected shape (2,), got (3,)", load({"x": fx.zeros(3)}))
    refused(TypeError, "expected dtype float32, got int32",
           load({"x": fx.zeros(2, dtype=fx.int32)}))  # fmt: skip
    refused(ValueError, "holds no y; it holds x, own", load({"y": 1}))
    if rank == 0:
        alone = {"own": None}
        checkpoint.load(alone, checkpoint_id=path, no_dist=True)
        assert alone["own"] == 0
    refused(FileNotFoundError, "no complete checkpoint",
           lambda: checkpoint.load({}, checkpoint_id=path / "none"))  # fmt: skip
    refused(ValueError, "two entries of the state are called 'a.b'",
           lambda: checkpoint.save({"a": {"b": 1}, "a.b": 2}, checkpoint_id=path))  # fmt: skip
    refused(ValueError, "give the folder", lambda: checkpoint.save({}))
    refused(ValueError, "leave out ",
           lambda: checkpoint.save({}, checkpoint_id=path, planner=1))  # fmt: skip


def case_planners():
    path = folder()
    net = fx.nn.Sequential(fx.nn.Linear(3, 2))
    other = fx.nn.Sequential(fx.nn.Linear(3, 2), fx.nn.Linear(2, 2))
    planner = checkpoint.DefaultSavePlanner(dedup_save_to_lowest_rank=True)
    checkpoint.save({"net": net, "epoch": 4}, checkpoint_id=path, planner=planner)
    kept = other[1].weight.tolist()
    state = {"net": other, "epoch": 0, "best": {"loss": 1.5}, "x": fx.ones(2)}
    state["more"] = fx.nn.Linear(1, 1)
    refused(ValueError, "holds no best.loss", lambda: checkpoint.load(state, checkpoint_id=path))
    partial = checkpoint.DefaultLoadPlanner(allow_partial_load=True)
    checkpoint.load(state, checkpoint_id=path, planner=partial)
    assert other[0].weight.tolist() == net[0].weight.tolist() and other[1].weight.tolist() == kept
    assert (state["epoch"], state["best"]) == (4, {"loss": 1.5}) and state["x"].tolist() == [1, 1]

    class Own(checkpoint.DefaultLoadPlanner):
        """One whose methods would not be called."""

    refused(ValueError, "calls no method of Own",
           lambda: checkpoint.load(state, checkpoint_id=path, planner=Own()))  # fmt: skip
