"""Schedules proved without ranks, micro-batches against torch's, and the cases of ranks."""

import json
import re
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fx
from fx.distributed.pipelining import (
    Action,
    TensorChunkSpec,
    merge_chunks,
    orders,
    prove,
    split_args_kwargs_into_chunks,
)
from fx.distributed.pipelining.actions import read_csv, with_messages, write_csv
from fx.errors import ArgumentError, ShapeError
from tests.distributed.ranks import SIZES as RANKS
from tests.distributed.ranks import cases
from tests.distributed.test_rendezvous import SCRIPTS, near, run_script

KINDS = {
    "ScheduleGPipe": (orders.gpipe, (1,)),
    "ScheduleLoopedBFS": (orders.looped_bfs, (1, 2, 3)),
    "Schedule1F1B": (orders.one_f_one_b, (1,)),
    "ScheduleInterleaved1F1B": (orders.interleaved, (1, 2, 3)),
    "ScheduleInterleavedZeroBubble": (orders.interleaved_zero_bubble, (1, 2, 3)),
    "ScheduleZBVZeroBubble": (orders.zbv, (2,)),
}
SIZES = [1, 2, 3, 4, 5, 6, 8, 12]


def every(name):
    """The order of each size, and what refuses the others."""
    make, counts = KINDS[name]
    for p, v, m in product((1, 2, 3, 4, 5), counts, SIZES):
        try:
            yield p, v, m, make(p, v, m)
        except ArgumentError as error:
            yield p, v, m, str(error)


def idle_and_live(name, p, v, m):
    """The formulas of the README; only where the micro-batches fill the pipeline."""
    full = m >= p and m % p == 0
    if name in ("ScheduleGPipe", "ScheduleLoopedBFS"):
        return (3 * (p - 1), [v * m] * p) if m >= p else None
    if name == "Schedule1F1B":
        return 3 * (p - 1), [p - r for r in range(p)]
    if name == "ScheduleInterleaved1F1B":
        most = [min((v - 1) * p + 2 * (p - 1 - r) + 1, v * m) for r in range(p)]
        return (3 * (p - 1), most) if full else None
    if name == "ScheduleInterleavedZeroBubble":
        return (p - 1, [v * p] * p) if full else None
    return (p - 1, [2 * p] * p) if m >= 2 * p else None


@pytest.mark.parametrize("name", KINDS)
def test_orders_are_whole_and_end_with_the_bubbles_of_the_formulas(name):
    checked = 0
    for p, v, m, order in every(name):
        if isinstance(order, str):
            continue
        proof = prove(with_messages(order), p * v, m)
        expected = idle_and_live(name, p, v, m)
        if expected is not None:
            assert proof.idle == [expected[0]] * p, (p, v, m)
            assert proof.live == expected[1], (p, v, m)
            assert proof.span == 3 * v * m + expected[0]
            checked += 1
    assert checked >= 10


@pytest.mark.peers
@pytest.mark.parametrize("name", [n for n in KINDS if n != "Schedule1F1B"])
def test_orders_are_torchs(name):
    """Schedule1F1B's list in torch is not what it runs; the formulas hold of ours."""
    torch = pytest.importorskip("torch")
    from torch.distributed.pipelining import schedules as theirs

    def stage(p, v, i):
        known = dict(num_stages=p * v, group_size=p, group_rank=0, stage_index=i, is_first=i == 0)
        more = dict(is_last=i == p * v - 1, device="cpu", group=None, submod=torch.nn.ReLU())
        return SimpleNamespace(**known, **more, has_backward=True)

    for p, v, m, order in every(name):
        stages = [stage(p, v, i) for i in range(0, p * v, p)]
        given = stages[0] if name == "ScheduleGPipe" else stages
        try:
            made = getattr(theirs, name)(given, m, loss_fn=min).pipeline_order
        except ValueError as error:
            assert order == str(error), (p, v, m)
            continue
        kept = [[str(a) for a in made[r] if str(a)[-2:] != "D" and a] for r in range(p)]
        kept = [[a for a in row if re.fullmatch(r"\d+[FBIW]\d+", a)] for row in kept]
        assert [list(map(str, row)) for row in order] == kept, (p, v, m)


@pytest.mark.parametrize("name", KINDS)
def test_an_order_with_one_fault_is_refused(name):
    make, counts = KINDS[name]
    v = counts[-1]
    whole = with_messages(make(2, v, 4))
    for rank, actions in enumerate(whole):
        for i in range(len(actions)):
            for faulty in (
                actions[:i] + actions[i + 1 :],
                [*actions[: i + 1], *actions[i:]],
                [*actions[:i], actions[i]._replace(microbatch=4), *actions[i + 1 :]],
            ):
                broken = [faulty if r == rank else a for r, a in enumerate(whole)]
                with pytest.raises(ArgumentError):
                    prove(broken, 2 * v, 4)


def test_orders_that_wait_for_ever_say_who_waits_for_what():
    order = with_messages(orders.gpipe(2, 1, 2))
    turned = [order[0], sorted(order[1], key=lambda a: (a.kind != "B", a.kind, a.microbatch))]
    with pytest.raises(ArgumentError) as caught:
        prove(turned, 2, 2)
    said = str(caught.value)
    assert said.startswith("the schedule waits for ever: rank 0 at 0RECV_B0, which needs 1SEND_B0")
    assert "rank 1 at 1B0, which needs 1F0" in said
    with pytest.raises(ArgumentError, match="stage 0 is in ranks 0 and 1"):
        prove([[Action(0, "F", 0)], [Action(0, "F", 1)]], 1, 2)


def test_orders_as_files(tmp_path):
    order = with_messages(orders.zbv(3, 2, 5))
    write_csv(order, tmp_path / "order.csv")
    assert read_csv(tmp_path / "order.csv") == order
    (tmp_path / "order.csv").write_text("0F0,,0B0\n,1F0,1B0\n")
    assert read_csv(tmp_path / "order.csv")[1] == [Action(1, "F", 0), Action(1, "B", 0)]
    with pytest.raises(ArgumentError, match="'0Q1' is no action of a pipeline; write stage, kind"):
        Action.read("0Q1")


@pytest.mark.peers
def test_micro_batches_are_torchs():
    torch = pytest.importorskip("torch")
    from torch.distributed.pipelining import microbatch as theirs

    a, b = np.arange(24.0).reshape(6, 4), np.arange(12).reshape(2, 6)

    def cut(make, room, spec):
        args, kwargs = (make(a), [3, make(b)]), {"z": make(a), "flag": True}
        plan = room._Replicate() if spec else None
        specs = {}
        if spec:
            specs = dict(args_chunk_spec=(spec(0), [plan, spec(1)]))
            specs["kwargs_chunk_spec"] = {"z": spec(1), "flag": plan}
        return room.split_args_kwargs_into_chunks(args, kwargs, 2, **specs)

    from fx.distributed.pipelining import microbatches as ours

    for spec in (None, "given"):
        first = cut(torch.tensor, theirs, spec and theirs.TensorChunkSpec)
        second = cut(fx.tensor, ours, spec and TensorChunkSpec)
        plain = lambda x: x.tolist() if hasattr(x, "tolist") else x
        assert fx.tree.map(plain, second) == torch.utils._pytree.tree_map(plain, first)
    rows = [(torch.tensor([[1.0]]), 7), (torch.tensor([[2.0]]), 7)]
    spec = (theirs.TensorChunkSpec(1), None)
    known = theirs.merge_chunks(rows, (spec[0], theirs._Replicate()))
    found = merge_chunks(
        [(fx.tensor(x.tolist()), n) for x, n in rows], (TensorChunkSpec(1), ours._Replicate())
    )
    assert found[0].tolist() == known[0].tolist() and found[1] == known[1]


def test_micro_batches_that_cannot_be():
    split = split_args_kwargs_into_chunks
    with pytest.raises(ShapeError, match=r"args: leaf 0 .*has 5 along axis 0, which does not div"):
        split((fx.ones((5, 2)),), None, 2)
    with pytest.raises(ShapeError, match="has no axis 0 to be cut along"):
        split((fx.tensor(1.0),), None, 2)
    with pytest.raises(ArgumentError, match="args_chunk_spec has 1 entries, and args has 2 leaves"):
        split((fx.ones(2), 1), None, 2, (TensorChunkSpec(0),))
    with pytest.raises(ArgumentError, match="int cannot be cut by"):
        split((1,), None, 2, (TensorChunkSpec(0),))
    with pytest.raises(ShapeError, match="a result of the last stage is a scalar"):
        merge_chunks([fx.tensor(1.0)] * 2)


def test_the_page_runs():
    page = Path(orders.__file__).with_name("README.md").read_text()
    names = {}
    for block in re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        exec(compile(block, "README.md", "exec"), names)


@pytest.mark.parametrize("case", cases("cases_pipelining.py"))
@pytest.mark.parametrize("size", RANKS)
def test_of_ranks(outcomes, case, size):
    assert not outcomes("cases_pipelining.py", size)[case]


@pytest.mark.peers
def test_a_script_trains_as_under_torch(tmp_path, launcher):
    """Its import lines changed, under ``fx.run``."""
    pytest.importorskip("torch")
    for library in ("torch", "fx"):
        (tmp_path / library).mkdir()
    theirs = run_script(SCRIPTS / "pipeline.py", tmp_path / "torch")
    text = (SCRIPTS / "pipeline.py").read_text()
    text = re.sub(r"(?m)^import torch$", "import fx.torch as torch", text)
    (tmp_path / "pipeline.py").write_text(re.sub(r"(?m)^(import|from) torch", r"\1 fx.torch", text))
    command = ("--nproc-per-node", "2", str(tmp_path / "pipeline.py"), str(tmp_path / "fx"))
    code, out, error = launcher.run(*command, cwd=tmp_path)
    assert code == 0, out + error
    for rank, known in enumerate(theirs):
        found = json.loads((tmp_path / "fx" / str(rank)).read_text())
        assert known["refused"] == found["refused"] and len(found["refused"]) == 5
        assert near(known, found)
