"""The simulator against formulas, against itself, and against brute force."""

from dataclasses import replace

import numpy as np
import pytest

import fx
from fx.distributed.simulator import Cluster, Layer, Link, Strategy, layers_of, simulate
from fx.distributed.simulator.report import goodput, interval
from fx.distributed.simulator.step import _balanced
from fx.errors import ArgumentError

FREE = Link(0.0, 1e30)
FAST = Cluster(64, 8, 1e12, 1e30, 1e12, FREE, FREE)
SLOW = Cluster(64, 8, 1e12, 1e30, 1e12, Link(5e-6, 1e11), Link(2e-5, 1e10))
LAYER = Layer(1e9, 2e9, 0.0, 0.0, 4e6, 1e6, 1e5)
STACK = [LAYER] * 8
ALONE = 8 * 3e9 / 1e12


def test_messages_that_cost_nothing_leave_the_time_of_one_device():
    for strategy in (
        Strategy(),
        Strategy(data=8),
        Strategy(data=64, zero=3),
        Strategy(data=8, zero=1),
    ):
        report = simulate(STACK, strategy, FAST, slots=0)
        assert report.step_time == pytest.approx(ALONE)
        assert report.efficiency == pytest.approx(1.0)
    for n in (2, 8):
        assert simulate(STACK, Strategy(tensor=n), FAST).step_time == pytest.approx(ALONE / n)


@pytest.mark.parametrize("p", [2, 4, 8])
@pytest.mark.parametrize("m", [8, 16])
def test_pipelines_wait_as_the_formulas_say(p, m):
    ideal = ALONE / p
    for schedule in ("gpipe", "1f1b"):
        report = simulate(STACK, Strategy(pipeline=p, microbatches=m, schedule=schedule), FAST)
        assert report.step_time == pytest.approx(ideal * (m + p - 1) / m)
        assert report.bubble == pytest.approx(ideal * (p - 1) / m)
        assert report.compute == pytest.approx(ideal)
    held = {
        schedule: simulate(
            STACK, Strategy(pipeline=p, microbatches=m, schedule=schedule), FAST
        ).parts["activations"]
        for schedule in ("gpipe", "1f1b")
    }
    assert held["gpipe"] == pytest.approx(8 / p * 1e6)
    assert held["1f1b"] == pytest.approx(8 / p * 1e6 * min(p, m) / m)
    if p < 8:
        virtual = Strategy(pipeline=p, microbatches=m, schedule="interleaved", virtual=8 // p)
        assert simulate(STACK, virtual, FAST).bubble < ideal * (p - 1) / m


def test_sums_of_gradients_pass_while_others_are_computed():
    one = SLOW.all_reduce(8 * 4e6, 8)
    kwargs = {"data": 8, "bucket": float("inf")}
    for overlap in (False, True):  # one message: nothing is left to compute meanwhile
        report = simulate(STACK, Strategy(overlap=overlap, **kwargs), SLOW, slots=0)
        assert report.step_time == pytest.approx(ALONE + one)
    each = SLOW.all_reduce(4e6, 8)
    report = simulate(STACK, Strategy(data=8, bucket=4e6), SLOW, slots=0)
    assert each < 2e-3  # the time of a layer's backward pass, which hides all but the last message
    assert report.step_time == pytest.approx(ALONE + each)
    late = simulate(STACK, Strategy(data=8, bucket=4e6, overlap=False), SLOW, slots=0)
    assert late.step_time == pytest.approx(ALONE + 8 * each)


def test_what_is_cut_is_held_once():
    n, parameters, slots = 8, 8 * 4e6, 2
    for zero in range(4):
        parts = simulate(STACK, Strategy(data=n, zero=zero), SLOW, slots=slots).parts
        assert parts["optimizer"] == pytest.approx(parameters * slots / (n if zero >= 1 else 1))
        whole = parameters / n + LAYER.parameters
        assert parts["gradients"] == pytest.approx(whole if zero >= 2 else parameters)
        assert parts["parameters"] == pytest.approx(whole if zero == 3 else parameters)
    again = simulate(STACK, Strategy(recompute=True), FAST)
    assert again.step_time == pytest.approx(ALONE * 4 / 3)
    assert again.parts["activations"] == pytest.approx(8e5 + 1e6)


def test_collectives_keep_to_the_bounds_of_their_messages():
    generator = np.random.default_rng(0)
    for _ in range(200):
        ranks = int(generator.integers(2, 512))
        nbytes = 10 ** generator.uniform(0, 10)
        took = SLOW.all_reduce(nbytes, ranks)
        fastest, slowest = SLOW.inside, SLOW.link(ranks, 8)
        assert took >= nbytes / fastest.bandwidth * (1 if ranks > 2 else 0.99) * (ranks - 1) / ranks
        assert took <= 4 * ranks * slowest.time(nbytes)
        assert SLOW.reduce_scatter(nbytes, ranks) <= took * (1 + 1e-9)
        assert SLOW.all_reduce(2 * nbytes, ranks) >= took
        if ranks <= 256:
            assert SLOW.all_reduce(nbytes, 2 * ranks) >= took * (1 - 1e-9)
    assert SLOW.all_reduce(1e9, 1) == 0.0


def test_stages_are_cut_so_that_the_slowest_is_as_fast_as_can_be():
    from itertools import combinations, pairwise

    generator = np.random.default_rng(1)
    for _ in range(50):
        weights = generator.integers(1, 9, 7).astype(float).tolist()
        layers = [replace(LAYER, name=str(i)) for i in range(7)]
        for count in (1, 2, 3, 7):
            runs = _balanced(layers, count, weights)
            assert [x.name for run in runs for x in run] == list("0123456")
            assert len(runs) == count and all(runs)
            at = [int(run[0].name) for run in runs] + [7]
            slowest = max(sum(weights[a:b]) for a, b in pairwise(at))
            best = min(
                max(sum(weights[a:b]) for a, b in zip((0, *cut), (*cut, 7)))
                for cut in combinations(range(1, 7), count - 1)
            )
            assert slowest == pytest.approx(best)


def test_the_slowest_of_many_is_as_late_as_drawn():
    for ranks in (2, 16, 128):
        machine = replace(FAST, spread=0.1)
        report = simulate(STACK, Strategy(data=ranks), machine, slots=0)
        drawn = np.exp(0.1 * np.random.default_rng(3).normal(size=(4000, ranks)) - 0.005).max(1)
        assert report.straggling / ALONE == pytest.approx(drawn.mean() - 1, rel=0.1, abs=0.005)


def test_checkpoints_are_written_when_they_cost_least():
    for mtbf in (1e3, 1e5):
        for write in (1.0, 30.0):
            best = interval(write, mtbf)
            tried = np.geomspace(best / 20, best * 20, 4001)
            kept = [goodput(t, write, 60.0, mtbf) for t in tried]
            assert goodput(best, write, 60.0, mtbf) > max(kept) - 1e-4
    report = simulate(STACK, Strategy(data=512), replace(SLOW, mtbf=1e6))
    assert report.mtbf == pytest.approx(1e6 / 512) and 0 < report.goodput < 1
    assert "failures" in str(report) and "failures" not in str(simulate(STACK, Strategy(), FAST))


def test_layers_say_what_their_graphs_compute_and_keep():
    model = fx.nn.Sequential(fx.nn.Linear(8, 4), fx.nn.Tanh(), fx.nn.Linear(4, 2))
    first, tanh, last = layers_of(model, fx.ones((3, 8)))
    assert first.forward >= 2 * 3 * 8 * 4 and last.backward >= 2 * (2 * 3 * 4 * 2)
    assert first.backward < 2 * first.forward  # nobody asks for the gradient of the data
    assert (first.parameters, tanh.parameters, last.parameters) == (144, 0, 40)
    assert (first.passed, tanh.passed, last.passed) == (48, 48, 24)
    assert first.kept == 3 * 8 * 4 and tanh.kept == 48
    measured = layers_of(model, fx.ones((3, 8)), measure=True)
    assert all(x.seconds is not None and min(x.seconds) > 0 for x in measured)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Strategy(data=0), "data is an int of 1 or more, got 0"),
        (lambda: Strategy(zero=4), "zero is 0, 1, 2 or 3"),
        (lambda: Strategy(schedule="fast"), "schedule is one of gpipe, 1f1b"),
        (lambda: Strategy(virtual=2), "has one stage a rank"),
        (lambda: Link(1e-6, 0), "bandwidth must be positive"),
        (lambda: replace(FAST, hosts=1.5), "hosts is an int"),
        (lambda: replace(FAST, spread=-1), "spread must not be negative"),
        (lambda: simulate(STACK, Strategy(data=1024), FAST), "1024 ranks, and the cluster has 512"),
        (lambda: simulate(STACK, Strategy(pipeline=9), FAST), "8 layers cannot be 9 stages"),
        (lambda: simulate([1], Strategy(), FAST), "expected Layers"),
        (lambda: layers_of([1], fx.ones(1)), "expected Modules"),
    ],
)
def test_what_cannot_be_is_named(make, said):
    with pytest.raises(ArgumentError, match=said):
        make()
