"""What a step does besides its results, two kinds at a time: jitted it does as eagerly."""

import random

import numpy as np
import pytest

import fx
import fx.torch as torch
import fx.torch.nn as nn


def _same(f):
    return f


class Averages(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3).double())
        self.last = torch.zeros(3).double()
        self.calls = 0
        self.used = False


class World:
    """What a step may change; ``see`` is all of it as plain values."""

    def __init__(self):
        self.weight = nn.Parameter(torch.ones(3).double())
        self.optimizer = torch.optim.SGD([self.weight], lr=0.1, momentum=0.5)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2)
        self.losses, self.counts, self.seen = [], {"n": 0}, {}
        self.module = Averages()
        self.generator = torch.Generator()
        self.generator.manual_seed(3)
        self.total = None

    def see(self):
        module, group = self.module, self.optimizer.param_groups[0]
        return [
            self.weight.tolist(), group["lr"], self.scheduler.last_epoch,
            [loss.item() for loss in self.losses], dict(self.counts),
            {k: x.tolist() for k, x in self.seen.items()}, module.mean.tolist(),
            module.last.tolist(), module.calls, module.used,
            None if self.total is None else self.total.item(), random.getstate()[1][-1],
        ]  # fmt: skip


def updates(w, x, loss):
    w.optimizer.zero_grad()
    loss.backward()
    w.optimizer.step()


def schedules(w, x, loss):
    w.scheduler.step()


def appends(w, x, loss):
    w.losses.append(loss)


def counts(w, x, loss):
    w.counts["n"] += 1


def notes(w, x, loss):
    w.seen["last"] = x * 2


def averages(w, x, loss):
    with torch.no_grad():
        w.module.mean.mul_(0.5).add_(x)


def keeps(w, x, loss):
    w.module.last = w.module.last * 0.5 + x


def writes(w, x, loss):
    w.module.last.add_(x)


def tallies(w, x, loss):
    w.module.calls += 1


def flags(w, x, loss):
    w.module.used = True


def sets(w, x, loss):
    w.total = loss.detach() * 2


def draws(w, x, loss):
    w.seen["drawn"] = x * random.random()


def samples(w, x, loss):
    w.seen["noise"] = torch.rand(3, generator=w.generator)


def masks(w, x, loss):
    w.seen["some"] = x[x > 1]


def asks(w, x, loss):
    if loss.item() > 6:
        w.counts["large"] = w.counts.get("large", 0) + 1


def looks(w, x, loss):
    state = w.optimizer.state[w.weight]
    if state.get("momentum_buffer") is not None:
        w.seen["buffer"] = state["momentum_buffer"] * 2


KINDS = (
    updates, schedules, appends, counts, notes, averages, keeps, writes, tallies, flags, sets,
    draws, samples, masks, asks, looks,
)  # fmt: skip


def run(effects, transform):
    world, out = World(), []
    random.seed(7)

    @transform
    def step(x):
        loss = (world.weight * x).sum()
        for effect in effects:
            effect(world, x, loss)
        return loss

    for i in range(4):
        out.append((step(torch.from_numpy(np.arange(3.0) + i)).item(), world.see()))
    return out


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler", "ignore:jit")
@pytest.mark.parametrize("first", KINDS, ids=lambda f: f.__name__)
def test_two_kinds_of_effects_happen_in_every_call(first):
    others = KINDS[KINDS.index(first) + 1 :]
    for i, second in enumerate(others):
        pair = (second, first) if i % 2 else (first, second)
        effects = pair if first is updates else (updates, *pair)
        names = [f.__name__ for f in effects]
        assert run(effects, fx.jit) == run(effects, _same), names
