"""Plans: the best of all placements, and what is sent is what was foreseen."""

import re
from itertools import product
from pathlib import Path

import pytest

import fx
import fx.nn.functional as F
from fx.distributed import Replicate, Shard, plan, planning
from fx.distributed.planning.price import Sizes, priced
from fx.distributed.planning.program import staged
from fx.distributed.simulator import Cluster, Link
from tests.distributed.ranks import cases
from tests.distributed.shared import perceptron, trainer

MESH = fx.Mesh((4,), ("i",), lanes=True)
R = Replicate()
SPEED = Cluster(1, 4, 5e10, 1e10, float("inf"), Link(2e-5, 4e9), Link(2e-5, 4e9))


@pytest.mark.parametrize("case", cases("cases_planning.py"))
def test_of_ranks(outcomes, case):
    assert not outcomes("cases_planning.py", 4)[case]


def two_layers(ws, x, y):
    def loss(ws):
        return ((F.gelu(x @ ws[0]) @ ws[1] - y) ** 2).mean()

    return [w - 0.1 * d for w, d in zip(ws, fx.grad(loss)(ws))]


def looked_up(state, places):
    def loss(table, w):
        return fx.logsumexp(table[places] @ w, axis=-1).sum()

    grads = fx.grad(loss, argnums=(0, 1))(*state)
    return [p - 0.1 * g for p, g in zip(state, grads)]


def attended(w, x):
    def loss(w):
        q, k, v = (x @ w).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v).square().sum()

    return w - 0.1 * fx.grad(loss)(w)


def two(b, d, h):
    return [fx.zeros((d, h)), fx.zeros((h, d))], fx.zeros((b, d)), fx.zeros((b, d))


STEPS = {
    "many rows": (two_layers, two(2048, 64, 128)),
    "few rows": (two_layers, two(8, 256, 1024)),
    "between": (two_layers, two(256, 256, 512)),
    "small": (two_layers, two(64, 128, 64)),
    "a table": (
        looked_up, ([fx.zeros((512, 64)), fx.zeros((64, 32))], fx.zeros(256, dtype=fx.int64))
    ),
    "attention": (attended, (fx.zeros((64, 3 * 64)), fx.zeros((8, 32, 64)))),
}  # fmt: skip


def every_placement(step, args):
    found = staged(step, args, 1)
    choices = [
        [(R,), *[(Shard(d),) for d, n in enumerate(v.spec.shape) if n % 4 == 0]]
        for v in found.graph.inputs
    ]
    every = [priced(found, Sizes(MESH), SPEED, lies) for lies in product(*choices)]
    return [p for p in every if not p.wrong]


@pytest.mark.parametrize("name", STEPS)
def test_a_plan_is_the_best_of_all_placements(name):
    step, args = STEPS[name]
    every = every_placement(step, args)
    assert len(every) >= 9
    largest = max(p.memory for p in every)
    smallest = min(p.memory for p in every)
    for memory in (None, (largest + smallest) / 2, smallest * 1.1, smallest):
        fits = [p for p in every if memory is None or p.memory <= memory]
        best = min(p.time for p in fits)
        found = plan(step, MESH, memory=memory, cluster=SPEED, state=1)(*args)
        assert found.time == pytest.approx(best, rel=1e-6), (memory, found)
        assert memory is None or found.memory <= memory
    with pytest.raises(ValueError, match=r"fits into memory=.* a rank; the smallest takes"):
        plan(step, MESH, memory=smallest * 0.9, cluster=SPEED, state=1)(*args)


def test_what_is_known_is_found():
    net = perceptron(64)
    many = plan(trainer(net), MESH)(fx.zeros((4096, 64)), fx.zeros((4096, 64)))
    assert many.name == "data parallel"
    assert [m.name for m in many.messages] == ["psum"]
    assert many.messages[0].nbytes == 4 * sum(p.size for p in net.parameters())
    net = perceptron(256)
    few = plan(trainer(net), MESH)(fx.zeros((4, 256)), fx.zeros((4, 256)))
    assert [few.of(p) for p in net.parameters()] == [(Shard(0),), (Shard(0),), (Shard(1),), (R,)]
    assert {m.name for m in few.messages} == {"psum"}  # no gather: Megatron's columns and rows
    square = fx.Mesh((2, 2), ("dp", "tp"), lanes=True)
    slow = Cluster(2, 2, 5e10, 1e10, float("inf"), Link(1e-6, 2e10), Link(1e-4, 2e9))
    both = plan(trainer(net), square, cluster=slow)(fx.zeros((512, 256)), fx.zeros((512, 256)))
    assert both.time <= min(p.time for p in both.others.values() if not p.wrong)
    assert str(both).startswith("plan for (dp=2, tp=2): ") and "other choices" in str(both)


def test_a_plan_says_what_is_sent_for_which_line():
    net = perceptron(64)
    told = str(plan(trainer(net), MESH)(fx.zeros((4096, 64)), fx.zeros((4096, 64))))
    assert "S(0): argument 0, argument 1" in told and "everything whole: " in told
    assert "psum of 132 kB along i, for " in told and "shared.py:" in told, told


def test_slots_of_an_optimizer_are_planned_too():
    net = perceptron(64)
    optimizer = fx.optim.AdamW(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        net(x).square().sum().backward()
        optimizer.step()

    x = fx.zeros((64, 64))
    step(x)
    state = sum(p.nbytes for p in net.parameters()) * 3
    found = plan(step, MESH)(x)
    assert any("exp_avg_sq" in name for name in found.placements)
    least = min(p.memory for p in [found, *found.others.values()])
    tight = plan(step, MESH, memory=least * 1.2)(x)
    assert tight.memory <= least * 1.2 < state


def test_what_is_no_step_is_named():
    def branches(x):
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(ValueError, match="the step asks for values of tensors"):
        plan(branches, MESH)(fx.ones(4))
    with pytest.raises(ValueError, match="takes the place of argument 0, of shape"):
        plan(lambda w: w.sum(), MESH, state=1)(fx.ones(4))


def test_the_page_runs():
    page = Path(planning.__file__).with_name("README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
