"""Guards: what a jitted function reads of Python's state is never frozen, and costs little."""

import dataclasses
import enum
import functools
import itertools
import textwrap
import types
import weakref

import attrs
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fx
import fx.nn as nn
import fx.nn.functional as F
from fx.transforms.jitting.guards.guards import watch
from tests.dying import assert_dead
from tests.transforms.jitting.programs import interpreted

X = fx.tensor([1.0, 2.0])


class Counted:
    """A jitted function that counts how often it was staged."""

    def __init__(self, function, **options):
        self.count = itertools.count()
        self.plain = function
        counter = self.count

        @functools.wraps(function)
        def counting(*args, **kwargs):
            next(counter)
            return function(*args, **kwargs)

        self.jitted = fx.jit(counting, **options)

    def __call__(self, *args, **kwargs):
        return self.jitted(*args, **kwargs)

    @property
    def runs(self):
        return self.count.__reduce__()[1][0]


def agrees(function, change, *args, restages=True):
    """Jitted and plain agree before and after a change, which has it staged again, or not."""
    args = args or (X,)
    f = Counted(function)
    for _ in range(2):
        assert _same(f(*args), function(*args))
    assert f.runs == 1
    change()
    for _ in range(2):
        assert _same(f(*args), function(*args))
    assert f.runs == (2 if restages else 1)
    return f


def _same(a, b):
    a, b = [[_array(x) for x in fx.tree.leaves(t)] for t in (a, b)]
    return len(a) == len(b) and all(
        x.dtype == y.dtype and np.allclose(x, y, equal_nan=True) for x, y in zip(a, b)
    )


def _array(x):
    return np.asarray(x.detach() if isinstance(x, fx.Tensor) else x)


# plain values -------------------------------------------------------------------------------------

RATE = 0.5
MODE = "double"
TENSOR = fx.tensor([1.0, 1.0])
SCALAR = fx.tensor(2.0)
CONFIG = {"scale": 2.0, "steps": [1, 2], "names": ("a", "b")}


def set_global(**values):
    return lambda: globals().update(values)


@pytest.fixture(autouse=True)
def guarded_alone():
    before = dict(globals())
    with interpreted():
        yield
    globals().update(before)


def test_a_global_number():
    agrees(lambda x: x * RATE, set_global(RATE=0.75))
    agrees(lambda x: x * RATE, set_global(RATE=2))  # 0.75 -> 2


def test_equal_values_of_another_object_do_not_matter():
    agrees(lambda x: x * RATE, set_global(RATE=float("0.5")), restages=False)
    agrees(lambda x: x + len(MODE), set_global(MODE="".join(["dou", "ble"])), restages=False)


def test_types_and_signs_of_zero_matter():
    globals()["RATE"] = 1
    agrees(lambda x: x * RATE, set_global(RATE=True))
    globals()["RATE"] = 0.0
    agrees(lambda x: 1.0 / (x * 0 + RATE), set_global(RATE=-0.0))
    globals()["RATE"] = float("nan")
    agrees(lambda x: fx.isnan(x * RATE), set_global(RATE=float("nan")), restages=False)


def test_a_global_string_picks_a_branch():
    agrees(lambda x: x * 2 if MODE == "double" else x / 2, set_global(MODE="half"))


def test_a_closure_variable():
    def make():
        n = 2

        def f(x):
            return x * n

        def change():
            nonlocal n
            n = 3

        return f, change

    agrees(*make())


def test_a_default_argument():
    def f(x, n=2, *, m=1):
        return x * n + m

    def change():
        f.__defaults__ = (3,)

    agrees(f, change)

    def change_keyword():
        f.__kwdefaults__["m"] = 5

    agrees(f, change_keyword)


def test_functions_that_are_called_are_followed():
    def helper(x):
        return x * RATE

    agrees(lambda x: [helper(v) for v in (x, x)], set_global(RATE=3.0))
    agrees(functools.partial(helper), set_global(RATE=4.0))

    def decorated(f):
        @functools.wraps(f)
        def wrapper(*args):
            return f(*args) + 1

        return wrapper

    agrees(decorated(helper), set_global(RATE=5.0))
    agrees(fx.grad(lambda x: helper(x).sum()), set_global(RATE=6.0))
    agrees(fx.vmap(helper), set_global(RATE=7.0))
    cached = functools.lru_cache(lambda: RATE)
    del cached


def test_nested_code():
    def f(x):
        inner = lambda y: y * RATE
        return sum(inner(v) for v in (x, x)) + fx.grad(lambda z: (z * RATE).sum())(x)

    agrees(f, set_global(RATE=3.0))


def test_another_function_under_a_name():
    def make():
        act = fx.sin

        def change():
            nonlocal act
            act = fx.cos

        return lambda x: act(x), change

    agrees(*make())

    def made_from(n):
        return lambda x: x * n

    def make_from():
        act = made_from(2)

        def change():
            nonlocal act
            act = made_from(3)

        def change_to_equal():
            nonlocal act
            act = made_from(2)

        return lambda x: act(x), change, change_to_equal

    f, change, _ = make_from()
    agrees(f, change)
    f, _, same = make_from()
    agrees(f, same, restages=False)


# containers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda: CONFIG.update(scale=3.0),
        lambda: CONFIG["steps"].append(3),
        lambda: CONFIG["steps"].__setitem__(0, 5),
        lambda: CONFIG.update(names=("a", "c")),
        lambda: CONFIG.update(more=1),
        lambda: CONFIG.pop("names"),
    ],
)
def test_containers_are_compared_by_what_they_hold(change):
    globals()["CONFIG"] = {"scale": 2.0, "steps": [1, 2], "names": ("a", "b")}

    def f(x):
        return (
            x * CONFIG["scale"] + sum(CONFIG["steps"]) + len(CONFIG.get("names", ())) + len(CONFIG)
        )

    agrees(f, change)


def test_an_equal_container_is_the_same():
    agrees(
        lambda x: x * CONFIG["scale"],
        lambda: globals().update(CONFIG={"scale": 2.0, "steps": [1, 2], "names": ("a", "b")}),
        restages=False,
    )


def test_the_order_of_a_dict_matters():
    globals()["CONFIG"] = {"a": 1.0, "b": 2.0}
    f = lambda x: x * next(iter(CONFIG.values()))
    agrees(f, lambda: globals().update(CONFIG={"b": 2.0, "a": 1.0}))


def test_sets_arrays_ranges_and_long_lists():
    held = {1, 2}
    agrees(lambda x: x * len(held) if 3 in held else x, lambda: held.add(3))
    array = np.array([1.0, 2.0], np.float32)
    agrees(lambda x: x * array, lambda: array.__setitem__(0, 7.0))
    values = list(range(100))
    agrees(lambda x: x * sum(values), lambda: values.__setitem__(50, 0))
    nested = [[1, 2], [3, (4, {"k": 5})]]
    agrees(lambda x: x * nested[1][1][1]["k"], lambda: nested[1][1][1].update(k=6))


def test_a_cycle():
    held = [2.0]
    held.append(held)
    agrees(lambda x: x * held[1][1][0], lambda: held.__setitem__(0, 3.0))


# objects ------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Data:
    rate: float = 0.5
    flag: bool = True
    seen: int = 0


@attrs.define
class Slotted:
    rate: float = 0.5
    seen: int = 0


class Plain:
    shift = 1.0

    def __init__(self):
        self.rate = 0.5
        self.seen = 0
        self.inner = Data()

    @property
    def twice(self):
        return self.rate * 2

    def apply(self, x):
        return self.helper(x) + self.shift

    def helper(self, x):
        return x * self.twice * self.inner.rate

    def __call__(self, x):
        return x * self.rate


@pytest.mark.parametrize("cls", [Data, Slotted])
def test_dataclasses_and_attrs_classes(cls):
    held = cls()
    agrees(lambda x: x * held.rate, lambda: setattr(held, "rate", 0.75))


def test_attributes_that_are_not_read_may_change():
    held, other = Plain(), Slotted()

    def f(x):
        return held.apply(x) * other.rate

    def change():
        held.seen += 1
        held.inner.seen += 1
        other.seen += 1

    agrees(f, change, restages=False)


@pytest.mark.parametrize(
    "change",
    [
        lambda o: setattr(o, "rate", 0.75),
        lambda o: setattr(o.inner, "rate", 0.75),
        lambda o: setattr(o, "inner", Data(2.0)),
        lambda o: setattr(o, "shift", 3.0),
    ],
)
def test_methods_and_properties_are_followed(change):
    held = Plain()
    agrees(lambda x: held.apply(x), lambda: change(held))
    held = Plain()
    agrees(held.apply, lambda: change(held))


def test_class_attributes_and_classes_as_namespaces():
    class Settings:
        RATE = 0.5
        OTHER = 1

    def change():
        Settings.RATE = 2.0

    agrees(lambda x: x * Settings.RATE, change)

    def change_other():
        Settings.OTHER += 1

    agrees(lambda x: x * Settings.RATE, change_other, restages=False)
    held = Plain()

    def change_class():
        Plain.shift = 4.0

    try:
        agrees(lambda x: held.apply(x), change_class)
    finally:
        Plain.shift = 1.0


def test_callable_objects():
    held = Plain()
    agrees(lambda x: held(x), lambda: setattr(held, "rate", 0.75))
    held = Plain()
    agrees(held, lambda: setattr(held, "rate", 0.75))


def test_attributes_that_are_added():
    class Lazy:
        def apply(self, x):
            try:
                return x + self.shift
            except AttributeError:
                return x

    held = Lazy()
    agrees(lambda x: held.apply(x), lambda: setattr(held, "shift", 1.0))
    other = Lazy()
    agrees(
        lambda x: x * other.rate if hasattr(other, "rate") else x,
        lambda: setattr(other, "rate", 3.0),
    )


def test_getattr_by_a_computed_name():
    held = Data()
    agrees(lambda x: x * getattr(held, "ra" + "te"), lambda: setattr(held, "rate", 0.75))


def test_methods_that_a_library_calls():
    class Scale(fx.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * RATE

        @staticmethod
        def backward(ctx, g):
            return g * RATE

    agrees(lambda x: Scale.apply(x), set_global(RATE=3.0))
    agrees(fx.grad(lambda x: Scale.apply(x).sum()), set_global(RATE=4.0))

    @fx.custom_vjp
    def g(x):
        return x * RATE

    g.defvjp(lambda x: (x * RATE, None), lambda kept, ct: (ct * RATE,))
    agrees(lambda x: g(x), set_global(RATE=5.0))
    agrees(fx.grad(lambda x: g(x).sum()), set_global(RATE=6.0))


def test_objects_that_are_made_inside():
    class Helper:
        factor = 2.0

        def __init__(self, x):
            self.x = x

        def run(self):
            return self.x * self.factor * RATE

    agrees(lambda x: Helper(x).run(), set_global(RATE=3.0))
    agrees(lambda x: Helper(x).run(), lambda: setattr(Helper, "factor", 5.0))


def test_methods_that_are_replaced():
    class Scale:
        def apply(self, x):
            return x * 2

    scale = Scale()
    kept = Scale.apply
    agrees(lambda x: scale.apply(x), lambda: setattr(Scale, "apply", lambda self, x: x * 3))
    assert kept is not Scale.apply


def test_an_enum():
    class Kind(enum.Enum):
        ONE = 1
        TWO = 2

    kind = [Kind.ONE]
    agrees(lambda x: x * kind[0].value, lambda: kind.__setitem__(0, Kind.TWO))


def test_a_module_of_settings():
    cfg = types.ModuleType("cfg_of_the_test")
    cfg.LR, cfg.OTHER = 0.5, 1
    agrees(lambda x: x * cfg.LR, lambda: setattr(cfg, "LR", 0.75))
    agrees(lambda x: x * cfg.LR, lambda: setattr(cfg, "OTHER", 2), restages=False)
    cfg.deep = types.SimpleNamespace(rate=1.0)
    agrees(lambda x: x * cfg.deep.rate, lambda: setattr(cfg.deep, "rate", 2.0))


# any state, any change ---------------------------------------------------------------------------

LEAVES = st.one_of(st.integers(-2, 2), st.sampled_from((0.0, -0.0, 0.5, 2.0)), st.booleans())


class State:
    """Something of everything."""

    level = 1.0

    def __init__(self):
        self.number = 1
        self.flag = True
        self.rates = [1.0, 2.0]
        self.table = {"a": 1, "b": {"c": 2.0}}
        self.data = Data()
        self.slotted = Slotted()
        self.tensor = fx.tensor([1.0, 1.0])
        self.array = np.ones(2, np.float32)
        self.names = {"x"}
        self.unread = 0


def read(state, x):
    total = x * state.number + state.level
    if state.flag:
        total = total + sum(state.rates)
    for key, value in state.table.items():
        total = total * 2 + (value if key == "a" else len(value))
    total = total + state.table["b"]["c"] * state.data.rate - state.slotted.rate
    return total * state.tensor + fx.asarray(state.array) + ("y" in state.names)


CHANGES = {
    "number": lambda s, v: setattr(s, "number", v),
    "flag": lambda s, v: setattr(s, "flag", bool(v)),
    "rate": lambda s, v: s.rates.__setitem__(0, v),
    "append": lambda s, v: s.rates.append(v),
    "list": lambda s, v: setattr(s, "rates", list(s.rates)),
    "entry": lambda s, v: s.table.__setitem__("a", v),
    "nested": lambda s, v: s.table["b"].__setitem__("c", v),
    "more": lambda s, v: s.table["b"].__setitem__(str(v), v),
    "order": lambda s, v: s.table.__setitem__("a", s.table.pop("a")),
    "data": lambda s, v: setattr(s, "data", Data(rate=v)),
    "field": lambda s, v: setattr(s.data, "rate", v),
    "slot": lambda s, v: setattr(s.slotted, "rate", v),
    "tensor": lambda s, v: setattr(s, "tensor", fx.tensor([1.0, float(v)])),
    "array": lambda s, v: s.array.__setitem__(1, v),
    "set": lambda s, v: (s.names.add if v else s.names.discard)("y"),
    "class": lambda s, v: setattr(State, "level", v),
    "own": lambda s, v: setattr(s, "level", v),
    "unread": lambda s, v: setattr(s, "unread", v),
}


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(sorted(CHANGES)), LEAVES), max_size=12))
def test_any_change_is_seen(changes):
    State.level = 1.0
    state = State()
    jitted = fx.jit(lambda x: read(state, x))
    with interpreted():
        for name, value in changes:
            CHANGES[name](state, value)
            assert _same(jitted(X), read(state, X)), (name, value)


# methods ------------------------------------------------------------------------------------------


def test_a_jitted_method_reads_its_object():
    staged = itertools.count()

    class Trainer:
        def __init__(self):
            self.rate = 0.5
            self.step_count = 0
            self.history = []

        @fx.jit
        def step(self, x):
            next(staged)
            return x * self.rate

    a, b = Trainer(), Trainer()
    b.rate = 2.0
    for _ in range(3):
        assert a.step(X).tolist() == [0.5, 1.0]
        assert b.step(X).tolist() == [2.0, 4.0]
        a.step_count += 1
        a.history.append(1.0)
    assert next(staged) == 2
    a.rate = 4.0
    assert a.step(X).tolist() == [4.0, 8.0]


def test_objects_of_jitted_methods_die():
    class Holder:
        def __init__(self):
            self.model = nn.Linear(2, 2)
            self.optimizer = fx.optim.Adam(self.model.parameters(), lr=0.1)

        @fx.jit
        def step(self, x):
            self.optimizer.zero_grad()
            loss = self.model(x).sum()
            loss.backward()
            self.optimizer.step()
            return loss

    holder = Holder()
    for _ in range(2):
        holder.step(fx.ones((3, 2)))
    dead = [weakref.ref(holder), weakref.ref(holder.model), weakref.ref(holder.model.weight)]
    del holder
    assert_dead(dead)
    assert Holder.step.cache_size() == 0


WAYS = {
    "an attribute that it stores": """
        def __init__(self): self.last = None
        @fx.jit
        def step(self, x):
            self.last = model(x).sum()
            return self.last
        """,
    "a counter": """
        def __init__(self): self.count = 0
        @fx.jit
        def step(self, x):
            self.count += 1
            optimizer.zero_grad(); model(x).sum().backward(); optimizer.step()
            return model(x).sum() * self.count
        """,
    "an optimizer": """
        @fx.jit
        def step(self, x):
            optimizer.zero_grad(); model(x).sum().backward(); optimizer.step()
            return model(x).sum()
        """,
    "a class that it makes": """
        @fx.jit
        def step(self, x):
            class Pair:
                def __init__(self, a): self.a = a
            return model(Pair(x).a).sum()
        """,
}


@pytest.mark.parametrize("way", WAYS)
def test_classes_of_jitted_methods_die(way):
    """What is found out about classes keeps none of them, nor what their methods close over."""
    text = textwrap.indent(textwrap.dedent(WAYS[way]), "        ")
    space = {"fx": fx, "nn": nn, "__name__": "users"}
    exec(
        "def make():\n    model = nn.Linear(2, 2)\n"
        "    optimizer = fx.optim.AdamW(model.parameters())\n    class Holder:\n"
        f"{text}\n    return Holder(), model, optimizer",
        space,
    )
    holder, model, optimizer = space["make"]()
    for _ in range(3):
        holder.step(fx.ones((3, 2)))
    held = type(holder), model, model.weight, optimizer, optimizer.param_groups[0]
    dead = [weakref.ref(x) for x in held]
    del holder, model, optimizer, held
    assert_dead(dead)


def test_a_global_model_dies_with_its_name():
    space = {"fx": fx, "nn": nn, "X": fx.ones((1, 2))}
    exec("model = nn.Linear(2, 2)\nf = fx.jit(lambda x: model(x))\nf(X)", space)
    dead = weakref.ref(space["model"]), weakref.ref(space["model"].weight)
    del space["model"]
    assert_dead(dead)
    assert space["f"].cache_size() == 0


def test_jitted_functions_die_with_what_they_close_over():
    def make():
        model = nn.Linear(2, 2)
        f = fx.jit(lambda x: model(x))
        f(fx.ones((1, 2)))
        return weakref.ref(model), weakref.ref(f)

    dead = make()
    assert_dead(dead)


# modules and optimizers ---------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.drop = nn.Dropout(0.5)
        self.scale = 2.0
        self.options = {"shift": 1.0}
        self.seen = 0

    def forward(self, x):
        return self.drop(self.fc(x)) * self.scale + self.options["shift"]


@pytest.mark.parametrize(
    "change, restages",
    [
        (lambda m: m.train(), False),
        (lambda m: setattr(m, "scale", 3.0), True),
        (lambda m: setattr(m, "scale", 2.0), False),
        (lambda m: setattr(m, "seen", 1), False),
        (lambda m: m.options.update(shift=2.0), True),
        (lambda m: setattr(m, "fc", nn.Linear(2, 2)), True),
        (lambda m: setattr(m, "drop", nn.Identity()), True),
        (lambda m: setattr(m.fc, "weight", nn.Parameter(fx.ones((2, 2)))), True),
        (lambda m: m.fc.weight.copy_(fx.ones((2, 2))), False),
        (lambda m: m.fc.weight.requires_grad_(False), True),
    ],
)
def test_a_module(change, restages):
    model = Net()
    model.drop.eval()

    def apply():
        with fx.no_grad():
            change(model)
        model.drop.eval()

    def f(x):
        return model(x)

    agrees(f, apply, fx.ones((3, 2)), restages=restages)


def test_attributes_that_are_added_to_a_module():
    class Lazy(nn.Module):
        def forward(self, x):
            if hasattr(self, "factor"):
                x = x * self.factor
            try:
                return x + self.shift
            except AttributeError:
                return x

    model = Lazy()
    agrees(lambda x: model(x), lambda: setattr(model, "factor", 3.0))
    agrees(lambda x: model(x), lambda: setattr(model, "shift", 1.0))


def test_training_and_evaluation_are_two_programs():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    f = Counted(lambda x: model(x))
    x = fx.randn(4, 2)
    for _ in range(3):
        model.train()
        f(x)
        model.eval()
        assert _same(f(x), model(x))
    assert f.runs == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.append(nn.Tanh()),
        lambda m: m.__setitem__(1, nn.Sigmoid()),
        lambda m: m.__delitem__(1),
        lambda m: m.insert(0, nn.Tanh()),
    ],
)
def test_a_list_of_layers(change):
    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))
    agrees(lambda x: model(x), lambda: change(model), fx.ones((3, 2)))


def test_options_of_an_optimizer():
    def trained(jitted, change):
        fx.manual_seed(0)
        model = nn.Linear(2, 1)
        optimizer = fx.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        count = itertools.count()

        def step(x):
            next(count)
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()

        run = fx.jit(step) if jitted else step
        for i in range(6):
            if i == 3:
                change(optimizer, model)
            run(fx.ones((3, 2)))
        return model.weight.data, next(count)

    changes = [
        (lambda o, m: o.param_groups[0].update(lr=0.01, momentum=0.5), 1),
        (lambda o, m: o.param_groups[0].update(nesterov=True), 2),
        (lambda o, m: o.load_state_dict(o.state_dict()), 2),
        (lambda o, m: o.param_groups[0].update(lr=fx.tensor(0.01)), 2),
        (lambda o, m: m.bias.requires_grad_(False), 4),  # its gradient waits: one call as it is
    ]
    for change, runs in changes:
        plain, _ = trained(False, change)
        compiled, count = trained(True, change)
        np.testing.assert_allclose(np.asarray(plain), np.asarray(compiled), rtol=1e-5)
        assert count == runs


# tensors ------------------------------------------------------------------------------------------


def test_tensors_of_globals_and_closures_are_inputs():
    agrees(lambda x: x * TENSOR, set_global(TENSOR=fx.tensor([5.0, 6.0])), restages=False)
    agrees(lambda x: x * SCALAR, set_global(SCALAR=fx.tensor(7.0)), restages=False)
    agrees(lambda x: x * TENSOR, set_global(TENSOR=fx.tensor(5.0)))
    agrees(lambda x: x * SCALAR, set_global(SCALAR=3.0))


def test_what_is_computed_of_them_alone_is_not_frozen():
    f = lambda x: x + TENSOR * SCALAR - (1 - SCALAR)
    change = set_global(TENSOR=fx.tensor([5.0, 6.0]), SCALAR=fx.tensor(3.0))
    agrees(f, change, restages=False)
    assert type(TENSOR) is fx.Tensor and type(SCALAR) is fx.Tensor


def test_a_value_of_such_a_tensor_is_a_question():
    f = lambda x: x * 2 if SCALAR.item() > 0 else x - SCALAR
    agrees(f, set_global(SCALAR=fx.tensor(-1.0)))


def test_dicts_of_parameters():
    params = {"w": fx.tensor([1.0, 2.0]), "b": fx.tensor(1.0)}

    def loss(x):
        return (x * params["w"] + params["b"]).sum()

    f = Counted(loss)
    for i in range(4):
        params["w"] = params["w"] * 0.5
        params["b"] = fx.tensor(float(i))
        assert _same(f(X), loss(X))
    assert f.runs == 1


def test_a_tensor_or_none():
    mask = None

    def f(x):
        return x * 2 if mask is not None else x

    def change():
        nonlocal mask
        mask = fx.tensor([1.0, 0.0])

    agrees(f, change)


def test_gradients_of_global_leaves():
    def grads(jitted):
        held = {"w": fx.tensor([1.0, 2.0], requires_grad=True)}

        def step(x):
            loss = (held["w"] * held["w"] * x).sum()
            loss.backward()
            return loss.detach()

        run = Counted(step) if jitted else step
        found = []
        for i in range(3):
            held["w"] = (held["w"].detach() + i).requires_grad_()
            run(X)
            found.append(held["w"].grad.tolist())
        return found, run

    plain, _ = grads(False)
    compiled, f = grads(True)
    assert plain == compiled
    assert f.runs == 1


def test_gradients_of_arguments_go_to_the_argument_of_the_call():
    f = fx.jit(lambda x: (x * x).sum().backward())
    for values in ([1.0, 2.0], [3.0, 4.0], [5.0, 6.0]):
        x = fx.tensor(values, requires_grad=True)
        f(x)
        assert x.grad.tolist() == [2 * v for v in values]
    assert f.cache_size() == 1


# the cache ----------------------------------------------------------------------------------------


def test_a_function_that_changes_what_it_reads_is_not_frozen():
    state = Data()

    def f(x):
        state.seen += "a"
        return x * len(state.seen)

    state.seen, jitted = "", fx.jit(f)
    with pytest.warns(RuntimeWarning, match=r"it changes closure variable `state.seen`"):
        found = [jitted(X).tolist() for _ in range(8)]
    assert found == [[1.0 * i, 2.0 * i] for i in range(1, 9)]


def test_a_function_that_sets_a_flag_does_so_in_each_call():
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))

    def step(x):
        model.train()
        return model(x)

    f = Counted(step)
    for _ in range(3):
        model.eval()
        f(fx.ones((2, 2)))
        assert model.training and model[1].training
        f(fx.ones((2, 2)))
        f(fx.ones((2, 2)))
    assert not f.jitted.eager


def test_the_cap_says_why_once():
    held = Data()
    jitted = fx.jit(lambda x: x * held.rate)
    with pytest.warns(RuntimeWarning, match=r"runs uncompiled .*32 programs .*held.rate") as told:
        for i in range(40):
            held.rate = float(i)
            assert jitted(X).tolist() == [i, 2.0 * i]
    assert len(told) == 1


def test_a_lambda_in_a_loop_does_not_leak():
    dead = []
    for i in range(5):
        w = fx.full((2,), float(i))
        f = fx.jit(lambda x: x * w)  # noqa: B023 - that is what is tested
        assert f(X).tolist() == [i, 2.0 * i]
        dead.append(weakref.ref(f))
    del f
    assert_dead(dead)


def test_functions_of_the_same_code_share_their_programs():
    staged = itertools.count()

    def make(w, n):
        def f(x):
            next(staged)
            return x * w * n

        return fx.jit(f)

    dead = []
    for i in range(5):
        w = fx.full((2,), float(i))
        f = make(w, 2)
        for _ in range(3):
            assert f(X).tolist() == [2.0 * i, 4.0 * i]
        dead.append(weakref.ref(w))
    assert next(staged) == 1
    assert make(w, 3)(X).tolist() == [12.0, 24.0]
    assert next(staged) == 3
    del w, f
    assert_dead(dead)


def test_bound_methods_share_programs_only_for_their_object():
    models = [nn.Linear(2, 2), nn.Linear(2, 2)]
    x = fx.ones((1, 2))
    for _ in range(3):
        for model in models:
            assert _same(fx.jit(model.forward)(x), model(x))
    dead = [weakref.ref(m) for m in models]
    del models, model
    assert_dead(dead)


# what is said -------------------------------------------------------------------------------------


def test_why_names_what_changed():
    def make():
        lr, model = 0.1, nn.Sequential(nn.Linear(2, 2), nn.Dropout())

        def f(x):
            return model(x) * lr * RATE

        def set_lr(value):
            nonlocal lr
            lr = value

        return f, set_lr, model

    f, set_lr, model = make()
    guards = watch(f)
    assert guards.hold(f, ()) and guards.why(f) == ""
    set_lr(0.2)
    assert guards.why(f) == "closure variable `lr` changed from 0.1 to 0.2"
    set_lr(0.1)
    globals()["RATE"] = 9.0
    assert guards.why(f) == "global `RATE` changed from 0.5 to 9.0"
    globals()["RATE"] = 0.5
    model.eval()
    assert guards.why(f) == "closure variable `model.training` changed from True to False"


def test_library_functions_are_not_walked():
    guards = watch(lambda x: F.relu(fx.sin(x)) + np.pi)
    named = {"global `F`", "global `fx`", "global `np`", "global `np.pi`"}
    assert set(guards.names()) == named
