"""What is changed between the calls of a jitted step, in every way that there is: it is noticed.

Each way of changing a model or an optimizer is done between steps of a jitted and of an eager twin;
all values, all state and what shares a cell are compared afterwards.
"""

import copy
import warnings

import numpy as np
import pytest

import fx
from fx import nn, optim
from fx.state import Cell
from tests.thorough import pairs
from tests.transforms.jitting.twins import expect_equal_twins

X = fx.tensor(np.random.default_rng(0).standard_normal((5, 3)).astype("float32"))

OPTIMIZERS = {
    "ASGD": {"lr": 0.05},
    "Adadelta": {"lr": 1.0},
    "Adafactor": {"lr": 0.05},
    "Adagrad": {"lr": 0.05},
    "Adam": {"lr": 0.05},
    "Adam amsgrad": {"lr": 0.05, "amsgrad": True},
    "AdamW": {"lr": 0.05},
    "Adamax": {"lr": 0.05},
    "LBFGS": {"lr": 0.1, "max_iter": 2},
    "Muon": {"lr": 0.05},
    "NAdam": {"lr": 0.05},
    "RAdam": {"lr": 0.05},
    "RMSprop": {"lr": 0.05, "momentum": 0.5, "centered": True},
    "Rprop": {"lr": 0.05},
    "SGD": {"lr": 0.05, "momentum": 0.9},
    "SparseAdam": {"lr": 0.05},
}


class Scale(nn.Module):
    """A layer of the user's: a setting of each kind and a buffer."""

    def __init__(self):
        super().__init__()
        self.factor = 0.5
        self.names = ["a", "b"]
        self.shift = nn.Buffer(fx.zeros(4))

    def forward(self, x):
        return x * self.factor * len(self.names) + self.shift


class Side:
    """A model, its optimizer and a step, which are the same for the same seed."""

    def __init__(self, name, wrap):
        fx.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(3, 4), Scale(), nn.Tanh(), nn.Linear(4, 2))
        chosen = [p for p in self.model.parameters() if name != "Muon" or p.ndim == 2]
        self.optimizer = getattr(optim, name.split()[0])(chosen, **OPTIMIZERS[name])
        self.handles = []

        def closure():
            self.optimizer.zero_grad()
            loss = (self.model(X) ** 2).sum()
            loss.backward()
            return loss

        def step():
            if isinstance(self.optimizer, optim.LBFGS):
                return self.optimizer.step(closure)
            loss = closure()
            self.optimizer.step()
            return loss

        self.step = wrap(step)

    @property
    def weight(self):
        return self.model[0].weight


def twins(name):
    return Side(name, lambda f: f), Side(name, fx.jit)


def compare(eager, jitted):
    expect_equal_twins(eager.model.state_dict(), jitted.model.state_dict())
    kept = [
        [sorted(dict.items(held)) for held in side.optimizer.state.values()]
        for side in (eager, jitted)
    ]
    expect_equal_twins(*kept)
    first, second = ([x for held in listed for _, x in held] for listed in kept)
    assert [[x is y for y in first] for x in first] == [[x is y for y in second] for x in second]


def run(eager, jitted, changes):
    """Two steps, then each change and two steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for change in (None, *changes):
            if change is not None:
                change(eager)
                change(jitted)
            for _ in range(2):
                want, got = outcome(eager), outcome(jitted)
                expect_equal_twins(want, got)
    compare(eager, jitted)


def outcome(side):
    try:
        return side.step()
    except Exception as error:
        return type(error)


# parameters that stand still for a while ----------------------------------------------------------


def freezing(which):
    def change(side):
        for i, p in enumerate(side.model.parameters()):
            p.requires_grad_(i not in which)

    return change


SCHEDULES = {
    "one and back": [(0,), ()],
    "in turn": [(0,), (1,), (2,), ()],
    "one more each time": [(0,), (0, 1), (0, 1, 2), ()],
    "one less each time": [(0, 1, 2), (0, 1), (0,), ()],
    "all and back": [(0, 1, 2, 3), ()],
    "to and fro": [(0,), (), (0,), ()],
    "halves": [(0, 1), (2, 3), (0, 1), ()],
}


SCHEDULED = [("Adam", schedule) for schedule in SCHEDULES]
SCHEDULED += pairs(OPTIMIZERS, ("one and back", "halves"), 2)


@pytest.mark.parametrize(("name", "schedule"), dict.fromkeys(SCHEDULED))
def test_parameters_that_are_frozen_for_a_while(name, schedule):
    run(*twins(name), [freezing(which) for which in SCHEDULES[schedule]])


def test_a_parameter_that_is_left_out_within_the_call():
    """Two steps in one call, of which a parameter makes one."""

    def make(wrap):
        side = Side("Adam", lambda f: f)

        def step():
            side.optimizer.zero_grad()
            (side.model(X) ** 2).sum().backward()
            side.optimizer.step()
            side.weight.grad = None
            side.optimizer.step()

        side.step = wrap(step)
        return side

    run(make(lambda f: f), make(fx.jit), [lambda side: None])


# every way of changing what a step reads ----------------------------------------------------------


def slot_of(side):
    """A slot that the optimizer keeps for the first weight, by name; None if it keeps none."""
    held = side.optimizer.state.get(side.weight, {})
    return next((k for k, v in held.items() if isinstance(v, Cell) and v.shape == (4, 3)), None)


def set_slot(make):
    def change(side):
        name = slot_of(side)
        if name is not None:
            side.optimizer.state[side.weight][name] = make(side)

    return change


def in_state(change):
    def changed(side):
        if side.weight in side.optimizer.state:
            change(side.optimizer.state, side.weight)

    return changed


def both(f, g):
    return lambda side: (f(side), g(side))


def of_group(change):
    return lambda side: change(side.optimizer.param_groups[0])


def other(shape=(4, 3)):
    return nn.Parameter(fx.full(shape, 0.25))


CHANGES = {
    # state
    "state.clear": lambda side: side.optimizer.state.clear(),
    "state.pop": in_state(lambda state, p: state.pop(p)),
    "del state[p]": in_state(lambda state, p: state.__delitem__(p)),
    "state.popitem": lambda side: side.optimizer.state and side.optimizer.state.popitem(),
    "state[p] = {}": in_state(lambda state, p: state.__setitem__(p, {})),
    "state[p].clear": in_state(lambda state, p: state[p].clear()),
    "state.update": in_state(lambda state, p: state.update({p: {}})),
    "state |=": in_state(lambda state, p: state.__ior__({p: {}})),
    "state =": lambda side: setattr(side.optimizer, "state", {}),
    "state[p][k] = tensor": set_slot(lambda side: fx.full((4, 3), 0.25)),
    "state[p][k] = cell": set_slot(lambda side: Cell(fx.full((4, 3), 0.25))),
    "state[p].update": lambda side: (
        (name := slot_of(side))
        and side.optimizer.state[side.weight].update({name: fx.full((4, 3), 0.25)})
    ),
    "state[p][k].fill_": lambda side: (
        (name := slot_of(side)) and side.optimizer.state[side.weight][name].fill_(0.25)
    ),
    "load_state_dict": lambda side: side.optimizer.load_state_dict(
        copy.deepcopy(side.optimizer.state_dict())
    ),
    # groups
    "groups[0] = dict": lambda side: side.optimizer.param_groups.__setitem__(
        0, {**side.optimizer.param_groups[0], "lr": 0.02}
    ),
    "groups =": lambda side: setattr(
        side.optimizer, "param_groups", [{**side.optimizer.param_groups[0], "lr": 0.02}]
    ),
    "groups.clear": lambda side: side.optimizer.param_groups.clear(),
    "groups.pop": lambda side: side.optimizer.param_groups and side.optimizer.param_groups.pop(),
    "groups[:] = []": lambda side: side.optimizer.param_groups.__setitem__(slice(None), []),
    "params.pop": of_group(lambda group: group["params"].pop()),
    "params.remove": of_group(lambda group: group["params"].__delitem__(0)),
    "params.reverse": of_group(lambda group: group["params"].reverse()),
    "params = []": of_group(lambda group: group.__setitem__("params", group["params"][:1])),
    "params.clear": of_group(lambda group: group["params"].clear()),
    "group.update": of_group(lambda group: group.update(lr=0.02, weight_decay=0.1)),
    "group.setdefault": of_group(lambda group: group.setdefault("weight_decay", 0.1)),
    "lr": of_group(lambda group: group.__setitem__("lr", 0.02)),
    "lr is a tensor": of_group(lambda group: group.__setitem__("lr", fx.tensor(0.02))),
    "lr is NaN": of_group(lambda group: group.__setitem__("lr", float("nan"))),
    "maximize": of_group(lambda group: group.__setitem__("maximize", True)),
    "add_param_group": lambda side: (
        side.optimizer.add_param_group(
            {"params": [side.optimizer.param_groups[0]["params"].pop()], "lr": 0.01}
        ),
    ),
    # hooks
    "weight.register_hook": lambda side: side.weight.register_hook(lambda g: g * 0.5 + 1),
    "hook removed": both(
        lambda side: side.handles.append(side.weight.register_hook(lambda g: g + 1)),
        lambda side: len(side.handles) > 1 and side.handles.pop(0).remove(),
    ),
    "post hook": lambda side: side.weight.register_post_accumulate_grad_hook(
        lambda p: setattr(p, "grad", p.grad * 0.5 + 1)
    ),
    "step pre hook": lambda side: side.optimizer.register_step_pre_hook(
        lambda o, args, kwargs: setattr(o.param_groups[0]["params"][0], "grad", None)
    ),
    "step hook dict": lambda side: side.optimizer._optimizer_step_post_hooks.__setitem__(
        -1, lambda o, args, kwargs: o.param_groups[0]["params"][0].data.mul_(0.9)
    ),
    "forward hook": lambda side: side.model[0].register_forward_hook(lambda m, a, out: out + 1),
    "forward hook dict": both(
        lambda side: side.model[0].register_forward_hook(lambda m, a, out: out + 1),
        lambda side: side.model[0]._forward_hooks.clear(),
    ),
    # modules
    "_modules[k] =": lambda side: side.model._modules.__setitem__("2", NEW[0]),
    "_modules.update": lambda side: side.model._modules.update({"2": NEW[0]}),
    "_modules.pop": lambda side: side.model._modules.pop("1", None),
    "_modules order": lambda side: side.model._modules.__setitem__(
        "1", side.model._modules.pop("1")
    ),
    "_modules.popitem": lambda side: (
        side.model._modules.__setitem__("9", NEW[0]),
        side.step(),
        side.model._modules.popitem(),
    ),
    "_modules =": lambda side: setattr(
        side.model, "_modules", {k: m for k, m in side.model._modules.items() if k != "2"}
    ),
    "__dict__[_modules]": lambda side: side.model.__dict__.__setitem__(
        "_modules", {k: m for k, m in side.model._modules.items() if k != "2"}
    ),
    "_parameters[k] =": lambda side: side.model[0]._parameters.__setitem__("weight", other()),
    "_parameters[k] = tensor": lambda side: side.model[0]._parameters.__setitem__(
        "weight", fx.full((4, 3), 0.25)
    ),
    "_parameters[k] = None": lambda side: side.model[0]._parameters.__setitem__("bias", None),
    "_parameters |=": lambda side: side.model[0]._parameters.__ior__({"weight": other()}),
    "_parameters.update": lambda side: side.model[0]._parameters.update(weight=other()),
    "_buffers[k] =": lambda side: side.model[1]._buffers.__setitem__(
        "shift", nn.Buffer(fx.full((4,), 0.5))
    ),
    "_buffers[k] = tensor": lambda side: side.model[1]._buffers.__setitem__(
        "shift", fx.full((4,), 0.5)
    ),
    "attribute": lambda side: setattr(side.model[1], "factor", 0.25),
    "attribute is NaN": lambda side: setattr(side.model[1], "factor", float("nan")),
    "attribute is -0": both(
        lambda side: setattr(side.model[1], "factor", 0.0),
        lambda side: (side.step(), setattr(side.model[1], "factor", -0.0)),
    ),
    "__dict__[k] =": lambda side: side.model[1].__dict__.__setitem__("factor", 0.25),
    "__dict__.update": lambda side: vars(side.model[1]).update(factor=0.25),
    "list in an attribute": lambda side: side.model[1].names.append("c"),
    "weight =": lambda side: setattr(side.model[0], "weight", other()),
    "weight.data =": lambda side: setattr(side.weight, "data", fx.full((4, 3), 0.25)),
    "copied and put back": lambda side: side.model._modules.__setitem__(
        "1", copy.deepcopy(side.model[1])
    ),
    "append": lambda side: side.model.append(NEW[0]),
    "del model[2]": lambda side: len(side.model) > 3 and side.model.__delitem__(2),
    "model.load_state_dict": lambda side: side.model.load_state_dict(
        {k: v * 0.5 for k, v in side.model.state_dict().items()}
    ),
}
NEW = [nn.ReLU()]  # made before anything is compiled: making one counts as a change, too


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_calls_is_noticed(change):
    run(*twins("Adam"), [CHANGES[change], CHANGES[change]])


@pytest.mark.parametrize("change", ["state.clear", "state[p][k] = tensor"])
@pytest.mark.parametrize("name", [n for n in OPTIMIZERS if n != "Adam"])
def test_other_optimizers_notice_too(name, change):
    run(*twins(name), [CHANGES[change]])


# an optimizer of the user's -----------------------------------------------------------------------


class Own(optim.Optimizer):
    """It keeps numbers, tensors and a setting, as one writes it for PyTorch."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})
        self.scale = 1.0

    def step(self, closure=None):
        with fx.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if len(state) == 0:
                        state["step"] = 0
                        state["mean"] = fx.zeros_like(p)
                        state["last"] = p.grad * 0
                    state["step"] += 1
                    last = state["last"]
                    state["last"] = p.grad.detach()
                    state["mean"] = state["mean"] * 0.9 + (p.grad - last) * 0.1
                    p.sub_(group["lr"] * self.scale * (p.grad + state["mean"]) / state["step"])


@pytest.mark.parametrize(
    "change",
    [
        "nothing", "scale", "state.clear", "del state[p]", "state[p].clear", "lr",
        "load_state_dict", "groups[0] = dict", "params.pop", "state[p][k] = tensor",
    ],
)  # fmt: skip
def test_an_optimizer_of_the_users(change):
    def make(wrap):
        side = Side("Adam", wrap)
        side.optimizer = Own(side.model.parameters(), 0.05)
        return side

    more = {
        "nothing": lambda side: None,
        "scale": lambda side: setattr(side.optimizer, "scale", side.optimizer.scale / 2),
    }
    done = {**CHANGES, **more}[change]
    run(make(lambda f: f), make(fx.jit), [done, done])


def test_what_an_optimizer_begins_is_compiled_once():
    side = Side("Adam", fx.jit)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            side.step()
    assert side.step.cache_size() == 1


@pytest.mark.filterwarnings("ignore:jit")
@pytest.mark.parametrize(
    "line",
    [
        "names['n'] = names['n'] + 1",
        "names['n'] += 1",
        "names.update(n=names['n'] + 1)",
        "names.setdefault('more', []).append(1)",
        "names.__setitem__('n', names['n'] + 1)",
        "globals()['n'] = globals()['n'] + 1",
        "globals().update(n=globals()['n'] + 1)",
    ],
)
def test_stores_into_the_names_of_a_module(line):
    def run(wrap):
        names = {"n": 1}
        names["names"] = names
        exec(f"def f(x):\n    {line}\n    return x * 2", names)
        f = wrap(names["f"])
        for _ in range(3):
            f(fx.ones(2))
        return names["n"], names.get("more")

    assert run(fx.jit) == run(lambda f: f)


@pytest.mark.filterwarnings("ignore:jit")
def test_the_type_of_what_is_counted():
    held = {"n": 2}

    @fx.jit
    def f(x):
        whole = type(held["n"]) is int
        held["n"] = held["n"] + 1
        return x * (2 if whole else 3)

    assert [float(f(fx.tensor(1.0))) for _ in range(3)] == [2.0, 2.0, 2.0] and held["n"] == 5
