"""Attributes that users give to objects of fx and to functions are read anew and written again."""

from types import SimpleNamespace

import numpy as np
import pytest

import fx
import fx.torch as torch
import fx.torch.nn as nn
from fx.torch.utils.data import TensorDataset


def _optimizer():
    return torch.optim.SGD([nn.Parameter(torch.ones(3).double())], lr=0.1)


def _scheduler():
    return torch.optim.lr_scheduler.StepLR(_optimizer(), 1)


def _function():
    def f(x):
        return x

    return f


class Slotted:
    __slots__ = ("apart", "cell", "count", "items", "k", "last", "losses", "settings", "t")

    def __call__(self, x):
        self.count += 1
        self.t = self.t * 0.5 + x
        return self.t.sum() * self.count


OBJECTS = {
    "Module": nn.Module,
    "Linear": lambda: nn.Linear(3, 3),
    "Sequential": lambda: nn.Sequential(nn.ReLU()),
    "ParameterList": lambda: nn.ParameterList([torch.ones(3)]),
    "optimizer": _optimizer,
    "scheduler": _scheduler,
    "distribution": lambda: torch.distributions.Normal(torch.zeros(3), 1.0),
    "dataset": lambda: TensorDataset(torch.ones(3)),
    "namespace": SimpleNamespace,
    "function": _function,
    "slots": Slotted,
}


def count(o, x):
    o.count += 1
    return x * o.count


def replace(o, x):
    o.t = o.t * 0.5 + x
    return o.t.sum()


def write(o, x):
    o.t.add_(x)
    return o.t.sum()


def append(o, x):
    o.losses.append(x.sum())
    return x


def write_item(o, x):
    o.apart["t"].mul_(x)
    return x


def replace_item(o, x):
    o.items[0] = o.items[0] + x
    return o.items[0]


def raise_entry(o, x):
    o.settings["k"] += 1
    return x * o.settings["k"]


def add(o, x):
    o.last = x * 2
    return x


PROGRAMS = {
    "number": lambda o, x: x * o.k,
    "entry": lambda o, x: x * o.settings["k"],
    "tensor": lambda o, x: x * o.t,
    "object": lambda o, x: x * o.cell.k,
    "item": lambda o, x: x * o.items[0] + o.apart["t"],
    **{f.__name__: f for f in (count, replace, write, append)},
    **{f.__name__: f for f in (write_item, replace_item, raise_entry, add)},
}


def give(o, value):
    o.k, o.settings = float(value), {"k": float(value)}
    o.t, o.cell = torch.full((3,), value).double(), SimpleNamespace(k=float(value))
    o.items, o.apart = [o.t.clone()], {"t": o.t.clone()}
    o.losses = getattr(o, "losses", [])
    o.count = getattr(o, "count", 0)


def change(o, value):
    o.k = o.settings["k"] = o.cell.k = float(value)
    o.items[0] = torch.full((3,), value).double()


def state(o):
    last = o.last.tolist() if hasattr(o, "last") else None
    return [
        o.k, o.settings, o.t.tolist(), o.cell.k, o.items[0].tolist(), o.apart["t"].tolist(),
        [x.item() for x in o.losses], o.count, last,
    ]  # fmt: skip


def outcome(make, program, way, transform):
    o = make()
    give(o, 1)
    if way == "closure":
        step = transform(lambda x: program(o, x))
    else:
        inner = transform(program)
        step = lambda x: inner(o, x)
    out = []
    for i in range(4):
        if i == 2:
            change(o, 5)
        out.append((step(torch.from_numpy(np.arange(3.0) + i)).tolist(), state(o)))
    return out


@pytest.mark.filterwarnings("ignore:jit")
@pytest.mark.parametrize("way", ["closure", "argument"])
@pytest.mark.parametrize("kind", OBJECTS)
def test_attributes_of_a_users_own(kind, way):
    first = [*OBJECTS].index(kind) + (way == "closure")
    for name, program in [*PROGRAMS.items()][first % 3 :: 3]:
        expected = outcome(OBJECTS[kind], program, way, lambda f: f)
        assert outcome(OBJECTS[kind], program, way, fx.jit) == expected, name


@pytest.mark.filterwarnings("ignore:jit")
def test_slots_of_what_is_jitted_itself():
    plain, other = Slotted(), Slotted()
    give(plain, 1), give(other, 1)
    step = fx.jit(other)
    for i in range(4):
        x = torch.from_numpy(np.arange(3.0) + i)
        assert step(x).item() == plain(x).item()
        assert state(other) == state(plain)


def test_what_schedulers_distributions_and_datasets_say_is_read_anew():
    optimizer = _optimizer()
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    normal = torch.distributions.Normal(torch.zeros(3).double(), torch.ones(3).double())
    dataset = TensorDataset(torch.arange(3.0).double())

    def f(x):
        late = 1.0 if scheduler.last_epoch > 2 else 0.0
        rate = scheduler.get_last_lr()[0] + scheduler.last_epoch + late
        return normal.log_prob(x) * rate + dataset[1][0] * len(dataset)

    jitted = fx.jit(f)
    for i in range(5):
        x = torch.from_numpy(np.arange(3.0) + i)
        np.testing.assert_allclose(jitted(x).numpy(), f(x).numpy(), rtol=1e-12)
        scheduler.step()
        if i == 1:
            normal.loc = torch.ones(3).double()
        if i == 2:
            normal.scale = normal.scale * 2
        if i == 3:
            dataset.tensors = (torch.ones(5).double(),)
