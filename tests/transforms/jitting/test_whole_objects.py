"""Objects that are read as a whole: which attributes there are, in which order, of what kind.

A jitted function and a plain one read the same object in one way each, while attributes come, go,
change places and values; and count in one place each, while somebody else sets the count.
"""

import argparse
import types
import warnings

import pytest

import fx

X = fx.tensor([1, 2])


class Box:
    def __init__(self, a, b):
        self.a, self.b = a, b


MAKERS = {
    "instance": lambda: Box(1, 2),
    "SimpleNamespace": lambda: types.SimpleNamespace(a=1, b=2),
    "argparse": lambda: argparse.Namespace(a=1, b=2),
}
WAYS = {
    "sum": lambda box, x: x * sum(vars(box).values()),
    "count": lambda box, x: x * len(box.__dict__),
    "dir": lambda box, x: x * len([name for name in dir(box) if name[0] != "_"]),
    "first": lambda box, x: x * next(iter(vars(box).values())),
    "order": lambda box, x: x * int("".join(map(str, vars(box).values()))),
    "repr": lambda box, x: x * (len(repr(box)) if type(box) is not Box else 1),
    "equal": lambda box, x: x * (2 if box == types.SimpleNamespace(a=1, b=2) else 3),
    "contains": lambda box, x: x * (2 if isinstance(box, argparse.Namespace) and "c" in box else 3),
}


def changes(box):
    yield
    box.c = 5
    yield
    del box.c
    yield
    del box.b
    box.d = 7  # as many as before
    yield
    del box.a
    box.a = 1  # the same ones in another order
    yield
    box.a, box.d = 7, 1
    yield


@pytest.mark.parametrize("given", [False, True], ids=["outer", "argument"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("maker", MAKERS)
def test_attributes_that_come_and_go(maker, way, given):
    box, read = MAKERS[maker](), WAYS[way]
    jitted = fx.jit(read) if given else fx.jit(lambda x: read(box, x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in changes(box):
            got = jitted(box, X) if given else jitted(X)
            assert got.tolist() == read(box, X).tolist(), vars(box)


def test_an_attribute_that_nobody_reads_costs_no_program():
    box = types.SimpleNamespace(a=2.0, unread=0)
    f = fx.jit(lambda x: x * box.a)
    for box.unread in range(4):
        f(X)
    assert len(f.explain().entries) == 1


# counts -----------------------------------------------------------------------------------------

COUNT = 0


def of_globals():
    def f(x):
        global COUNT
        COUNT += 1
        return x * COUNT

    return f, globals(), "COUNT"


def of_dicts():
    held = {"n": 0}

    def f(x):
        held["n"] += 1
        return x * held["n"]

    return f, held, "n"


def of_objects():
    box = Box(0, 0)

    def f(x):
        box.a += 1
        return x * box.a

    return f, vars(box), "a"


SET = (0, None, 2.5, None, True, None, "tensor", None, 7, 2**70, -0.5)


@pytest.mark.parametrize("make", [of_globals, of_dicts, of_objects])
def test_a_count_of_another_kind(make):
    def run(jit):
        f, held, name = make()
        f, seen = (fx.jit(f) if jit else f), []
        for value in SET:
            if value is not None:
                held[name] = fx.tensor(3.0) if value == "tensor" else value
            try:
                out = f(X)
                seen.append((out.tolist(), out.dtype, type(held[name]), str(held[name])))
            except (OverflowError, TypeError) as error:
                seen.append(type(error))
        return seen

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert run(True) == run(False)


def of_lists(x):
    found = [x + 1]
    return found, found


def of_dicts(x):
    found = {"a": x + 1}
    return found, found


@pytest.mark.parametrize("function", [of_lists, of_dicts])
def test_one_container_in_two_places_of_the_result_stays_one(function):
    jitted = fx.jit(function)
    with pytest.warns(RuntimeWarning, match="since it returns one (list|dict) in several places"):
        results = [jitted(X) for _ in range(3)]
    assert all(first is second for first, second in results)
    assert type(results[0][0]) is type(function(X)[0])


def test_equal_containers_in_two_places_are_compiled():
    jitted = fx.jit(lambda x: ([x + 1], [x + 1], [], []))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second, *_ = [jitted(X) for _ in range(3)][-1]
    assert first is not second
