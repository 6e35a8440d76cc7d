"""The steps of ``DataParallel``: ``scatter``, ``replicate``, ``parallel_apply``, ``gather``."""

import subprocess
import sys
from typing import NamedTuple

import pytest

import fx
import fx.nn.functional as F
from fx import nn
from fx.errors import ArgumentError, ShapeError
from fx.nn.parallel import (
    data_parallel,
    gather,
    parallel_apply,
    replicate,
    scatter,
    scatter_kwargs,
)


class Pair(NamedTuple):
    x: object
    y: object


def batch():
    return fx.random.normal(fx.random.key(0), (7, 3))


def network():
    fx.manual_seed(0)
    shared = nn.Linear(4, 4)
    return nn.Sequential(nn.Linear(3, 4), shared, nn.Tanh(), shared)


def same(a, b):
    return a.shape == b.shape and bool(((a - b).abs() <= 1e-6 * (1 + b.abs())).all())


def one_by_one(net, x, count, dim=0):
    parts = scatter((x,), range(count), dim)
    copies = replicate(net, range(len(parts)))
    return gather(parallel_apply(copies, parts), "cpu", dim)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 9])
@pytest.mark.parametrize("jits", [False, True])
def test_the_steps_are_the_module(count, jits):
    def step(net, x):
        out = one_by_one(net, x, count)
        (out**2).sum().backward()
        return out

    x, whole, cut = batch(), network(), network()
    want = whole(x)
    (want**2).sum().backward()
    run = fx.jit(lambda x: step(cut, x)) if jits else lambda x: step(cut, x)
    assert same(run(x), want) and same(data_parallel(cut, x), want)
    for p, q in zip(cut.parameters(), whole.parameters(), strict=True):
        assert same(p.grad, q.grad)


def test_replicas_share_what_the_module_shares():
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3))
    first, second = replicate(net, ["cpu"] * 2)
    for copy in (first, second):
        assert copy is not net and copy[1] is not net[1] and copy[1].weight is net[1].weight
    assert first[0].running_mean is net[0].running_mean
    parallel_apply([first, second], scatter(batch(), [0, 1]))
    assert net[0].num_batches_tracked.item() == 1  # as with PyTorch: that of the first
    assert same(net[0].running_mean, 0.1 * batch()[:4].mean(0))
    assert same(second[0].running_mean, 0.1 * batch()[4:].mean(0))
    alone = replicate(net, [0], detach=True)[0]
    assert not any(p.requires_grad for p in alone.parameters())
    assert alone[1].weight is not net[1].weight and same(alone[1].weight, net[1].weight)
    tied = replicate(network(), [0], detach=True)[0]
    assert tied[1] is tied[3] and tied[1].weight is not network()[1].weight


def test_containers():
    x = batch()
    held = {"a": [x, "word"], "p": Pair(x, (x, 3)), "none": None, "empty": []}
    parts = scatter(held, ["cpu"] * 2)
    assert [p["a"][0].shape for p in parts] == [(4, 3), (3, 3)]
    assert all(type(p["p"]) is Pair and p["p"].y[1] == 3 and p["a"][1] == "word" for p in parts)
    assert all(p["none"] is None and p["empty"] == [] for p in parts)
    joined = gather([{"q": Pair(p["a"][0], [p["p"].y[0]]), "n": None} for p in parts], "cpu")
    assert type(joined["q"]) is Pair and same(joined["q"].x, x) and same(joined["q"].y[0], x)
    assert joined["n"] is None
    assert [p.shape for p in scatter(x, [0, 1], dim=1)] == [(7, 2), (7, 1)]
    given, named = scatter_kwargs((), {"x": x}, [0, 1])
    assert given == ((), ()) and [k["x"].shape for k in named] == [(4, 3), (3, 3)]
    assert scatter_kwargs((3,), None, [0, 1]) == (((3,), (3,)), ({}, {}))
    with pytest.warns(UserWarning, match="were scalars"):
        assert gather([fx.tensor(1.0), fx.tensor(2.0)], "cpu").tolist() == [1.0, 2.0]
    with pytest.raises(ShapeError, match="same number of keys"):
        gather([{"a": x}, {}], "cpu")
    with pytest.raises(ArgumentError, match="modules 1 is not equal to the number of inputs 2"):
        parallel_apply([nn.ReLU()], [x, x])
    found = parallel_apply([F.relu], [x], [{"inplace": False}])
    assert same(found[0], F.relu(x))


IMPORTS = """
import fx.torch as torch
from fx.torch.nn.parallel.replicate import replicate
from fx.torch.nn.parallel.parallel_apply import parallel_apply
from fx.torch.nn.parallel.scatter_gather import gather, scatter_kwargs
from fx.torch.nn.parallel.data_parallel import data_parallel
import fx.torch.nn.parallel.replicate
parallel = torch.nn.parallel
assert parallel.replicate is replicate and parallel.parallel_apply is parallel_apply
assert parallel.gather is gather and parallel.data_parallel is data_parallel
"""


def test_files_of_torch_leave_the_functions_of_their_names():
    subprocess.run([sys.executable, "-c", IMPORTS], check=True)
