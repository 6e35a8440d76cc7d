"""A snapshot is a value: what is taken while other threads train is of one instant, for ever.

All elements of all parameters begin equal and have equal gradients, so that they stay equal: a
snapshot with two different elements has seen half a step.
"""

import copy
import io
import threading
from time import monotonic, sleep

import numpy as np
import pytest

import fx

SECONDS = 0.25
LARGE = ((400, 500), (300_000,), (7,))  # the GIL is given up
SMALL = ((4, 5), (7,))


class Equal(fx.nn.Module):
    def __init__(self, shapes):
        super().__init__()
        self.ps = fx.nn.ParameterList([fx.nn.Parameter(fx.zeros(s)) for s in shapes])

    def forward(self):
        return sum((p.sum() for p in self.ps), fx.tensor(0.0))


def trainer(model, way):
    optimizer = fx.optim.Adam(model.parameters(), lr=0.01)

    def step():
        optimizer.zero_grad()
        model().backward()
        optimizer.step()

    return (fx.jit(step) if way == "jit" else step), optimizer


def arrays(x):
    if isinstance(x, fx.Tensor):
        return [x.numpy(force=True)]
    if isinstance(x, dict):
        return [a for v in x.values() for a in arrays(v)]
    return []


def of_file(model):
    file = io.BytesIO()
    fx.save(model.state_dict(), file)
    file.seek(0)
    return arrays(fx.load(file))


WHOLE = {  # one instant for all tensors
    "state_dict": lambda model, optimizer: arrays(model.state_dict()),
    "save": lambda model, optimizer: of_file(model),
}
SINGLE = {  # one for each
    "detach": lambda model, optimizer: [p.detach().numpy() for p in model.parameters()],
    "clone": lambda model, optimizer: [p.data.clone().numpy() for p in model.parameters()],
    "read": lambda model, optimizer: [p.read().numpy(force=True) for p in model.parameters()],
    "deepcopy": lambda model, optimizer: arrays(copy.deepcopy(model).state_dict()),
    "optimizer": lambda model, optimizer: [
        a for s in optimizer.state_dict()["state"].values() for k, v in s.items() if k != "step"
        for a in arrays(v)
    ],
    "grad": lambda model, optimizer: [
        g.numpy(force=True) for p in model.parameters() if (g := p.grad) is not None
    ],
}  # fmt: skip
TAKES = {**WHOLE, **SINGLE}


def values(found):
    """The different elements of each array."""
    return [np.unique(a) for a in found]


@pytest.mark.parametrize("take", TAKES)
@pytest.mark.parametrize("way", ["jit", "eager"])
@pytest.mark.parametrize("shapes", [LARGE, SMALL], ids=["large", "small"])
def test_snapshots_while_another_thread_trains(take, way, shapes):
    model = Equal(shapes)
    step, optimizer = trainer(model, way)
    for _ in range(3):
        step()
    over = threading.Event()
    errors = []

    def train():
        try:
            while not over.is_set():
                step()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=train)
    thread.start()
    kept = []
    try:
        end = monotonic() + SECONDS
        while monotonic() < end and not errors:
            found = TAKES[take](model, optimizer)
            seen = values(found)
            assert all(len(v) == 1 for v in seen), f"half a step: {seen}"
            if take in WHOLE:
                assert len({float(v[0]) for v in seen}) == 1, f"two steps: {seen}"
            if len(kept) < 40:
                kept.append((found, seen))
    finally:
        over.set()
        thread.join()
    assert not errors, errors
    assert kept
    for found, seen in kept:
        assert all(map(np.array_equal, values(found), seen)), "it changed afterwards"


def test_who_reads_gets_a_turn():
    """A thread that steps without a pause has its tensors away nearly all the time."""
    model = fx.nn.Sequential(fx.nn.Linear(200, 200), fx.nn.Linear(200, 200))
    optimizer = fx.optim.Adam(model.parameters())
    x = fx.ones(16, 200)

    @fx.jit
    def step():
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()

    for _ in range(3):
        step()
    steps = []
    over = threading.Event()

    def train():
        while not over.is_set():
            step()
            steps.append(None)

    thread = threading.Thread(target=train)
    thread.start()
    try:
        waited = []
        for _ in range(7):
            sleep(0.005)
            before = len(steps)
            model.state_dict()
            waited.append(len(steps) - before)
    finally:
        over.set()
        thread.join()
    assert sorted(waited)[len(waited) // 2] <= 100, waited


@pytest.mark.parametrize("shapes", [LARGE, SMALL], ids=["large", "small"])
def test_two_threads_train_one_model(shapes):
    model = Equal(shapes)
    step, optimizer = trainer(model, "jit")
    for _ in range(3):
        step()
    errors = []

    def train():
        try:
            for _ in range(50):
                step()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=train) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    seen = values(arrays(model.state_dict()))
    assert all(len(v) == 1 for v in seen) and len({float(v[0]) for v in seen}) == 1
    counts = {float(s["step"]) for s in optimizer.state_dict()["state"].values()}
    assert counts == {103.0}  # one after the other: none is lost


@pytest.mark.parametrize("way", ["jit", "eager"])
def test_one_takes_parameters_and_another_takes_state(way):
    # a step copies state that is held elsewhere: meanwhile nobody may take what it writes into
    model = Equal(((64, 64), (64,)))
    step, optimizer = trainer(model, way)
    step()
    over = threading.Event()
    kept = {"state_dict": [], "optimizer": []}

    def take(kind):
        while not over.wait(0.0005):
            found = TAKES[kind](model, optimizer)
            kept[kind].append((found, values(found)))

    threads = [threading.Thread(target=take, args=(kind,)) for kind in kept]
    for thread in threads:
        thread.start()
    try:
        end = monotonic() + 4 * SECONDS
        while monotonic() < end:
            step()
            over.wait(0.0005)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    for kind, taken in kept.items():
        assert taken
        for found, seen in taken:
            assert all(map(np.array_equal, values(found), seen)), f"{kind} changed afterwards"
