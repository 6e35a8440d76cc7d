"""What a jitted function does besides operations on tensors: it happens in every call, as eagerly.

Every kind of change is made to every kind of container, wherever the function gets it from; results
of every kind are new in each call, or the same object where they were there before.
"""

import copy
import dataclasses
import types
import warnings
from collections import Counter, OrderedDict, defaultdict, deque

import numpy as np
import pytest

import fx
from tests.transforms.jitting.twins import expect_equal_twins

X = fx.tensor([1.0, 2.0])


class Plain:
    def __init__(self, value):
        self.value = value


class Slotted:
    __slots__ = ("extra", "value")

    def __init__(self, value):
        self.value = value


@dataclasses.dataclass
class Fields:
    value: object
    more: object = None


class Record(dict):
    """A dict of the user's."""


# what is changed, and how: (what makes it, the changes that one call makes) ---------------------


def setter(name, value):
    return lambda held, x: setattr(held, name, value(x))


CHANGES = {
    "list append": (lambda: [0], lambda held, x: held.append(x.sum())),
    "list append number": (lambda: [0], lambda held, x: held.append(len(held))),
    "list extend": (lambda: [0], lambda held, x: held.extend([x, x * 2])),
    "list insert": (lambda: [0], lambda held, x: held.insert(0, x)),
    "list item": (lambda: [0], lambda held, x: held.__setitem__(0, held[0] + x.sum())),
    "list iadd": (lambda: [0], lambda held, x: held.__iadd__([x])),
    "list reverse": (lambda: [1, 2, 3], lambda held, x: held.reverse()),
    "list sort": (lambda: [3, 1, 2], lambda held, x: held.sort()),
    "list pop": (lambda: list(range(20)), lambda held, x: held.pop()),
    "list clear": (lambda: [1, 2], lambda held, x: held.clear()),
    "dict item": (lambda: {"w": 1}, lambda held, x: held.__setitem__("w", x * 2)),
    "dict new item": (lambda: {}, lambda held, x: held.__setitem__(len(held), x)),
    "dict counter": (lambda: {"n": 0}, lambda held, x: held.__setitem__("n", held["n"] + 1)),
    "dict update": (lambda: {"w": 1}, lambda held, x: held.update(w=x, v=x + 1)),
    "dict pop": (lambda: dict.fromkeys(range(20), 1), lambda held, x: held.popitem()),
    "dict setdefault": (lambda: {}, lambda held, x: held.setdefault("list", []).append(x)),
    "dict order": (lambda: {"a": 1, "b": 2}, lambda held, x: held.update(a=held.pop("a"))),
    "dict of lists": (lambda: {"a": {"b": []}}, lambda held, x: held["a"]["b"].append(x)),
    "defaultdict": (lambda: defaultdict(list), lambda held, x: held["a"].append(x)),
    "OrderedDict": (lambda: OrderedDict(a=1, b=2), lambda held, x: held.move_to_end("a")),
    "Counter": (Counter, lambda held, x: held.update(["a"])),
    "deque": (lambda: deque(maxlen=3), lambda held, x: held.append(x)),
    "set add": (set, lambda held, x: held.add(len(held))),
    "set discard": (lambda: set(range(20)), lambda held, x: held.discard(min(held))),
    "attribute": (lambda: Plain(0), setter("value", lambda x: x * 2)),
    "attribute counter": (lambda: Plain(0), lambda held, x: setattr(held, "value", held.value + 1)),
    "new attribute": (lambda: Plain(0), setter("last", lambda x: x.sum())),
    "attribute gone": (
        lambda: Plain(0),
        lambda held, x: held.__dict__.pop("value", None),
    ),
    "list in an attribute": (lambda: Plain([]), lambda held, x: held.value.append(x)),
    "slot": (lambda: Slotted(0), setter("value", lambda x: x * 2)),
    "new slot": (lambda: Slotted(0), setter("extra", lambda x: x * 2)),
    "field": (lambda: Fields(0), setter("value", lambda x: x * 2)),
    "list in a field": (lambda: Fields([]), lambda held, x: held.value.append(x)),
    "namespace": (types.SimpleNamespace, setter("last", lambda x: x)),
    "dict of the user's": (Record, lambda held, x: held.__setitem__("w", x)),
    "array": (lambda: np.zeros(2), lambda held, x: held.__setitem__(0, held[0] + 1)),
    "bytearray": (lambda: bytearray(b"ab"), lambda held, x: held.append(7)),
}
SEEN_IN = {
    "nothing": lambda held: None,
    "length": lambda held: len(held) if hasattr(held, "__len__") else 0,
}


# where the function gets it from: a maker of functions of x, for a thing and a change ---------


def as_closure(held, change):
    def f(x):
        change(held, x)
        return x + 1

    return f


def as_default(held, change):
    def f(x, kept=held):
        change(kept, x)
        return x + 1

    return f


def as_global(held, change):
    scope = {"held": held, "change": change, "__name__": "a_module"}
    exec("def f(x):\n    change(held, x)\n    return x + 1", scope)
    return scope["f"]


def as_attribute(held, change):
    owner = Plain(held)

    def f(x):
        change(owner.value, x)
        return x + 1

    return f


def in_a_module(held, change):
    class Layer(fx.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = fx.nn.Parameter(fx.ones(2))
            self.kept = held

        def forward(self, x):
            change(self.kept, x)
            return x + self.w

    layer = Layer()
    return lambda x: layer(x)


WHERE = [as_closure, as_default, as_global, as_attribute, in_a_module]


def quietly(f, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return f(*args)


def state_of(held):
    if isinstance(held, Slotted):
        return [getattr(held, name, None) for name in Slotted.__slots__]
    return held


@pytest.mark.parametrize("where", WHERE, ids=lambda f: f.__name__)
@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_what_is_outside(change, where):
    make, change = CHANGES[change]
    want, got = make(), make()
    eager, jitted = where(want, change), fx.jit(where(got, change))
    for i in range(5):
        expect_equal_twins(eager(X * i), quietly(jitted, X * i))
        expect_equal_twins(state_of(want), state_of(got))


@pytest.mark.parametrize("change", [c for c in CHANGES if c != "array"])  # that is a tensor inside
def test_changes_of_arguments(change):
    make, change = CHANGES[change]

    def f(held, x):
        change(held, x)
        return x + 1, held

    jitted = fx.jit(f)
    want, got = make(), make()
    for i in range(4):
        if i == 2:
            want, got = make(), make()
        a, b = f(want, X * i), quietly(jitted, got, X * i)
        expect_equal_twins(a[0], b[0])
        expect_equal_twins(state_of(want), state_of(got))
        assert a[1] is want and b[1] is got


def test_a_change_after_a_question_is_not_lost():
    want, got = [], []

    def make(kept):
        def f(x):
            if x.sum() > 3:
                kept.append(x.sum())
            return x * 2

        return f

    eager, jitted = make(want), fx.jit(make(got))
    for i in (0, 0, 1, 2, 0, 3, 1):
        expect_equal_twins(eager(X * i), quietly(jitted, X * i))
    expect_equal_twins(want, got)


def test_variables_of_enclosing_functions_and_globals():
    def make(wrap):
        count = 0
        scope = {"total": 0}
        exec("def add(n):\n    global total\n    total += n\n    return total", scope)
        add = scope["add"]

        def f(x):
            nonlocal count
            count += 1
            return x * count * add(2)

        f.calls = 0
        return wrap(f)

    eager, jitted = make(lambda f: f), make(fx.jit)
    for _ in range(6):
        expect_equal_twins(eager(X), quietly(jitted, X))


def test_there_is_one_warning_that_says_what_is_changed():
    losses = []

    @fx.jit
    def f(x):
        losses.append(x.sum())
        losses.sort(key=lambda y: 0)
        return x

    with pytest.warns(RuntimeWarning, match="it changes closure variable `losses`") as said:
        for _ in range(5):
            f(X)
    assert len(said) == 1


def test_what_is_made_once_is_no_reason_to_run_uncompiled():
    class Layer:
        def __init__(self):
            self.table = None

        def __call__(self, x):
            if self.table is None:
                self.table = fx.arange(2.0)
            return x + self.table

    layer = Layer()
    f = fx.jit(lambda x: layer(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            expect_equal_twins(f(X), X + fx.arange(2.0))
    assert f.cache_size() == 1


# results ------------------------------------------------------------------------------------------

KEPT = {"plain": Plain(1), "list": [1, [2]], "dict": {"a": [1]}, "set": {1}, "array": np.ones(2)}
RESULTS = {
    "array": lambda p, x: np.arange(3.0),
    "array of a shape": lambda p, x: {"a": np.asarray(x.shape), "x": x},
    "set": lambda p, x: {1, 2},
    "bytearray": lambda p, x: bytearray(b"ab"),
    "list": lambda p, x: [1, [x, {"a": [2]}]],
    "object": lambda p, x: Plain(3),
    "object of a tensor": lambda p, x: Plain(x * 2),
    "fields": lambda p, x: Fields(x, [1]),
    "slots": lambda p, x: [Slotted(x)],
    "function": lambda p, x: [lambda: x],
    "parameter": lambda p, x: fx.nn.Parameter(fx.zeros(2)),
    "object array": lambda p, x: np.array([None, 1]),
    "set of objects": lambda p, x: {int, "a"},
    "deque": lambda p, x: deque([x, 1]),
    "kept plain": lambda p, x: KEPT["plain"],
    "kept list": lambda p, x: (KEPT["list"], x),
    "kept dict": lambda p, x: KEPT["dict"],
    "kept set": lambda p, x: [KEPT["set"]],
    "kept array": lambda p, x: KEPT["array"],
    "kept inner": lambda p, x: KEPT["dict"]["a"],
    "argument": lambda p, x: p,
    "inner argument": lambda p, x: (p["list"], x * 2),
    "inner dict": lambda p, x: {"was": p["inner"], "new": dict(p["inner"])},
    "plain values": lambda p, x: (None, "a", 1, 2.5, fx.float32, range(3), frozenset({1})),
}


@pytest.mark.parametrize("result", RESULTS)
def test_results_are_new_or_the_same_as_eagerly(result):
    f = RESULTS[result]
    jitted = fx.jit(f)

    def parts(x):
        """All objects in a result that can be changed."""
        if isinstance(x, fx.Tensor):
            return [x] if isinstance(x, fx.nn.Parameter) else []
        if isinstance(x, dict):
            return [x, *(y for v in x.values() for y in parts(v))]
        if isinstance(x, list | tuple | deque):
            inner = [y for v in x for y in parts(v)]
            return inner if isinstance(x, tuple) else [x, *inner]
        kinds = (str, int, float, type(None), range, frozenset, type(fx.float32))
        return [] if isinstance(x, kinds) else [x]

    def outs(g):
        given = [{"list": [X], "inner": {"b": 1, "a": X}} for _ in range(4)]
        return given, [quietly(g, p, X) for p in given]

    (given, want), (other, got) = outs(f), outs(jitted)
    for a, b, p, q in zip(want, got, given, other):
        same = [
            [x is y for x in parts(out) for y in [*parts(held), *parts(KEPT)]]
            for out, held in ((a, p), (b, q))
        ]
        assert same[0] == same[1]
    for i, a in enumerate(want):
        for j, b in enumerate(want):
            expected = [x is y for x, y in zip(parts(a), parts(b))]
            assert [x is y for x, y in zip(parts(got[i]), parts(got[j]))] == expected
    if result not in ("function", "slots"):
        expect_equal_twins(copy.copy(want), copy.copy(got))
