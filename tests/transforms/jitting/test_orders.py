"""The order of dicts is a part of Python: arguments of another order, and the order of results."""

import itertools
from collections import OrderedDict, defaultdict

import pytest

import fx
from tests.transforms.jitting.twins import expect_equal_twins

KINDS = {
    "dict": dict,
    "OrderedDict": OrderedDict,
    "defaultdict": lambda pairs: defaultdict(float, pairs),
    "nested": lambda pairs: {"outer": [dict(pairs), {"z": dict(pairs[::-1]), "y": 1}]},
}
FUNCTIONS = {
    "returned": lambda p: p,
    "keys": lambda p: list(p),
    "rebuilt": lambda p: {k: fx.tree.map(lambda v: v * 2, v) for k, v in p.items()},
    "reversed": lambda p: dict(reversed(p.items())),
    "folded": lambda p: folded(p),
    "first": lambda p: next(iter(p.values())),
    "a new order": lambda p: {"zz": 1, **p, "aa": fx.ones(2)},
    "grouped": lambda p: [(k, v) for k, v in p.items()],
}


def folded(p):
    total = fx.zeros(2)
    for x in p.values() if isinstance(p, dict) else p:
        total = total * 2 + (folded(x) if isinstance(x, dict | list) else x)
    return total


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_dicts_in_every_order(kind, function):
    f = FUNCTIONS[function]
    jitted = fx.jit(f)
    pairs = [("b", fx.tensor([1.0, 2.0])), ("a", fx.tensor([3.0, 5.0])), ("c", 2.0)]
    orders = list(itertools.permutations(pairs))
    for chosen in (*orders, *orders[::-1]):
        expect_equal_twins(f(KINDS[kind](list(chosen))), jitted(KINDS[kind](list(chosen))))


def test_keywords_in_every_order():
    def f(**given):
        return {"names": list(given), "total": folded(given), **given}

    jitted = fx.jit(f)
    pairs = [("b", fx.tensor([1.0, 2.0])), ("a", fx.tensor([3.0, 5.0])), ("c", 2.0)]
    for chosen in (*itertools.permutations(pairs), *itertools.permutations(pairs)):
        expect_equal_twins(f(**dict(chosen)), jitted(**dict(chosen)))


def test_a_dict_in_one_order_is_compiled_once():
    f = fx.jit(lambda p: p["a"] + p["b"])
    for _ in range(4):
        f({"b": fx.ones(2), "a": fx.ones(2)})
    assert f.cache_size() == 1
