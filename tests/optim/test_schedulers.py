"""Schedulers against torch's over their options, their state dicts both ways, and under jit."""

import copy
import functools
import inspect
import operator
import warnings

import numpy as np
import pytest

import fx
from fx.optim import lr_scheduler

torch = pytest.importorskip("torch")

from torch.optim import lr_scheduler as torch_scheduler

STEPS = 32


class Fall:
    """A factor with state of its own."""

    def __init__(self, rate):
        self.rate = rate

    def __call__(self, epoch):
        return self.rate**epoch


def _sequence(m, o):
    parts = [m.ConstantLR(o, 0.1, 3), m.LinearLR(o, 0.2, 1.0, 4), m.ExponentialLR(o, 0.9)]
    return m.SequentialLR(o, parts, milestones=[3, 9])


def _nested(m, o):
    inner = m.SequentialLR(o, [m.LinearLR(o, 0.5, 1.0, 4), m.StepLR(o, 3, 0.5)], milestones=[5])
    return m.SequentialLR(o, [inner, m.CosineAnnealingLR(o, 10)], milestones=[12])


def _chained(m, o):
    return m.ChainedScheduler([m.ConstantLR(o, 0.1, 5), m.ExponentialLR(o, 0.9), m.StepLR(o, 7)])


def _warmup_then_restarts(m, o):
    parts = [m.LinearLR(o, 0.1, 1.0, 5), m.CosineAnnealingWarmRestarts(o, 4, 2)]
    return m.SequentialLR(o, parts, milestones=[5])


# what makes a scheduler from a module and an optimizer
CASES = {
    "lambda": lambda m, o: m.LambdaLR(o, lambda epoch: 0.9**epoch),
    "lambdas": lambda m, o: m.LambdaLR(o, [lambda e: 0.9**e, Fall(0.8)]),
    "multiplicative": lambda m, o: m.MultiplicativeLR(o, lambda epoch: 0.9 + epoch / 100),
    "multiplicatives": lambda m, o: m.MultiplicativeLR(o, [lambda epoch: 0.9, Fall(0.99)]),
    "step": lambda m, o: m.StepLR(o, 3, 0.5),
    "multistep": lambda m, o: m.MultiStepLR(o, [2, 5, 5, 20], 0.5),
    "constant": lambda m, o: m.ConstantLR(o, 0.25, 6),
    "linear": lambda m, o: m.LinearLR(o, 0.25, 0.75, 9),
    "linear defaults": lambda m, o: m.LinearLR(o),
    "exponential": lambda m, o: m.ExponentialLR(o, 0.9),
    "polynomial": lambda m, o: m.PolynomialLR(o, 12, 2.0),
    "polynomial defaults": lambda m, o: m.PolynomialLR(o),
    "cosine": lambda m, o: m.CosineAnnealingLR(o, 7, 0.01),
    "restarts": lambda m, o: m.CosineAnnealingWarmRestarts(o, 5),
    "longer restarts": lambda m, o: m.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "sequential": _sequence,
    "nested": _nested,
    "warm-up, restarts": _warmup_then_restarts,
    "chained": _chained,
    "cyclic": lambda m, o: m.CyclicLR(o, 0.01, 0.2, 4),
    "cyclic 2": lambda m, o: m.CyclicLR(o, 0.01, [0.2, 0.3], 4, 6, mode="triangular2"),
    "cyclic exp": lambda m, o: m.CyclicLR(o, 0.01, 0.2, 5, mode="exp_range", gamma=0.9),
    "cyclic scaled": lambda m, o: m.CyclicLR(
        o, 0.01, 0.2, 5, scale_fn=Fall(0.9), scale_mode="iterations", cycle_momentum=False
    ),
    "one cycle": lambda m, o: m.OneCycleLR(o, 0.5, total_steps=STEPS + 1),
    "one cycle linear": lambda m, o: m.OneCycleLR(
        o, [0.5, 0.2], epochs=7, steps_per_epoch=5, anneal_strategy="linear", three_phase=True
    ),
    "one cycle plain": lambda m, o: m.OneCycleLR(
        o, 0.5, total_steps=40, pct_start=0.5, cycle_momentum=False, div_factor=10.0
    ),
    "swa": lambda m, o: _swa(m).SWALR(o, 0.05, anneal_epochs=6),
    "swa linear": lambda m, o: _swa(m).SWALR(
        o, [0.05, 0.3], anneal_epochs=5, anneal_strategy="linear"
    ),
    "swa at once": lambda m, o: _swa(m).SWALR(o, 0.05, anneal_epochs=0),
}


def _swa(module):
    return fx.optim.swa_utils if module is lr_scheduler else torch.optim.swa_utils


def make(lib, case, adam=False, tensor_lr=False):
    """An optimizer of two groups in one library, and a scheduler."""
    rate = (lambda x: lib.tensor(x, dtype=lib.float64)) if tensor_lr else (lambda x: x)
    groups = [
        {"params": [lib.nn.Parameter(lib.ones(1))]},
        {"params": [lib.nn.Parameter(lib.ones(1))], "lr": rate(0.3)},
    ]
    kind = functools.partial(lib.optim.Adam, capturable=tensor_lr) if adam else lib.optim.SGD
    optimizer = kind(groups, lr=rate(0.1), **({} if adam else {"momentum": 0.9}))
    return optimizer, case(lib.optim.lr_scheduler, optimizer)


def seen(optimizer):
    keys = ("lr", "initial_lr", "momentum", "betas")
    return [
        np.hstack([np.asarray(g[k]).ravel() for k in keys if k in g])
        for g in optimizer.param_groups
    ]


def run(optimizer, scheduler, steps):
    out = []
    for _ in range(steps):
        optimizer.step()
        scheduler.step()
        out.append(np.stack([*map(np.hstack, seen(optimizer))]))
        np.testing.assert_array_equal(
            [float(x) for x in scheduler.get_last_lr()],
            [float(g["lr"]) for g in optimizer.param_groups],
        )
    return np.array(out)


@pytest.mark.filterwarnings("ignore:Detected call")  # torch warns of nested sequences
@pytest.mark.parametrize("adam", [False, True], ids=["sgd", "adam"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_schedulers_are_torchs(case, adam):
    ours, theirs = make(fx, case, adam), make(torch, case, adam)
    np.testing.assert_allclose(seen(ours[0]), seen(theirs[0]), rtol=1e-14)
    np.testing.assert_array_equal(run(*ours, STEPS), run(*theirs, STEPS))


@pytest.mark.filterwarnings("ignore:Detected call")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_state_goes_both_ways(case):
    ours, theirs = make(fx, case), make(torch, case)
    run(*ours, 9), run(*theirs, 9)
    state, expected = ours[1].state_dict(), theirs[1].state_dict()
    assert _names(state) == _names(expected)
    again, theirs_again = make(fx, case), make(torch, case)
    again[0].load_state_dict(ours[0].state_dict())
    again[1].load_state_dict(copy.deepcopy(expected))
    theirs_again[0].load_state_dict(theirs[0].state_dict())
    theirs_again[1].load_state_dict(copy.deepcopy(state))
    wanted = run(*theirs, 9)
    np.testing.assert_allclose(run(*ours, 9), wanted, rtol=1e-12)
    np.testing.assert_allclose(run(*again, 9), wanted, rtol=1e-12)
    np.testing.assert_allclose(run(*theirs_again, 9), wanted, rtol=1e-12)


def _names(state):
    if "_schedulers" in state:
        return set(state), [_names(s) for s in state["_schedulers"]]
    # what torch keeps besides: bound methods and the names of hooks
    return {k for k, v in state.items() if not callable(v)}


PLATEAUS = [
    {},
    {"patience": 1, "factor": 0.5, "cooldown": 2},
    {"mode": "max", "patience": 0, "threshold": 0.1, "min_lr": [0.05, 0.01]},
    {"patience": 2, "threshold_mode": "abs", "threshold": 0.5, "min_lr": 0.01},
    {"mode": "max", "patience": 2, "threshold_mode": "abs", "eps": 0.02},
]


@pytest.mark.parametrize("options", PLATEAUS, ids=str)
def test_plateaus_are_torchs(options):
    rng = np.random.default_rng(0)
    metrics = [*(3.0 / np.arange(1, 10)), *rng.standard_normal(40)]
    ours, theirs = (
        make(lib, lambda m, o: m.ReduceLROnPlateau(o, **options)) for lib in (fx, torch)
    )
    for i, metric in enumerate(metrics):
        for lib, (optimizer, scheduler) in ((fx, ours), (torch, theirs)):
            optimizer.step()
            scheduler.step(lib.tensor(metric, dtype=lib.float64) if i % 2 else metric)
        np.testing.assert_allclose(seen(ours[0]), seen(theirs[0]), rtol=1e-14)
        assert ours[1].state_dict() == theirs[1].state_dict()
    ours[1].load_state_dict(theirs[1].state_dict())
    assert ours[1].state_dict() == theirs[1].state_dict()


CLOSED = [
    "step",
    "multistep",
    "constant",
    "linear",
    "exponential",
    "polynomial",
    "cosine",
    "lambda",
]
CLOSED += ["restarts", "longer restarts"]


@pytest.mark.filterwarnings("ignore:The epoch parameter")
@pytest.mark.parametrize("name", CLOSED)
def test_steps_to_a_named_epoch(name):
    ours, theirs = make(fx, CASES[name]), make(torch, CASES[name])
    ours[0].step(), theirs[0].step()
    for epoch in (1, 4, 9, 2, 0, 17):
        ours[1].step(epoch), theirs[1].step(epoch)
        np.testing.assert_allclose(seen(ours[0]), seen(theirs[0]), rtol=1e-13)
        assert ours[1].last_epoch == theirs[1].last_epoch


@pytest.mark.parametrize("name", ["step", "cosine", "one cycle", "cyclic", "linear"])
def test_going_on_from_an_epoch(name):
    def again(lib):
        optimizer, scheduler = make(lib, CASES[name])
        run(optimizer, scheduler, 5)
        cls = type(scheduler)
        args = {"step": (3, 0.5), "cosine": (7, 0.01), "one cycle": (0.5, STEPS + 1)}
        args |= {"cyclic": (0.01, 0.2, 4), "linear": (0.25, 0.75, 9)}
        return optimizer, cls(optimizer, *args[name], last_epoch=scheduler.last_epoch)

    ours, theirs = again(fx), again(torch)
    np.testing.assert_allclose(run(*ours, 9), run(*theirs, 9), rtol=1e-12)


@pytest.mark.parametrize("name", ["step", "cosine", "linear", "one cycle plain", "chained"])
def test_a_learning_rate_that_is_a_tensor_stays_one(name):
    ours, theirs = (make(lib, CASES[name], True, True) for lib in (fx, torch))
    np.testing.assert_allclose(run(*ours, 12), run(*theirs, 12), rtol=1e-12)
    assert all(isinstance(g["lr"], fx.Tensor) for g in ours[0].param_groups)
    assert all(g["lr"].dtype == fx.float64 for g in ours[0].param_groups)


@pytest.mark.filterwarnings("ignore:Detected call")
@pytest.mark.parametrize("name", CASES)
def test_a_scheduler_inside_a_jitted_function(name):
    eager, jitted = make(fx, CASES[name]), make(fx, CASES[name])

    @fx.jit
    def step():
        optimizer, scheduler = jitted
        for group in optimizer.param_groups:
            (p,) = group["params"]
            p.grad = fx.ones(1)
        optimizer.step()
        scheduler.step()

    for _ in range(12):
        step()
        for group in eager[0].param_groups:
            group["params"][0].grad = fx.ones(1)
        run(*eager, 1)
        np.testing.assert_allclose(seen(jitted[0]), seen(eager[0]), rtol=1e-12)
    for a, b in zip(jitted[0].param_groups, eager[0].param_groups):
        np.testing.assert_allclose(
            a["params"][0].numpy(force=True), b["params"][0].numpy(force=True), rtol=1e-6
        )
    assert step.cache_size() == 1


def test_a_plateau_inside_a_jitted_function():
    optimizer, scheduler = make(fx, lambda m, o: m.ReduceLROnPlateau(o, patience=1))

    @fx.jit
    def step(x):
        loss = x * 2
        scheduler.step(loss)
        return loss

    for metric in (1.0, 2.0, 2.0, 2.0, 2.0):
        step(fx.tensor(metric))
    np.testing.assert_allclose(optimizer.param_groups[0]["lr"], 0.001)
    assert scheduler.last_epoch == 5 and step.cache_size() == 1


# words ------------------------------------------------------------------------------------------


def optimizer_of(lib):
    return lib.optim.SGD([lib.nn.Parameter(lib.ones(1))], lr=1.0, momentum=0.9)


@pytest.mark.parametrize(
    "use",
    [
        lambda m, o: m.StepLR(o, 1).step(),
        lambda m, o: m.StepLR(o, 1).get_lr(),
        lambda m, o: (o.step(), m.StepLR(o, 1).step(3)),
        lambda m, o: m.ReduceLROnPlateau(o).step(1.0, 4),
        lambda m, o: (s := m.StepLR(o, 1), setattr(o, "step", lambda: None), s.step()),
    ],
)
def test_warnings_are_torchs(use):
    found = []
    for lib in (fx, torch):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            use(lib.optim.lr_scheduler, optimizer_of(lib))
        found.append([(w.category, str(w.message)[:40]) for w in seen])
    assert found[0] == found[1] and found[0]


def test_the_right_order_is_silent():
    optimizer = optimizer_of(fx)
    scheduler = lr_scheduler.StepLR(optimizer, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()
        scheduler.step()


REFUSED = [
    lambda m, o: m.StepLR(3, 1),
    lambda m, o: m.StepLR(o, 1, last_epoch=3),
    lambda m, o: m.LambdaLR(o, [abs, abs]),
    lambda m, o: m.MultiplicativeLR(o, 0.5),
    lambda m, o: m.ConstantLR(o, 1.5),
    lambda m, o: m.LinearLR(o, 0.0),
    lambda m, o: m.LinearLR(o, 0.5, 2.0),
    lambda m, o: m.SequentialLR(o, [], []),
    lambda m, o: m.SequentialLR(o, [m.StepLR(o, 1)], [1]),
    lambda m, o: m.SequentialLR(o, [m.ReduceLROnPlateau(o)], []),
    lambda m, o: m.SequentialLR(o, [3], []),
    lambda m, o: m.ChainedScheduler([]),
    lambda m, o: m.ChainedScheduler([m.ReduceLROnPlateau(o)]),
    lambda m, o: m.ReduceLROnPlateau(o, factor=1.0),
    lambda m, o: m.ReduceLROnPlateau(o, mode="best"),
    lambda m, o: m.ReduceLROnPlateau(o, threshold_mode="best"),
    lambda m, o: m.ReduceLROnPlateau(o, min_lr=[0.1, 0.1]),
    lambda m, o: m.ReduceLROnPlateau(3),
    lambda m, o: m.CyclicLR(o, 0.1, [1.0, 1.0]),
    lambda m, o: m.CyclicLR(o, 0.1, 1.0, mode="round"),
    lambda m, o: m.OneCycleLR(o, 1.0),
    lambda m, o: m.OneCycleLR(o, 1.0, total_steps=0),
    lambda m, o: m.OneCycleLR(o, 1.0, epochs=2, steps_per_epoch=1.5),
    lambda m, o: m.OneCycleLR(o, 1.0, total_steps=5, pct_start=2.0),
    lambda m, o: m.OneCycleLR(o, 1.0, total_steps=5, anneal_strategy="sine"),
    lambda m, o: [s := m.OneCycleLR(o, 1.0, total_steps=2), *(s.step() for _ in range(4))],
    lambda m, o: m.CosineAnnealingWarmRestarts(o, 0),
    lambda m, o: m.CosineAnnealingWarmRestarts(o, 1, 0),
    lambda m, o: m.CosineAnnealingWarmRestarts(o, 1, 1, "0"),
    lambda m, o: m.CosineAnnealingWarmRestarts(o, 1).step(-1),
    lambda m, o: _swa(m).SWALR(o, 0.1, anneal_strategy="sine"),
    lambda m, o: _swa(m).SWALR(o, 0.1, anneal_epochs=-1),
    lambda m, o: _swa(m).SWALR(o, [0.1, 0.2]),
]


@pytest.mark.filterwarnings("ignore:Detected call", "ignore:The epoch")
@pytest.mark.parametrize("use", REFUSED)
def test_refusals_are_torchs(use):
    raised = []
    for lib in (fx, torch):
        with pytest.raises(Exception) as error:
            use(lib.optim.lr_scheduler, optimizer_of(lib))
        raised.append((type(error.value), str(error.value)[:20]))
    assert raised[0] == raised[1]


@pytest.mark.parametrize("name", torch_scheduler.__all__)
def test_signatures_are_torchs(name):
    ours, theirs = (
        inspect.signature(getattr(m, name)).parameters for m in (lr_scheduler, torch_scheduler)
    )
    assert list(ours) == list(theirs)
    default = operator.attrgetter("default", "kind")
    assert [default(p) for p in ours.values()] == [default(p) for p in theirs.values()]
